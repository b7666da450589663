"""Certificates: a verdict as a signed statement that others can verify without judging again."""
