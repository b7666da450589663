"""The judge's PTX machine: recorded launches executed again in a process without the candidate.

The recording is bytes out of the candidate's process. What executes them is a worker of its
own, sandboxed like the candidate's, into which nothing of the candidate is loaded but PTX text
and memory; its answer is read back field by field. So a candidate can keep a launch to itself,
as it can do without kernels at all, but it cannot touch what is seen of a launch it ships.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, assert_never

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from cuassay.build.cuda.binaries import find_cuobjdump
from cuassay.build.machine.candidates import missing
from cuassay.build.machine.refusals import launch_limits
from cuassay.closing import Closing
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.judge.run.budget import TimeBudget
from cuassay.judge.run.machine_worker import ask, asked
from cuassay.judge.timeline import Timeline
from cuassay.model import serial
from cuassay.model.candidate import Candidate, Language
from cuassay.model.device import CPU, Device
from cuassay.model.digest import sha256_fields
from cuassay.model.effort import Effort
from cuassay.model.machine import EditedCalls, LaunchCount, LaunchLimits, MachineEvidence
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Lane, Profile
from cuassay.sandbox.guest.items import host_memory
from cuassay.sandbox.host.call import Caller
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.host.waits import run_now

_MOST_S = 3600.0  # that all launches of a recording may take
_KEPT = 64
_FUNCTION = "cuassay.build.machine.replay:replay"
_SAMPLE = "cuassay.build.machine.sampled:replay"
_EDITED = "cuassay.build.machine.edited:edited"
_SAMPLE_S = 10.0  # for some blocks of one launch


class HostNursery:
    """Where workers without a GPU come from: the trial's own, or one made when first needed."""

    def __init__(self, given: Nursery | None) -> None:
        self._trial = given
        self._given = given if given is None or not given.device.on_gpu else given.host
        self._own: Nursery | None = None

    def given_for(self, device: Device) -> Nursery | None:
        """Return the trial's nursery where its workers have `device`."""
        return self._trial if self._trial is not None and self._trial.device == device else None

    def get(self) -> Nursery:
        """Return the nursery. Raises NurseryError where none can be started."""
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = Nursery(CPU, machine=True)
        return self._own

    def close(self) -> None:
        """End what was made here."""
        if self._own is not None:
            self._own.close()


