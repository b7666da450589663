"""Before any kernel runs: is the problem fit to be judged, which axes are reduced, the search."""
