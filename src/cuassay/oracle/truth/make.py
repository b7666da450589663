"""Truth of one case: the reference in float64, and the error that trusted runs make on it.

Runs of the reference: as written, lifted to float64 (truth), lifted to float32 with one final
cast, and 8 draws with honest rounding errors (4, 3 or 2 where every output is large with two axes
or more: pooling makes up for the rest; fewer where memory is short). Outputs that jump
(top-k, argmax, codes) get 4 draws of fourfold noise in addition, to find what may flip. Truth
is shared by all candidates of a problem.

A reference that cannot be lifted is judged by its float32 run, labelled as such; its
achievable error then comes from perturbed inputs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cuassay.errors import LiftError, ReferenceError_
from cuassay.hooks import Observed
from cuassay.model.device import Device
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.lift.run import nominal_of
from cuassay.oracle.lift.together import NotTogether
from cuassay.oracle.special import form_of
from cuassay.oracle.truth.atomics import ByAtomics
from cuassay.oracle.truth.decays import log_sum_of
from cuassay.oracle.truth.index import ChoiceWatch, TieBreak
from cuassay.oracle.truth.inputs import InputTraits, flushed, input_traits
from cuassay.oracle.truth.memory import is_small
from cuassay.oracle.truth.noise import Deviations, NoiseHook
from cuassay.oracle.truth.noises import Noises
from cuassay.oracle.truth.outputs import Collector, collector, finish
from cuassay.oracle.truth.precision import Family
from cuassay.oracle.truth.programs import (
    ProgramHook,
    cutting_program,
    programs,
    programs_of_one_run,
)
from cuassay.oracle.truth.random_errors import Noise
from cuassay.oracle.truth.runs import FirstRuns, ReferenceRunner, Value, perturbed, upcast
from cuassay.oracle.truth.types import OutputTruth, Truth

__all__ = [
    "FirstRuns",
    "OutputTruth",
    "ReferenceRunner",
    "Truth",
    "draws_as_one",
    "hit_counts",
    "make_truth",
]

DRAWS = 8
_FEW_DRAWS = 4
_FEWER = ((1 << 22, 2), (1 << 19, 3), (1 << 17, _FEW_DRAWS))  # elements of the smallest output
_DRAWS_SHARE = 4  # of a budget, one part in so many may hold draws
_HUGE = 1 << 28  # elements of all outputs from which memory allows 3 draws, then 2
_WIDE_DRAWS = 4
_WIDE_GAIN = 4.0
_FALLBACK_GAIN = 4.0  # perturbation of inputs, in roundoffs, where there is no lift

_APART: weakref.WeakSet[Callable[..., object]] = weakref.WeakSet()  # whose draws are single runs


def make_truth(
    fn: Callable[..., object],
    inputs: Sequence[Value],
    specs: Sequence[TensorSpec],
    *,
    seed: int,
    accumulation: DType = DType.FLOAT32,
    draws: int | None = None,
    index_hits: Mapping[str, Tensor] | None = None,
    family: Family | None = None,
    budget_bytes: int | None = None,
    first: FirstRuns | None = None,
    gradients: bool = False,
) -> Truth:
    """Return the truth of `fn(*inputs)`, on the device of the inputs.

    `specs` describe the outputs in order; `draws` overrides how many noisy runs are made;
    `family` says which further roundings trusted implementations make (none: `strict`);
    `index_hits` maps an output's name to the hit count of each of its rows (see hit_counts).
    `budget_bytes` bounds the draws that are kept and what they share (at least 2 draws are made).
    `first` takes, or has, the runs with which every truth of the case under this seed begins.
    `gradients`: the outputs are derivatives (see `Runs.gradient`).
    Deterministic in `seed`. Raises ReferenceError_ where the reference itself fails or returns
    the wrong number of outputs.
    """
    runner = ReferenceRunner(fn, inputs, [spec.name for spec in specs], seed, first=first)
    written = runner.written()
    try:
        plain = runner.plain()
        narrow, steps = runner.narrow()
    except (LiftError, ReferenceError_, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        return _float32_truth(runner, written, specs, index_hits or {}, str(error))
    found = _collectors(specs, plain, index_hits or {})
    for item, own, other in zip(found, written, narrow, strict=True):
        item.trusted(own, as_written=True)
        item.trusted(other, as_written=False)
    roundoff = form_of(accumulation).unit_roundoff
    # A float64 output of narrower inputs is a wide container: trusted implementations may compute
    # it in the declared accumulation, in any order.
    floating = [one for one in inputs if isinstance(one, Tensor) and one.is_floating_point()]
    wide = all(one.dtype is torch.float64 for one in floating)
    if wide and all(spec.dtype is DType.FLOAT64 for spec in specs):
        roundoff = form_of(DType.FLOAT64).unit_roundoff
    count = _draw_count(plain, budget_bytes) if draws is None else draws
    traits = input_traits(inputs)
    if steps.discontinuous:  # equal numbers must fall to either side, not err alike
        traits = replace(traits, repeats=False)
    if traits.subnormal:  # hardware and fast-math kernels flush what is this small
        for sign in (1.0, -1.0):
            given = flushed(inputs, sign=sign)
            for item, other in zip(found, runner.lifted(torch.float32, inputs=given), strict=True):
                item.trusted(other, as_written=False)
    # A CPU adds one after the other and rounds once. The kernel and its callers' reference run on a
    # GPU, where no two runs agree: that is seen there, and known of torch's operations here.
    if runner.device.type == "cpu":
        any_order = steps.by_atomics
        if any_order:
            with Observed(ByAtomics()):
                rounded = runner.as_written()
            for item, other in zip(found, rounded, strict=True):
                item.trusted(other, as_written=False)
    else:
        any_order = steps.scatters_narrow and not all(
            map(torch.equal, written, runner.as_written())
        )
    deviations = Deviations(
        runner.device,
        tensor_cores=traits.low,
        any_order=any_order,
        roundoff=roundoff,
        budget_bytes=budget_bytes,
    )
    draws_of = _Draws(
        runner,
        deviations,
        traits,
        roundoff,
        family or Family(),
        keeps_whole=steps.to_whole,
        budget_bytes=budget_bytes,
    )
    discontinuous, unmodelled = _draw(draws_of, found, count)
    _take_members(draws_of, found, few=count < DRAWS)
    outputs = tuple(
        finish(
            item,
            roundoff=roundoff,
            discontinuous=discontinuous,
            gradient=gradients,
            intermediates=draws_of.family.intermediates,
        )
        for item in found
    )
    return Truth(
        outputs=outputs,
        kind="float64",
        reason="the reference was run with every float lifted to float64" + unmodelled,
        runs=runner.cost(),
        draws=count,
    )


@dataclass(frozen=True, slots=True)
class _Draws:
    """Makes the hooks of noisy runs."""

    runner: ReferenceRunner
    deviations: Deviations
    traits: InputTraits
    roundoff: float
    family: Family
    keeps_whole: bool
    budget_bytes: int | None

    def hook(self, index: int, *, gain: float = 1.0) -> NoiseHook:
        """Return the hook of draw `index`, its noise `gain` times as large."""
        return self._hook(self._noise(index, gain))

    def hook_of_all(self, count: int) -> NoiseHook:
        """Return the hook of the first `count` draws, made together."""
        return self._hook(Noises([self._noise(index, 1.0) for index in range(count)]))

    def _hook(self, noise: Noise) -> NoiseHook:
        return NoiseHook(noise, self.deviations, self.family, keeps_whole=self.keeps_whole)

    def _noise(self, index: int, gain: float) -> Noise:
        """Return the noise of draw `index`.

        Where inputs repeat, equal values err alike in three draws of four: another formula may
        cancel where the reference's does not, and the other way round. Draws 0 and 4 round alike
        but in another order.
        """
        return Noise(
            _mix(self.runner.seed, index),
            self.roundoff * gain,
            self.runner.device,
            repeats=self.traits.repeats and index % 4 != 3,
            tiny=self.traits.tiny,
            cuts=index % 2 == 1,
            rounds=index % 2 == 0,
            reassociates=index % 4 == 2,
            turn=self.runner.seed + index // (2 if index % 2 else 4),
            log_sum=log_sum_of(index, self.runner.seed),
        )


def draws_as_one(
    fn: Callable[..., object],
    specs: Sequence[TensorSpec],
    *,
    of_inputs: int,
    of_outputs: int,
    device: Device,
    budget_bytes: int | None,
) -> bool:
    """Return whether the draws of a truth are made in one run: few take as long as all.

    `of_inputs` and `of_outputs` are elements of all inputs, and of the outputs `specs`;
    `budget_bytes` is what `make_truth` is given.
    """
    small = is_small(of_inputs, of_outputs, device, budget_bytes=budget_bytes)
    return small and fn not in _APART and all(spec.dtype.is_liftable for spec in specs)


def _outputs_together(
    draws: _Draws, found: Sequence[Collector], count: int, hook: NoiseHook | ProgramHook
) -> tuple[Tensor, ...] | None:
    """Return the outputs of `count` runs with `hook`, made at once; None where each is to be made.

    They are (count, ...).
    """
    runner = draws.runner
    # A sum in short accumulators begins at another place in each draw.
    if draws.family.short_sums or not draws_as_one(
        runner.fn,
        [item.spec for item in found],
        of_inputs=sum(v.numel() for v in runner.inputs if isinstance(v, Tensor)),
        of_outputs=sum(item.value.numel() for item in found),
        device=Device(runner.device.type),
        budget_bytes=draws.budget_bytes,
    ):
        return None
    try:
        return runner.together(count, hook)
    except (NotTogether, LiftError, ReferenceError_, RuntimeError):
        draws.deviations.forget()
        with suppress(TypeError):  # a callable without weak references
            _APART.add(runner.fn)
        return None


def _draw(draws: _Draws, found: Sequence[Collector], count: int) -> tuple[bool, str]:
    """Make the draws; return whether the reference jumps, and what had no noise model."""
    discontinuous, runner = False, draws.runner
    unmodelled: set[str] = set()
    whole = draws.hook_of_all(count)
    outputs = _outputs_together(draws, found, count, whole)
    if outputs is not None:
        discontinuous, unmodelled = whole.discontinuous, whole.unmodelled
        for item, output in zip(found, outputs, strict=True):
            for one in output:
                item.draw(one)
    for index in range(count if outputs is None else 0):
        hook = draws.hook(index)
        watch = ChoiceWatch(hook) if not index and any(item.exact for item in found) else None
        for item, output in zip(found, runner.lifted(torch.float64, watch or hook), strict=True):
            item.draw(output)
            if watch is not None:
                item.watched(watch.choice_of(output))
        discontinuous |= hook.discontinuous
        unmodelled |= hook.unmodelled
    if discontinuous:
        _other_choices(draws, found, count)
    listed = ", ".join(sorted(unmodelled))
    return discontinuous, f"; plain relative noise for {listed}" if listed else ""


def _take_members(draws: _Draws, found: Sequence[Collector], *, few: bool) -> None:
    """Run the family's programs: what really rounds errs alike where values are alike."""
    family, seed = draws.family, _mix(draws.runner.seed, -1)
    if not family.stores:
        return
    whole, count = programs_of_one_run(family, seed, few=few)
    together = _outputs_together(draws, found, count, whole)
    if together is None:
        one_by_one: Iterable[ProgramHook] = programs(family, seed, few=few)
    else:
        for item, several in zip(found, together, strict=True):
            for output in several:
                item.member(output)
        one_by_one = [cutting_program(family, seed)] if whole.multiplies_wide else []
    for hook in one_by_one:
        outputs = draws.runner.lifted(torch.float64, hook)
        for item, output in zip(found, outputs, strict=True):
            item.member(output)


