"""Ranks of one call: what collectives mean, and a process group that does just that."""
