"""The judge's own examination of plain callables, in this process: no worker, no sandbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cuassay.checks.base import Check, Run
from cuassay.formats.execute import LoadedReference
from cuassay.judge.decide.control import Control
from cuassay.judge.decide.examine import Examination, Examined, judge_scenario
from cuassay.judge.diagnose.minimise import Minimiser
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.events import Event
from cuassay.model.outcome import CheckReport, Finding
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.waits import run_now
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

        async def run(scenario: Scenario) -> Run:
            return runner.run(scenario, self.trial.inputs, None)

        return Control(
            self.trial,
            run,
            lambda check, scenario, run: judge_scenario(self.trial, check, scenario, run),
        )

    def examine(self, *checks: Check) -> list[CheckReport]:
        """Return the reports of checks that run one after another."""
        return [examined.report for examined in self.examined(*checks)]

    def examined(self, *checks: Check) -> list[Examined]:
        """Return what is known of checks that run one after another."""

        async def run(scenario: Scenario) -> Run:
            return self.run(scenario)

        examination = Examination(
            self.trial, run=run, control=self.control, emit=self.events.append
        )
        return [run_now(examination.examine(check)) for check in checks]

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
    trial = open_trial(fake.problem, reference, profile=profile, device=CPU, root_seed=seed)
    return Bench(trial=trial, call=call, reference=fake.reference)
