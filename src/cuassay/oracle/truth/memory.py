"""How much memory a reference and its truth take: planned before anything is allocated.

The reference runs once on tensors that have sizes and no memory. What its tensors hold at
one time is noted twice: as written, which is what a process that calls it takes, and with every
float in float64, which is what a lifted run holds. Noise stands beside the largest operation;
afterwards the runs and the achievable errors of the outputs lie side by side.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from cuassay.dispatch_modes import WithoutMemory
from cuassay.hooks import (
    EndlessRun,
    Observed,
    Operation,
    OperationLimit,
    PassThrough,
    multiply_adds,
)
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Scalar
from cuassay.oracle.lift.inputs import is_borrowed
from cuassay.oracle.lift.parts import parts_of
from cuassay.oracle.truth.composite import COMPOSITES
from cuassay.oracle.truth.inputs import LOW
from cuassay.oracle.truth.reductions import PRODUCTS, REDUCTIONS
from cuassay.oracle.truth.types import Truth

_LIFTED = 8  # bytes of an element
_NOISE = 3 * 8  # normals, sizes and the noisy copy beside what the largest operation touches
# Elements of inputs and outputs up to which the draws of a truth are made in one run. A GPU is as
# fast for eight times the elements, until they fill it: what one run saves is the way to it.
_DRAWN_AT_ONCE = {False: 1 << 17, True: 1 << 24}  # whether on a GPU
_AT_ONCE_BYTES = 512  # of an element in all draws: eight tensors of eight draws in float64
# The same of few inputs, such as tokens whose gradients go into a table: most operations are as
# large as the inputs, and what one run saves is each operation's way through Python.
_DRAWN_OF_FEW, _FEW_INPUTS = 1 << 18, 1 << 15
_SUMMED = 5  # a sum's deviation takes so many times the memory of its result
_RUN = 4  # bytes of an element of one draw's deviation
_KNOWN = 3 * 8  # the reference as written and its float32 lift, and the errors of both
_FINISH = 14 * 8  # mean, rounding, noise, scale and their temporaries, while errors are found
_DEVIATION = 4  # bytes of an element of a reduction's deviation, kept for all draws
_MOST_OPERATIONS = 1 << 13  # a run of more is not followed to its end: counting takes seconds
_SHORT = 4096  # elements of whole numbers that keep their values
_CAST = torch.ops.aten._to_copy.default
_ATTENTION = "_scaled_dot_product"  # how the names of fused operations begin that hide scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What one run of a reference holds at most, beside its inputs.

    `written` are bytes in the types that it names, `lifted` bytes with every float in float64.
    `largest` counts the elements that noise on its largest operation touches, `reduced` those
    of all results of sums, products and norms, twice those of products that tensor cores may sum:
    a deviation and a lean are kept of them (`reductions`). `elements` counts what all operations
    read and write, `multiply_adds` those of products, convolutions and attention, `operations` what
    torch ran, views too. `complete` is False where it ended early, `endless` True where that was
    since no end was in sight.
    """

    written: int
    lifted: int
    largest: int
    reduced: int
    elements: int = 0
    multiply_adds: int = 0
    operations: int = 0
    complete: bool = True
    endless: bool = False

    @property
    def work(self) -> int:
        """The elements that operations read and write, and their multiply-adds."""
        return self.elements + self.multiply_adds


