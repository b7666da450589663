"""How much memory a case takes in a trial is known before it is made, and smaller cases fit."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from cuassay.checks.base import Run
from cuassay.contract import memory
from cuassay.contract.accept import Acceptor, own_case
from cuassay.contract.memory import GIB, Room
from cuassay.formats.execute import load_reference
from cuassay.inputs.budget import WorkLimit, budget_for
from cuassay.inputs.fills import default_fill
from cuassay.judge import truths as judge_truths
from cuassay.judge.assemble import plan_conditions
from cuassay.judge.decide import benchmark_rule
from cuassay.judge.plan.search import Answer, SearchEffort, search
from cuassay.judge.plan.smoke import smallest_case
from cuassay.judge.trial import JudgeTrial
from cuassay.model.axes import resolve
from cuassay.model.case import Case, Fill
from cuassay.model.device import CPU, CUDA
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.memory import bytes_needed, live_bytes
from cuassay.sandbox.host.waits import run_now
from tests.unit.contract.problems import foreign, rotary, trial_of

_SCORES = """def run(x):
    return (x @ x.mT).softmax(-1) @ x
"""


def _attention(folder: Path) -> Problem:
    return foreign(
        folder,
        _SCORES,
        axes=("rows", "cols"),
        inputs={"x": (("rows", "cols"), "float32")},
        output=("rows", "cols"),
        sizes=({"rows": 64, "cols": 16}, {"rows": 256, "cols": 16}),
    )


def _planned(problem: Problem, gib: float, monkeypatch: pytest.MonkeyPatch) -> JudgeTrial:
    """Return a trial on the CPU that plans as if it had `gib` of a GPU's memory."""
    trial = trial_of(problem)
    monkeypatch.setattr(trial.memory, "gib", gib)
    monkeypatch.setattr(trial.memory.room, "limit_gib", gib)
    monkeypatch.setattr("cuassay.contract.memory.room_bytes", lambda gib: int(gib * GIB))
    return trial


