"""The trusted process: draws secret seeds, makes truth, runs checks on workers, compares."""
