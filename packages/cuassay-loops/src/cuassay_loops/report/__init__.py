"""Reports of loops in words, as documents and as pages. Imports no torch."""