def _other_choices(draws: _Draws, found: Sequence[Collector], count: int) -> None:
    """See what flips under wider noise, and what depends on how ties are broken."""
    if any(item.exact for item in found):
        rounds = draws.family.intermediates is not None
        for index in range(_WIDE_DRAWS):
            hook = draws.hook(count + index, gain=_WIDE_GAIN)
            for item, output in zip(found, draws.runner.lifted(torch.float64, hook), strict=True):
                item.wide(output, rounds=rounds)
    for last in (True, False):
        ties = TieBreak(last=last)
        outputs = draws.runner.lifted(torch.float64, ties)
        if not ties.chose:
            return
        for item, output in zip(found, outputs, strict=True):
            item.other_ties(output)
    for item in found:
        for other in found:
            item.beside(other)


def _collectors(
    specs: Sequence[TensorSpec], plain: Sequence[Tensor], hits: Mapping[str, Tensor]
) -> list[Collector]:
    return [
        collector(spec, output, nominal_of(output), hits.get(spec.name))
        for spec, output in zip(specs, plain, strict=True)
    ]


def _draw_count(plain: Sequence[Tensor], budget_bytes: int | None) -> int:
    total = sum(output.numel() for output in plain)
    if budget_bytes is not None:
        most = budget_bytes // (4 * _DRAWS_SHARE * max(total, 1))  # 4 bytes an element and draw
        return min(max(most, 2), _draw_count(plain, None))
    if total > _HUGE:
        return 3 if total <= 2 * _HUGE else 2
    least = min((output.numel() if output.dim() >= 2 else 0 for output in plain), default=0)
    return next((count for size, count in _FEWER if least >= size), DRAWS)


