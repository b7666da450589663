"""Exponentials that multiply one after another, as of a kernel that adds up their logarithms.

A recurrence, state[t] = exp(g[t]) state[t-1] + ..., decays token by token. Kernels go through the
tokens in chunks: they add up g within a chunk in float32, to C[t], and multiply what token j put in
by exp(C[t] - C[j]). The sum is rounded where it is large, near 30 say, though the difference is
small. That error is the same in all that one token decays, so no mean averages it away.

Such a kernel is the recurrence with other decays: exp(C[t] - C[t-1]), whose product telescopes. So
a draw of it multiplies each step by what the rounded sum gains there over g[t]. A state that is
multiplied once has no sum, and nothing changes. Kernels add up multiples of g (those with exp2
have g / ln 2), whose sums round otherwise: so does each draw.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from cuassay.hooks import Operation
from cuassay.oracle.lift.together import all_runs, together
from cuassay.oracle.truth.noises import mask_of_runs
from cuassay.oracle.truth.random_errors import FACTORS, LogSum

# Tokens whose logarithms are added up: flash-linear-attention's chunks, Mamba-2's.
_CHUNKS = (64, 256)
_EXPONENTIALS = frozenset({"exp", "exp2"})
_ALONG = frozenset({"cumprod", "prod"})
_MOVES = frozenset({"clone", "_to_copy"})
_CARRIES = _MOVES | {"add", "sub", "rsub", "where"}
_STEP = 3  # places between the multiples of two draws
_MOST_STATES = 64  # that are remembered, the newest ones
_MOST_ELEMENTS = 1 << 24  # of a factor: beyond, its logarithms are too much memory


def log_sum_of(index: int, turn: int) -> LogSum:
    """Return how a draw adds up logarithms."""
    factor = FACTORS[(turn + _STEP * index) % len(FACTORS)]
    return LogSum(_CHUNKS[index % 2], factor, runs=index // 2 % 2 == 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """The logarithms that were added up in a tensor of a layout, after `steps`; and rounded.

    Both broadcast to the tensor.
    """

    storage: weakref.ref[UntypedStorage]
    layout: tuple[Sequence[int], Sequence[int]]
    steps: int
    total: Tensor
    rounded: Tensor


class Decays:
    """Remembers exponentials, and the states of a run that they multiply, by their memory.

    `sums` says how each of the runs adds up logarithms; none: they multiply.
    """

    def __init__(self, sums: Sequence[LogSum], device: torch.device) -> None:
        self._sums = tuple(sums)
        # Made here: inside a run numbers become the run's own.
        self._factors = _tensor_of(tuple(one.factor for one in sums), device)
        self._exponentials: dict[int, weakref.ref[UntypedStorage]] = {}
        self._states: dict[int, _Sums] = {}

    def changed(self, asked: Operation, out: Any) -> Any:
        """Return an operation's result, multiplied as where logarithms are added up."""
        if not self._sums or not isinstance(out, Tensor) or not out.dtype.is_floating_point:
            return out
        name = asked.name
        if name == "mul":
            return self._multiplied(asked, out)
        if name in _EXPONENTIALS:
            self._keep_exponential(out)
        elif name in _ALONG and self._is_exponential(asked.named["self"]):
            return self._multiplied_along(asked, out)
        elif name in _CARRIES:
            given = [asked.named.get(key) for key in ("self", "other")]
            self.written(out, next((one for one in given if self._state(one, out)), None))
            if name in _MOVES and self._is_exponential(given[0]):
                self._keep_exponential(out)
        return out

    def written(self, target: Tensor, value: Tensor | None) -> None:
        """Let a tensor decay as a value that is written there does."""
        known = None if value is None else self._state(value, target)
        if known is not None:
            self._keep(target, known.steps, known.total, known.rounded)
        elif self._states:
            self._states.pop(all_runs(target).data_ptr(), None)

    def _multiplied(self, asked: Operation, out: Tensor) -> Tensor:
        given = [asked.named["self"], asked.named["other"]]
        factors = [one for one in given if self._is_exponential(one)]
        if not factors or not isinstance(given[0], Tensor) or not isinstance(given[1], Tensor):
            return out
        factor = factors[-1]
        state = given[0] if factor is given[1] else given[1]
        logs, known = factor.double().log(), self._state(state, state)
        if known is None and len(factors) == 1:  # no sum yet
            self._keep(out, 1, logs, logs)
            return out
        if known is None:
            steps, total = 1, state.double().log()
            rounded = total
        else:
            steps, total, rounded = known.steps, known.total, known.rounded
        total, rounded, gained = self._added(total, rounded, logs, steps)
        out = torch.addcmul(out, out, gained.to(out.dtype))
        self._keep(out, steps + 1, total, rounded)
        if len(factors) == 2:
            self._keep_exponential(out)
        return out

    def _multiplied_along(self, asked: Operation, out: Tensor) -> Tensor:
        """Return products of exponentials along an axis."""
        values, dim = asked.named["self"], asked.named.get("dim")
        if not values.dim() or values.numel() > _MOST_ELEMENTS:
            return out
        logs = (values.reshape(-1) if dim is None else values.movedim(dim, -1)).double().log()
        total = rounded = logs[..., 0]
        sums = [torch.zeros_like(total)]
        for step, one in enumerate(logs.unbind(-1)[1:], 1):
            total, rounded, gained = self._added(total, rounded, one, step)
            sums.append(sums[-1] + gained)
        along = asked.name == "cumprod"
        every = torch.stack(sums, -1).movedim(-1, int(asked.named["dim"])) if along else sums[-1]
        return torch.addcmul(out, out, every.reshape(out.shape).to(out.dtype))

    def _added(
        self, total: Tensor, rounded: Tensor, logs: Tensor, step: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return a sum after another step, it rounded, and what that gains over the logarithms.

        `total` and `rounded` are those before the step.
        """
        several = len(self._sums) > 1
        factor = together(self._factors) if several else self._factors[0]
        whole = total + logs
        found = (whole * factor).float().double() / factor
        gained = torch.nan_to_num(found - rounded - logs, 0.0, 0.0, 0.0)
        found, whole = (torch.where(one.isfinite(), one, 0.0) for one in (found, whole))
        goes_on = tuple(one.runs for one in self._sums)
        begins = tuple(step % one.terms == 0 for one in self._sums)
        if several:
            total = torch.where(mask_of_runs(goes_on, found.device), found, whole)
        else:
            total = found if goes_on[0] else whole
        if not any(begins):
            return total, found, gained
        if all(begins):
            return logs, logs, torch.zeros_like(gained)
        anew = mask_of_runs(begins, found.device)
        total, found = (torch.where(anew, logs, one) for one in (total, found))
        return total, found, torch.where(anew, 0.0, gained)

    def _keep(self, state: Tensor, steps: int, total: Tensor, rounded: Tensor) -> None:
        storage, place = _memory(state)
        held = weakref.ref(storage, lambda _: self._states.pop(place, None))
        layout = (state.shape, state.stride())
        self._states.pop(place, None)
        self._states[place] = _Sums(held, layout, steps, total, rounded)
        if len(self._states) > _MOST_STATES:  # a reference may keep the state of every token
            del self._states[next(iter(self._states))]

    def _keep_exponential(self, values: Tensor) -> None:
        if values.numel() > _MOST_ELEMENTS:
            return
        storage = all_runs(values).untyped_storage()
        place = storage.data_ptr()
        held = weakref.ref(storage, lambda _: self._exponentials.pop(place, None))
        self._exponentials[place] = held

    def _is_exponential(self, value: Any) -> bool:
        if not isinstance(value, Tensor) or not self._exponentials:
            return False
        known = self._exponentials.get(all_runs(value).untyped_storage().data_ptr())
        return known is not None and known() is not None

    def _state(self, value: Any, like: Tensor) -> _Sums | None:
        """Return what was added up in a state of the shape of another tensor; else None."""
        if not isinstance(value, Tensor) or not self._states or value.shape != like.shape:
            return None
        known = self._states.get(_memory(value)[1])
        if known is None or known.storage() is None:
            return None
        return known if known.layout == (value.shape, value.stride()) else None


@functools.lru_cache(maxsize=64)
def _tensor_of(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Return numbers in float64. A GPU is waited for when they go there."""
    return torch.tensor(numbers, dtype=torch.float64, device=device)


def _memory(value: Tensor) -> tuple[UntypedStorage, int]:
    """Return the storage of all runs of a tensor, and where it begins there."""
    whole = all_runs(value)
    return whole.untyped_storage(), whole.data_ptr()
