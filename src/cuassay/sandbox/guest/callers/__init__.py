"""How production calls a kernel: training, graphs, streams, load, tuners; a module each."""
