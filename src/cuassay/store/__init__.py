"""Run folders: what a trial saw, kept so that any of it can be run again."""
