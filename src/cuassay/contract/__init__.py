"""What a caller may pass to a problem's operator, and how we know: facts found by experiment."""
