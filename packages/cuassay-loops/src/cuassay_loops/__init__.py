"""Small real training and inference loops with a kernel swapped in.

`Swap` and `Training` are what a user's file for `cuassay loop blame` is written with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuassay_loops.blame.subjects import Training
    from cuassay_loops.blame.switches import Swap

__all__ = ["Swap", "Training"]


def __getattr__(name: str) -> Any:
    """Fetch the two names when they are used: importing the package loads no torch."""
    if name == "Swap":
        from cuassay_loops.blame.switches import Swap

        return Swap
    if name == "Training":
        from cuassay_loops.blame.subjects import Training

        return Training
    raise AttributeError(f"module 'cuassay_loops' has no attribute '{name}'")
