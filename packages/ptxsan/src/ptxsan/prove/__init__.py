"""Proofs over all sizes: what a kernel does to memory for every block, thread and legal size.

`law` says what is launched as functions of sizes, `execute` runs PTX over symbols, `solver`
discharges what is left to show, `memory` puts them together. Needs z3-solver for everything but
the law (the extra `prove`); importing this package does not load it.
"""
