"""PROC001: what a change means, what brought it about, and what is nobody's business."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
import torch

from cuassay.checks.state.process_kinds import StateKind, changes_of, kind_of
from cuassay.checks.state.process_state import Proc001, StateTrying
from cuassay.judge.decide.verdict import condition_key
from cuassay.model.conditions import CONDITIONS
from cuassay.model.device import CPU
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.reports import Holding, Holdings
from cuassay.model.scenario import Allocate, ReadResult, Scenario
from cuassay.model.steps import CallOften, ReadState
from cuassay.model.trace import (
    Finished,
    ResultItem,
    ScenarioResult,
    StepDone,
    StepRaised,
    StepRecord,
)
from cuassay.model.verdict import Profile
from cuassay.sandbox.guest.callers.timing import spans
from tests.support.fake_trial import FakeTrial, scaled_add

State = Mapping[str, str]
TF32 = {"flag torch.backends.cuda.matmul.allow_tf32": "False -> True"}
RECURSION = "process recursion limit"


class Reported:
    """A run whose reads of the process's state are given; `raises` names steps that raise."""

    def __init__(
        self, scenario: Scenario, states: Sequence[State], raises: Sequence[int] = ()
    ) -> None:
        left = iter(states)
        self._records: list[StepRecord] = []
        for index, step in enumerate(scenario.steps):
            facts = tuple(next(left, {}).items()) if isinstance(step, ReadState) else ()
            self._records.append(
                StepRaised(index=index, exception="ValueError", message="no")
                if index in raises
                else StepDone(index=index, facts=facts)
            )

    @property
    def result(self) -> ScenarioResult:
        return ScenarioResult(records=tuple(self._records), termination=Finished())

    def tensor(self, item: ResultItem) -> torch.Tensor:
        raise KeyError(item.name)


def scenarios(trial: FakeTrial) -> dict[str, Scenario]:
    return {scenario.label: scenario for scenario in Proc001().propose(trial)}


def judged(label: str, *states: State, raises: Sequence[int] = ()) -> list[Finding]:
    trial = scaled_add()
    scenario = scenarios(trial)[label]
    return list(Proc001().judge(trial, scenario, Reported(scenario, states, raises)).findings)


def test_a_process_that_stays_as_it_was_is_silent() -> None:
    for label in (StateTrying.STATE, StateTrying.GENERATORS, StateTrying.REFUSED):
        assert judged(label, {}, {}, {}) == []


def test_a_flag_set_at_import_is_a_condition_of_use_that_names_it() -> None:
    (found,) = judged(StateTrying.STATE, TF32, TF32, TF32)
    assert found.finding_class is FindingClass.UNSAFE
    assert "importing it sets torch.backends.cuda.matmul.allow_tf32 from False" in found.message
    assert condition_key(found) == "process-state"
    assert condition_key(found) in CONDITIONS


def test_a_flag_set_in_a_call_is_blamed_on_that_call() -> None:
    (found,) = judged(StateTrying.STATE, {}, {}, TF32)
    assert found.message.startswith("call 2 sets torch.backends.cuda.matmul.allow_tf32")


def test_flags_are_one_finding_and_other_kinds_are_others() -> None:
    state = {**TF32, "flag torch threads": "8 -> 1", "process umask": "0o22 -> 0o0"}
    found = judged(StateTrying.STATE, state, state, state)
    assert [f.finding_class for f in found] == [FindingClass.UNSAFE] * 2
    assert "torch threads from 8 to 1" in found[0].message


@pytest.mark.parametrize("name", ["function time.perf_counter", "function torch.cuda.synchronize"])
def test_a_replaced_timer_is_wrong(name: str) -> None:
    (found,) = judged(StateTrying.STATE, {name: "as imported -> kernel.fast at 7f00"})
    assert found.finding_class is FindingClass.WRONG
    assert found.severity is Severity.HIGH
    assert f"replaces {name.partition(' ')[2]}" in found.message
    assert "7f00" not in str(found.details)


