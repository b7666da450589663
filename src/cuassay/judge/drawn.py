"""Inputs that a problem's generator made, kept for the next who asks for the same case.

A generator draws on a CPU, and a module's constructor draws its weights there: seconds at a listed
size, where a copy on the device takes milliseconds. A check asks for one case several times, for
the kernel, the reference and truth. Where a case is small, its values too take longer to draw than
to copy: those of the last cases are kept.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from cuassay.model import serial
from cuassay.model.case import Case
from cuassay.model.problem import Problem, Scalar

Inputs: TypeAlias = Mapping[str, "torch.Tensor | Scalar"]
_SHARE = 8  # of the planned memory one part in so many
_MOST_BYTES = 1 << 30
_SMALL_BYTES, _LAST = 1 << 18, 256  # of a case that is no generator's, and how many of these


class GeneratedInputs:
    """Keeps inputs of generated cases of one problem, within a share of the planned memory.

    Of small other cases those of the last ones.
    """

    def __init__(self, *, planned_bytes: int | None) -> None:
        self._limit = _MOST_BYTES if planned_bytes is None else planned_bytes // _SHARE
        self._problem: Problem | None = None
        self._kept: OrderedDict[str, Inputs] = OrderedDict()
        # By the id of a case, which stays its own while the case is kept
        self._small: OrderedDict[int, tuple[Case, Inputs]] = OrderedDict()

    def is_empty(self) -> bool:
        """Whether nothing that counts is kept."""
        return not self._kept

    def let_go(self) -> None:
        """Forget what is kept."""
        self._kept.clear()
        self._small.clear()

    def inputs(self, problem: Problem, case: Case, make: Callable[[], Inputs]) -> Inputs:
        """Return fresh inputs of a case: copies of those made before, else what `make` returns."""
        if problem is not self._problem:
            self._problem = problem
            self.let_go()
        if not (case.generator or case.benchmark):
            if id(case) in self._small:
                return _copied(self._small[id(case)][1])
            made = make()
            if _bytes(made) <= min(_SMALL_BYTES, self._limit // _LAST) and _may_be_copied(made):
                self._small[id(case)] = (case, _copied(made))
                if len(self._small) > _LAST:
                    self._small.popitem(last=False)
            return made
        key = serial.dumps(dataclasses.replace(case, label=""))
        if key in self._kept:
            self._kept.move_to_end(key)
            return _copied(self._kept[key])
        made = make()
        if _may_be_copied(made) and _bytes(made) <= self._limit:
            self._kept[key] = _copied(made)
            while sum(map(_bytes, self._kept.values())) > self._limit:
                self._kept.popitem(last=False)
        return made


def _copied(values: Inputs) -> Inputs:
    return {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in values.items()}


def _bytes(values: Inputs) -> int:
    return sum(v.nbytes for v in values.values() if isinstance(v, torch.Tensor))


def _may_be_copied(values: Inputs) -> bool:
    """Whether copies are what was made: plain tensors, dense, each with memory of its own."""
    tensors = [v for v in values.values() if isinstance(v, torch.Tensor)]
    storages = {one.untyped_storage().data_ptr() for one in tensors if one.numel()}
    whole = all(
        type(one) is torch.Tensor
        and one.is_contiguous()
        and one.storage_offset() == 0
        and one.untyped_storage().nbytes() == one.nbytes
        and not one.requires_grad
        for one in tensors
    )
    return whole and len(storages) == sum(1 for one in tensors if one.numel())
