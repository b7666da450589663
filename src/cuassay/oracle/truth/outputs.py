"""Turn runs of the reference into the truth of each output."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from cuassay.errors import ReferenceError_
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle import special
from cuassay.oracle.truth.codes import CODES, CodeCounts
from cuassay.oracle.truth.index import ChosenPlaces
from cuassay.oracle.truth.precision import GRIDS
from cuassay.oracle.truth.scale import Runs, achievable
from cuassay.oracle.truth.types import OutputTruth
from cuassay.oracle.truth.yardstick import yardsticks

ILL_CONDITIONED = 0.25  # trusted error over truth, whole tensor
AMBIGUOUS_CAP = 0.05  # a larger share of flipping elements leaves too little to judge
_AMBIGUOUS_MISSED = 0.01  # of the ambiguous elements: so few escape twelve draws
_CODES_CAP = 0.25  # of the codes: where more differ in a trusted run, counts say little
_UNIT_RANGE = (1e-30, 1e30)


@dataclass(slots=True, kw_only=True)
class Collector:
    """Gathers what every run says about one output.

    Floating outputs keep runs less truth as float32; exact ones which elements flip, and those of
    8 bits how many codes of each group do.
    """

    spec: TensorSpec
    value: Tensor
    nominal: torch.dtype | None
    hits: Tensor | None = None
    deviations: list[Tensor] = field(default_factory=list)
    errors: list[Tensor] = field(default_factory=list)
    members: list[Tensor] = field(default_factory=list)
    written: Tensor | None = None
    flipped: Tensor | None = None
    flips: int = 0
    codes: CodeCounts | None = None
    choice: ChosenPlaces | None = None
    tied: Tensor | None = None
    rows: Tensor | None = None  # of places: those that another way to break ties fills anew
    total: Tensor | None = None  # of all runs: finite where every number of theirs is

    @property
    def exact(self) -> bool:
        """Whether answers are exact values or codes rather than rounded numbers."""
        return not self.spec.dtype.is_liftable

    def draw(self, output: Tensor) -> None:
        """Take one noisy draw."""
        if self.codes is not None:
            self.codes.take(output.to(self.codes.want.dtype))
        elif self.exact:
            self._flip(exact_values(output, self.spec.dtype) != self.value, counted=True)
        else:
            self._add(output)
            self.deviations.append(_difference(output, self.value, torch.float32))

    def trusted(self, output: Tensor, *, as_written: bool) -> None:
        """Take the reference as written or its float32 lift, cast to the output's dtype."""
        if self.exact:
            self.draw(output)
            return
        cast = output.to(special.torch_dtype(self.spec.dtype))
        narrow = cast.is_cuda and self.spec.dtype is not DType.FLOAT64
        wanted = torch.float32 if narrow else torch.float64  # mixed types are slow on the CPU
        self._add(cast)
        self.errors.append(_difference(cast, self.value, wanted))
        if as_written:
            self.written = cast

    def member(self, output: Tensor) -> None:
        """Take a program of the family, cast to the output's dtype."""
        if self.exact:
            self.draw(output)
        else:
            cast = output.to(special.torch_dtype(self.spec.dtype))
            self._add(cast)
            self.members.append(_difference(cast, self.value, torch.float32))

    def wide(self, output: Tensor, *, rounds: bool) -> None:
        """Take a draw of amplified noise: only flips count.

        Codes flip as often as their distance to the next one says. Where the family `rounds` to
        16 bits, its own draws show many, and no trusted kernel rounds four times as much.
        """
        if self.exact and not (rounds and self.codes is not None):
            self.draw(output)

    def watched(self, choice: ChosenPlaces | None) -> None:
        """Take what a draw showed this output to be."""
        self.choice = choice if self.exact else None

    def other_ties(self, output: Tensor) -> None:
        """Take a run whose ties were broken in another way."""
        if not self.exact:
            self._add(output)
            moved = _difference(output, self.value, torch.float32).abs_()
            # of several ties a third may be taken: what moves in a row may move by as much anywhere
            if moved.dim():
                moved = moved.amax(-1, keepdim=True).expand(moved.shape)
            self._moved(moved)
        elif self.choice is None:
            self.draw(output)
        elif self.choice.dim is not None and self.choice.values is not None:
            # Equal values may change places: that the choice itself says. Rows where other values
            # are chosen flip whole.
            places = exact_values(output, self.spec.dtype)
            other = (places != self.value) & ~self.choice.equal(places, self.value)
            rows = other.any(self.choice.dim, keepdim=True).expand(other.shape)
            self.rows = rows if self.rows is None else self.rows | rows
            self._flip(rows.clone())

    def beside(self, other: Collector) -> None:
        """Let numbers that stand beside chosen places move where other places may be chosen."""
        rows = other.rows
        if self.exact or rows is None or rows.shape != self.value.shape or not rows.dim():
            return
        size = torch.nan_to_num(self.value, 0.0, 0.0, 0.0).abs().amax(-1, keepdim=True)
        self._moved(torch.where(rows, size, 0.0).float())

    def _flip(self, differs: Tensor, *, counted: bool = False) -> None:
        if counted:
            self.flips = max(self.flips, int(differs.sum()))
        self.flipped = differs if self.flipped is None else self.flipped | differs

    def _add(self, output: Tensor) -> None:
        sums = output.detach().sum(dtype=torch.float32)
        self.total = sums if self.total is None else self.total + sums

    def _moved(self, by: Tensor) -> None:
        self.tied = by if self.tied is None else torch.maximum(self.tied, by)


