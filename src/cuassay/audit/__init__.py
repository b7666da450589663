"""Audits: many candidates of many problems judged as one run. Light: no torch, no arrays."""
