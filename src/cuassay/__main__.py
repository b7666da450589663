"""`python -m cuassay` is the `cuassay` command."""

from __future__ import annotations

import os
import sys

# Python has put the current folder first: a candidate's `queue.py` there would be imported.
if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):
    del sys.path[0]

from cuassay.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
