"""Pairs about process-wide state, toggled attributes, integrity."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
"""
