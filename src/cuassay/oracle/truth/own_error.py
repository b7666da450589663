"""What the reference's own error says of an answer, before any draw is made.

The reference as written errs by w - t. Pooled over rows and columns, as `scale.achievable` pools
the error of draws, and with the same floor, that is the error of one trusted implementation, where
a truth's scale is that of all of them: 3 to 10 times an honest one. What the last rounding to 16
bits may err by is known of each element and is not pooled: the roundings of a few large
probabilities would excuse any error of the small ones beside them. An answer within the limits
here is right by every statistic that a truth would judge it by; of one beyond them nothing is
known. Two runs of the reference and some hundred operations tell it, where a truth with the fewest
draws takes five runs and 20 to 80 times the operations of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cuassay.errors import LiftError
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle import special
from cuassay.oracle.bits import raw_bytes
from cuassay.oracle.compare.groups import (
    LIMIT_G,
    LIMIT_P,
    LIMIT_Z,
    GroupKind,
    group_kinds,
    limit_w,
    regroup,
)
from cuassay.oracle.compare.sums import eager_sums, fold, matrix_shape
from cuassay.oracle.lift.run import nominal_of
from cuassay.oracle.special import form_of
from cuassay.oracle.truth.precision import GRIDS
from cuassay.oracle.truth.runs import FirstRuns, ReferenceRunner, Value
from cuassay.oracle.truth.scale import exact_zeros, floor_square, pooled_variance
from cuassay.oracle.truth.types import OutputTruth

_FAR = 64.0  # times the reference's own error: beyond the achievable one too, which may be 10 times
# Of truth, whole tensor: where the reference errs by more, truth may decide nothing (at 0.25 of the
# achievable error, which may be 10 times its own), and only the reference's bits are right.
_MOST_ERROR = 1 / 32
_UNIT_RANGE = (1e-30, 1e30)
_LEAST_BASE = 1e-300  # of a group in which nothing may err: 0 over it is 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnError:
    """One output: the reference's answer as written, truth's values and the reference's own error.

    `judged` is None where only the bits as written are known to be right: numbers that are not
    finite, codes. `base` (4, groups) is what G and Z, gain and bias are measured in.
    """

    written: Tensor
    judged: OutputTruth | None = None
    kinds: tuple[GroupKind, ...] = ()
    base: Tensor | None = None

    @property
    def nbytes(self) -> int:
        """The memory that is held, small tensors aside."""
        judged = () if self.judged is None else (self.judged.value, self.judged.scale)
        return sum(one.nbytes for one in (self.written, *judged) if one is not None)

    def share(self, candidate: Tensor) -> float:
        """Return the largest part of the limits that an answer uses, in the reference's own error.

        At most 1: as near to truth as the reference as written; 0: its bits. More says nothing, and
        infinity is returned where nothing can be said.
        """
        written = self.written
        if candidate.shape != written.shape or candidate.dtype != written.dtype:
            return math.inf
        candidate = candidate.detach().to(written.device)
        if torch.equal(raw_bytes(candidate), raw_bytes(written)):
            return 0.0
        truth = self.judged
        if truth is None or self.base is None or truth.scale is None:
            return math.inf
        shape = matrix_shape(truth.value.shape, False)
        parts = (candidate, truth.value, truth.scale)
        one, two, three = (tensor.contiguous().view(shape) for tensor in parts)
        sums = eager_sums(one, two, three, truth)
        whole = _grouped(sums.rows, sums.columns, self.kinds, truth.value.shape)
        size, way = (whole[:2] / self.base[:2]).sqrt_(), whole[2:].abs() / self.base[2:]
        limits = torch.stack(
            [
                sums.peak.amax().double() / limit_w(truth.value.numel()),
                size[0].amax() / LIMIT_G,
                size[1].amax() / LIMIT_Z,
                way.amax() / LIMIT_P,
            ]
        )
        return float(torch.nan_to_num(limits, nan=math.inf).amax())

    def is_far_from(self, other: OwnError) -> bool:
        """Whether two answers of one output differ by far more than the reference errs in either.

        Where an error says nothing, by other bits.
        """
        if self.written.shape != other.written.shape:
            return True
        old, new = self.judged, other.judged
        if old is None or new is None or old.scale is None or new.scale is None:
            return not torch.equal(raw_bytes(self.written), raw_bytes(other.written))
        apart, error = (old.value - new.value).abs_(), old.scale.double() + new.scale.double()
        return bool((apart > _FAR * error).any())


def own_errors(
    fn: Callable[..., object],
    inputs: Sequence[Value],
    specs: Sequence[TensorSpec],
    *,
    seed: int,
    accumulation: DType = DType.FLOAT32,
    suffices: Callable[[Sequence[Tensor]], bool] = lambda written: False,
    first: FirstRuns | None = None,
) -> tuple[OwnError, ...]:
    """Return the reference's own error of each output of `fn(*inputs)`, on the inputs' device.

    Runs it as written and lifted to float64; of one that cannot be lifted only its own bits are
    known to be right, and where `suffices` says so of what it returns as written. Deterministic in
    `seed`. `first` as `make_truth` has it. Raises ReferenceError_ where the reference fails.
    """
    runner = ReferenceRunner(fn, inputs, [spec.name for spec in specs], seed, first=first)
    written = runner.written()
    if suffices(written):
        return tuple(OwnError(written=own) for own in written)
    try:
        values = runner.plain()
    except LiftError:
        return tuple(OwnError(written=own) for own in written)
    roundoff = form_of(accumulation).unit_roundoff
    return tuple(
        _own_error(spec, value, own, roundoff)
        for spec, value, own in zip(specs, values, written, strict=True)
    )


def _own_error(spec: TensorSpec, value: Tensor, written: Tensor, roundoff: float) -> OwnError:
    known = OwnError(written=written)
    if not written.is_floating_point() or written.dtype.itemsize == 1:
        return known
    if written.shape != value.shape or not value.numel() or written.dtype is torch.float64:
        return known
    nominal, value = nominal_of(value), value.contiguous()
    error = written.contiguous().double() - value
    if not special.all_finite(error):
        return known
    half, rounded = special.half_spacing(value, spec.dtype).double(), nominal in GRIDS
    if rounded:  # the last rounding has the size of its element, whatever others' are
        error = error.abs_().sub_(half).clamp_min_(0.0)
    noise = pooled_variance(error.square_(), 1, None if rounded else value)
    noise += half.square_().mul_(1.0 / 3.0)
    noise += floor_square(value, roundoff)
    scale = exact_zeros(value, noise.sqrt_())
    norms = torch.linalg.vector_norm(scale), torch.linalg.vector_norm(value)
    least, total, signal = torch.stack([scale.amin(), *norms]).tolist()
    if not math.isfinite(total) or (signal and total > _MOST_ERROR * signal):
        return known
    unit = min(max(total / math.sqrt(value.numel()), _UNIT_RANGE[0]), _UNIT_RANGE[1])
    judged = OutputTruth(
        name=spec.name, dtype=spec.dtype, value=value, scale=scale.float(), unit=unit, least=least
    )
    matrix = matrix_shape(value.shape, False)
    size, truth = scale.view(matrix), value.view(matrix)

    def measure(r: slice, c: slice) -> tuple[Tensor, ...]:
        here = size[r, c]
        weight = torch.where(here > 0, truth[r, c] / here, 0.0)
        return (torch.stack([here / unit, weight]).square_(), (here > 0)[None].double())

    kinds = tuple(group_kinds(value.shape, spec.shape, None))
    sums = fold(matrix, measure, 3, device=value.device)
    energy, norm, count = _grouped(*sums, kinds, value.shape).clamp_min_(_LEAST_BASE)
    base = torch.stack([energy, count, norm.sqrt(), count.sqrt()])
    return OwnError(written=written, judged=judged, kinds=kinds, base=base)


def _grouped(
    rows: Tensor, columns: Tensor, kinds: Sequence[GroupKind], shape: Sequence[int]
) -> Tensor:
    return torch.cat([regroup(rows, columns, kind, shape=shape, hits=None) for kind in kinds], 1)
