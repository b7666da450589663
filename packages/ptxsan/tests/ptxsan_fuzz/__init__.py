"""Random PTX programs, the same for the same seed, to compare the machine with a GPU."""