class _Watch(PassThrough):
    """Adds up the storages that live at one time, beside those of the inputs."""

    def __init__(self, inputs: Sequence[object]) -> None:
        self.now = self.peak = self.now_lifted = self.peak_lifted = 0
        self.largest = self.reduced = self.elements = self.multiply_adds = self.operations = 0
        self._inputs = [v.untyped_storage() for v in inputs if isinstance(v, Tensor)]
        self._tensor_cores = any(isinstance(v, Tensor) and v.dtype in LOW for v in inputs)
        self._known: set[int] = {storage._cdata for storage in self._inputs}
        # Large inputs and their casts: a lifted run holds no copy of them.
        self._borrowed = {
            v.untyped_storage()._cdata for v in inputs if isinstance(v, Tensor) and is_borrowed(v)
        }

    def after(self, operation: Operation, out: Any) -> object:
        """Note what the operation made."""
        self.operations += 1
        func, args = operation.op, operation.args
        leaves = pytree.tree_leaves(out)  # a sparse tensor is noted by its dense parts
        made = [t for t in leaves if isinstance(t, Tensor) and t.layout is torch.strided]
        cast = func is _CAST and self._is_borrowed(args[0]) and _is_wide(out)
        for tensor in made:
            self._note(tensor, lifts=not cast)
        if cast:
            self._borrowed.add(out.untyped_storage()._cdata)
        if func.is_view:
            return out
        leaves = pytree.tree_leaves((args, operation.kwargs))
        given = [t for t in leaves if isinstance(t, Tensor)]
        name, results = operation.name, sum(t.numel() for t in made)
        touched = sum(t.numel() for t in given) + results
        self.elements += touched
        if cast:
            touched = 0
        if parts := parts_of(func, args, self._is_borrowed):
            touched -= parts.saved
        self.multiply_adds += multiply_adds(operation, out)
        if any(name in known for known in (REDUCTIONS, PRODUCTS, COMPOSITES)):
            self.reduced += 2 * results if name in PRODUCTS and self._tensor_cores else results
            touched += (_SUMMED - 1) * results
        if name.startswith(_ATTENTION) and "backward" not in name:
            query, key = given[0], given[1]
            scores = math.prod(query.shape[:-1]) * key.shape[-2]
            self.reduced += scores
            touched += _SUMMED * scores
            self.peak_lifted = max(self.peak_lifted, self.now_lifted + 2 * _LIFTED * scores)
        self.largest = max(self.largest, touched)
        return out

    def _is_borrowed(self, tensor: Tensor) -> bool:
        return bool(self._borrowed) and tensor.untyped_storage()._cdata in self._borrowed

    def _note(self, made: Tensor, *, lifts: bool) -> None:
        storage = made.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        floating = made.dtype.is_floating_point and made.dtype.itemsize > 1
        lifted = size // made.element_size() * _LIFTED if floating else size
        lifted *= lifts
        self._known.add(key)
        self.now += size
        self.now_lifted += lifted
        self.peak = max(self.peak, self.now)
        self.peak_lifted = max(self.peak_lifted, self.now_lifted)

        def gone() -> None:
            self._known.discard(key)
            self._borrowed.discard(key)
            self.now -= size
            self.now_lifted -= lifted

        weakref.finalize(storage, gone)


def _is_wide(tensor: Tensor) -> bool:
    """Whether a dtype holds numbers that a cast to it may round, but not change into codes."""
    return tensor.dtype.is_floating_point and tensor.dtype.itemsize > 1


def live_bytes(
    fn: Callable[..., object],
    inputs: Sequence[Tensor | Scalar],
    *,
    device: Device = CPU,
    without: WithoutMemory | None = None,
) -> Live:
    """Return what `fn` holds at most at one time, beside its inputs.

    Nothing is allocated: of `inputs` only shapes and dtypes count, as if on `device`, and what few
    whole numbers are where they have values: lengths decide how often a loop runs. A reference
    that such tensors cannot follow to its end, since its control flow depends on values say, is
    known as far as it got. `without` is for several calls of one reference.
    """
    watched: list[_Watch] = []

    # Not in the run, where whoever asks for a device is taken for the reference.
    kept = [
        isinstance(value, Tensor)
        and not (value.is_floating_point() or value.numel() > _SHORT or value.is_meta)
        for value in inputs
    ]

    def outlined(value: Tensor | Scalar, has_values: bool) -> Tensor | Scalar:
        if not isinstance(value, Tensor):
            return value
        if has_values:
            return value.clone()
        return torch.empty(value.shape, dtype=value.dtype, device=device)

    def run() -> None:
        given = list(map(outlined, inputs, kept))
        watched.append(_Watch(given))
        with Observed(OperationLimit(_MOST_OPERATIONS), watched[-1]):
            fn(*given)

    complete, endless = True, False
    try:
        (without or WithoutMemory())(run)
    except EndlessRun:
        complete, endless = False, True
    except Exception:  # whatever a foreign reference says of tensors without values
        complete = False
    return _seen(watched[-1], complete=complete, endless=endless)


