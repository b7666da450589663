"""In which precision the reference as written holds a value: rounding it there is no fault."""

from __future__ import annotations

from typing import Any

import torch

from cuassay.oracle.mutants.sums import Args

_NARROW = (torch.bfloat16, torch.float16)
_CARRIES = {"_to_copy", "clone", "_unsafe_view", "masked_fill"}
_CARRIES |= {"gather", "embedding", "index", "index_select"}


class Precisions:
    """Follows the values that a reference as written rounds to 16 bits, through later copies.

    A lifted run keeps float64's bits where the reference says `.to(bfloat16).to(float32)`. A
    kernel that rounds there does as the reference does, and no input can tell the two apart.
    """

    def __init__(self) -> None:
        # The tensors are kept too: a storage that was freed would lend its address to another.
        self._held: dict[int, tuple[torch.dtype, torch.Tensor]] = {}

    def note(self, name: str, args: Args, out: Any, nominal: torch.dtype | None) -> None:
        """Note the result of one operation, `nominal` being its dtype as written."""
        if not isinstance(out, torch.Tensor):
            return
        carried = self.of(args[0]) if name in _CARRIES and args else None
        dtype = nominal if nominal in _NARROW else carried
        if dtype is not None:
            self._held[out.untyped_storage().data_ptr()] = (dtype, out)

    def of(self, value: Any) -> torch.dtype | None:
        """Return the 16-bit dtype that the reference as written holds `value` in, if any."""
        if not isinstance(value, torch.Tensor):
            return None
        found = self._held.get(value.untyped_storage().data_ptr())
        return found[0] if found else None

    def as_written(self, value: torch.Tensor) -> torch.Tensor:
        """Return `value` as the reference as written holds it, in its own dtype."""
        dtype = self.of(value)
        return value if dtype is None else value.to(dtype).to(value.dtype)