def test_a_flag_left_by_a_call_that_raised_is_found() -> None:
    call = next(
        index
        for index, step in enumerate(scenarios(scaled_add())[StateTrying.REFUSED].steps)
        if type(step).__name__ == "Call"
    )
    (found,) = judged(StateTrying.REFUSED, {}, TF32, raises=[call])
    assert found.message.startswith("call 1, which raised ValueError, sets")


def test_a_refusal_alone_is_nothing() -> None:
    assert judged(StateTrying.REFUSED, {}, {}, raises=[3]) == []


def test_draws_are_advice_and_those_of_a_first_call_are_not_counted() -> None:
    draws = [{"generator torch on cpu": f"aa -> {end}"} for end in ("bb", "cc", "dd")]
    assert judged(StateTrying.STATE, {}, *draws[:2]) == []
    assert judged(StateTrying.GENERATORS, draws[0], draws[0], draws[0]) == []
    (found,) = judged(StateTrying.GENERATORS, *draws)
    assert found.finding_class is FindingClass.ADVICE
    assert found.severity is Severity.LOW
    assert condition_key(found) == "process-state"


def test_a_seed_set_in_a_call_is_unsafe() -> None:
    (found,) = judged(StateTrying.STATE, {}, {"seed of torch on cpu": "aa -> bb"})
    assert found.finding_class is FindingClass.UNSAFE
    assert "the seed of torch on cpu" in found.message


def test_what_compiling_with_torch_leaves_behind_is_nobodys_fault() -> None:
    left = {RECURSION: "1000 -> 2000", "environment _TORCHINDUCTOR_PYOBJECT": "absent -> aa"}
    assert judged(StateTrying.STATE, {}, left, left) == []
    assert len(judged(StateTrying.STATE, {}, {RECURSION: "1000 -> 50"})) == 1


def test_variables_that_libraries_read_are_unsafe_and_others_advice() -> None:
    telling = judged(StateTrying.STATE, {"environment NVIDIA_TF32_OVERRIDE": "absent -> aa"})
    others = judged(StateTrying.STATE, {"environment TRITON_DEBUG": "absent -> aa"})
    assert [f.finding_class for f in (*telling, *others)] == [
        FindingClass.UNSAFE,
        FindingClass.ADVICE,
    ]
    assert others[0].condition == ""


def test_paths_of_this_machine_stay_out_of_the_message() -> None:
    (found,) = judged(StateTrying.STATE, {"process working directory": "/tmp/secret/w1 -> /tmp"})
    assert "secret" not in found.message
    assert "secret" not in found.condition


def test_what_a_worker_makes_up_is_cut_and_cleaned() -> None:
    wild = {
        "flag " + "x" * 5000: "a -> " + "b" * 5000,
        "flag line\nbreak\x1b[31m": "a -> b",
        "flag no arrow": "nonsense",
        "unheard of": "a -> b",
        "": "a -> b",
    }
    (found,) = judged(StateTrying.STATE, wild)
    assert len(found.message) < 1000
    assert found.message.isprintable()
    assert "no arrow" not in found.message
    assert "unheard" not in found.message


def test_a_value_that_changes_again_is_told_from_the_last_one() -> None:
    before, now = {"flag torch threads": "8 -> 4"}, {"flag torch threads": "8 -> 2"}
    (change,) = changes_of(before, now)
    assert (change.old, change.new) == ("4", "2")
    assert list(changes_of(now, {})) == []


def test_every_reading_of_a_worker_has_a_kind() -> None:
    from cuassay.sandbox.guest.observe.state_snapshot import snapshot

    unknown = [name for name in snapshot() if kind_of(name) is StateKind.NONE]
    assert all(name.startswith("environment _TORCH") for name in unknown)


@pytest.mark.parametrize("profile", list(Profile))
def test_only_the_reads_around_the_import_take_a_process(profile: Profile) -> None:
    trial = scaled_add()
    trial.profile = profile
    made = scenarios(trial)
    assert list(made) == [
        StateTrying.STATE,
        StateTrying.GENERATORS,
        StateTrying.REFUSED,
        StateTrying.KEPT,
        StateTrying.MANY,
        StateTrying.UNWATCHED,
    ]
    assert [scenario.fresh for scenario in made.values()] == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]


