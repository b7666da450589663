"""`import cuassay.adapters` gives the package `cuassay_adapters`, which an extra installs."""

from __future__ import annotations

import sys

from cuassay.parts import Part, find_part

sys.modules[__name__] = find_part(Part.ADAPTERS)
