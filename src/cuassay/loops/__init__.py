"""Small real training and inference loops with a kernel swapped in."""
