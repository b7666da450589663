"""Runs in processes that hold nothing of cuassay: which scenarios, and what keeps others out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

import torch

from cuassay.build.python import speaks_of_a_gpu
from cuassay.checks.endings.findings import claims_no_memory, claims_no_system, first_raised
from cuassay.closing import Closing
from cuassay.contract.memory import GIB
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.home import apart_dir
from cuassay.inputs.geometry import tensor_bytes, tensor_inputs
from cuassay.model.candidate import Candidate, Language
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.problem import Scalar
from cuassay.model.scenario import Scenario
from cuassay.model.trace import Garbled, ScenarioResult
from cuassay.model.verdict import Lane, Profile
from cuassay.sandbox.host.apart import Apart, NotLoadedError, can_take
from cuassay.sandbox.host.client import DEFAULT_LIMITS, WorkerPool
from cuassay.sandbox.no_memory import says_no_memory
from cuassay.sandbox.ran import Ran

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial

_BUILDS_LONG = ("torch.compile", "cpp_extension", "load_inline")
_LAUNCH_REFUSAL = "too many resources requested for launch"  # cudaErrorLaunchOutOfResources
_GIB = 4.0  # of inputs, which travel through the host's memory at some GiB a second


class Unwatched(Closing):
    """Runs a candidate where nothing of cuassay is, if it can do without.

    With `plain_calls` also scenarios of Mode.PLAIN, where that costs nothing.
    """

    def __init__(
        self,
        trial: JudgeTrial,
        candidate: Candidate,
        *,
        device: Device,
        pool: WorkerPool,
        plain_calls: bool,
    ) -> None:
        self._trial, self._candidate, self._device, self._pool = trial, candidate, device, pool
        self._apart = self._new_apart()
        self._bare_walls: Mapping[str, str] = {}
        self._started_bare = 0
        self._leaves_traces = (
            not plain_calls or device.on_gpu or bool(self._needs_us()) or self._builds_long
        )

    @property
    def started(self) -> int:
        """How many processes were started so far."""
        return self._apart.started + self._started_bare

    @property
    def walls(self) -> Mapping[str, str]:
        """Which walls stood around its processes: name -> "yes", or why not."""
        return {**self._bare_walls, **self._apart.walls}

    async def apart_for(self, scenario: Scenario) -> Apart | None:
        """Return the processes for a scenario of Mode.PLAIN; None where a worker must run it.

        Not before a worker has built the candidate, and never what leaves its traces anyway, or
        cannot be loaded there. What calls leave in inputs is read where it lies, so that a later
        call would change it: a worker copies it.
        """
        if self._leaves_traces or self._trial.problem.updated or not can_take(scenario):
            return None
        built = not self._apart.unloadable and await self._pool.wait_built()
        return self._apart if built else None

    async def exchanging(self, scenario: Scenario) -> Apart | None:
        """Return the processes for calls whose expressions come to other values, if there are any.

        On a GPU no other scenario of Mode.PLAIN runs there: what travels does so by the host.
        """
        if not self._device.on_gpu:
            return await self.apart_for(scenario)
        if self._needs_us() or self._builds_long or self._trial.problem.updated:
            return None
        built = not self._apart.unloadable and await self._pool.wait_built()
        return self._apart if built else None

    @staticmethod
    def else_a_worker() -> AbstractContextManager[None]:
        """Let a worker run what cannot be loaded apart: APART001 says so.

        Unless the reference cannot be loaded so either.
        """
        return suppress(NotLoadedError)

    async def bare(self, scenario: Scenario) -> Ran:
        """Run a scenario of Mode.APART in a process of its own, which ends with it."""
        why, quick = self._needs_us(), self._trial.profile is Profile.QUICK
        if why:
            raise NothingToCheckError(why)
        if quick and self._builds_long:
            raise CannotJudgeError(
                "it builds anew in each process without cuassay, which takes too long for quick; "
                "use --profile standard"
            )
        specs = tensor_inputs(self._trial.problem)
        inputs_gib = max(tensor_bytes(specs, case.axes) for case in scenario.cases) / GIB
        if quick and inputs_gib > _GIB:
            raise CannotJudgeError(
                f"a process without cuassay takes its inputs from files, and {inputs_gib:.1f} GiB "
                "take too long for quick; use --profile standard"
            )
        with (
            self._trial.timeline.span(Lane.APART, scenario.label),
            self._new_apart() as apart,
        ):
            try:
                return await apart.execute(scenario, partial(host_inputs, self._trial), fresh=True)
            except NotLoadedError as error:
                end = Garbled(index=0, what=str(error)[:4096])
                return Ran(ScenarioResult(records=(), termination=end), ())
            finally:
                self._bare_walls = apart.walls
                self._started_bare += apart.started

    def close(self) -> None:
        """End its process."""
        self._apart.close()

    @property
    def _builds_long(self) -> bool:
        texts = [source.text for source in self._candidate.sources]
        return any(sign in text for sign in _BUILDS_LONG for text in texts)

    def _needs_us(self) -> str:
        """Return why the candidate cannot do without cuassay in its process, if so."""
        if self._trial.problem.ranks is not None:
            return "its ranks meet in a process group of cuassay's"
        if self._candidate.language is not Language.PYTHON:
            return "a kernel that cuassay's own code launches cannot do without"
        if not self._device.on_gpu and speaks_of_a_gpu(self._candidate):
            return "without a GPU cuassay executes what it launches"
        return ""

    def _new_apart(self) -> Apart:
        return Apart(
            self._candidate,
            self._trial.problem,
            device=self._device,
            nursery=lambda: self._pool.nursery,
            limits=DEFAULT_LIMITS,
            keep=apart_dir() / self._pool.digest,
            choices=self._pool.folder if self._device.on_gpu else None,
        )


def host_inputs(trial: JudgeTrial, case: Case) -> Mapping[str, torch.Tensor | Scalar]:
    """Return fresh inputs of a case in the host's memory."""
    values = trial.truths.inputs(case)
    return {k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in values.items()}


def claims_no_resources(run: Run) -> bool:
    """Whether a process apart says that it was refused what processes beside it may hold.

    That is memory, also while the candidate was loaded, the system's part of CUDA, or the
    resources of a launch.
    """
    first, end = first_raised(run), run.result.termination
    loading = isinstance(end, Garbled) and says_no_memory(end.what)
    launch = first is not None and _LAUNCH_REFUSAL in first.message.lower()
    return loading or launch or claims_no_memory(run) or claims_no_system(run)
