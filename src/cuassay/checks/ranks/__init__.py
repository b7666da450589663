"""Checks of calls that several ranks share."""
