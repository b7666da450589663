"""Kernels and references that are called in every way that people have; see test_calls.py."""
