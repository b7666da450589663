"""Triton kernels for the PTX machine, and what joins its corpus to cuassay."""
