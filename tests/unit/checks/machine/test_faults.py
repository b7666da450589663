"""The checks on the PTX machine: which faults become findings, and what a pass says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import torch

from cuassay.checks.machine.accesses import Mem101
from cuassay.checks.machine.barriers import Sync101
from cuassay.checks.machine.faults import MachineCheck, machine_cases, recorded_call
from cuassay.checks.machine.precision import Prec101
from cuassay.checks.machine.races import Race101
from cuassay.checks.machine.uninitialized import Init101
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.model.conditions import CONDITIONS
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import (
    EditedCalls,
    LaunchEvidence,
    LaunchLimits,
    MachineEvidence,
    MachineFault,
    OrderDependence,
    Touch,
)
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Configurations, RecordLaunches
from cuassay.model.trace import Finished, ResultItem, ScenarioResult, StepDone
from cuassay.model.verdict import Profile
from cuassay.sandbox.ran import Ran
from ptxsan.findings import Kind
from tests.support.fake_trial import FakeTrial, row_sum

CHECKS: tuple[MachineCheck, ...] = (Mem101(), Init101(), Race101(), Sync101(), Prec101())
ORDER = ("unordered", "missing-acquire-fence")
HERE = Touch(what="read", ptx_line=40, file="k.cu", line=7, block=(0, 0, 0), thread=(35, 0, 0))
THERE = Touch(what="write", ptx_line=31, file="k.cu", line=5, block=(0, 0, 0), thread=(3, 0, 0))


@dataclass(slots=True)
class FakeMachine:
    """Answers with one evidence."""

    evidence: MachineEvidence
    absent: str = ""
    tunes: bool = True
    executed: list[Scenario] = field(default_factory=list)

    def execute(self, recording: torch.Tensor, scenario: Scenario) -> MachineEvidence:
        self.executed.append(scenario)
        return self.evidence

    def sampled(self, recording: torch.Tensor, scenario: Scenario) -> MachineEvidence:
        return self.execute(recording, scenario)

    def edited(self, recording: torch.Tensor, asked_for: Mapping[str, object]) -> EditedCalls:
        raise AssertionError("no check edits instructions")

    def limits(self, recording: torch.Tensor) -> LaunchLimits:
        return LaunchLimits(launches=self.evidence.made, refused=(), notes=())

    def oblivious(self, scenarios: Sequence[Scenario]) -> bool:
        return self.evidence.oblivious

    def launches(self, scenarios: Sequence[Scenario]) -> tuple[int, int, str]:
        return self.evidence.judged, self.evidence.made, self.evidence.gap

    def line(self, file: str, line: int) -> str:
        return "part[t] += part[t + d];" if (file, line) == ("k.cu", 7) else ""


def fault(kind: str, severity: str = "wrong", *touches: Touch) -> MachineFault:
    return MachineFault(kind=kind, severity=severity, text=f"a {kind}", touches=touches or (HERE,))


def launch(*faults: MachineFault, **more: object) -> LaunchEvidence:
    fields: dict[str, object] = {"oblivious": True, **more}
    return LaunchEvidence(
        kernel="k", grid=(1, 1, 1), block=(64, 1, 1), target="sm_80", faults=faults,
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def made(
    evidence: MachineEvidence, *, absent: str = "", profile: Profile = Profile.QUICK
) -> FakeTrial:
    trial = row_sum()
    trial.profile = profile
    trial.machine = FakeMachine(evidence, absent)
    return trial


def judged(
    check: MachineCheck, evidence: MachineEvidence, profile: Profile = Profile.QUICK
) -> list[Finding]:
    trial = made(evidence, profile=profile)
    scenario = next(iter(check.propose(trial)))
    item = ResultItem(kind="tensor", type_name="torch.Tensor", dtype="uint8", shape=(1,), buffer=0)
    records = tuple(
        StepDone(index=index, items=(item,) if index == 3 else ()) for index in range(5)
    )
    run = Ran(ScenarioResult(records=records, termination=Finished()), [torch.zeros(1)])
    return list(check.judge(trial, scenario, run).findings)


def test_every_kind_of_the_machine_belongs_to_one_check() -> None:
    speed = {Kind.UNCOALESCED, Kind.BANK_CONFLICT}
    host = {  # of whole programs
        Kind.REFUSED_LAUNCH, Kind.UNSEEN_ERROR, Kind.UNWRITTEN_COPY, Kind.FREED, Kind.STREAM_RACE,
        Kind.PEER_ACCESS,
    }  # fmt: skip
    owners = {
        kind: [c.code for c in CHECKS if kind.value in c.kinds] for kind in set(Kind) - speed - host
    }
    assert {kind for kind, codes in owners.items() if len(codes) != 1} == set()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_a_check_reports_its_own_kinds_and_no_others(check: MachineCheck) -> None:
    evidence = MachineEvidence(launches=(launch(*(fault(kind.value) for kind in Kind)),))
    found = judged(check, evidence)
    assert found
    assert all(any(kind in finding.message for kind in check.kinds) for finding in found)


@pytest.mark.parametrize("check", CHECKS[:4], ids=lambda check: check.code)
def test_wrong_rejects_and_a_note_does_not(check: MachineCheck) -> None:
    kind = next(kind for kind in sorted(check.kinds) if kind not in ORDER)
    for severity, expected in (("wrong", FindingClass.WRONG), ("note", FindingClass.ADVICE)):
        (found,) = judged(check, MachineEvidence(launches=(launch(fault(kind, severity)),)))
        assert found.finding_class is expected


@pytest.mark.parametrize("kind", ORDER)
def test_order_that_only_fences_would_give_is_a_condition(kind: str) -> None:
    evidence = MachineEvidence(launches=(launch(fault(kind, "note")),))
    (found,) = judged(Race101(), evidence)
    assert found.finding_class is FindingClass.UNSAFE
    assert found.condition.partition(":")[0] == "order"
    assert "order" in CONDITIONS
    (race,) = judged(Race101(), MachineEvidence(launches=(launch(fault("race", "note")),)))
    assert race.condition == ""


@pytest.mark.parametrize(
    ("check", "kind", "cause"),
    [
        (Mem101(), "misaligned", Cause.MISALIGNED),
        (Mem101(), "out-of-bounds", Cause.OUT_OF_BOUNDS),
        (Sync101(), "false-assumption", Cause.FALSE_ASSUMPTION),
        (Sync101(), "deadlock", Cause.BARRIER),
    ],
)
def test_a_fault_has_the_cause_of_its_kind(check: MachineCheck, kind: str, cause: Cause) -> None:
    (found,) = judged(check, MachineEvidence(launches=(launch(fault(kind)),)))
    assert found.cause is cause


def test_an_assumption_names_its_program_and_no_ptx_line() -> None:
    touch = Touch(what="assume", ptx_line=0, file="k.py", line=7, block=(3, 0, 0), thread=())
    evidence = MachineEvidence(launches=(launch(fault("false-assumption", "wrong", touch)),))
    (found,) = judged(Sync101(), evidence)
    assert dict(found.details)["access"] == "assume in program (3, 0, 0)"


def test_names_of_kernels_are_those_of_the_source() -> None:
    faults = (fault("race", "wrong", HERE, THERE),)
    evidence = MachineEvidence(launches=(launch(*faults, title="rows<float, 4>"),))
    (found,) = judged(Race101(), evidence)
    assert found.message == "rows<float, 4> (k.cu:7): a race"


def test_precision_is_advice_for_the_numeric_checks_decide() -> None:
    (found,) = judged(Prec101(), MachineEvidence(launches=(launch(fault("precision")),)))
    assert found.finding_class is FindingClass.ADVICE


def test_a_race_names_both_lines_and_shows_the_source() -> None:
    race = fault("race", "wrong", HERE, THERE)
    (found,) = judged(Race101(), MachineEvidence(launches=(launch(race, race),)))
    assert found.message == "k (k.cu:7): a race"
    details = dict(found.details)
    assert details["access"] == "read by thread (35, 0, 0) of block (0, 0, 0), PTX line 40"
    assert details["other access"] == "write by thread (3, 0, 0) of block (0, 0, 0), PTX line 31"
    assert details["k.cu:7"] == "part[t] += part[t + d];"
    assert details["launch"] == "k, 1 x 1 x 1 blocks of 64 x 1 x 1 threads, sm_80"


def test_memory_that_depends_on_the_schedule_without_a_race_is_advice() -> None:
    order = OrderDependence(allocation="w", first="forward", second="reverse", nbytes=12)
    evidence = MachineEvidence(launches=(launch(),), order=(order,))
    (found,) = judged(Race101(), evidence)
    assert found.finding_class is FindingClass.ADVICE
    assert "12 bytes differ between the schedules forward and reverse" in found.message
    racy = MachineEvidence(launches=(launch(fault("race")),), order=(order,))
    assert [f.finding_class for f in judged(Race101(), racy)] == [FindingClass.WRONG]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_what_was_not_executed_is_never_a_pass(check: MachineCheck) -> None:
    with pytest.raises(CannotJudgeError, match="wgmma"):
        judged(check, MachineEvidence(launches=(launch(inconclusive="line 9: wgmma"),)))
    with pytest.raises(CannotJudgeError, match="cut"):
        judged(check, MachineEvidence(refused="cut"))
    with pytest.raises(NothingToCheckError, match="launched no kernel"):
        judged(check, MachineEvidence())


def test_a_pass_says_how_far_it_reaches_and_what_is_not_covered() -> None:
    for oblivious, words in ((True, "holds for all data at"), (False, "for these inputs at")):
        evidence = MachineEvidence(launches=(launch(oblivious=oblivious),))
        trial = made(evidence)
        scenarios = [recorded_call(case) for case in machine_cases(trial)]
        result = ScenarioResult(records=(), termination=Finished())
        said = Mem101().said(trial, [(scenario, result) for scenario in scenarios])
        assert words in said
        assert "not covered: weak memory" in said
        assert all(f"{n} = {s}" in said for n, s in scenarios[0].cases[0].axes.items())
        assert "1 of 1 launches judged;" in said


def test_a_pass_says_how_many_launches_were_not_seen_and_why() -> None:
    why = "2 launches of 'k': captured in a CUDA graph, whose launches are not recorded"
    evidence = MachineEvidence(launches=(launch(),), notes=(why,), left_out=2)
    trial = made(evidence)
    (scenario, *_) = [recorded_call(case) for case in machine_cases(trial)]
    result = ScenarioResult(records=(), termination=Finished())
    said = Mem101().said(trial, [(scenario, result)])
    assert f"1 of 3 launches judged ({why})" in said


def test_more_cases_are_executed_at_a_deeper_profile_and_tails_are_among_them() -> None:
    counts = []
    for profile in Profile:
        trial = made(MachineEvidence(), profile=profile)
        cases = machine_cases(trial)
        counts.append(len(cases))
        assert len({tuple(case.axes.items()) for case in cases}) == len(cases)
    assert counts == sorted(counts)
    assert counts[0] == 2


def test_a_trial_without_a_machine_skips_with_the_reason() -> None:
    assert Mem101().skip(row_sum()) == "no PTX machine here"
    assert Mem101().skip(made(MachineEvidence(), absent="why")) == "why"


@pytest.mark.parametrize(("device", "tunes"), [(CPU, True), (CUDA, True), (CUDA, False)])
def test_configurations_are_executed_on_the_device_where_an_autotuner_has_several(
    device: Device, *, tunes: bool
) -> None:
    trial = row_sum()
    trial.device, trial.machine = device, FakeMachine(MachineEvidence(), tunes=tunes)
    walks = [
        scenario
        for scenario in Mem101().propose(trial)
        if any(isinstance(step, Configurations) for step in scenario.steps)
    ]
    assert len(walks) == tunes
    recorded = [step for walk in walks for step in walk.steps if isinstance(step, RecordLaunches)]
    assert [step.on_gpu for step in recorded] == [device.on_gpu] * tunes


def walked(check: MachineCheck, evidence: MachineEvidence, facts: dict[str, str]) -> FakeWalk:
    trial = made(evidence)
    *_, scenario = check.propose(trial)
    assert any(isinstance(step, Configurations) and step.covering for step in scenario.steps)
    item = ResultItem(kind="tensor", type_name="torch.Tensor", dtype="uint8", shape=(1,), buffer=0)
    records = (
        *(StepDone(index=index) for index in (0, 1)),
        StepDone(index=2, facts=tuple(facts.items())),
        StepDone(index=3, items=(item,)),
    )
    run = Ran(ScenarioResult(records=records, termination=Finished()), [torch.zeros(1)])
    return FakeWalk(trial, scenario, run)


@dataclass(frozen=True, slots=True)
class FakeWalk:
    """A scenario that walked through configurations, and what came of it."""

    trial: FakeTrial
    scenario: Scenario
    run: Ran


_FACTS = {
    "configuration 0": "k: BLOCK: 64",
    "configuration 1": "k: BLOCK: 8192",
    "refused 1": "OutOfResources: shared memory",
    "configurations": "5",
}


@pytest.mark.parametrize("check", CHECKS[:4], ids=lambda check: check.code)
def test_a_fault_of_another_configuration_is_found_and_named(check: MachineCheck) -> None:
    evidence = MachineEvidence(launches=(launch(fault(sorted(check.kinds)[0])),))
    walk = walked(check, evidence, _FACTS)
    (found,) = check.judge(walk.trial, walk.scenario, walk.run).findings
    assert found.finding_class is FindingClass.WRONG
    assert [text for name, text in found.details if name == "configuration"] == ["k: BLOCK: 64"]


def test_a_pass_says_how_many_configurations_were_executed_of_how_many() -> None:
    walk = walked(Mem101(), MachineEvidence(launches=(launch(),)), _FACTS)
    assert not Mem101().judge(walk.trial, walk.scenario, walk.run).findings
    said = Mem101().said(walk.trial, [(walk.scenario, walk.run.result)])
    assert "2 of 5 configurations of the autotuner executed" in said


def test_without_an_autotuner_there_is_no_other_configuration() -> None:
    for total in ("0", "1", "many"):
        facts = {"configuration 0": "k: BLOCK: 64", "configurations": total}
        walk = walked(Mem101(), MachineEvidence(launches=(launch(),)), facts)
        with pytest.raises(NothingToCheckError, match="another configuration"):
            Mem101().judge(walk.trial, walk.scenario, walk.run)
