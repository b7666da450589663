"""`cuassay loop blame`: which kernel makes a training run go wrong, by bisection over its sites."""
