"""Decoding from a CUDA graph: the kernel's call captured once, replayed over decode steps.

A server captures its decode step at a batch size and replays it while fewer sequences are left:
the rest of the batch is padding. So the calls that the site gets in a steady batch are recorded
from the trusted run, padded to the captured size with NaN, and made by the kernel in its own
process: plainly, then by replaying one graph whose inputs are refilled in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from cuassay.model.case import Case
from cuassay.model.problem import Problem, Scalar, TensorSpec
from cuassay.model.scenario import (
    Allocate,
    Call,
    PoisonFreed,
    ReadResult,
    Refill,
    Release,
    Scenario,
    Step,
)
from cuassay.model.steps import Capture, Replay
from cuassay_loops.infer.decoding import forced, same_bits
from cuassay_loops.kernels import NoVerdict, Reads, Value, sizes_of
from cuassay_loops.model.operators import Operators
from cuassay_loops.model.routing import Routes
from cuassay_loops.model.transformer import Transformer
from cuassay_loops.sequential import BAND
from cuassay_loops.sites import Site
from cuassay_loops.text.corpus import Corpus

NO_GPU = "Skipped: no GPU"
IN_PROCESS = "Skipped: the kernel has no process of its own"
_ROWS, _LENGTH = 5, 24  # sequences of the captured batch, tokens of each
_STEPS = (3, 9, 15, 17, 23)  # decode steps that are recorded: both ends of a page among them
_LEFT = (5, 4, 3, 2, 1)  # sequences that are still there; the rest is padding

Values = Sequence[Value]
MakeInputs = Callable[[Case], Mapping[str, torch.Tensor | Scalar]]


class Isolated(Protocol):
    """A kernel in a process of its own that takes scenarios."""

    problem: Problem

    def reads(self, scenario: Scenario, inputs: MakeInputs) -> Reads:
        """Run a scenario; return what its ReadResult steps held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphed:
    """What replays told: a line for the report, and the condition of use that follows, if any."""

    told: str
    condition: str = ""


def decode_graphed(
    kernel: object, site: Site, model: Transformer, text: Corpus, *, seed: int
) -> Graphed:
    """Capture and replay the kernel at a site of decoding; say why not where that cannot be.

    Raises KernelFault for a plain call that fails.
    """
    if not model.ops.device.on_gpu:
        return Graphed(told=NO_GPU)
    if not hasattr(kernel, "reads"):
        return Graphed(told=IN_PROCESS)
    calls = record_calls(model, site, text, seed=seed)
    if not calls:
        return Graphed(told="Skipped: decoding never calls the site")
    return compare_replays(kernel, model.ops, site, calls)  # type: ignore[arg-type]


def record_calls(model: Transformer, site: Site, text: Corpus, *, seed: int) -> list[list[Value]]:
    """Return the site's last call at each of some steps of decoding a steady batch."""
    ids, _ = text.batch(_ROWS, _LENGTH, seed=seed, step=0)
    found: dict[int, list[Value]] = {}
    at = [-1]

    def watch(name: str, values: Values) -> None:
        if name == site.name and at[0] in _STEPS:
            found[at[0]] = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]

    model.ops.watch, routes = watch, model.ops.routes
    model.ops.routes = Routes()  # these tokens choose experts of their own
    try:
        at[0] = 0
        steps = forced({"it": model}, list(ids), poison=1e30, seed=seed, stagger=0)
        for step in steps:
            at[0] = step.number + 1  # what comes now is the next step
    finally:
        model.ops.watch, model.ops.routes = None, routes
    return [found[step] for step in _STEPS if step in found]