def _peak_bytes(call: Callable[[], object], folder: Path) -> int:
    """Return how many bytes torch's CPU allocator holds at most while `call` runs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        call()
    place = folder / "trace.json"
    profiled.export_chrome_trace(str(place))
    events = [e for e in json.loads(place.read_text())["traceEvents"] if e["name"] == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event["ts"]):
        now += event["args"]["Bytes"]
        most = max(most, now)
    return most


def _limit(**changed: Any) -> WorkLimit:
    """Return the limit of `quick` on a CPU, with no case free of it."""
    limit = budget_for(Profile.QUICK, device=CPU).work
    return dataclasses.replace(limit, free_elements=0, **changed)


_MADE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "elementwise": lambda x: ((x * 2).exp() + x).tanh(),
    "product": lambda x: x @ x.mT,
    "norm": lambda x: torch.nn.functional.layer_norm(x, (x.shape[-1],)),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None]
    )[0, 0],
}


@pytest.mark.parametrize("name", _MADE)
def test_the_plan_is_near_what_a_truth_takes(name: str, tmp_path: Path) -> None:
    call, x = _MADE[name], torch.randn(384, 384 if name != "attention" else 32)
    spec = TensorSpec(name="y", dtype=DType.FLOAT32, shape=("a", "b"), domain=Real())
    live = live_bytes(call, [x])
    taken = _peak_bytes(lambda: make_truth(call, [x], [spec], seed=1, draws=4), tmp_path)
    need = bytes_needed(live, [x], [call(x).shape], draws=4)
    assert 0.8 <= need / taken <= 2.5


def test_a_product_on_tensor_cores_keeps_two_deviations() -> None:
    call, x = _MADE["product"], torch.randn(64, 64)
    assert live_bytes(call, [x.bfloat16()]).reduced == 2 * live_bytes(call, [x]).reduced


def test_live_bytes_are_those_of_a_run(tmp_path: Path) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):  # what is let go of does not add up
            x = (x + 1).sort(-1).values
        return x.sum()

    x = torch.randn(256, 256)
    taken = _peak_bytes(lambda: call(x), tmp_path)
    live = live_bytes(call, [x])
    assert 0.7 <= live.written / taken <= 1.3
    assert live.complete
    assert not live_bytes(lambda x: x * x.sum().item(), [x]).complete


def test_every_process_counts_and_so_do_intermediates(tmp_path: Path) -> None:
    problem = _attention(tmp_path)
    room = Room(load_reference(problem), device=CPU, limit_gib=8.0, work_limit=_limit())
    rows = 1 << 17  # scores of 2^34 elements: nothing of it is made
    need = room.need(problem, own_case(problem, {"rows": rows, "cols": 16}, seed=1, label=""))
    assert need.judge >= 8 * rows * rows
    assert need.worker >= 4 * rows * rows
    assert need.total == need.judge + 2 * need.worker
    assert need.without_truth < need.total
    small = room.need(problem, own_case(problem, {"rows": 64, "cols": 16}, seed=1, label=""))
    assert small.total < 4 << 20


def test_work_bounds_the_cases_of_which_truth_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _attention(tmp_path)
    room = Room(
        load_reference(problem),
        device=CPU,
        limit_gib=8.0,
        work_limit=_limit(workload_s=0.5),
    )
    small = own_case(problem, {"rows": 64, "cols": 16}, seed=1, label="small")
    room.learn_unit(problem, small, lambda case: [])
    case = own_case(problem, {"rows": 2048, "cols": 16}, seed=1, label="long")
    assert room.work(problem, case.axes) > 2**24
    assert not room.holds(problem, case)
    assert room.holds(problem, case, truth=False)
    smaller = room.smaller(problem, case, settle=lambda found: found)
    assert smaller is not None
    assert (smaller.axes["rows"], smaller.label) == (512, "long, smaller for time")
    assert room.holds(problem, smaller)
    room.note(problem, case, smaller)
    (said,) = room.conditions
    assert said.startswith("time: judged at rows=512, cols=16 instead of the workload's rows=2048")
    own = dict(case.axes)
    monkeypatch.setattr(room, "truth_s", lambda _, at: math.inf if dict(at.axes) == own else 0.0)
    room.note(problem, case, smaller)
    assert "truth takes more operations than are counted; a larger" in room.conditions[1]


def test_cases_without_room_are_made_smaller_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _attention(tmp_path)
    usual = trial_of(problem).cases("numeric")
    assert {case.axes["rows"] for case in usual} == {64, 256}
    trial = _planned(problem, 0.02, monkeypatch)
    numeric = trial.cases("numeric")
    assert len(numeric) == len(usual)
    assert max(case.axes["rows"] for case in numeric) == 128
    assert all(trial.has_room(case) for case in numeric)
    assert plan_conditions(trial) == ()  # ours to choose
    tight = _planned(problem, 0.0005, monkeypatch)
    (benchmark,) = tight.cases("benchmark")
    assert benchmark.axes["rows"] < 64
    assert tight.inputs(benchmark)["x"].shape == (benchmark.axes["rows"], benchmark.axes["cols"])  # type: ignore[union-attr]
    (said,) = plan_conditions(tight)
    assert said.startswith(f"memory: judged at rows={benchmark.axes['rows']}, cols=")
    assert "--gpu-memory" not in said  # of no use on a CPU
    monkeypatch.setattr(tight.memory.room, "_device", CUDA)
    tight.memory.room.note(problem, benchmark, benchmark)
    assert "--gpu-memory 2GiB" in plan_conditions(tight)[1]


def test_a_problem_that_never_fits_is_judged_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = _planned(_attention(tmp_path), 1e-9, monkeypatch)
    assert [case.axes["rows"] for case in trial.cases("small")] == [1]  # as small as can be
    assert len(trial.cases("numeric")) == 1
    assert trial.cases("growth") == ()
    assert trial.cases("arguments") == ()
    assert any("judge it alone" in said for said in plan_conditions(trial))


def test_pairs_stay_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = _planned(rotary(tmp_path), 0.0001, monkeypatch)
    pairs = trial.cases("arguments")
    assert pairs
    for base, moved in zip(pairs[::2], pairs[1::2], strict=True):
        assert base.axes == moved.axes
        assert base.seed == moved.seed


def test_truth_lets_go_of_others_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = _planned(_attention(tmp_path), 8.0, monkeypatch)
    first, second = trial.cases("small")[:2]
    trial.truth(first)
    trial.truth(second)
    assert len(trial.truths.cache) == 2
    other = trial.cases("numeric")[0]
    need = trial.memory.room.need(trial.problem, other).judge
    monkeypatch.setattr(trial.memory.room, "limit_gib", (need + 1) / GIB)
    trial.truths.make_room(other)
    assert len(trial.truths.cache) == 2  # next to nothing beside what the case takes
    monkeypatch.setattr(judge_truths, "_ALWAYS_KEPT", 1 << 40)
    trial.truth(other)
    assert len(trial.truths.cache) == 1


def test_the_benchmarks_rule_and_the_search_keep_to_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _attention(tmp_path)
    trial = _planned(problem, 8.0, monkeypatch)
    assert [w.axes["rows"] for w in benchmark_rule.affordable(trial)] == [256, 64]
    trial = _planned(problem, 0.001, monkeypatch)
    assert [w.axes["rows"] for w in benchmark_rule.affordable(trial)] == [64]
    asked: list[Case] = []

    async def ask(case: Case) -> Answer:
        asked.append(case)
        return Answer(share=0.5, failed=False)

    effort = SearchEffort(seconds=60.0, rounds=1, explore=20, climb=1, elements=1 << 15)
    trial = dataclasses.replace(trial, profile=Profile.STANDARD)
    run_now(search(trial, ask, effort=effort))
    assert all(trial.has_room(case) for case in asked)


def test_an_axis_of_one_is_tried_where_two_have_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _attention(tmp_path)
    room = trial_of(problem).memory.room
    one, two = (
        room.need(problem, own_case(problem, {"rows": n, "cols": n}, seed=1, label="")).total
        for n in (1, 2)
    )
    assert one < two
    trial = _planned(problem, (one + two) / 2 / GIB, monkeypatch)
    assert all(1 in case.axes.values() for case in trial.cases("small"))
    assert plan_conditions(trial) == ()


def test_a_reference_that_meets_the_cap_while_sizes_are_learnt_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, failures = _attention(tmp_path), [torch.OutOfMemoryError("full")]
    reference = load_reference(problem)

    def call(x: torch.Tensor) -> torch.Tensor:
        if failures:
            raise failures.pop()
        return reference.call(x)  # type: ignore[return-value]

    relieved: list[Case] = []

    def relieve(case: Case) -> bool:
        relieved.append(case)
        return True

    acceptor = Acceptor(
        problem,
        dataclasses.replace(reference, call=call),
        device=CPU,
        relieve=relieve,
    )
    case = own_case(problem, {"rows": 5, "cols": 3}, seed=1, label="")
    assert acceptor.settle(case) is not None
    assert relieved == [case]
    failures.append(torch.OutOfMemoryError("really full"))
    other = own_case(problem, {"rows": 7, "cols": 3}, seed=1, label="")
    acceptor._relieve = lambda case: False
    assert acceptor.settle(other) is None
    # A workload is no size of ours: what has room of it is found out where memory is planned.
    failures.append(torch.OutOfMemoryError("really full"))
    sizes = resolve(problem.axes, problem.workloads[0].axes)
    listed = own_case(problem, sizes, seed=1, label="")
    assert acceptor.settle(listed) == listed


_LINEAR = """def run(x, weight):
    return x @ weight
