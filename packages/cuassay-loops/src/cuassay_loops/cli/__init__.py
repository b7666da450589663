"""The verbs `train`, `infer` and `blame` of `cuassay loop`. Imports no torch."""
