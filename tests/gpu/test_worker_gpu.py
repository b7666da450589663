"""Workers on CUDA: inter-process handles, poison, refill, sticky errors, spare workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
import torch
from tests.support.workers import LIMITS, items, nursery, pool, problem, read, scenario, tensor_spec

from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.device import CUDA
from cuassay.model.problem import Scalar
from cuassay.model.scenario import (
    Allocate,
    Call,
    HashResult,
    Poison,
    PoisonFreed,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
    Step,
)
from cuassay.model.steps import StreamCall
from cuassay.model.trace import Finished, Killed, StepDone, StepRaised
from cuassay.sandbox.device_memory import Arena
from cuassay.sandbox.host.client import WorkerPool
from cuassay.sandbox.host.nursery import Nursery

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
BFLOAT16 = problem((tensor_spec("x", "bfloat16", "n"),), (tensor_spec("y", "bfloat16", "n"),))


@pytest.fixture(scope="module")
def gpu() -> Iterator[Nursery]:
    with nursery(CUDA) as opened:
        yield opened


def ramp(case: Case) -> Mapping[str, torch.Tensor | Scalar]:
    return {"x": torch.arange(case.axes["n"], device="cuda").float() + case.seed}


def half(case: Case) -> Mapping[str, torch.Tensor | Scalar]:
    return {"x": torch.randn(case.axes["n"], device="cuda").bfloat16()}


def workers(source: str, keep: Path, gpu: Nursery) -> WorkerPool:
    return pool(source, keep, gpu, limits=LIMITS)


def test_identity_through_device_memory(gpu: Nursery, tmp_path: Path) -> None:
    with workers("def run(x): return x", tmp_path, gpu) as p:
        run = p.run(scenario(sizes=(1_000_000,)), ramp)
        how = p.sandbox["device memory shared"]
    assert run.result.termination == Finished()
    (item,) = items(run.result, 2)
    assert (item.device, item.aliases) == ("cuda:0", ("x",))
    assert torch.equal(run.tensor(item), torch.arange(1_000_000, device="cuda").float())
    assert how == "yes"


def test_identity_through_bytes(gpu: Nursery, tmp_path: Path) -> None:
    with workers("def run(x): return x[1:]", tmp_path, gpu) as p:
        p._segments.use_bytes("asked for by the test")
        run = p.run(scenario(sizes=(1001,)), ramp)
    assert torch.equal(read(run, 2), torch.arange(1001, device="cuda").float()[1:])


def test_a_refused_handle_falls_back_to_bytes(
    gpu: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = Arena.describe
    monkeypatch.setattr(Arena, "describe", lambda self: true(self) | {"handle": "ff" * 64})
    with workers("def run(x): return x", tmp_path, gpu) as p:
        run = p.run(scenario(), ramp)
        how = p.sandbox["device memory shared"]
    assert torch.equal(read(run, 2), torch.arange(100, device="cuda").float())
    assert how.startswith("no: cuIpcOpenMemHandle")


def test_destinations_and_answers(gpu: Nursery, tmp_path: Path) -> None:
    steps: list[Step] = [
        Allocate(slot="s", case=0),
        Call(slot="s", result="a"),
        Call(slot="s", result="b", poison=Poison.RIGHT),
        ReadResult(result="a"),
        ReadResult(result="b"),
    ]
    source = "def run(x, y): pass"
    with pool(source, tmp_path, gpu, convention=Convention.DESTINATION) as p:
        run = p.run(scenario(steps), ramp, lambda case: [torch.full((100,), 3.0, device="cuda")])
    assert read(run, 3).isnan().all()
    assert (read(run, 4) == 3.0).all()


@pytest.mark.parametrize("size", [10, 5000, 20_000_000])
def test_fresh_memory_is_poisoned(gpu: Nursery, tmp_path: Path, size: int) -> None:
    with workers("def run(x): return torch.empty_like(x)", tmp_path, gpu) as p:
        run = p.run(scenario(sizes=(size,)), ramp)
    assert read(run, 2).isnan().all()


def test_refill_recycling_inputs_and_hashes(gpu: Nursery, tmp_path: Path) -> None:
    steps: list[Step] = [
        Allocate(slot="s", case=0),
        Refill(slot="s", case=1),
        Call(slot="s", result="r"),
        ReadInputs(slot="s"),
        HashResult(result="r"),
        HashResult(result="r"),
        Release(name="r"),
        Release(name="s"),
        PoisonFreed(),
        Allocate(slot="s", case=0),
    ]
    with pool("def run(x): return (x * 2)[1:]", tmp_path, gpu, over=BFLOAT16) as p:
        run = p.run(scenario(steps, sizes=(1001, 1001)), half)
    assert run.result.termination == Finished()
    assert all(isinstance(record, StepDone) for record in run.result.records)
    assert items(run.result, 3)[0].shape == (2002,)
    first, second = (cast(StepDone, run.result.records[i]).digest for i in (4, 5))
    assert first == second != ""
    assert items(run.result, 9)[0].scalar == 1.0


def test_a_sticky_error_ends_the_worker_and_the_next_one_works(
    gpu: Nursery, tmp_path: Path
) -> None:
    source = """
        def run(x):
            if len(x) == 7:
                return x[torch.tensor([10**6], device="cuda")]
            return x
    """
    with workers(source, tmp_path, gpu) as p:
        bad = p.run(scenario(sizes=(7,)), ramp).result
        good = p.run(scenario(), ramp)
    assert isinstance(bad.records[1], StepRaised)
    assert cast(StepRaised, bad.records[2]).exception == "ContextLost"
    assert torch.equal(read(good, 2), torch.arange(100, device="cuda").float())


def test_a_crash_on_the_device_side_is_contained(gpu: Nursery, tmp_path: Path) -> None:
    with workers("def run(x): ctypes.string_at(0)", tmp_path, gpu) as p:
        for _ in range(2):
            assert p.run(scenario(), ramp).result.termination == Killed(index=1, signal=11)


def test_closing_gives_device_memory_back(gpu: Nursery, tmp_path: Path) -> None:
    def once() -> int:
        with workers("def run(x): return x.repeat(4)", tmp_path, gpu) as p:
            p.run(scenario(sizes=(10_000_000,)), ramp)
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]

    first, second = once(), once()
    assert second >= first - (8 << 20)


# Two kernels of 100 ms on each of two streams: 200 ms, and 300 ms where both share one queue, in
# which the first stream's second kernel keeps the other stream's waiting.
OVERLAP = """
    import os, time
    first, second = (getattr(torch.cuda, "{kind}")() for _ in range(2))

    def run(x):
        torch.cuda._sleep(1000)
        torch.cuda.synchronize()
        began = time.monotonic()
        for stream in (first, second):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(150_000_000)
                torch.cuda._sleep(150_000_000)
        torch.cuda.synchronize()
        both = time.monotonic() - began
        began = time.monotonic()
        with torch.cuda.stream(first):
            torch.cuda._sleep(150_000_000)
        torch.cuda.synchronize()
        alone = time.monotonic() - began
        told = "CUDA_DEVICE_MAX_CONNECTIONS" in os.environ
        return torch.tensor([both / alone, float(told)], device=x.device).repeat(len(x) // 2)
"""


def test_streams_have_queues_of_their_own_where_they_are_made_or_meet(
    gpu: Nursery, tmp_path: Path
) -> None:
    hidden, plain = OVERLAP.replace("{kind}", 'S" + "tream'), OVERLAP.replace("{kind}", "Stream")
    plain += "    # torch.cuda.Stream\n"
    asked = (
        Allocate(slot="a", case=0),
        StreamCall(slot="a", result="r", delay_ms=0.0, default_delay_ms=0.0),
        ReadResult(result="r"),
    )
    with workers(hidden, tmp_path, gpu) as p:
        shared = p.run(scenario(), ramp)
        met = p.run(scenario(asked), ramp)
    with workers(plain, tmp_path, gpu) as p:
        made = p.run(scenario(), ramp)
    ratio = [float(read(run, 2)[0]) for run in (shared, met, made)]
    assert ratio[0] > 2.6
    assert ratio[1] < 2.4
    assert ratio[2] < 2.4
    assert all(float(read(run, 2)[1]) == 0.0 for run in (shared, met, made))


def test_a_process_that_begins_with_a_scenario_serves_plain_calls_and_streams(
    gpu: Nursery, tmp_path: Path
) -> None:
    text = OVERLAP.replace("{kind}", 'S" + "tream')
    asked = (
        Allocate(slot="a", case=0),
        StreamCall(slot="a", result="r", delay_ms=0.0, default_delay_ms=0.0),
        ReadResult(result="r"),
    )
    with pool(text, tmp_path, gpu, limits=LIMITS, spares=0, lazy=True) as p:
        runs = [p.run(one, ramp) for one in (scenario(), scenario(asked), scenario())]
        assert p.started == 1
    assert all(float(read(run, 2)[0]) < 2.4 for run in runs)
