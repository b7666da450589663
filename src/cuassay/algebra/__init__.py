"""The reference as expressions: its residues beside its float64 values, for proofs of equality."""
