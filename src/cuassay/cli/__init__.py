"""The command line; `verbs` has one file a verb. Imports neither torch nor numpy."""
