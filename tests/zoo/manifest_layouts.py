"""Pairs about layouts, aliasing, large indices."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
"""
