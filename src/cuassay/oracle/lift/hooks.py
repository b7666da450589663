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


class Following(PassThrough):
    """A hook that keeps something beside every element of a run's memory.

    It is told where memory comes from and what is written into it, beside results (`after`).
    """

    def given(self, tensor: torch.Tensor, *, number: bool = False) -> None:
        """Meet an input, a tensor that the reference found outside itself, or a number."""

    def written(self, target: torch.Tensor, value: torch.Tensor | None) -> None:
        """Follow `value` into `target`; None where an operation wrote it that is not shown."""

    def literal(self, holds_tensors: bool) -> None:
        """Meet a literal; with `holds_tensors` numbers of it were elements of tensors."""