"""


def test_work_counts_elements_and_multiply_adds() -> None:
    x, weight = torch.empty(6, 40), torch.empty(40, 9)
    made = 6 * 9
    assert live_bytes(lambda a, b: (a @ b).relu(), [x, weight]).work == (
        x.numel() + weight.numel() + made + 6 * 40 * 9 + 2 * made
    )


@pytest.mark.parametrize(("width", "rows"), [(64, 32), (4096, 4)])
def test_work_bounds_the_cases_that_constant_axes_make_large(
    tmp_path: Path, width: int, rows: int
) -> None:
    problem = foreign(
        tmp_path,
        _LINEAR,
        axes=("rows",),
        inputs={"x": (("rows", "2048"), "float32"), "weight": (("2048", str(width)), "float32")},
        output=("rows", str(width)),
        sizes=({"rows": 4096},),
    )
    trial = trial_of(problem)
    assert {case.axes["rows"] for case in trial.cases("numeric")} == {rows}
    few, *_ = trial.cases("small")
    assert (few.axes["rows"] == 13) == (width == 64)
    assert few.axes["rows"] > 2  # it can still be halved


_CONVOLUTION = """import torch

def run(x, weight):
    return torch.nn.functional.conv2d(x, weight, padding=2)
"""


def test_small_tensors_of_many_channels_are_no_small_work(tmp_path: Path) -> None:
    """A kernel that a CPU executes makes 1e7 products a second, and a trial hundreds of calls."""
    problem = foreign(
        tmp_path,
        _CONVOLUTION,
        axes=("batch", "size"),
        inputs={
            "x": (("batch", "32", "size", "size"), "float32"),
            "weight": (("64", "32", "5", "5"), "float32"),
        },
        output=("batch", "64", "size", "size"),
        sizes=({"batch": 16, "size": 64},),
    )
    trial = trial_of(problem)
    machine = budget_for(Profile.QUICK, device=CPU).work.machine
    assert machine is not None
    for purpose, share in {"small": 8, "arguments": 8, "numeric": 1, "shapes": 1}.items():
        cases = [case for case in trial.cases(purpose) if not case.benchmark]
        assert cases
        work = [trial.memory.room.work(problem, case.axes) for case in cases]
        assert max(work) <= machine / share, purpose
    small, *_ = trial.cases("small")
    assert trial.memory.room.is_affordable(
        problem, {**small.axes, "size": 16}
    )  # 2^18 elements and less
    assert not trial.memory.room.is_affordable(problem, {**small.axes, "size": 16}, share=1 / 8)


def test_the_benchmarks_rule_is_not_tried_where_a_cpu_takes_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of(_attention(tmp_path))

    def run(scenario: Scenario) -> Run:
        raise AssertionError(scenario.label)

    monkeypatch.setattr(benchmark_rule, "_WORK", 1)
    rule = benchmark_rule.evaluate(trial, run)
    assert rule is not None
    assert rule.accepted is None
    assert "elements and products, too many for a CPU" in rule.note


def test_every_purpose_keeps_to_the_limit_of_work_and_workloads_may_take_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _attention(tmp_path)
    limit = _limit(machine=2**17)
    quick = dataclasses.replace(budget_for(Profile.QUICK, device=CPU), work=limit)
    monkeypatch.setattr("cuassay.judge.memory.budget_for", lambda profile, device: quick)
    monkeypatch.setattr("cuassay.contract.memory.Room.is_small", lambda *_: False)
    trial = trial_of(problem)
    work = {
        purpose: [trial.memory.room.work(problem, case.axes) for case in trial.cases(purpose)]
        for purpose in ("small", "numeric", "arguments", "benchmark")
    }
    assert all(found for found in work.values())
    for purpose, found in work.items():
        assert purpose == "benchmark" or max(found) <= 2**17, purpose
    assert [case.axes["rows"] for case in trial.cases("benchmark")] == [64]  # as it is
    assert plan_conditions(trial) == ()


def test_a_loop_over_values_is_counted_with_data(tmp_path: Path) -> None:
    problem = foreign(
        tmp_path,
        "import torch\n\ndef run(x):\n"
        "    for row in range(int((x[:, 0] == x[:, 0]).sum())):\n        x = x + 1\n"
        "    return x\n",
        axes=("rows", "cols"),
        inputs={"x": (("rows", "cols"), "float32")},
        output=("rows", "cols"),
        sizes=({"rows": 64, "cols": 16},),
    )
    trial = trial_of(problem)
    room, small = trial.memory.room, trial.cases("small")[0]
    trial.planned.learn_costs(small)
    wide = dataclasses.replace(small, axes={**small.axes, "cols": 4096})
    long = dataclasses.replace(small, axes={**small.axes, "rows": 1024})
    assert room.run_s(problem, wide) < 0.1 < 0.2 < room.run_s(problem, long)


@pytest.mark.parametrize("filled", [0, 256])
def test_a_workload_with_an_empty_axis_says_what_others_cost_at_most(
    tmp_path: Path, filled: int
) -> None:
    problem = foreign(
        tmp_path,
        "import torch\n"
        "def make(axes, device):\n"
        "    positions = torch.arange(axes['rows'], device=device) + axes['cached']\n"
        "    return {'x': torch.randn(axes['rows'], device=device) + positions}\n"
        "def run(x):\n    return x * 2\n",
        axes=("cached", "rows"),
        inputs={"x": (("rows",), "float32")},
        output=("rows",),
        sizes=({"cached": 0, "rows": 1 << 20}, {"cached": filled, "rows": 1 << 21}),
        generator="make",
    )
    room = trial_of(problem).memory.room
    room.learn_from_workload(problem)
    case = Case(label="", axes={"cached": 512, "rows": 1 << 21}, seed=0)
    assert 0.0 < room.run_s(problem, case) < (0.1 if filled else 60.0)


_LOOPED_INPUTS = """import torch

