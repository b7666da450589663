"""The command line: one file a verb. Imports neither torch nor numpy."""
