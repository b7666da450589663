"""How much memory a truth takes while it is made: planned before anything is allocated.

The reference runs once on meta tensors, which have sizes and no memory, and the largest number
of bytes that its floating tensors hold at one time is noted. A lifted run holds them in float64
beside their noise; afterwards the runs and the achievable errors of the outputs lie side by
side. The larger of both is the need.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cuassay.dispatch_modes import UntracedMode
from cuassay.model.problem import Scalar
from cuassay.oracle.truth.types import OutputTruth, Truth

_LIFTED = 8  # bytes of an element
_NOISE = 3.0  # a result, its noisy copy and the normals, over the result alone
_RUN = 4  # bytes of an element of one draw's deviation
_KNOWN = 2 * 4  # errors of the reference as written and of its float32 lift
_FINISH = 6 * 8  # truth, mean, rounding, noise, scale and one temporary, while errors are found


class _Live(UntracedMode):
    """Counts the elements of floating storages that live at one time."""

    def __init__(self) -> None:
        super().__init__()
        self.now: int = 0
        self.peak: int = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation and note what it makes."""
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, list | tuple) else (out,):
            if isinstance(made, Tensor) and made.dtype.is_floating_point:
                self._note(made)
        return out

    def _note(self, made: Tensor) -> None:
        storage = made.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        count = storage.nbytes() // max(made.element_size(), 1)
        self._known.add(key)
        self.now += count
        self.peak = max(self.peak, self.now)

        def gone() -> None:
            self._known.discard(key)
            self.now -= count

        weakref.finalize(storage, gone)


def live_elements(fn: Callable[..., object], inputs: Sequence[Tensor | Scalar]) -> int | None:
    """Return how many floating elements `fn` holds at most at one time, beside its inputs.

    Nothing is allocated: `inputs` may be meta tensors, others are replaced by such. None where the
    reference cannot run on them, because its control flow or its shapes depend on values.
    """
    given = [v.to("meta") if isinstance(v, Tensor) else v for v in inputs]
    try:
        with _Live() as live:
            fn(*given)
    except Exception:  # whatever a foreign reference says of tensors without values
        return None
    peak: int = live.peak
    return peak


def bytes_needed(
    fn: Callable[..., object],
    inputs: Sequence[Tensor | Scalar],
    outputs: Sequence[Sequence[int]],
    *,
    draws: int,
) -> int:
    """Return about how many bytes `make_truth` takes at its peak, beside the inputs themselves.

    `inputs` may be meta tensors; `outputs` are the shapes of the outputs, `draws` how many
    noisy runs are made. A reference that cannot run on meta tensors is taken to hold as much as
    all its inputs and outputs together. The estimate leaves out what torch's allocator keeps.
    """
    own = sum(v.numel() for v in inputs if isinstance(v, Tensor) and v.dtype.is_floating_point)
    given = [torch.Size(shape).numel() for shape in outputs]
    live = live_elements(fn, inputs)
    held = own + sum(given) if live is None else max(live, sum(given))
    kept = sum(given) * (_LIFTED + _KNOWN + draws * _RUN)
    run = own * _LIFTED + int(held * _LIFTED * _NOISE)
    return kept + max(run, max(given, default=0) * _FINISH)


def truth_bytes(truth: Truth) -> int:
    """Return how many bytes a finished truth keeps."""
    return sum(_output_bytes(output) for output in truth.outputs)


def _output_bytes(output: OutputTruth) -> int:
    kept = (output.value, output.scale, output.alternative, output.ambiguous, output.hits)
    return sum(tensor.nbytes for tensor in kept if tensor is not None)
