"""Planted bugs, their correct twins, and honest rewrites: what the checks must tell apart."""
