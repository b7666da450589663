"""Renders events and verdicts: terminal, JSON, HTML. Imports the model only."""
