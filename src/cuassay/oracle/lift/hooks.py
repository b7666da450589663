"""A hook that changes nothing, for those that look at operations or replace a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload


class PassThrough:
    """Lets every operation run and leaves its result."""

    def replace(
        self,
        op: OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        nominal: torch.dtype | None,
    ) -> object:
        """Let the operation run, unless `instead` has something for it."""
        return self.instead(op, args, kwargs, nominal)

    def instead(
        self, op: OpOverload, args: Any, kwargs: Any, nominal: torch.dtype | None
    ) -> object:
        """Return what to use instead of running the operation, or NotImplemented."""
        return NotImplemented

    def after(self, op: OpOverload, args: Any, kwargs: Any, out: Any, nominal: Any) -> object:
        """Leave the result as it is."""
        return out
