"""The verb `certificate`."""
