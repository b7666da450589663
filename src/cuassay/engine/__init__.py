"""Starts judges and turns what they say into events. Never imports torch."""
