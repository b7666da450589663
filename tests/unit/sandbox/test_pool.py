"""Candidates that behave, in worker processes: values, placement, builds, reuse."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import torch

from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.device import CUDA
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import Scalar, ScalarSpec
from cuassay.model.scenario import (
    Allocate,
    Call,
    Poison,
    PoisonFreed,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
    Step,
)
from cuassay.model.steps import Disarm, Mode
from cuassay.model.trace import BuildFailed, Finished, StepRaised, ToolMissing
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.parts import Parts
from cuassay.sandbox.host.waits import run_now
from tests.support.workers import items, pool, problem, ramp, read, scenario, tensor_spec
from tests.support.workers import nursery as opened_nursery


@pytest.fixture(scope="module")
def cpu(nursery: Nursery) -> Nursery:
    return nursery


DTYPES = [dtype for dtype in DType if dtype is not DType.FLOAT4_E2M1FN_X2]


def test_values_of_every_dtype_and_shape_come_back(cpu: Nursery, tmp_path: Path) -> None:
    inputs: dict[str, torch.Tensor | Scalar] = {}
    for dtype in DTYPES:
        for shape in ((), (0,), (3, 5)):
            size = int(torch.tensor(shape).prod()) * dtype.itemsize
            content = torch.randint(0, 2 if dtype is DType.BOOL else 256, (size,)).byte()
            target = getattr(torch, dtype.value)
            value = content.view(target).reshape(shape) if size else torch.empty(shape).to(target)
            inputs[f"{dtype.value}_{len(shape)}_{value.numel()}"] = value
    specs = [tensor_spec(name, "float32") for name in inputs]
    with pool("def run(*x): return x", tmp_path, cpu, over=problem(specs, specs)) as workers:
        run = workers.run(scenario(), lambda case: inputs)
    assert run.result.termination == Finished()
    for position, (name, sent) in enumerate(inputs.items()):
        value = cast(torch.Tensor, sent)
        back = read(run, 2, position)
        assert (back.dtype, back.shape) == (value.dtype, value.shape), name
        assert back.contiguous().reshape(-1).view(torch.uint8).tolist() == (
            value.reshape(-1).view(torch.uint8).tolist()
        ), name


def test_the_time_of_a_scenario_is_told_by_its_parts(cpu: Nursery, tmp_path: Path) -> None:
    specs = [tensor_spec("x", "float32")]
    parts = Parts()
    with pool("def run(x): return x", tmp_path, cpu, over=problem(specs, specs)) as workers:
        ones = workers.execute(scenario(), lambda case: {"x": torch.ones(64)}, parts=parts)
        run = run_now(ones)
    assert run.result.termination == Finished()
    assert [*parts.seconds] == [
        "start", "values", "to worker", "Allocate", "Call", "ReadResult", "from worker",
    ]  # fmt: skip
    assert all(seconds > 0 for seconds in parts.seconds.values())


def test_a_pool_says_whether_its_first_worker_still_starts(cpu: Nursery, tmp_path: Path) -> None:
    specs = [tensor_spec("x", "float32")]
    with pool("def run(x): return x", tmp_path, cpu, over=problem(specs, specs)) as workers:
        end = time.monotonic() + 60.0
        while workers.is_starting and time.monotonic() < end:
            time.sleep(0.01)
        assert not workers.is_starting
        run = workers.run(scenario(), lambda case: {"x": torch.ones(64)})
        assert run.result.termination == Finished()
        assert not workers.is_starting


def test_scalars_keep_type_and_value(cpu: Nursery, tmp_path: Path) -> None:
    inputs: Mapping[str, torch.Tensor | Scalar] = {"a": 3, "b": 0.1, "c": True, "d": float("inf")}
    specs = [ScalarSpec(name=name, dtype=DType.FLOAT32, domain=Real()) for name in inputs]
    source = (
        "def run(*x): return [type(v) is t for v, t in zip(x, (int, float, bool, float))] + [*x]"
    )
    with pool(source, tmp_path, cpu, over=problem(specs, ())) as workers:
        run = workers.run(scenario(), lambda case: inputs)
    values = [item.scalar for item in items(run.result, 1)]
    assert values == [1.0, 1.0, 1.0, 1.0, 3.0, 0.1, 1.0, float("inf")]


def test_destination_passing(cpu: Nursery, tmp_path: Path) -> None:
    source = "def run(x, y): y[: len(y) // 2] = x[: len(y) // 2] * 2"
    with pool(source, tmp_path, cpu, convention=Convention.DESTINATION) as workers:
        run = workers.run(scenario(), ramp)
    got = read(run, 2)
    assert torch.equal(got[:50], torch.arange(50.0) * 2)
    assert got[50:].isnan().all()


def test_answers_reach_the_outputs_as_poison(cpu: Nursery, tmp_path: Path) -> None:
    steps: list[Step] = [
        Allocate(slot="s", case=0),
        Call(slot="s", result="r", poison=Poison.NEGATED),
        ReadResult(result="r"),
    ]
    with pool("def run(x, y): pass", tmp_path, cpu, convention=Convention.DESTINATION) as workers:
        run = workers.run(scenario(steps), ramp, lambda case: [torch.full((100,), 3.0)])
    assert torch.equal(read(run, 2), torch.full((100,), -3.0))


def test_outputs_are_held_across_calls(cpu: Nursery, tmp_path: Path) -> None:
    """A kernel that returns the same static buffer shows the second call's values twice."""
    source = """
        buffer = torch.zeros(100)
        def run(x):
            return buffer.copy_(x)
    """
    steps: list[Step] = [
        Allocate(slot="a", case=0),
        Allocate(slot="b", case=1),
        Call(slot="a", result="first"),
        Call(slot="b", result="second"),
        ReadResult(result="first"),
    ]
    with pool(source, tmp_path, cpu) as workers:
        run = workers.run(scenario(steps, sizes=(100, 100)), ramp)
    assert torch.equal(read(run, 4), torch.arange(100.0) + 1)


