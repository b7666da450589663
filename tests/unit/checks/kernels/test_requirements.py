"""KERNEL001: what a worker says of kernels, in words; hostile facts; calls on offset inputs."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from cuassay.checks.kernels.facts import kernels_of
from cuassay.checks.kernels.requirements import Kernel001
from cuassay.errors import CannotJudgeError
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Scenario
from cuassay.model.trace import ScenarioResult, StepDone, StepRaised
from cuassay.sandbox.guest.observe.inspection import ran
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import FakeTrial, Function, judged, run_one, scaled_add

OWN = "void ops::add_rows<float>(float*)"
GOOD = {
    "own add_rows": "defined",
    f"ran {OWN}": "1 40.5 32 256 4096 75",
    "ran vectorized_elementwise_kernel": "2 3.1 16 128 0 100",
    "code add_rows": "32 0 0 16 2",
    "code never_ran": "255 800 40 4 9",
}


def honest(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return x * gain + bias


def aligned_only(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    """Read 16 bytes at once: a view that begins elsewhere is read from the start of its block."""
    first = x.storage_offset() % 4
    return honest(torch.roll(x, first, -1), bias, gain)


def told(
    function: Function, facts: dict[str, str], fault: str = ""
) -> tuple[FakeTrial, Scenario, Ran]:
    """Return a run in which the inspecting step answers with `facts`, as a GPU's worker would."""
    trial = scaled_add()
    (scenario,) = Kernel001().propose(trial)
    run = run_one(trial, function, scenario)
    records = list(run.result.records)
    records[3] = StepDone(index=3, facts=tuple(facts.items()))
    if fault:
        records[7] = StepRaised(index=7, exception="RuntimeError", message=fault)
        records[8] = StepRaised(index=8, exception="ContextLost", message="step 7 left")
    result = dataclasses.replace(run.result, records=tuple(records))
    return trial, scenario, Ran(result, run._tensors)  # type: ignore[attr-defined]


def found(function: Function, facts: dict[str, str], fault: str = "") -> list[Finding]:
    trial, scenario, run = told(function, facts, fault)
    return judged(Kernel001(), trial, scenario, run)


def remark(facts: dict[str, str]) -> str:
    _, scenario, run = told(honest, facts)
    result: ScenarioResult = run.result
    return Kernel001().remark([(scenario, result)])


def test_a_kernel_of_its_own_passes_and_is_described() -> None:
    assert found(honest, GOOD) == []
    text = remark(GOOD)
    assert "32 registers, occupancy 75 %, 16-byte accesses" in text
    assert "local memory" not in text


def test_somebody_else_s_kernel_does_the_work() -> None:
    facts = {**GOOD, "ran sm90_xmma_gemm": "1 400 90 384 98304 12"}
    (finding,) = found(honest, facts)
    assert "its own kernels take 9% of the GPU's time" in finding.message
    assert "'sm90_xmma_gemm' (90%)" in finding.message
    assert finding.finding_class is FindingClass.ADVICE
    assert finding.condition.startswith("own-kernels: ")


def test_without_kernels_of_its_own_a_library_is_no_news() -> None:
    assert found(honest, {"ran sm90_xmma_gemm": "1 400 90 384 98304 12"}) == []


def test_no_kernel_at_all_is_news_unless_the_profiler_is_blind() -> None:
    (finding,) = found(honest, {"own add_rows": "defined"})
    assert finding.severity is Severity.HIGH
    assert "no kernel ran on the GPU" in finding.message
    assert found(honest, {"profiler": "it cannot start: not permitted"}) == []
    assert remark({"profiler": "not permitted"}) == "profiler: not permitted"


def test_local_memory_in_own_code_is_advice() -> None:
    (finding,) = found(honest, {**GOOD, "code add_rows": "255 800 40 16 2"})
    assert "'add_rows' uses 800 bytes of local memory a thread" in finding.message
    assert finding.severity is Severity.LOW


@pytest.mark.parametrize(
    ("function", "fault", "what"),
    [
        (aligned_only, "", "the call gives wrong numbers"),
        (honest, "CUDA error: misaligned address", "ends in RuntimeError: CUDA error: misaligned"),
    ],
)
def test_wide_accesses_meet_inputs_that_are_not_aligned(
    function: Function, fault: str, what: str
) -> None:
    (finding,) = found(function, GOOD, fault)
    assert finding.message.startswith("'add_rows' moves 16 bytes at once; with every input")
    assert what in finding.message
    assert finding.finding_class is FindingClass.UNSAFE
    assert finding.condition.startswith("layouts: aligned inputs only")


def test_an_explicit_refusal_of_offset_inputs_is_honest() -> None:
    assert found(honest, GOOD, "x must be aligned to 16 bytes") == []


def test_a_plain_call_that_fails_is_left_to_others() -> None:
    with pytest.raises(CannotJudgeError, match="plain call"):
        found(lambda x, bias, gain: x * gain, GOOD)


def test_hostile_facts_are_cut_and_numbers_have_to_be_numbers() -> None:
    seen = kernels_of(
        {
            "ran \x1b[2Jevil": "1 2.5 3 4 5 999",
            "ran short": "1 2",
            "ran words": "1 2 3 4 5 many",
            "ran huge": "1 " + "9" * 40 + " 3 4 5 6",
            "code k": "1 2 3 4 nan",
            "code " + "k" * 5000: "1 2 3 4 5",
            "own \n": "defined",
            "profiler": "x" * 5000,
        }
    )
    assert [(k.name, k.occupancy) for k in seen.ran] == [("[2Jevil", 100)]
    assert [len(code.name) for code in seen.code] == [100]
    assert seen.own == frozenset()
    assert len(seen.blind) == 200


def event(name: str, start: float, took: float, **args: object) -> dict[str, object]:
    return {"cat": "kernel", "name": name, "ts": start, "dur": took, "args": args}


def test_a_trace_becomes_facts_without_the_mark_that_ends_it() -> None:
    launch = {"registers per thread": 40, "block": [32, 4, 1], "shared memory": 1024}
    trace = {
        "traceEvents": [
            event("mark", 900.0, 1.0),
            event("a", 10.0, 5.0, **launch),
            event("a", 20.0, 6.5, **launch),
            event("b", 30.0, 40.0, **{"est. achieved occupancy %": 50}),
            {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 1.0, "dur": 3.0},
            {"name": "process_name", "ph": "M"},
        ]
    }
    assert ran(trace) == [("ran b", "1 40.000 0 1 0 50"), ("ran a", "2 11.500 40 128 1024 0")]
    assert ran({"traceEvents": [event("mark", 1.0, 1.0)]}) == []
    ((fact, why),) = ran({"traceEvents": []})
    assert fact == "profiler"
    assert "saw no kernel" in why


def test_the_scenario_sets_every_input_one_element_off() -> None:
    trial = scaled_add()
    (scenario,) = Kernel001().propose(trial)
    layouts = next(step.layouts for step in scenario.steps if hasattr(step, "layouts"))
    assert {name: str(layout) for name, layout in layouts.items()} == {
        "x": "offset",
        "bias": "offset",
    }
