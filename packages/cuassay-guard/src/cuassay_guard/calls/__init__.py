"""What a guarded call passes through and leaves behind: signature, counters, breaker, copies."""
