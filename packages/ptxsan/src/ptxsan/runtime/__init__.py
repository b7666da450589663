"""Native code that compiled kernels call: memory, races, barriers, collectives, the scheduler."""
