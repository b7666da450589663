"""The gate without its processes: trusted zoo kernels through every check, in this process.

The same planner, oracle and checks judge; only isolation is left out, which costs most of a
small trial. It is for counting false alarms over many seeds, and for planted bugs that only return
wrong numbers: all others belong in a sandbox.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType, SimpleNamespace

from cuassay import build
from cuassay.checks.base import Run
from cuassay.closing import Closing
from cuassay.home import cache_dir
from cuassay.judge.run.patience import Patience
from cuassay.judge.trial import JudgeTrial
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.digest import candidate_digest
from cuassay.model.reached import Reached
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Mode
from cuassay.model.verdict import Lane
from cuassay.sandbox.local import LocalRunner
from tests.zoo.judging import Gate


class _Pool:
    """What a session asks of a candidate's workers, where there are none."""

    is_starting = False

    def __init__(self, *, kind: str, because: str) -> None:
        self.builds = SimpleNamespace(
            kind=kind, because=because, done=True, seconds=0.0, tunes=False
        )
        self.reached = Reached()

    async def wait_built(self) -> bool:
        """Say that the candidate is built."""
        return True

    def begin(self) -> None:
        """Nothing to do: there is no process."""


class InProcess(Closing):
    """What a session needs of a candidate's executor, without workers."""

    started = 0  # processes
    walls: Mapping[str, str] = MappingProxyType({})  # none: this process is the judge
    fresh = False  # whatever is asked for: one process runs everything
    is_quiet = True  # nothing is begun ahead

    def __init__(
        self,
        trial: JudgeTrial,
        candidate: Candidate,
        *,
        device: Device,
        lane: Lane = Lane.CANDIDATE,
        **ignored: object,
    ) -> None:
        self._trial, self._lane = trial, lane
        self.candidate_s = 0.0
        self.patience = Patience()
        digest = candidate_digest(candidate, build.toolchain(device))
        folder = cache_dir() / digest
        # A problem of several outputs calls the candidate's module by its name, which the twin's
        # module has too: this process would give it that one.
        for name in [PurePosixPath(source.path).stem for source in candidate.sources]:
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is not None and Path(file).is_relative_to(cache_dir()):
                del sys.modules[name]
        built = build.load(candidate, trial.problem, device=device, folder=folder)
        self.pool = _Pool(kind=built.kind, because=built.because)
        self._runner = LocalRunner(
            built.call, trial.problem, device=device, convention=candidate.convention
        )

    def close(self) -> None:
        """Nothing to do: nothing was opened."""

    def let_go(self) -> bool:
        """Say that no process is there that could end."""
        return False

    def ahead(self, scenarios: Sequence[Scenario]) -> None:
        """Nothing to do: one process runs one scenario at a time."""

    async def settle(self) -> None:
        """Nothing to do: nothing was begun."""

    def expect(self, mode: Mode) -> None:
        """Nothing to do: there is one process."""

    async def run(self, scenario: Scenario) -> Run:
        """Run one scenario."""
        return self(scenario)

    def __call__(self, scenario: Scenario) -> Run:
        """Run one scenario."""
        started = time.perf_counter()
        with self._trial.timeline.span(self._lane, scenario.label):
            truths = self._trial.truths
            run = self._runner.run(scenario, truths.inputs, truths.answers)
        self.candidate_s += time.perf_counter() - started
        return run


class LocalGate(Gate):
    """Judges trusted kernels in this process; no zygote is started."""

    start = InProcess  # type: ignore[assignment]  # what a trial needs of a runner, not all
    isolated = False
