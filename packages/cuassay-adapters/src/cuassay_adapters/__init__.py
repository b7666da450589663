"""cuassay where other programs judge kernels: benchmarks, reward environments, model hubs.

`cuassay.adapters` is this package. Each module needs the package it is named after, and is
imported by itself.
"""
