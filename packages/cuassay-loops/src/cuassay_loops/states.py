"""What a site sees in a real loop, as cases: a trusted run is made again up to the step named.

A case holds the site, the data, the optimizer, the step and a seed, never tensors: on the same
device it gives the same inputs whenever it is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from cuassay.errors import CuassayError
from cuassay.formats import load_problem
from cuassay.inputs.seeds import derive
from cuassay.model.case import TRAINING, Case, LoopState
from cuassay.model.device import Device
from cuassay.model.effort import Effort
from cuassay.model.problem import ConstAxis, Problem, Scalar, VarAxis
from cuassay.model.verdict import Profile
from cuassay_loops import presets, sites
from cuassay_loops.infer import decoding
from cuassay_loops.kernels import Value, sizes_of
from cuassay_loops.model.operators import Operators, SiteMode
from cuassay_loops.model.transformer import Transformer
from cuassay_loops.results import Cell, Preset
from cuassay_loops.sites import PRECISIONS, Phase, Site
from cuassay_loops.text.corpus import corpus
from cuassay_loops.train import optimizers
from cuassay_loops.train.cell import Settings
from cuassay_loops.train.lane import Learner
from cuassay_loops.train.trained import no_kernel

_LARGEST_VOCAB = 16_384  # beyond, tokens cannot be learned in the time of a check
_POISON = -7.0  # in unused rows of a cache: finite, and within any domain of keys
_SEQUENCES, _LONGEST = 4, 70
_FIRST, _EVERY = 4, 4  # decode step of state 0, and decode steps between states
_RATE = 0.3  # of SGD
_Calls = list[tuple[Value, ...]]


def plan(problem: Problem, kind: str, *, profile: Profile, seed: int, device: Device) -> list[Case]:
    """Return cases with the states of a loop of a kind (training or decoding) of a problem.

    Empty where no site has the problem's inputs and outputs, or its sizes do not fit.
    """
    site = site_of(problem)
    if site is None or not _takes_part(site, kind):
        return []
    found = []
    effort = Effort(profile)
    for data in effort.training_data:
        for step in sorted(effort.training_steps, reverse=True):  # one run to the last serves all
            state = LoopState(
                loop=kind,
                site=site.name,
                data=data,
                optimizer=site.optimizer or "sgd",
                step=step,
                seed=seed,
            )
            try:
                values = _values(problem, state, device)
            except CuassayError:  # no text on this machine, a size that cannot be
                return []
            if not _fits(problem, values):
                return []
            found.append(
                Case(
                    label=f"{kind} on {data} text, step {step}",
                    axes=sizes_of(problem, values),
                    seed=derive(seed, kind, data, step),
                    state=state,
                )
            )
    return sorted(found, key=lambda case: case.state.step if case.state else 0)


def inputs(
    problem: Problem, state: LoopState, device: Device
) -> Mapping[str, torch.Tensor | Scalar]:
    """Return fresh copies of what the site saw, in the order of the problem's inputs."""
    values = _values(problem, state, device)
    return {
        spec.name: value.clone() if isinstance(value, torch.Tensor) else value
        for spec, value in zip(problem.inputs, values, strict=True)
    }


def site_of(problem: Problem) -> Site | None:
    """Return the site of a problem: by its catalogue name, else by its inputs and outputs."""
    named = sites.site_of_problem(problem.name)
    if named is not None:
        return named
    wanted = [spec.name for spec in (*problem.inputs, *problem.outputs)]
    for site in sites.SITES.values():
        own = load_problem(site.problem)
        if [spec.name for spec in (*own.inputs, *own.outputs)] == wanted:
            return site
    return None


def _takes_part(site: Site, kind: str) -> bool:
    if site.phase is Phase.ENCODER:
        return False
    if kind == TRAINING:
        return site.phase is not Phase.DECODE
    sized_by_rows = site.name not in ("attention", "attention_window_softcap")
    losses = "cross_entropy" in site.name
    trains = site.phase in (Phase.BACKWARD, Phase.OPTIMIZER)
    return not trains and sized_by_rows and not losses


