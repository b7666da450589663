"""The verb `guard`, and `cuassay replay` of a capsule."""
