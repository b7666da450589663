"""One cell of the matrix: three runs side by side, and the gradients compared at the same state.

The trusted run owns the trajectory on which gradients are compared. The noise twin (trusted, other
rounding) and the candidate's run go their own ways from the same weights over the same batches:
their losses tell the story, the gradients decide.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch

from cuassay.inputs.seeds import derive
from cuassay.model.device import Device
from cuassay_loops.kernels import Kernel, KernelFault, NoVerdict
from cuassay_loops.model.operators import SiteMode
from cuassay_loops.results import Cell, CellResult, Curves, Preset
from cuassay_loops.sequential import ALPHA, Monitor, Pair
from cuassay_loops.text.corpus import Corpus, corpus
from cuassay_loops.train import confident, optimizers, pairs
from cuassay_loops.train.confident import SureTokens
from cuassay_loops.train.lane import Learner
from cuassay_loops.train.losses import LossBand

_HALVINGS = 4  # of a learning rate at which the trusted run is not stable
_POINTS = 400  # kept of each curve
_TOLD_AFTER = 20  # steps that the losses go on after both have left


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all cells share. `site` is where `kernel` answers; `weights` a trained checkpoint.

    `accumulate` splits a batch, `recompute` checkpoints every block, `compile_with` names a
    backend of torch.compile, `pairs_every` is the number of steps between comparisons.
    """

    site: str
    kernel: Kernel
    preset: Preset
    steps: int
    device: Device
    seed: int
    weights: Mapping[str, torch.Tensor] | None = None
    accumulate: int = 1
    recompute: bool = False
    compile_with: str = ""
    pairs_every: int = 1
    stop_early: bool = True
    learning_rate: float | None = None


class Unstable(Exception):
    """The trusted run itself diverged at this learning rate."""


@dataclass(slots=True)
class _Trace:
    """The curves of a run while it is under way."""

    trusted: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)
    paired: list[tuple[int, Mapping[str, Pair], Mapping[str, float]]] = field(default_factory=list)


Watch = Callable[[int, float, float], None]


def run_cell(cell: Cell, settings: Settings, *, watch: Watch | None = None) -> CellResult:
    """Run one cell to its end; halve the learning rate where the trusted run is not stable.

    `watch` gets step, trusted loss and candidate's loss. The candidate's own end becomes the
    result's `failure`, what decides nothing its `undecided`.
    """
    rate = settings.learning_rate or optimizers.recipe(cell.optimizer).learning_rate
    started = time.perf_counter()
    for _ in range(_HALVINGS):
        run = _CellRun(cell, settings, rate)
        try:
            result = run.run(watch or (lambda step, trusted, candidate: None))
        except Unstable:
            rate /= 2.0
            continue
        except torch.OutOfMemoryError as error:
            why = f"out of memory on {settings.device}: {str(error).splitlines()[0][:200]}"
            result = run.result(undecided=f"{why}; choose a smaller preset")
        return replace(result, duration_s=time.perf_counter() - started)
    why = f"the trusted run diverges down to a learning rate of {rate * 2:g}"
    return replace(run.result(undecided=why), duration_s=time.perf_counter() - started)