def watched_run(fn: Callable[..., object], inputs: Sequence[Tensor | Scalar]) -> Live:
    """Return what `fn` holds and computes, seen in a run on real tensors: for small ones.

    Raises what `fn` raises.
    """
    watch, endless = _Watch(inputs), False
    try:
        with Observed(OperationLimit(_MOST_OPERATIONS), watch):
            fn(*inputs)
    except EndlessRun:
        endless = True
    return _seen(watch, complete=not endless, endless=endless)


def _seen(watch: _Watch, *, complete: bool, endless: bool) -> Live:
    return Live(
        written=watch.peak,
        lifted=watch.peak_lifted,
        largest=watch.largest,
        reduced=watch.reduced,
        elements=watch.elements,
        multiply_adds=watch.multiply_adds,
        operations=watch.operations,
        complete=complete,
        endless=endless,
    )


def is_small(
    of_inputs: int, of_outputs: int, device: Device, *, budget_bytes: int | None = None
) -> bool:
    """Return whether the draws of a truth of so many elements may be made in one run.

    On a GPU within `budget_bytes`, that of all that the truth may take.
    """
    most = _DRAWN_AT_ONCE[device.on_gpu]
    if device.on_gpu and budget_bytes is not None:
        most = min(most, budget_bytes // _AT_ONCE_BYTES)
    if of_inputs <= _FEW_INPUTS:
        most = max(most, _DRAWN_OF_FEW)
    return of_inputs + of_outputs <= most


def bytes_needed(
    live: Live,
    inputs: Sequence[Tensor | Scalar],
    outputs: Sequence[Sequence[int]],
    *,
    draws: int,
    device: Device = CPU,
    budget_bytes: int | None = None,
) -> int:
    """Return about how many bytes `make_truth` takes at its peak, beside the inputs themselves.

    `live` is what the reference holds (see `live_bytes`); of `inputs` shapes and dtypes count,
    they may be meta tensors. `outputs` are the shapes of the outputs, `draws` how many noisy
    runs are made on `device`, `budget_bytes` is what `make_truth` is given. The estimate leaves out
    what torch's allocator keeps.
    """
    tensors = [v for v in inputs if isinstance(v, Tensor)]
    own = sum(v.numel() for v in tensors if v.dtype.is_floating_point and not is_borrowed(v))
    given = [torch.Size(shape).numel() for shape in outputs]
    held = max(live.lifted, sum(given) * _LIFTED)
    largest = max(live.largest, max(given, default=0))
    deviations = live.reduced * _DEVIATION
    if budget_bytes is not None:
        deviations = min(deviations, budget_bytes // 4)
    kept = sum(given) * (_LIFTED + _KNOWN + draws * _RUN)
    of_inputs = sum(v.numel() for v in tensors)
    small = is_small(of_inputs, sum(given), device, budget_bytes=budget_bytes)
    at_once = draws if small else 1
    run = own * _LIFTED + at_once * (held + largest * _NOISE) + deviations
    written = sum(v.nbytes for v in tensors) + live.written  # which runs on copies
    return kept + max(run, written, max(given, default=0) * _FINISH)


def truth_bytes(truth: Truth) -> int:
    """Return how many bytes a finished truth keeps."""
    kept = (
        tensor
        for one in truth.outputs
        for tensor in (one.value, one.scale, one.alternative, one.ambiguous, one.hits)
    )
    return sum(tensor.nbytes for tensor in kept if tensor is not None)
