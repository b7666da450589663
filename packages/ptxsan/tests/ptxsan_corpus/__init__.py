"""Kernels for the PTX machine: correct ones, and faults planted in them by one edit each."""