def _mix(seed: int, index: int) -> int:
    """Return a seed for draw `index` (Weyl sequence; 63 bits, as torch takes them)."""
    return (seed * 0x9E3779B97F4A7C15 + (index + 1) * 0xD1B54A32D192ED03) & (2**63 - 1)


def _float32_truth(
    runner: ReferenceRunner,
    written: Sequence[Tensor],
    specs: Sequence[TensorSpec],
    hits: Mapping[str, Tensor],
    why: str,
) -> Truth:
    """Return truth from a run in float32 on widened inputs, else from the run as written."""
    inputs: list[Value] = upcast(runner.inputs)
    try:
        plain = runner.as_written(inputs)
        how = "it was run on inputs widened to float32"
    except ReferenceError_:
        plain, inputs = tuple(written), list(runner.inputs)
        how = "it was run as written"
    found = _collectors(specs, plain, hits)
    for item, own in zip(found, written, strict=True):
        item.trusted(own, as_written=True)
    roundoff = form_of(DType.FLOAT32).unit_roundoff * _FALLBACK_GAIN
    for index in range(_FEW_DRAWS):
        moved = perturbed(inputs, relative=roundoff, seed=_mix(runner.seed, index))
        for item, output in zip(found, runner.as_written(moved), strict=True):
            item.draw(output)
    outputs = tuple(finish(item, roundoff=roundoff, discontinuous=True) for item in found)
    return Truth(
        outputs=outputs,
        kind="float32",
        reason=f"the reference could not be lifted to float64 ({why}); {how}",
        draws=_FEW_DRAWS,
    )


def hit_counts(index: Tensor, rows: int) -> Tensor:
    """Return how often each of `rows` rows occurs in an index tensor (int64, (rows,)).

    Entries outside [0, rows), such as padding sentinels, are not counted.
    """
    flat = index.reshape(-1).long()
    legal = flat[(flat >= 0) & (flat < rows)]
    return torch.bincount(legal, minlength=rows)
