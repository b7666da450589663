"""Violations kept as files: written, made smaller, run again on another machine."""
