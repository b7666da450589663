"""What inputs can tell apart, which of them that needs, and what the kernel's risk buys."""
