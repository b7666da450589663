"""Where tensors lie: placement, poison, guard zones, recycled addresses, layouts of callers."""