def _difference(output: Tensor, value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return output - value as `dtype`, 0 where either is not finite."""
    if value.is_cuda:
        found = torch.empty(value.shape, dtype=dtype, device=value.device)
        return torch.sub(output, value, out=found).nan_to_num_(0.0, 0.0, 0.0)
    return torch.sub(output.double(), value).nan_to_num_(0.0, 0.0, 0.0).to(dtype)


def exact_values(output: Tensor, dtype: DType) -> Tensor:
    """Return an exact output in its own dtype; packed pairs as bytes, float8 as codes' values."""
    native = special.torch_dtype(dtype)
    if dtype is DType.FLOAT4_E2M1FN_X2:
        return output.view(torch.uint8) if output.dtype == native else output.to(torch.uint8)
    cast = output if output.dtype == native else output.to(native)
    return cast.float() if dtype.is_floating else cast


def collector(
    spec: TensorSpec, output: Tensor, nominal: torch.dtype | None, hits: Tensor | None
) -> Collector:
    """Start gathering for one output, given its plain truth."""
    value = output.double() if spec.dtype.is_liftable else exact_values(output, spec.dtype)
    value = value.contiguous()  # a reference may return a slice or a transpose
    if hits is not None and (value.dim() == 0 or hits.numel() != value.shape[0]):
        raise ReferenceError_(
            f"hit counts of output '{spec.name}' have {hits.numel()} rows, "
            f"expected {value.shape[0] if value.dim() else 'an output with rows'}"
        )
    codes = None
    if spec.dtype in CODES and value.numel():
        want = value.to(special.torch_dtype(spec.dtype))
        codes = CodeCounts(want=want, names=spec.shape)
    return Collector(spec=spec, value=value, nominal=nominal, hits=hits, codes=codes)


def finish(
    found: Collector,
    *,
    roundoff: float,
    discontinuous: bool,
    gradient: bool = False,
    intermediates: torch.dtype | None = None,
) -> OutputTruth:
    """Return the truth of one output from everything gathered.

    `intermediates` is the type in which trusted implementations may store what they compute.
    """
    if not found.value.numel():  # its shape is all there is to judge
        return OutputTruth(
            name=found.spec.name, dtype=found.spec.dtype, value=found.value, scale=None
        )
    if found.exact:
        made = _finish_exact(found, discontinuous)
    else:
        runs = Runs(
            value=found.value,
            deviations=found.deviations,
            errors=found.errors,
            members=found.members,
            dtype=found.spec.dtype,
            roundoff=roundoff,
            rounded=found.nominal in GRIDS and bool(found.deviations),
            discontinuous=discontinuous,
            tied=found.tied,
            gradient=gradient,
        )
        made = _finish_floating(found, runs, overflows=intermediates is torch.float16)
    found.deviations.clear()  # their memory serves the next output
    found.errors.clear()
    found.members.clear()
    return replace(made, ill_conditioned=_condition(made))


def _finish_floating(found: Collector, runs: Runs, *, overflows: bool) -> OutputTruth:
    spec, scale, value = found.spec, achievable(runs), runs.value
    top = special.form_of(spec.dtype).maximum
    extremes = [*torch.aminmax(value), scale.full.float().amin()]
    if found.written is not None and found.written.is_floating_point() and found.written.numel():
        extremes += torch.aminmax(found.written)
    extremes += [] if found.total is None else [found.total]
    # A GPU is waited for once.
    low, high, least, *shown = torch.stack([one.double() for one in extremes]).tolist()
    beyond: Tensor | None = None
    if not -top <= low <= high <= top:  # NaN too
        value = special.settle_overflow(value, scale.full, spec.dtype)
        # Where the result is beyond float16, infinities of an intermediate may have met before.
        beyond = torch.isfinite(runs.value) & torch.isinf(value) if overflows else None
        low, high = torch.stack(torch.aminmax(value)).tolist()
    finite = math.isfinite(low) and math.isfinite(high)
    least = max(least, 0.0) if finite else 0.0
    own = None if finite and all(map(math.isfinite, shown)) else found.written
    unit = min(max(_rms(scale.noise), _UNIT_RANGE[0]), _UNIT_RANGE[1])
    runs, ambiguous = replace(runs, value=value), scale.ambiguous
    return OutputTruth(
        name=spec.name,
        dtype=spec.dtype,
        value=value,
        scale=scale.full.float(),
        least=least,
        unit=unit,
        element_room=scale.room,
        yardsticks=yardsticks(runs, scale, spec.shape, found.hits, unit=unit, least=least),
        alternative=None if own is None else _alternative(own, value, beyond),
        ambiguous=ambiguous,
        ambiguous_share=0.0 if ambiguous is None else float(ambiguous.double().mean()),
        hits=found.hits,
        settled=own is None and found.total is not None,
    )


def _rms(values: Tensor) -> float:
    """Return the root mean square of the finite elements, 0 where there is none."""
    norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    if math.isfinite(norm):
        return norm / math.sqrt(values.numel())
    finite = values[torch.isfinite(values)].double()
    return math.sqrt(float(finite.square().mean())) if finite.numel() else 0.0


def _alternative(written: Tensor, value: Tensor, beyond: Tensor | None) -> Tensor | None:
    """Return the reference's class where it differs from truth's, -1 elsewhere; None if nowhere.

    NaN stands where a result is `beyond` the range of its type: nobody can use it either way.
    """
    own, true = special.classes(written), special.classes(value)
    if beyond is not None:
        own = torch.where(beyond & (own == true), special.NAN, own)
    differs = own != true
    return torch.where(differs, own, -1).to(torch.int8) if bool(differs.any()) else None


def _finish_exact(found: Collector, discontinuous: bool) -> OutputTruth:
    dtype, value = found.spec.dtype, found.value
    codes, flipped, count = None, found.flipped if found.flips else None, 0
    if found.codes is not None and (discontinuous or dtype.is_floating):
        codes = found.codes.limits(rounds=discontinuous)
    elif flipped is not None:
        count = int(flipped.sum())
    choice = found.choice.settled(value, flipped) if found.choice else None
    if choice is not None and choice.tied is not None:
        flipped = choice.tied if flipped is None else flipped | choice.tied
    if dtype.is_floating and dtype is not DType.FLOAT4_E2M1FN_X2:
        value = value.to(special.torch_dtype(dtype))
    return OutputTruth(
        name=found.spec.name,
        dtype=dtype,
        value=value,
        scale=None,
        ambiguous=flipped,
        ambiguous_share=count / value.numel(),
        flips_allowed=int(_AMBIGUOUS_MISSED * count),
        codes=codes,
        hits=found.hits,
        choice=choice,
    )


def _condition(truth: OutputTruth) -> str:
    """Return why an output's numbers decide nothing, or an empty string."""
    if truth.ambiguous_share > AMBIGUOUS_CAP:
        return (
            f"{truth.ambiguous_share:.1%} of output '{truth.name}' flips under honest "
            f"rounding errors (at most {AMBIGUOUS_CAP:.0%} can be set aside)"
        )
    if truth.codes is not None and truth.codes.share > _CODES_CAP:
        return (
            f"trusted implementations differ in {truth.codes.share:.1%} of the codes of output "
            f"'{truth.name}' on these inputs (more than {_CODES_CAP:.0%} decides nothing)"
        )
    if truth.yardsticks is None:
        return ""
    whole = truth.yardsticks
    signal, energy = torch.stack([whole.signal[0].double(), whole.energy[0].double()]).tolist()
    energy *= truth.unit**2
    if signal > 0 and energy > ILL_CONDITIONED**2 * signal:
        return (
            f"trusted implementations err by {math.sqrt(energy / signal):.2g} of output "
            f"'{truth.name}' on these inputs (more than {ILL_CONDITIONED} decides nothing)"
        )
    return ""