def _values(problem: Problem, state: LoopState, device: Device) -> Sequence[Value]:
    dtypes = {spec.dtype.value for spec in (*problem.inputs, *problem.outputs)}
    found = [name for name, dtype in PRECISIONS.items() if dtype in dtypes]
    precision = found[0] if found else "fp32"
    vocab = next(
        (a.value for a in problem.axes if isinstance(a, ConstAxis) and a.name == "vocab"), 0
    )
    preset = presets.holding(presets.PRESETS["tiny"], [sites.SITES[state.site]])
    if vocab > _LARGEST_VOCAB or 0 < vocab < 258:
        raise CuassayError(f"a vocabulary of {vocab} has no model here")
    preset = replace(preset, vocab=vocab or preset.vocab)
    # One of the calls that the site gets at a step of a trusted loop.
    calls = _calls(preset, precision, replace(state, step=0), device)
    if state.step not in calls:
        # Run a trusted loop to a step; return the site's calls at that step and at those on the
        # way. On the way the steps of the profiles are kept, so that one run serves all cases.
        recorder = _Recorder(state)
        work = _train if state.loop == TRAINING else _decode
        work(preset, precision, state, device=device, recorder=recorder)
        calls.update({state.step: [], **recorder.calls})
    kept = calls[state.step]
    if not kept:
        raise CuassayError(f"the loop never calls site '{state.site}'")
    return kept[state.seed % len(kept)]


def _fits(problem: Problem, values: Sequence[Value]) -> bool:
    """Whether the sizes of a state are legal sizes of the problem, and dtypes its own."""
    from cuassay.model.axes import shape_of

    try:
        sizes = sizes_of(problem, values)
    except (CuassayError, ValueError):
        return False
    for axis in problem.axes:
        if isinstance(axis, VarAxis):
            size = sizes[axis.name]
            if size < axis.minimum or size > (axis.maximum or size) or size % axis.multiple_of:
                return False
    for spec, value in zip(problem.inputs, values, strict=True):
        if isinstance(value, torch.Tensor):
            shape = getattr(spec, "shape", None)
            if shape is None or shape_of(shape, sizes) != tuple(value.shape):
                return False
            if value.dtype is not getattr(torch, spec.dtype.value):
                return False
    return True


@functools.lru_cache(maxsize=12)
def _calls(preset: Preset, precision: str, state: LoopState, device: Device) -> dict[int, _Calls]:
    """Return what was recorded so far of a loop, by its step; empty at first."""
    return {}


class _Recorder:
    """Keeps copies of what a site is called with, at the steps that may be asked for."""

    def __init__(self, state: LoopState) -> None:
        self._site = state.site
        self._wanted = {state.step}.union(*Effort.training_steps.every())
        self.calls: dict[int, _Calls] = {}
        self.step = -1

    def __call__(self, site: str, values: Sequence[Value]) -> None:
        if site == self._site and self.step in self._wanted:
            copies = (v.detach().clone() if isinstance(v, torch.Tensor) else v for v in values)
            self.calls.setdefault(self.step, []).append(tuple(copies))


def _train(
    preset: Preset, precision: str, state: LoopState, *, device: Device, recorder: _Recorder
) -> None:
    settings = Settings(
        site=state.site,
        kernel=no_kernel,
        preset=preset,
        steps=state.step,
        device=device,
        seed=state.seed,
    )
    cell = Cell(data=state.data, optimizer=state.optimizer, precision=precision, seed=0)
    steps_here = sites.SITES[state.site].optimizer
    rate = optimizers.recipe(steps_here).learning_rate if steps_here else _RATE
    lane = Learner(cell, settings, mode=SiteMode.TRUSTED, root=state.seed, rate=rate)
    text = corpus(state.data, preset.vocab)
    lane.ops.watch = recorder
    for step in range(state.step + 1):
        recorder.step = step
        ids, targets = text.batch(preset.batch, preset.length, seed=state.seed, step=step)
        lane.advance((ids.to(device), targets.to(device)))


def _decode(
    preset: Preset, precision: str, state: LoopState, *, device: Device, recorder: _Recorder
) -> None:
    ops = Operators(precision=precision, vocab=preset.vocab, device=device)
    ops.kernels = {state.site: no_kernel}  # its fused path, where it has one
    torch.manual_seed(derive(state.seed, "weights") % 2**63)
    model = Transformer(preset, ops).to(device)
    text = corpus(state.data, preset.vocab)
    sequences = decoding.ragged(text, _SEQUENCES, _LONGEST, seed=state.seed)
    ops.watch = recorder
    for step in decoding.forced({"it": model}, sequences, poison=_POISON, seed=state.seed):
        done, rest = divmod(step.number + 1 - _FIRST, _EVERY)
        recorder.step = done if not rest else -1  # what comes now is the next decode step
        if done > state.step:
            return
