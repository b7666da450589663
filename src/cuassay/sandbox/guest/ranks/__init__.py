"""A candidate of several ranks: a process for each, and where they meet."""
