"""Who makes the numbers of Triton kernels where there is no GPU, as CUASSAY_TRITON names them."""

from __future__ import annotations

VARIABLE = "CUASSAY_TRITON"
MACHINE, INTERPRETER = WAYS = "machine", "interpreter"
