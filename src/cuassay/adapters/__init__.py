"""cuassay where other programs judge kernels: benchmarks, reward environments, model hubs.

Each module needs the package it is named after, and is imported by itself.
"""