def _kept(
    *counts: tuple[int, int, int],
    spans: Sequence[int] = (2, 2, 2, 8, 8),
    objects: Sequence[int] = (0,) * 5,
    garbage: Sequence[int] = (0,) * 5,
) -> list[Finding]:
    """Judge looks of (threads, files, bytes) after as many calls as the spans say."""
    trial = scaled_add()
    scenario = scenarios(trial)[StateTrying.KEPT]
    calls = [sum(spans[: n + 1]) for n in range(len(counts))]
    looks = tuple(
        Holding(
            calls=c,
            threads=threads,
            processes=0,
            files=files,
            host_bytes=size,
            objects=o,
            garbage=g,
        )
        for c, o, g, (threads, files, size) in zip(calls, objects, garbage, counts, strict=False)
    )
    run = Reported(scenario, ())
    run._records[-1] = StepDone(index=1, report=Holdings(found=looks))
    return list(Proc001().judge(trial, scenario, run).findings)


def test_what_grows_with_the_number_of_calls_is_a_condition() -> None:
    assert _kept(*[(1, 5, 1000)] * 5) == []
    assert _kept(*[(1, 5, 1000)] * 2, *[(9, 7, 1 << 30)] * 3) == []  # built once
    threads = _kept(*[(1 + n, 5, 1000) for n in (2, 4, 6, 14, 22)])
    assert [finding.condition for finding in threads] == ["resources: each call keeps a thread"]
    assert threads[0].finding_class is FindingClass.UNSAFE
    files = _kept(*[(1, 5 + n, 1000) for n in (2, 4, 6)])
    assert [finding.condition for finding in files] == ["resources: each call keeps an open file"]
    memory = _kept(*[(1, 5, 1 << 20)] * 3, (1, 5, 2 << 20), (1, 5, 3 << 20))
    assert [f.condition for f in memory] == [
        "resources: each call keeps 131,072 bytes of memory of the host"
    ]
    assert _kept(*[(1, 5, 1 << 20)] * 3, (1, 5, 2 << 20), (1, 5, 2 << 20)) == []


@pytest.mark.parametrize(
    ("objects", "last", "kept"),
    [
        ((500, 502, 504, 584, 664), 80, True),
        ((500, 502, 504, 504, 504), 80, False),  # built once
        ((500, 502, 504, 544, 584), 80, False),  # at every other call
        ((0, 0, 0, 0, 0), 80, False),  # nobody counted
        ((500, 502, 504, 544, 584), 40, False),  # a history of the last hundred grows so far
        ((500, 502, 506, 515, 525), 8, False),  # what a call site keeps of its first calls
    ],
)
def test_an_object_that_each_call_leaves_is_a_condition(
    objects: tuple[int, ...], last: int, kept: bool
) -> None:
    found = _kept(*[(1, 5, 1000)] * 5, spans=(2, 2, 2, last, last), objects=objects)
    expected = ["resources: each call keeps an object of Python"] if kept else []
    assert [finding.condition for finding in found] == expected


@pytest.mark.parametrize(
    ("garbage", "a_call"),
    [
        ((0, 400, 800, 2400, 4000), "200"),
        ((0, 20, 40, 120, 200), ""),  # ten a call, as exceptions and graphs leave
        ((900, 900, 900, 900, 900), ""),  # of the import
        ((0, 0, 0, 900, 900), ""),  # once
    ],
)
def test_objects_that_only_the_collector_frees_are_a_condition(
    garbage: tuple[int, ...], a_call: str
) -> None:
    found = _kept(*[(1, 5, 1000)] * 5, garbage=garbage)
    circles = f"{a_call} objects in circles until the collector stops the process"
    expected = [f"resources: each call keeps {circles}"] if a_call else []
    assert [finding.condition for finding in found] == expected


