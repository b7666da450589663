"""What the models read, and how it becomes tokens."""
