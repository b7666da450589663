"""Exact arithmetic of the PTX machine: formats, rounding, conversions, the tensor cores' sum.

Everything here is a scalar function on bit patterns (or on the float64 that holds the same value),
compiled by numba so that generated code may call it by address. Nothing depends on the machine.
"""
