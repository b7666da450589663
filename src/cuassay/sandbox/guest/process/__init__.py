"""Processes that run a candidate: what they are forked from, and what confines them."""