def test_calls_are_repeated_at_a_size_whose_leaks_show() -> None:
    trial = scaled_add()
    scenario = scenarios(trial)[StateTrying.KEPT]
    sizes = [case.axes for what in ("small", "numeric") for case in trial.cases(what)]
    assert dict(scenario.cases[0].axes) in [dict(of) for of in sizes]
    assert isinstance(scenario.steps[0], Allocate)
    assert any(isinstance(step, CallOften) for step in scenario.steps)


def _served(first: float, last: float) -> list[Finding]:
    """Return what is found where thousands of calls lie between two results."""
    trial = scaled_add()
    scenario = scenarios(trial)[StateTrying.MANY]
    (case,) = scenario.cases
    truth = trial.exact(case)[0]
    values = (truth * first, truth * first, truth * last)
    reads = [n for n, step in enumerate(scenario.steps) if isinstance(step, ReadResult)]
    records: list[StepRecord] = [StepDone(index=n) for n in range(len(scenario.steps))]
    for number, index in enumerate(reads):
        records[index] = StepDone(index=index, items=(_item(truth, number),))
    looks = (Holding(calls=6023, threads=1, processes=0, files=4, host_bytes=0),)
    often = next(n for n, step in enumerate(scenario.steps) if isinstance(step, CallOften))
    records[often] = StepDone(index=often, report=Holdings(found=looks))
    run = Served(tuple(records), tuple(value.to(torch.float32) for value in values))
    return list(Proc001().judge(trial, scenario, run).findings)


def _item(truth: torch.Tensor, buffer: int) -> ResultItem:
    return ResultItem(
        kind="tensor",
        type_name="torch.Tensor",
        dtype="float32",
        shape=tuple(truth.shape),
        strides=truth.stride(),
        device=CPU,
        buffer=buffer,
    )


@dataclass(frozen=True)
class Served:
    """A run whose results are given."""

    records: tuple[StepRecord, ...]
    values: tuple[torch.Tensor, ...]

    @property
    def result(self) -> ScenarioResult:
        return ScenarioResult(records=self.records, termination=Finished())

    def tensor(self, item: ResultItem) -> torch.Tensor:
        return self.values[item.buffer]


def test_a_result_that_is_wrong_after_thousands_of_calls_is_wrong() -> None:
    assert _served(1.0, 1.0) == []
    (found,) = _served(1.0, 2.0)
    assert found.finding_class is FindingClass.WRONG
    assert found.message.startswith("right at first, wrong after 6023 calls on the same tensors")


@pytest.mark.parametrize(("profile", "least"), [(Profile.QUICK, 6000), (Profile.STANDARD, 30_000)])
def test_thousands_of_calls_are_tried_without_a_look_in_between(
    profile: Profile, least: int
) -> None:
    trial = scaled_add()
    trial.profile = profile
    scenario = scenarios(trial)[StateTrying.MANY]
    (often,) = (step for step in scenario.steps if isinstance(step, CallOften))
    assert 3 * often.most >= least
    assert not often.looks
    taken_s: list[float] = []
    calls = 0
    for count, _ in spans(often, taken_s):
        taken_s.append(count * 20e-6)
        calls += count
    assert calls >= least


@pytest.mark.parametrize(
    ("calls_s", "looked_at"),
    [
        ((1e-4,) * 9, [1353, 2686, 4019]),
        ((1.0, *[1e-4] * 9), [2, 1353, 2686, 4019]),  # built at the first call
        ((0.3,) * 5, [2, 4, 6]),
        ((0.0, *[0.3] * 5), [4, 6, 8]),
        ((0.0, 0.3, *[1e-4] * 9), [4, 6, 8, 1357, 2690, 4023]),  # one call was held up
    ],
)
def test_a_look_is_made_where_it_tells_what_grows(
    calls_s: Sequence[float], looked_at: list[int]
) -> None:
    taken_s: list[float] = []
    calls, looks = 0, list[int]()
    for number, (count, look) in enumerate(
        spans(CallOften(slot="a", budget_s=0.4, most=2000), taken_s)
    ):
        taken_s.append(count * calls_s[number])
        calls += count
        looks += [calls] * look
    assert looks == looked_at
