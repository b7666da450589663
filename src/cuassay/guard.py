"""`import cuassay.guard` gives the package `cuassay_guard`, which the extra `guard` installs."""

from __future__ import annotations

import sys

from cuassay.parts import Part, find_part

sys.modules[__name__] = find_part(Part.GUARD)