class _CellRun:
    def __init__(self, cell: Cell, settings: Settings, rate: float) -> None:
        self._cell, self._settings, self._rate = cell, settings, rate
        self._corpus: Corpus = corpus(cell.data, settings.preset.vocab)
        self._root = derive(settings.seed, cell.data, cell.optimizer, cell.precision, cell.seed)
        self._trace = _Trace()
        self._band = LossBand()
        self._rows = pairs.hot_rows(self._corpus.weights)
        self._trusted = self._lane(SiteMode.TRUSTED)
        self._noise = self._lane(SiteMode.NOISE)
        self._candidate = self._lane(SiteMode.CANDIDATE)
        groups = self._trusted.groups(self._rows)
        self._sure = SureTokens(settings.site) if settings.site in confident.SITES else None
        if self._sure is not None:
            groups |= self._sure.groups()
        self._monitor = Monitor(groups, alpha=ALPHA)
        self._alive = True

    def _lane(self, mode: SiteMode) -> Learner:
        return Learner(self._cell, self._settings, mode=mode, root=self._root, rate=self._rate)

    def run(self, watch: Watch) -> CellResult:
        """Take every step. Raises Unstable."""
        for step in range(self._settings.steps):
            try:
                self._step(step)
            except KernelFault as fault:
                return self.result(failure=f"step {step}: {fault}", step=step)
            except NoVerdict as error:
                return self.result(undecided=f"step {step}: {error}")
            watch(step, self._trace.trusted[-1], self._trace.candidate[-1])
            if self._done(step):
                break
        self._check_stable(final=True)
        return self.result()

    def _done(self, step: int) -> bool:
        if not self._settings.stop_early or not self._monitor.left:
            return False
        return self._band.step is not None and step >= self._band.step + _TOLD_AFTER

    def _step(self, step: int) -> None:
        preset = self._settings.preset
        ids, targets = self._corpus.batch(preset.batch, preset.length, seed=self._root, step=step)
        batch = ids.to(self._settings.device), targets.to(self._settings.device)
        if step % self._settings.pairs_every == 0 and not self._monitor.left:
            # Compare gradients at the trusted run's state; return the trusted ones.
            modes = (SiteMode.TRUSTED, SiteMode.NOISE, SiteMode.CANDIDATE)
            self._trusted.ops.heard = self._sure.hear if self._sure else None
            loss, gradients, compared = self._trusted.compared(batch, modes)
            self._trusted.ops.heard = None
            self._trace.trusted.append(loss)
            found = pairs.measure_pairs(*compared, rows=self._rows)
            if self._sure is not None:
                found |= self._sure.compared()
            self._monitor.update(step, found)
            allowed = {name: group.allowed for name, group in self._monitor.groups.items()}
            self._trace.paired.append((step, found, allowed))
        else:
            loss, gradients = self._trusted.gradients(batch, SiteMode.TRUSTED)
            self._trace.trusted.append(loss)
        self._trusted.descend(gradients)
        self._check_stable()
        self._trace.noise.append(self._noise.advance(batch))
        alive = math.nan
        if self._alive:
            alive = self._candidate.advance(batch)
            self._alive = math.isfinite(alive)
        self._trace.candidate.append(alive)
        self._band.update(
            step, self._trace.trusted[-1], noise=self._trace.noise[-1], candidate=alive
        )

    def _check_stable(self, *, final: bool = False) -> None:
        losses = self._trace.trusted
        if not losses:
            return
        first = losses[0]
        if not math.isfinite(losses[-1]) or losses[-1] > 2.0 * first + 1.0:
            raise Unstable
        if final and len(losses) > 30 and sum(losses[-10:]) / 10 > 1.05 * first:
            raise Unstable

    def result(
        self, *, failure: str = "", undecided: str = "", step: int | None = None
    ) -> CellResult:
        """Return what is known of the cell so far."""
        left = self._monitor.left
        trace = self._trace
        name, evidence = self._monitor.strongest()
        group = left[0].group if left else name
        every = max(1, -(-len(trace.candidate) // _POINTS))
        steps = range(0, len(trace.candidate), every)
        kept = [entry for entry in trace.paired if group in entry[1]]
        kept = kept[:: max(1, -(-len(kept) // _POINTS))]
        base = CellResult(
            cell=self._cell,
            learning_rate=self._rate,
            steps=len(trace.candidate),
            loss_left_band=self._band.step is not None,
            loss_step=self._band.step,
            step=step,
            parameter=name,
            evidence=evidence,
            needed=self._monitor.needed,
            loss_trusted=_late(trace.trusted),
            loss_noise=_late(trace.noise),
            loss_candidate=_late(trace.candidate),
            failure=failure,
            undecided=undecided,
            curves=Curves(
                steps=tuple(steps),
                trusted=tuple(trace.trusted[i] for i in steps),
                noise=tuple(trace.noise[i] for i in steps),
                candidate=tuple(trace.candidate[i] for i in steps),
                group=group,
                paired_steps=tuple(step for step, _, _ in kept),
                bias=tuple(found[group].bias for _, found, _ in kept),
                deviation=tuple(found[group].deviation for _, found, _ in kept),
                allowed=tuple(allowed[group] for _, _, allowed in kept),
            ),
        )
        if not left:
            return base
        # Add where gradients left the band: rows of the embedding are told with their table
        worst = max(
            left,
            key=lambda each: math.inf if math.isnan(each.pair.deviation) else each.pair.deviation,
        )
        table = worst.group == pairs.TABLE or pairs.row_of(worst.group) is not None
        rows = [row for each in left if (row := pairs.row_of(each.group)) is not None]
        return replace(
            base,
            gradient_left_band=True,
            step=worst.step,
            parameter=pairs.TABLE if table else worst.group,
            rows=tuple(rows) if table else (),
            ratio=worst.pair.ratio,
            cosine=worst.pair.cosine,
            bias=worst.pair.bias,
            deviation=worst.pair.deviation,
            noise=worst.pair.noise_deviation,
            evidence=worst.evidence,
            how=worst.how,
        )


def _late(losses: list[float]) -> float:
    """Return the mean of the last 20 losses (NaN once a run has died)."""
    kept = losses[-20:]
    return sum(kept) / len(kept) if kept else math.nan