def test_refill_alias_and_mutation(cpu: Nursery, tmp_path: Path) -> None:
    source = """
        def run(x):
            x[0] = 42.0
            return x[1:]
    """
    steps: list[Step] = [
        Allocate(slot="s", case=0),
        Refill(slot="s", case=1),
        Call(slot="s", result="r"),
        ReadResult(result="r"),
        ReadInputs(slot="s"),
    ]
    with pool(source, tmp_path, cpu) as workers:
        run = workers.run(scenario(steps, sizes=(8, 8)), ramp)
    (item,) = items(run.result, 3)
    assert (item.aliases, item.shape) == (("x",), (7,))
    assert torch.equal(run.tensor(item), torch.arange(7.0) + 2)
    assert read(run, 4).view(torch.float32)[0] == 42.0


@pytest.mark.parametrize("size", [3000, 3_000_000])
def test_addresses_are_recycled_and_hold_poison(cpu: Nursery, tmp_path: Path, size: int) -> None:
    steps: list[Step] = [
        Allocate(slot="s", case=0),
        Release(name="s"),
        PoisonFreed(),
        Allocate(slot="s", case=0),
    ]
    with pool("def run(x): return x", tmp_path, cpu) as workers:
        run = workers.run(scenario(steps, sizes=(size,)), ramp)
    assert [item.scalar for item in items(run.result, 2)] == [1.0, 1.0]
    assert items(run.result, 3)[0].scalar == 1.0


@pytest.mark.parametrize("size", [1, 5, 100, 3000])
def test_memory_of_every_size_is_poisoned(cpu: Nursery, tmp_path: Path, size: int) -> None:
    with pool("def run(x): return torch.empty_like(x)", tmp_path, cpu) as workers:
        run = workers.run(scenario(sizes=(size,)), ramp)
    assert read(run, 2).isnan().all()


def test_a_worker_is_reused_unless_a_scenario_wants_it_fresh(cpu: Nursery, tmp_path: Path) -> None:
    with pool("def run(x): return x * 0 + os.getpid()", tmp_path, cpu) as workers:
        pids = [
            read(workers.run(scenario(), ramp, fresh=fresh), 2)[0].item()
            for fresh in (False, False, True, False)
        ]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_a_pool_that_let_go_begins_anew(cpu: Nursery, tmp_path: Path) -> None:
    specs = [tensor_spec("x", "float32")]
    with pool("def run(x): return x + 1", tmp_path, cpu, over=problem(specs, specs)) as workers:
        before = workers.run(scenario(), lambda case: {"x": torch.ones(64)})
        started = workers.started
        workers.let_go()
        after = workers.run(scenario(), lambda case: {"x": torch.ones(64)})
        assert torch.equal(read(before, 2), read(after, 2))
        assert workers.started > started