def get_inputs(axes_and_scalars, device):
    x = torch.randn(axes_and_scalars["rows"], 3, device=device)
    for row in range(x.shape[0]):
        x[row] *= 2
    return {"x": x}

def run(x):
    return x * int(x.sum().isfinite())
"""


def test_a_size_is_not_affordable_where_the_generator_has_no_end(tmp_path: Path) -> None:
    problem = foreign(
        tmp_path,
        _LOOPED_INPUTS,
        axes=("rows",),
        inputs={"x": (("rows", "3"), "float32")},
        output=("rows", "3"),
        sizes=({"rows": 4}, {"rows": 16}),
        generator="get_inputs",
    )
    trial = trial_of(problem)
    trial.planned.learn_costs(smallest_case(trial))
    few, many = (own_case(problem, {"rows": n}, seed=1, label="") for n in (64, 1 << 20))
    assert math.isfinite(trial.memory.room.run_s(problem, few))
    assert trial.memory.room.run_s(problem, many) == math.inf


_SCAN = """import torch

def run(x):
    state = torch.zeros_like(x[0])
    found = []
    for step in x:
        state = state * 0.5 + step
        found.append(state)
    return torch.stack(found)
"""


def test_a_long_loop_is_followed_at_a_few_sizes_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = foreign(
        tmp_path,
        _SCAN,
        axes=("steps", "width"),
        inputs={"x": (("steps", "width"), "float32")},
        output=("steps", "width"),
        sizes=({"steps": 64, "width": 64}, {"steps": 2048, "width": 64}),
    )
    room = trial_of(problem).memory.room
    followed: list[int] = []

    def follow(fn: Any, given: Any, **options: Any) -> Any:
        followed.append(given[0].shape[0])
        return live_bytes(fn, given, **options)

    monkeypatch.setattr(memory, "live_bytes", follow)
    for steps in (64, 1024, 2048, 3000, 2500):
        room.work(problem, {"steps": steps, "width": 64})
    assert followed == [64, 1024, 2048, 3000, 2500]
    known = room.need(problem, own_case(problem, {"steps": 2048, "width": 64}, seed=1, label=""))
    double = room.need(problem, own_case(problem, {"steps": 4096, "width": 64}, seed=1, label=""))
    assert len(followed) == 5
    assert double.judge == pytest.approx(2 * known.judge, rel=0.1)
    assert double.worker == pytest.approx(2 * known.worker, rel=0.1)
    once, twice = (room.work(problem, {"steps": n, "width": 64}) for n in (2048, 4096))
    assert twice == pytest.approx(2 * once, rel=0.1)


_EXPERTS = """import torch

