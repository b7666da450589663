"""The judge's allocator is held to the plan, and a wrong plan is widened instead of failing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from cuassay.checks.endings.findings import inconclusive_reason
from cuassay.judge.decide.control import reference_candidate
from cuassay.judge.memory import Memory
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.memory import Cap, host_plan_gib
from cuassay.judge.truths import Truths
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.problem import Scalar
from cuassay.model.scenario import Allocate, Call, Poison, Scenario
from cuassay.model.verdict import Profile
from cuassay.oracle.truth.make import Truth, make_truth
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.host.waits import run_now
from tests.unit.contract.problems import rotary, trial_of


class _Gpu:
    """Stands for torch.cuda: 100 GiB, and what was asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shares: list[float] = []
        self.emptied, self.reserved, self.allocated, self.free = 0, 0, 0, 0
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (self.free, 100 << 30))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "empty_cache", self._empty)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: self.reserved)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: self.allocated)
        monkeypatch.setattr(
            torch.cuda,
            "set_per_process_memory_fraction",
            lambda share, index: self.shares.append(share),
        )

    def _empty(self) -> None:
        self.emptied += 1


def _fail_first(
    failures: list[torch.OutOfMemoryError],
    values: Mapping[str, torch.Tensor | Scalar],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let a trial's next truths raise `failures`, the last first, then be those of `values`."""

    def made(self: Truths, *asked: object) -> Truth:
        if failures:
            raise failures.pop()
        given, problem = list(values.values()), self._knowledge.problem
        return make_truth(self._reference.call, given, problem.outputs, seed=1, draws=2)

    monkeypatch.setattr(Truths, "_drawn", made)


def test_the_cap_follows_the_plan_and_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = _Gpu(monkeypatch)
    cap = Cap(CUDA, 20 << 30)
    cap.allow(25 << 30)
    cap.allow(1 << 30)  # less than there is
    assert cap.widen()
    cap.allow(90 << 30)
    assert cap.widen()
    assert not cap.active
    assert not cap.widen()
    Cap(Device("cuda:1"), None)
    assert gpu.shares == [0.2, 0.25, 0.3125, 0.9, 1.0, 1.0]
    assert not Cap(CPU, 1).active
    assert len(gpu.shares) == 6


def test_a_cap_gives_way_to_twice_the_plan_or_to_what_the_smallest_case_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = _Gpu(monkeypatch)
    cap = Cap(CUDA, 8 << 30)
    while cap.widen():
        assert gpu.shares[-1] <= 0.16
    assert gpu.shares[-1] == 0.16
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 40 << 30)
    with cap.lifted():
        assert not cap.active
    assert gpu.shares[-2:] == [1.0, 0.5]
    assert cap.widen()


def test_what_is_kept_beyond_the_plan_is_given_back_where_others_need_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = _Gpu(monkeypatch)
    cap = Cap(CUDA, 20 << 30)
    cap.give_back()  # as planned
    assert gpu.emptied == 0
    cap.allow(30 << 30)
    gpu.free = 40 << 30
    cap.give_back()
    assert gpu.emptied == 0
    gpu.free = 29 << 30
    cap.give_back()
    assert gpu.emptied == 1


def test_a_truth_that_meets_the_cap_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = _Gpu(monkeypatch)
    trial = trial_of(rotary(tmp_path))
    case = trial.cases("small")[0]
    values = trial.inputs(case)
    kept = trial.truth(dataclasses.replace(case, seed=case.seed + 1))
    failures = [torch.OutOfMemoryError("full"), torch.OutOfMemoryError("still full")]
    trial.memory.cap, trial.memory._on_gpu = Cap(CUDA, 80 << 30), True

    _fail_first(failures, values, monkeypatch)
    monkeypatch.setattr(Truths, "inputs", lambda self, case: values)
    assert gpu.emptied == 0
    assert trial.truth(case).draws == 2
    assert gpu.shares == [0.8, 1.0]  # once: what was kept went first
    assert kept.draws
    assert len(trial.truths.cache) == 1
    assert gpu.emptied  # what torch keeps beyond the plan is not kept from others
    failures.append(torch.OutOfMemoryError("really full"))
    trial.truths.cache.clear()
    trial.memory.cap.active = False
    with pytest.raises(torch.OutOfMemoryError):
        trial.truth(case)


def test_a_worker_gives_back_much_and_keeps_little(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = _Gpu(monkeypatch)
    gpu.reserved = 1 << 28
    placement.give_back_cuda_memory()
    assert gpu.emptied == 0
    gpu.reserved, gpu.allocated = 3 << 30, 1 << 30
    placement.give_back_cuda_memory()
    assert gpu.emptied == 1


def test_a_trial_on_the_cpu_plans_with_a_share_of_the_machine() -> None:
    quick, deep = host_plan_gib(Profile.QUICK), host_plan_gib(Profile.DEEP)
    assert 0.0 < quick <= 8.0
    assert deep >= 2 * quick


def test_where_cases_fill_a_gpu_idle_processes_end_before_a_truth_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Gpu(monkeypatch)
    trial = trial_of(rotary(tmp_path))
    first, second = trial.cases("numeric")[:2]
    values = trial.inputs(first)
    failures, ended, alive = [torch.OutOfMemoryError("full")], list[str](), [True]

    def end_others() -> bool:
        ended.append("asked")
        return bool(alive and alive.pop())

    _fail_first(failures, values, monkeypatch)
    trial.memory.cap.active = False
    trial.memory.end_idle_by(end_others)
    with pytest.raises(torch.OutOfMemoryError):  # an ordinary trial ends nothing for it
        trial.truth(first)
    assert not ended
    monkeypatch.setattr(Memory, "is_large", True)
    failures.append(torch.OutOfMemoryError("full"))
    assert trial.truth(first).draws == 2
    assert len(ended) == 1
    trial.truth(first)  # kept
    assert len(ended) == 1
    trial.truth(second)  # what was needed once is needed again
    assert len(ended) == 2
    failures.append(torch.OutOfMemoryError("full"))
    trial.truths.cache.clear()
    with pytest.raises(torch.OutOfMemoryError):  # nothing was left to end
        trial.truth(first)


def test_a_runner_ends_processes_that_are_idle_and_no_others(tmp_path: Path) -> None:
    trial = trial_of(rotary(tmp_path))
    runner = Executor(trial, reference_candidate(trial.problem), device=CPU, nursery=None)
    with runner:
        assert run_now(runner.pool.wait_built())
        cases = tuple(trial.cases("small")[:1])
        scenario = Scenario(
            label="one call",
            cases=cases,
            steps=(Allocate(slot="a", case=0), Call(slot="a", result="r", poison=Poison.NONE)),
        )
        runner(scenario)
        runner._at_work = True
        assert not runner.let_go()
        runner._at_work = False
        assert runner.let_go()
        assert not runner.let_go()
        assert not inconclusive_reason(runner(scenario))  # a new process