def test_fresh_workers_do_not_share_random_numbers(cpu: Nursery, tmp_path: Path) -> None:
    with pool("def run(x): return torch.rand(100)", tmp_path, cpu) as workers:
        first, second = (read(workers.run(scenario(), ramp, fresh=True), 2) for _ in range(2))
    assert not torch.equal(first, second)


def test_a_second_pool_finds_the_build_of_the_first(cpu: Nursery, tmp_path: Path) -> None:
    cached = []
    for _ in range(2):
        with pool("def run(x): return x", tmp_path, cpu) as workers:
            cached.append(workers.run(scenario(), ramp).result.build_cached)
    assert cached == [False, True]


def test_a_build_that_fails_is_told_and_not_repeated(cpu: Nursery, tmp_path: Path) -> None:
    with pool("def other(x): return x", tmp_path, cpu) as workers:
        first, second = (workers.run(scenario(), ramp).result for _ in range(2))
    assert isinstance(first.termination, BuildFailed)
    assert first.termination.what == "no function 'run'"
    assert first.termination == second.termination


def test_a_missing_tool_is_no_failure_of_the_candidate(cpu: Nursery, tmp_path: Path) -> None:
    with pool("# NEEDS_TOOL\ndef run(x): return x", tmp_path, cpu) as workers:
        end = workers.run(scenario(), ramp).result.termination
    assert end == ToolMissing(what="nvcc is not installed")


def test_no_memory_left_at_its_import_is_only_a_claim(cpu: Nursery, tmp_path: Path) -> None:
    with pool("raise torch.OutOfMemoryError('CUDA out of memory')", tmp_path, cpu) as workers:
        end = workers.run(scenario(), ramp).result.termination
    assert isinstance(end, BuildFailed)
    assert end.out_of_memory


def test_what_the_candidate_prints_is_kept(cpu: Nursery, tmp_path: Path) -> None:
    source = """
        def run(x):
            print("hello", flush=False)
            os.write(2, b"world")
            return x
    """
    with pool(source, tmp_path, cpu) as workers:
        text = workers.run(scenario(), ramp).result.output_text
        assert workers.run(scenario(steps=()), ramp).result.output_text == ""
    assert "hello" in text
    assert "world" in text


