"""Kernels that several ranks share: twins, and faults planted in them."""