class Replayer(Closing):
    """Executes recordings of a candidate in a worker of its own, started with the first one.

    `device` is what the candidate runs on. `digest` keeps the compiled kernels of one candidate
    apart from those of another. No wait for its worker lasts longer than the `budget` of a trial.
    """

    def __init__(
        self,
        candidate: Candidate,
        digest: str,
        *,
        profile: Profile,
        host: HostNursery,
        device: Device = CPU,
        timeline: Timeline | None = None,
        budget: TimeBudget | None = None,
    ) -> None:
        self._timeline, self._budget = timeline or Timeline(), budget or TimeBudget()
        self._device = device
        self._candidate, self._digest, self._effort = candidate, digest, Effort(profile)
        self._host = host
        self._of_cases: dict[str, MachineEvidence] = {}
        self._sampled: set[str] = set()  # keys of these of which some blocks ran
        self._caller: Caller | None = None
        self._one = asyncio.Lock()
        # Whether autotuners of the candidate may have more than one configuration. On a GPU the
        # first worker says so; elsewhere nobody knows before a call.
        self.tunes = not device.on_gpu
        self._seen: OrderedDict[str, MachineEvidence | CannotJudgeError] = OrderedDict()
        self._keys = WeakTensorKeyDictionary()  # of recordings
        self.executed_s = 0.0

    def close(self) -> None:
        """End its worker."""
        if self._caller is not None:
            self._caller.close()

    @property
    def absent(self) -> str:
        """Why no launch of this candidate can be executed, or an empty string."""
        needed = missing()
        match self._candidate.language:
            case Language.CUDA_KERNEL:
                return needed
            case Language.CUDA_EXTENSION | Language.PYTHON:
                hosted = self._candidate.compiles_cuda
                if hosted and self._device.on_gpu and not find_cuobjdump():
                    return (
                        "cuobjdump was not found, which reads the PTX of a compiled extension: "
                        "set CUDA_HOME to a CUDA toolkit, or pip install triton"
                    )
                launches = self._candidate.launches_ptx or hosted
                return needed if launches else "the candidate has no CUDA C++ or Triton kernel"
            case other:
                assert_never(other)

    @property
    def seen(self) -> tuple[MachineEvidence, ...]:
        """What was seen in every scenario executed so far."""
        return tuple(self._of_cases.values())

    @property
    def executed(self) -> tuple[MachineEvidence, ...]:
        """What was seen in the scenarios whose launches were executed as a whole."""
        return tuple(one for key, one in self._of_cases.items() if key not in self._sampled)

    def oblivious(self, scenarios: Sequence[Scenario]) -> bool:
        """Whether what was seen on each of these holds for all data at its shapes."""
        seen = [self._of_cases.get(serial.dumps(scenario.cases)) for scenario in scenarios]
        return all(evidence is not None and evidence.oblivious for evidence in seen)

    def launches(self, scenarios: Sequence[Scenario]) -> tuple[int, int, str]:
        """Return how many launches were judged, how many were made, and why any was not.

        A launch that nobody sees, as in a graph that was captured earlier, counts as none made.
        """
        keys = [serial.dumps(scenario.cases) for scenario in scenarios]
        seen = [self._of_cases[key] for key in keys if key in self._of_cases]
        gaps = (evidence.gap for evidence in seen if evidence.judged < evidence.made)
        return sum(e.judged for e in seen), sum(e.made for e in seen), next(gaps, "")

    def count(self) -> LaunchCount:
        """Return how many launches of all recorded calls were judged, and why others were not."""
        seen = [one for key, one in self._of_cases.items() if key not in self._sampled]
        return LaunchCount(
            made=sum(one.made for one in seen),
            judged=sum(one.judged for one in seen),
            causes=dict(Counter(cause for one in seen for cause in one.causes)),
        )

    def line(self, file: str, line: int) -> str:
        """Return a line of the candidate's sources, from 1; empty where there is none."""
        for source in self._candidate.sources:
            if PurePosixPath(source.path).name == PurePosixPath(file).name and line > 0:
                return next(iter(source.text.splitlines()[line - 1 : line]), "").strip()
        return ""

    async def prepare(
        self, recording: torch.Tensor, scenario: Scenario, *, launches: int = 1
    ) -> None:
        """Execute a scenario's recording (uint8, a file's bytes), so that `execute` need not wait.

        `launches` says how many may take the time that one is given.
        """
        schedules, limit_s = self._effort.machine_schedules, self._effort.machine_s
        wanted = json.dumps({"schedules": schedules, "limit_s": limit_s}).encode()
        timeout_s = min(limit_s * (len(schedules) * launches + 1), max(_MOST_S, limit_s * 5))
        await self._answer(_FUNCTION, recording, scenario, wanted, timeout_s=timeout_s)

    async def prepare_sample(self, recording: torch.Tensor, scenario: Scenario) -> None:
        """Execute some blocks of launches without memory, so that `sampled` need not wait."""
        wanted = json.dumps({"limit_s": _SAMPLE_S}).encode()
        timeout_s = self._effort.machine_samples_s
        await self._answer(_SAMPLE, recording, scenario, wanted, timeout_s=timeout_s)

    def execute(
        self, recording: torch.Tensor, scenario: Scenario, *, launches: int = 1
    ) -> MachineEvidence:
        """Return what the machine sees in a scenario's recording (uint8, a file's bytes), cached.

        Waits for it where nothing has prepared it. Raises CannotJudgeError where the machine's
        process ends without an answer.
        """
        _, key = self._keyed(recording)
        if key not in self._seen:
            run_now(self.prepare(recording, scenario, launches=launches))
        return self._known(key, scenario)

    def again(self, recording: torch.Tensor, asked_for: Mapping[str, Any]) -> MachineEvidence:
        """Return whether a block of a launch that came without memory runs into a fault again.

        `asked_for` holds the `kernel`, the `block`, the `line` of its PTX and the `data` of inputs.
        Raises CannotJudgeError where the machine's process ends without an answer.
        """
        data, _ = self._keyed(recording)
        wanted = json.dumps({"limit_s": _SAMPLE_S, "again": asked_for}).encode()
        return asked(
            self._machine(), _SAMPLE, [host_memory(data), memoryview(wanted)], MachineEvidence,
            timeout_s=self._effort.machine_samples_s,
        )  # fmt: skip

    def edited(self, recording: torch.Tensor, asked_for: Mapping[str, Any]) -> EditedCalls:
        """Return what a recorded call (uint8) gives with edits of its instructions.

        `asked_for` is the request of `build.machine.edited`. Raises CannotJudgeError where the
        machine's process ends without an answer.
        """
        data, _ = self._keyed(recording)
        wanted = json.dumps(asked_for).encode()
        buffers = [host_memory(data), memoryview(wanted)]
        timeout_s = 4 * float(asked_for["limit_s"]) + _SAMPLE_S
        return asked(self._machine(), _EDITED, buffers, EditedCalls, timeout_s=timeout_s)

    def limits(self, recording: torch.Tensor) -> LaunchLimits:
        """Return which launches of a recording CUDA refuses. Raises CannotJudgeError."""
        try:
            return launch_limits(bytes(host_memory(recording)))
        except UsageError as error:
            raise CannotJudgeError(str(error)) from None

    def sampled(self, recording: torch.Tensor, scenario: Scenario) -> MachineEvidence:
        """Return what some blocks of launches show that came without memory, cached.

        Only faults of memory count, and only where no address depends on data. Raises
        CannotJudgeError where the machine's process ends without an answer.
        """
        _, key = self._keyed(recording)
        if key not in self._seen:
            run_now(self.prepare_sample(recording, scenario))
        self._sampled.add(serial.dumps(scenario.cases))
        return self._known(key, scenario)

    async def _answer(
        self,
        function: str,
        recording: torch.Tensor,
        scenario: Scenario,
        wanted: bytes,
        *,
        timeout_s: float,
    ) -> None:
        """Ask the machine's process about a recording, once; it does one thing at a time."""
        data, key = self._keyed(recording)
        if key in self._seen:
            return
        async with self._one:
            if key in self._seen:
                return
            given = [host_memory(data), memoryview(wanted)]
            with self._timeline.span(Lane.MACHINE, scenario.label):
                try:
                    async with self._budget.limited():
                        self._seen[key] = await ask(
                            self._machine(), function, given, MachineEvidence, timeout_s=timeout_s
                        )
                except CannotJudgeError as error:
                    self._seen[key] = error
            while len(self._seen) > _KEPT:
                self._seen.popitem(last=False)

    def _known(self, key: str, scenario: Scenario) -> MachineEvidence:
        """Return the evidence of a recording, as seen in a scenario. Raises CannotJudgeError."""
        self._seen.move_to_end(key)
        seen, cases = self._seen[key], serial.dumps(scenario.cases)
        if isinstance(seen, CannotJudgeError):
            # How many launches there are is not known: one at least was made.
            self._of_cases.setdefault(cases, MachineEvidence(notes=(str(seen),), left_out=1))
            raise CannotJudgeError(str(seen))
        # The candidate's own call comes first: the reference as its control makes the same one, and
        # so do copies of the candidate with an edit.
        self._of_cases.setdefault(cases, seen)
        return seen

    def _machine(self) -> Caller:
        if self._caller is None:
            name = sha256_fields("ptx-machine", self._digest)
            self._caller = Caller(self._host.get(), name=name)
        return self._caller

    def _keyed(self, recording: torch.Tensor) -> tuple[torch.Tensor, str]:
        """Return a recording in the host's memory, and what names its bytes.

        Every check of the machine asks, and a recording may have many megabytes.
        """
        data = recording.cpu().contiguous()
        if recording not in self._keys:
            self._keys[recording] = hashlib.sha256(data.numpy().data).hexdigest()
        return data, self._keys[recording]
