"""Pairs about streams, graphs, races, load, devices: only on a GPU."""

# name | problem | codes | classes | first profile that can show it, or `require KEY`
PAIRS = """
"""