def compare_replays(
    kernel: Isolated, ops: Operators, site: Site, calls: Sequence[Values]
) -> Graphed:
    """Compare replays with plain calls of the same inputs, bit for bit in rows that are in use."""
    padded = [
        _padded(kernel.problem, site, values, left)
        for values, left in zip(calls, _LEFT, strict=False)
    ]
    found = kernel.reads(*scenario(kernel.problem, padded))
    count = len(padded)
    if found.raised and len(found.outputs) <= count:
        return Graphed(
            told=f"the kernel cannot be captured: {found.raised}",
            condition="graphs: not captured in CUDA graphs",
        )
    if len(found.outputs) != 2 * count:
        raise NoVerdict(f"{len(found.outputs)} of {2 * count} answers came back from a graph")
    plain, replayed = found.outputs[:count], found.outputs[count:]
    rows = [left if _follows(kernel.problem, site) else None for left in _LEFT[:count]]
    other = [
        step
        for step in range(count)
        if not same_bits(_used(plain[step], rows[step]), _used(replayed[step], rows[step]))
    ]
    if not other:
        return Graphed(told=f"{count} replays give the bits of plain calls")
    wrong = [step for step in other if _beyond(ops, site, calls[step], replayed[step], rows[step])]
    if not wrong:
        return Graphed(told=f"{len(other)} of {count} replays give other bits, within the band")
    left = _LEFT[wrong[0]]
    return Graphed(
        told=(
            f"{len(wrong)} of {count} replays are wrong, first where {left} of {_ROWS} rows are "
            "in use; plain calls are right"
        ),
        condition="graphs: not captured in CUDA graphs",
    )


def scenario(problem: Problem, calls: Sequence[Values]) -> tuple[Scenario, MakeInputs]:
    """Return the scenario: every call plainly, then by replaying a graph of the first one."""
    sizes = sizes_of(problem, calls[0])
    cases = tuple(Case(label=f"decode step {i}", axes=sizes) for i in range(len(calls)))
    steps: list[Step] = [Allocate(slot="x", case=0)]
    for number in range(len(calls)):
        steps += [
            Refill(slot="x", case=number),
            Call(slot="x", result="plain"),
            ReadResult(result="plain"),
            Release(name="plain"),
        ]
    steps += [Refill(slot="x", case=0), Capture(slot="x", graph="decode")]
    for number in range(len(calls)):
        steps += [
            Refill(slot="x", case=number),
            PoisonFreed(),
            Replay(graph="decode", result="replay"),
            ReadResult(result="replay"),
            Release(name="replay"),
        ]
    by_label = {case.label: values for case, values in zip(cases, calls, strict=True)}

    def inputs(case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        named = zip(problem.inputs, by_label[case.label], strict=True)
        return {spec.name: value for spec, value in named}

    return Scenario(label="decoding from a graph", cases=cases, steps=tuple(steps)), inputs


def _batch_axis(problem: Problem) -> str:
    """Return the axis of sequences: the first axis of the first input, where it is a plain one."""
    first = problem.inputs[0]
    assert isinstance(first, TensorSpec)
    axis = first.shape[0]
    return axis if axis in {each.name for each in problem.axes} else ""


def _follows(problem: Problem, site: Site) -> bool:
    """Whether rows of padding may be added: rows of a mixture of experts are no sequences."""
    return bool(_batch_axis(problem)) and not site.experts


def _padded(problem: Problem, site: Site, values: Values, left: int) -> list[Value]:
    """Return inputs in which rows from `left` on are padding: NaN, or index 0."""
    if not _follows(problem, site):
        return list(values)
    axis, found = _batch_axis(problem), []
    for spec, value in zip(problem.inputs, values, strict=True):
        if isinstance(value, torch.Tensor) and isinstance(spec, TensorSpec):
            value = value.clone()
            if spec.shape and spec.shape[0] == axis:
                value[left:] = float("nan") if value.is_floating_point() else 0
        found.append(value)
    return found


def _used(outputs: Sequence[torch.Tensor], rows: int | None) -> list[torch.Tensor]:
    return [output[:rows] for output in outputs]


def _beyond(
    ops: Operators, site: Site, values: Values, found: Sequence[torch.Tensor], rows: int | None
) -> bool:
    """Whether an answer is beyond the band of the reference's own error, in rows in use."""
    exact, own = ops.wide(site.name, values), ops.as_written(site.name, values)
    for truth, written, answer in zip(exact, own, found, strict=True):
        t, w, a = (part[:rows].double() for part in (truth, written, answer.to(truth.device)))
        size = float(t.norm())
        error = float((a - t).norm())
        if not error <= BAND * float((w - t).norm()) + 2.0**-20 * size:
            return True
    return False
