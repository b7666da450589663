"""How a sampled call is judged: screened first, then against truth from the oracle's process."""
