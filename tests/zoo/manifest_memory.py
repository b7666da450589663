"""Pairs about memory: guard zones, poison, sanitizer."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
"""
