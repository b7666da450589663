"""The judge's own examination of plain callables, in this process: no worker, no sandbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cuassay.checks.base import Check, Run
from cuassay.formats.execute import LoadedReference
from cuassay.judge.decide.control import Control
from cuassay.judge.decide.examine import Examination, judge_scenario
from cuassay.judge.diagnose.minimise import Minimiser
from cuassay.judge.trial import JudgeTrial
from cuassay.model.events import Event
from cuassay.model.outcome import CheckReport, Finding
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner
from tests.support.fake_trial import FakeTrial, Function


@dataclass(slots=True)
class Bench:
    """A judge's trial of one callable: `examine` a check, then `minimise` what it found."""

    trial: JudgeTrial
    call: Function
    reference: Function
    ran: list[Scenario] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def run(self, scenario: Scenario) -> Run:
        """Run a scenario on the candidate."""
        self.ran.append(scenario)
        return LocalRunner(self.call, self.trial.problem).run(scenario, self.trial.inputs, None)

    @property
    def control(self) -> Control:
        """The reference on trial."""
        runner = LocalRunner(self.reference, self.trial.problem)
        return Control(
            self.trial,
            lambda scenario: runner.run(scenario, self.trial.inputs, None),
            lambda check, scenario, run: judge_scenario(self.trial, check, scenario, run),
        )

    def examine(self, *checks: Check) -> list[CheckReport]:
        """Return the reports of checks that run one after another."""
        examination = Examination(
            self.trial,
            run=self.run,
            control=self.control,
            emit=self.events.append,
            name=lambda finding: finding,
        )
        return [examination.examine(check) for check in checks]

    def minimise(self, check: Check, finding: Finding) -> Finding:
        """Return a finding with its smallest failing case."""
        return Minimiser(self.trial, check, run=self.run, control=self.control).minimise(finding)


def bench(
    fake: FakeTrial,
    call: Callable[..., object],
    *,
    profile: Profile = Profile.STANDARD,
    seed: int = 7,
) -> Bench:
    """Return the judge's trial of `call` on the problem of a fake one."""
    reference = LoadedReference(call=fake.reference, generator=None)
    trial = JudgeTrial(fake.problem, reference, profile=profile, device="cpu", root_seed=seed)
    return Bench(trial=trial, call=call, reference=fake.reference)
