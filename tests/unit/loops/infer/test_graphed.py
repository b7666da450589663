"""Decoding from a CUDA graph: what is recorded, padded and told; replays are played by a fake."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuassay.formats import load_candidate
from cuassay.model.case import Case
from cuassay.model.device import CPU, CUDA
from cuassay.model.problem import Problem
from cuassay.model.scenario import (
    Allocate,
    Call,
    PoisonFreed,
    ReadResult,
    Refill,
    Release,
    Scenario,
)
from cuassay.model.steps import Capture, Replay
from cuassay_loops.infer import graphed
from cuassay_loops.infer.graphed import Graphed, MakeInputs
from cuassay_loops.kernels import IsolatedKernel, Kernel, NoVerdict, Reads, Value
from cuassay_loops.sites import SITES
from cuassay_loops.text.corpus import corpus
from tests.support import loops
from tests.zoo import planted

_SITE = SITES["attention_decode"]
_Replayed = Callable[[list[Value], list[Value]], tuple[torch.Tensor, ...]]


class _Fake:
    """Plays a scenario with a plain kernel; `replayed` answers from captured and present values."""

    def __init__(self, problem: Problem, plain: Kernel, replayed: _Replayed | None) -> None:
        self.problem, self._plain, self._replayed = problem, plain, replayed

    def reads(self, scenario: Scenario, inputs: MakeInputs) -> Reads:
        outputs: list[tuple[torch.Tensor, ...]] = []
        captured: list[Value] = []
        held: tuple[torch.Tensor, ...] = ()
        for step in scenario.steps:
            match step:
                case Allocate(case=case) | Refill(case=case):
                    now = list(inputs(scenario.cases[case]).values())
                case Call():
                    held = self._plain(now)
                case Capture():
                    captured = now
                    if self._replayed is None:
                        return Reads(outputs=outputs, raised="RuntimeError: not permitted")
                case Replay():
                    assert self._replayed is not None
                    held = self._replayed(captured, now)
                case ReadResult():
                    outputs.append(held)
                case PoisonFreed() | Release():
                    pass
                case _:
                    raise AssertionError(step)
        return Reads(outputs=outputs)


def _kernel() -> Kernel:
    return loops.zoo_kernel("attention_decode", "page_off_by_one", folder="twins")


def _compared(replayed: _Replayed | None, *, site: str = "attention_decode") -> Graphed:
    model = loops.micro("bf16")
    calls = graphed.record_calls(model, SITES[site], corpus("uniform", 300), seed=3)
    assert len(calls) == 5
    problem = loops.problem(site)
    fake = _Fake(problem, _kernel(), replayed)
    return graphed.compare_replays(fake, model.ops, SITES[site], calls)


def test_replays_that_follow_their_inputs_are_fine() -> None:
    plain = _kernel()
    found = _compared(lambda captured, now: plain(now))
    assert found == Graphed(told="5 replays give the bits of plain calls")


def test_replays_of_what_the_inputs_held_at_capture_are_wrong() -> None:
    plain = _kernel()
    found = _compared(lambda captured, now: plain([*now[:4], captured[4], now[5]]))
    assert "4 of 5 replays are wrong, first where 4 of 5 rows are in use" in found.told
    assert found.condition == "graphs: not captured in CUDA graphs"


def test_padding_that_reaches_rows_in_use_is_wrong() -> None:
    """A scale over the whole batch: NaN in a row of padding becomes everybody's."""
    plain = _kernel()

    def polluted(captured: list[Value], now: list[Value]) -> tuple[torch.Tensor, ...]:
        (out,) = plain(now)
        return (out / out.abs().amax() * out.abs().amax(),)

    found = _compared(polluted)
    assert "first where 4 of 5 rows are in use" in found.told


def test_other_bits_within_the_band_are_told() -> None:
    plain = _kernel()

    def moved(captured: list[Value], now: list[Value]) -> tuple[torch.Tensor, ...]:
        (out,) = plain(now)
        out[0, 0, 0] = torch.nextafter(out[0, 0, 0], torch.full_like(out[0, 0, 0], 4.0))
        return (out,)

    found = _compared(moved)
    assert found == Graphed(told="5 of 5 replays give other bits, within the band")


def test_a_capture_that_is_refused_is_a_condition_of_use() -> None:
    found = _compared(None)
    assert "cannot be captured: RuntimeError: not permitted" in found.told
    assert found.condition


def test_answers_that_are_missing_decide_nothing() -> None:
    class Lost(_Fake):
        def reads(self, scenario: Scenario, inputs: MakeInputs) -> Reads:
            return Reads(outputs=[])

    model = loops.micro("bf16")
    calls = graphed.record_calls(model, _SITE, corpus("uniform", 300), seed=3)
    with pytest.raises(NoVerdict, match="0 of 10 answers"):
        graphed.compare_replays(
            Lost(loops.problem("attention_decode"), _kernel(), None), model.ops, _SITE, calls
        )


def test_without_a_gpu_it_is_skipped_and_said() -> None:
    model = loops.micro("bf16")
    found = graphed.decode_graphed(_kernel(), _SITE, model, corpus("uniform", 300), seed=1)
    assert found == Graphed(told="Skipped: no GPU")
    model.ops.device = CUDA
    found = graphed.decode_graphed(_kernel(), _SITE, model, corpus("uniform", 300), seed=1)
    assert found.told == "Skipped: the kernel has no process of its own"


def test_rows_of_experts_are_not_padded() -> None:
    problem, site = loops.problem("moe_gather"), SITES["moe_gather"]
    values = [torch.ones(5, 16, dtype=torch.bfloat16), torch.zeros(5, 2, dtype=torch.int64)]
    kept = graphed._padded(problem, site, values, 3)
    assert isinstance(kept[0], torch.Tensor)
    assert bool(kept[0].isfinite().all())


def test_an_isolated_kernel_reads_a_scenario_s_results() -> None:
    problem = loops.problem("rmsnorm")
    path = str(planted.twin_of("eps_outside_root"))
    with IsolatedKernel(load_candidate(path, problem), problem, device=CPU) as kernel:
        x = torch.ones(3, 16, dtype=torch.bfloat16)
        case = Case(label="a", axes={"rows": 3, "hidden": 16})
        steps = (
            Allocate(slot="x", case=0),
            Call(slot="x", result="y"),
            ReadResult(result="y"),
        )
        made = Scenario(label="one", cases=(case,), steps=steps)
        found = kernel.reads(made, lambda case: {"x": x, "weight": x[0], "eps": 1e-6})
        assert found.raised == ""
        assert [tuple(t.shape for t in each) for each in found.outputs] == [((3, 16),)]
