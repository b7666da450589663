"""`python -m cuassay` is the `cuassay` command."""

from __future__ import annotations

import sys

from cuassay.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
