"""Lengths are whole pages, and four query heads share a key head: what no listed shape shows."""

SHAPES = [
    {"batch": 4, "num_heads": 8, "num_kv_heads": 2, "head_dim": 32, "seq_len": 64, "page_size": 16},
    {"batch": 2, "num_heads": 16, "num_kv_heads": 4, "head_dim": 64, "seq_len": 96, "page_size": 8},
]
