"""Scenarios and recorded launches in processes without the judge's secrets: time, memory."""