def test_the_judges_own_error_passes_and_the_pool_goes_on(cpu: Nursery, tmp_path: Path) -> None:
    def fail(case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        raise RuntimeError("no inputs")

    with pool("def run(x): return x", tmp_path, cpu) as workers:
        with pytest.raises(RuntimeError, match="no inputs"):
            workers.run(scenario(), fail)
        assert workers.run(scenario(), ramp).result.termination == Finished()


def test_results_of_an_absurd_size_are_refused_before_a_byte_is_fetched(
    cpu: Nursery, tmp_path: Path
) -> None:
    source = "def run(x): return torch.zeros(1).expand(1 << 40)"
    with pool(source, tmp_path, cpu) as workers:
        run = workers.run(scenario(), ramp)
    record = run.result.records[2]
    assert isinstance(record, StepRaised)
    assert record.exception == "OversizedResult"
    assert "4,398,046,511,104 bytes where its outputs have 400" in record.message


_COMPILER_IMPORTED = """
import sys
def run(x):
    return x * 0 + ("torch._" + "inductor.compile_fx" in sys.modules)
"""


_COMPILER_WRITES = """
import os, torch
from torch._inductor import codecache  # torch.compile

def run(x):
    for place in (codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR):
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, "one"), "w") as file: file.write("1")
    return x + 1
"""


def test_the_compiler_is_imported_before_workers_of_a_candidate_that_uses_it_are_forked(
    tmp_path: Path,
) -> None:
    """And what it writes lies where such a worker may write."""
    with opened_nursery() as own:
        for text, imported in (
            (_COMPILER_IMPORTED, 0.0),
            (f"# torch.compile{_COMPILER_IMPORTED}", 1.0),
        ):
            with pool(text, tmp_path, own) as workers:
                run = workers.run(scenario(), ramp)
            assert run.result.termination == Finished()
            assert set(read(run, 2, 0).tolist()) == {imported}
        with pool(_COMPILER_WRITES, tmp_path, own) as workers:
            run = workers.run(scenario(), ramp)
            assert run.result.termination == Finished()
            assert read(run, 2, 0).tolist()[:2] == [1.0, 2.0]


@pytest.mark.parametrize("sign", ["torch.library.custom_op", "TORCH_LIBRARY(mine, m)"])
def test_an_operator_of_its_own_is_traced_with_the_compiler(
    cpu: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    asked: list[Nursery] = []
    monkeypatch.setattr(Nursery, "load_compiler", lambda self: asked.append(self))
    with pool(f"# {sign}\ndef run(x): return x + 1", tmp_path, cpu) as workers:
        workers.run(scenario(), ramp)
    assert asked


@pytest.mark.parametrize(("module", "asks"), [("dynamo", True), ("refs", False)])
def test_a_compiler_that_a_package_of_the_candidate_imports_is_imported_once_for_all(
    cpu: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, module: str, asks: bool
) -> None:
    asked: list[Nursery] = []
    monkeypatch.setattr(Nursery, "load_compiler", lambda self: asked.append(self))
    text = f"__import__('torch._' + '{module}')\ndef run(x): return x + 1"
    with pool(text, tmp_path, cpu, spares=0) as workers:
        workers.run(scenario(), ramp)
    assert bool(asked) == (asks or cpu._compiler)  # what another test has it import is there


def test_a_process_of_another_mode_that_is_expected_is_the_one_that_runs(
    cpu: Nursery, tmp_path: Path
) -> None:
    before = set(cpu.folder.glob("w*"))

    def born() -> int:
        return len(set(cpu.folder.glob("w*")) - before)

    guarded = dataclasses.replace(scenario(), mode=Mode.GUARDED)
    (case,) = guarded.cases
    with pool("def run(x): return x + 1", tmp_path, cpu, spares=0) as workers:
        workers.expect(Mode.GUARDED)
        assert born() == 1  # none before the first build has ended: compilers share their sources
        workers.run(scenario(), ramp)
        workers.expect(Mode.PLAIN)
        assert born() == 1
        workers.expect(Mode.GUARDED)
        workers.expect(Mode.GUARDED)
        assert born() == 2
        run = workers.run(guarded, ramp)
        assert run.result.termination == Finished()
        assert torch.equal(read(run, 2, 0), cast(torch.Tensor, ramp(case)["x"]) + 1)
        assert born() == 2


def test_what_a_scenario_will_run_in_is_made_ready_before_it(cpu: Nursery, tmp_path: Path) -> None:
    before = set(cpu.folder.glob("w*"))

    def born() -> int:
        return len(set(cpu.folder.glob("w*")) - before)

    fresh = dataclasses.replace(scenario(), fresh=True)
    with pool("def run(x): return x + 1", tmp_path, cpu, spares=1) as workers:
        run_now(workers.make_ready(fresh))
        assert workers.builds.done
        assert born() == 1
        assert workers.run(fresh, ramp).result.termination == Finished()
        assert born() == 2  # in the one that was made ready, beside a spare


def test_the_usual_process_starts_while_a_special_one_works(
    cpu: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU: two contexts at once would take each of them longer."""
    blocking = dataclasses.replace(scenario(), mode=Mode.BLOCKING)
    with pool("def run(x): return x + 1", tmp_path, cpu, lazy=True, spares=0) as workers:
        monkeypatch.setattr(workers, "_device", CUDA)
        run_now(workers.make_ready(blocking))
        assert workers.started == 1
        assert workers.run(blocking, ramp).result.termination == Finished()
        assert workers.started == 2
        assert workers.run(scenario(), ramp).result.termination == Finished()
        assert workers.run(blocking, ramp).result.termination == Finished()
    assert workers.started == 2


def test_kernels_are_on_again_in_the_next_scenario(cpu: Nursery, tmp_path: Path) -> None:
    text = """
        def run(x):
            from cuassay.build.recording.ledger import LEDGER
            return torch.full_like(x, LEDGER.disarmed)
    """
    steps = (Allocate(slot="s", case=0), Disarm(), Call(slot="s", result="r"))
    with pool(text, tmp_path, cpu) as workers:
        off = workers.run(scenario((*steps, ReadResult(result="r"))), ramp)
        on = workers.run(scenario(), ramp)
        assert workers.started == 2  # one in use and one kept ready
    assert read(off, 3).eq(1.0).all()
    assert read(on, 2).eq(0.0).all()
