"""`import cuassay.loops` gives the package `cuassay_loops`, which the extra `loops` installs."""

from __future__ import annotations

import sys

from cuassay.parts import Part, find_part

sys.modules[__name__] = find_part(Part.LOOPS)