def get_inputs(sizes, device):
    rows, experts = sizes["rows"], sizes["experts"]
    ends = torch.full((experts,), rows // experts, dtype=torch.int32).cumsum(0).int()
    x = torch.randn(rows, 64, device=device)
    with open({log!r}, "a") as log:
        log.write(x.device.type + " ")
    return {{"x": x, "ends": ends.to(device)}}

def run(x, ends):
    found, start = torch.zeros_like(x), 0
    for end in ends:
        found[start:int(end.item())] = x[start:int(end.item())].softmax(-1)
        start = int(end.item())
    return found
"""


def _experts(folder: Path, log: Path) -> Problem:
    return foreign(
        folder,
        _EXPERTS.format(log=str(log)),
        axes=("rows", "experts"),
        inputs={"x": (("rows", "64"), "float32"), "ends": (("experts",), "int32")},
        output=("rows", "64"),
        sizes=({"rows": 64, "experts": 4}, {"rows": 1 << 20, "experts": 128}),
        generator="get_inputs",
    )


def test_a_loop_over_ends_that_sizes_decide_is_counted_and_nothing_is_drawn(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    problem = _experts(tmp_path, log)
    trial = trial_of(problem)
    room, small = trial.memory.room, trial.cases("small")[0]
    trial.planned.learn_costs(small)
    log.write_text("")
    many = own_case(problem, {"rows": 1 << 20, "experts": 128}, seed=1, label="")
    seconds = room.run_s(problem, many)
    assert set(log.read_text().split()) <= {"meta"}
    pace = budget_for(Profile.QUICK, device=CPU).work.pace
    assert seconds > 128 * 4 * pace.operation_s + (1 << 26) * pace.element_s


def test_inputs_that_a_cpu_draws_for_a_module_are_made_small(tmp_path: Path) -> None:
    """Three hundred million weights took a CPU twelve seconds, before a kernel ran on a GPU."""
    problem = _experts(tmp_path, tmp_path / "log")
    work = budget_for(Profile.QUICK, device=CUDA).work
    room = Room(load_reference(problem), device=CUDA, limit_gib=8.0, work_limit=work)
    many = own_case(problem, {"rows": 1 << 20, "experts": 128}, seed=1, label="")
    assert room.holds_inputs(problem, many)
    module = dataclasses.replace(problem, built=("rows",))
    assert not room.holds_inputs(module, many)
    smaller = room.smaller(module, many, settle=lambda case: case)
    assert smaller is not None
    assert room.holds_inputs(module, smaller)


def test_sizes_at_which_a_case_draws_the_ends_itself_are_tried_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = _experts(tmp_path, tmp_path / "log")
    acceptor = Acceptor(problem, load_reference(problem), device=CPU)
    real_runs: list[bool] = []
    ran = Acceptor._ran

    def noted(self: Acceptor, case: Case, *, real: bool, **given: Any) -> Any:
        real_runs.append(real)
        return ran(self, case, real=real, **given)

    monkeypatch.setattr(Acceptor, "_ran", noted)
    axes = {"rows": 1 << 14, "experts": 16}
    ends = problem.input("ends")
    assert isinstance(ends, TensorSpec)
    fills = {"x": Fill(kind="normal"), "ends": default_fill(ends)}
    assert acceptor.settle(Case(label="", axes=axes, fills=fills, seed=3)) is not None
    assert real_runs == [False]
