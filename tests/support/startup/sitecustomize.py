"""Python runs this at the start of every process of a test: none looks for garbage in modules.

A process that imports torch spends a third of its time on that, most of it when it ends.
"""

import atexit
import gc

gc.set_threshold(100_000, 50, 100)
atexit.register(gc.freeze)  # what is left goes with the process
