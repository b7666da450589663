"""What is seen of a call beside its results: launches, process-wide state, lines, operations."""
