"""Where trials run: the executor's interface, and lanes on this machine.

A trial is a process tree of its own (judge, zygote, workers). A lane runs one at a time and sees
one GPU. Lanes share a GPU: most of a trial is Python, compilers and waiting. What a trial plans
does not depend on who runs beside it; one that gave no verdict beside others is judged once more
with its GPU to itself, so that one lane and many give the same verdicts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import re
import shutil
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cuassay.engine import run
from cuassay.engine.builders import Builders, needs_build
from cuassay.engine.judge_process import JudgeProcess
from cuassay.engine.kept_judge import KeptJudge
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.events import EngineFinished, EngineStarted, EngineStopped, Event
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision

Watcher = Callable[["Task", str, Event], None]
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_OFF = 2  # the exit code of a file that is off, whoever runs beside
_LOOK_S = 0.5  # how often a lane that waits for a build asks whether the audit was stopped
_CORES_FOR_SPARES = 2  # of each lane, before a second judge may start beside the first
_CORES_FOR_BUILDS = 8  # of each CPU lane that builds for the GPU's lanes
_CORES_OF_A_TRIAL = 2.5  # Python in the judge or in a worker, and what the next judge imports
# Beside five others each trial takes 4.4 times as long as alone on an H200, so that more at once
# end hardly more a minute (benchmarks/results/audit-throughput-h200.json).
_TRIALS_OF_A_GPU = 3
# What a trial at `quick` books of a GPU, and the contexts of the judge that waits beside it.
GIB_OF_A_TRIAL = 14.125
_GIB_OF_A_SPARE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One trial to run: the job, where its run folder belongs, and which attempt this is.

    `files` is what another machine needs to read the job's problem and candidate.
    """

    id: str
    job: TrialJob
    folder: Path
    attempt: int = 1
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnded:
    """How a trial ended. `lost` says that its machine went away, not that the trial failed."""

    task: Task
    event: EngineFinished | EngineStopped
    lane: str
    duration_s: float
    lost: bool = False


class TaskExecutor(Protocol):
    """Runs tasks and yields them as they end, in any order."""

    @property
    def name(self) -> str:
        """How the executor is called in reports."""

    def run(
        self, tasks: Sequence[Task], *, stop: Callable[[], bool], watch: Watcher
    ) -> Iterator[TaskEnded]:
        """Yield each task that ended. Once `stop` returns True no further one is started.

        `watch` hears every event, from any thread. Closing the iterator ends what runs.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLane:
    """One place for one trial at a time: its name, torch's device, and its environment."""

    name: str
    device: Device | None
    environment: Mapping[str, str] = field(default_factory=dict)


def local_lanes(device: Device | None, count: int | None) -> tuple[DeviceLane, ...]:
    """Return the lanes of this machine: one a GPU, or `count` of them on the CPU.

    `device` is cpu, cuda (every visible GPU), cuda:N, or None for cuda where there is a GPU.
    """
    visible = () if device == CPU else visible_gpus()
    if device is not None and device.number is not None:
        visible = visible[device.number : device.number + 1] or (str(device.number),)
    if device == CPU or (device is None and not visible):
        wanted = count or max(1, _cores() // 8)
        return tuple(DeviceLane(name=f"cpu:{number}", device=CPU) for number in range(wanted))
    gpus = visible or ("0",)
    return tuple(
        DeviceLane(name=f"cuda:{gpu}", device=CUDA, environment={_VISIBLE: gpu})
        for gpu in gpus[: count or len(gpus)]
    )


def audit_lanes(device: Device | None, count: int | None) -> tuple[DeviceLane, ...]:
    """Return the lanes of an audit here: `count`, or what processors and GPU memory allow.

    Those of a GPU share it. `device` is as for `local_lanes`.
    """
    alone = local_lanes(device, None)
    if alone[0].device != CUDA:
        return local_lanes(device, count)
    if count is None:
        of_cores = _cores() / len(alone) / _CORES_OF_A_TRIAL
        of_memory = _least_memory_gib() / (GIB_OF_A_TRIAL + _GIB_OF_A_SPARE)
        count = len(alone) * max(1, int(min(of_cores, of_memory, _TRIALS_OF_A_GPU)))
    return tuple(
        dataclasses.replace(lane, name=lane.name if not number else f"{lane.name}.{number}")
        for place in range(count)
        for number, lane in [(place // len(alone), alone[place % len(alone)])]
    )


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    chosen = os.environ.get(_VISIBLE)
    if chosen is not None:
        return tuple(name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1"))
    if shutil.which("nvidia-smi") is None:
        return ()
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(re.findall(r"^GPU (\d+):", listed, re.MULTILINE))


def _least_memory_gib() -> float:
    """Return the memory of the smallest GPU of this machine; 0 where nobody says."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0.0
    found = [int(line) for line in listed.stdout.split() if line.isdigit()]
    return min(found, default=0) / 1024


class LocalExecutor:
    """Lanes on this machine, each a thread that feeds one judge after another.

    While one trial runs, a lane starts the judge of the next, which takes seconds; `spares`
    chooses whether, by default where there are processors for it.
    """

    def __init__(
        self,
        lanes: Sequence[DeviceLane],
        *,
        timeout_s: float | None = None,
        spares: bool | None = None,
    ) -> None:
        self._lanes = tuple(lanes)
        self._timeout_s = timeout_s
        roomy = _cores() >= _CORES_FOR_SPARES * len(self._lanes)
        self._spares = roomy if spares is None else spares

    @property
    def name(self) -> str:
        """`local`."""
        return "local"

    def run(
        self, tasks: Sequence[Task], *, stop: Callable[[], bool], watch: Watcher
    ) -> Iterator[TaskEnded]:
        """See Executor. What has no verdict beside others on its GPU is judged again at last."""
        on_gpus = [lane for lane in self._lanes if lane.device == CUDA]
        gpus = {lane.environment.get(_VISIBLE): lane for lane in reversed(on_gpus)}
        shared = len(gpus) < len(on_gpus)
        undecided: dict[str, TaskEnded] = {}
        for ended in self._on(self._lanes, tasks, stop, watch):
            # What nobody beside a trial could have caused stands; the rest is judged again alone.
            match ended.event:
                case EngineFinished(verdict=verdict):
                    stands = verdict.decision is not Decision.INCONCLUSIVE
                case EngineStopped(exit_code=code):
                    stands = code == _OFF
            if shared and not stands:
                undecided[ended.task.id] = ended
            else:
                yield ended
        left = [another_attempt(ended.task) for ended in undecided.values()]
        for ended in self._on(tuple(gpus.values()), left, stop, watch) if left else ():
            undecided.pop(ended.task.id)
            yield ended
        yield from undecided.values()  # the audit was stopped: what they had

    def _on(
        self,
        lanes: Sequence[DeviceLane],
        tasks: Sequence[Task],
        stop: Callable[[], bool],
        watch: Watcher,
    ) -> Iterator[TaskEnded]:
        # The tasks that a CPU lane builds first: CUDA C++ for a GPU lane.
        if not self._spares or not any(lane.device == CUDA for lane in lanes):
            builds = {}
        else:
            builds = {task.id: task for task in tasks if needs_build(task.files)}
        shared = LaneQueue([t for t in tasks if t.id not in builds], stop, watch, later=builds)
        if not builds:
            builders = None
        else:
            builders = Builders(
                {name: dataclasses.replace(task.job, device=CUDA) for name, task in builds.items()},
                count=max(1, _cores() // _CORES_FOR_BUILDS),
                environment=lanes[0].environment,
                timeout_s=self._timeout_s,
                done=shared.arrive,
            )
        threads = [
            threading.Thread(target=self._serve, args=(lane, shared), daemon=True)
            for lane in lanes[: len(tasks)]
        ]
        try:
            yield from shared.served(threads)
        finally:
            if builders is not None:
                builders.close()
            for thread in threads:
                thread.join()

    def _serve(self, lane: DeviceLane, shared: LaneQueue) -> None:
        waiting: JudgeProcess | None = None
        kept, problem = KeptJudge(), ""
        try:
            while (task := shared.next(problem)) is not None:
                problem = task.job.problem
                job = dataclasses.replace(task.job, device=lane.device)
                judge = kept.take(job)
                if judge is None:
                    judge = waiting if waiting is not None and waiting.alive else None
                    if judge is None:
                        _discard(waiting)
                        judge = judge_for(lane, task, prewarm=False, stays=True)
                    waiting = None
                with shared.running(judge):
                    started = time.monotonic()
                    last: Event | None = None
                    for last in run.check(
                        job, folder=task.folder, judge=judge, timeout_s=self._timeout_s
                    ):
                        shared.watch(task, lane.name, last)
                        # The next candidate of this problem takes this judge.
                        wanted = self._spares and waiting is None and shared.changes(problem)
                        if wanted and isinstance(last, EngineStarted):
                            # With no process or space left the next trial starts its own.
                            with contextlib.suppress(OSError):
                                waiting = judge_for(lane, task, prewarm=True, stays=True)
                    took_s = time.monotonic() - started
                kept.keep(judge, last)
                if shared.closed:
                    return  # it was killed with the audit: no ending of its own
                if not isinstance(last, EngineFinished | EngineStopped):
                    last = EngineStopped(exit_code=3, message="the trial ended without a word")
                ended = TaskEnded(task=task, event=last, lane=lane.name, duration_s=took_s)
                shared.ended.put(ended)
        except BaseException as error:
            shared.ended.put(error)
        finally:
            kept.close()
            _discard(waiting)
            shared.ended.put(None)


def judge_for(lane: DeviceLane, task: Task, *, prewarm: bool, stays: bool = False) -> JudgeProcess:
    """Start a judge, which stays; its log is moved into the run folder when it gets its job."""
    log = task.folder.with_name(f".judge-{os.getpid()}-{time.monotonic_ns()}.log")
    job = task.job
    wish = {
        "device": lane.device or CPU,
        "hide": list(job.hide),
        "within": list(job.within),
        "no_sandbox": job.no_sandbox,
    }
    prewarmed = wish if prewarm else None
    return JudgeProcess(log=log, environment=lane.environment, prewarm=prewarmed, stays=stays)


def _discard(judge: JudgeProcess | None) -> None:
    if judge is not None:
        judge.stop()
        if judge.log is not None:
            judge.log.unlink(missing_ok=True)


class LaneQueue:
    """What the lanes share: the tasks that are left, and those that ended.

    `ended` takes a task that ended, an exception for the caller, or None for a lane that ended.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        stop: Callable[[], bool],
        watch: Watcher,
        *,
        later: Mapping[str, Task] | None = None,
    ) -> None:
        self._tasks = deque(tasks)
        self._later = dict(later or {})
        self._change = threading.Condition()
        self._at_work: Counter[str] = Counter()  # problems, by how many lanes judge them
        self._first = {task.id: task.attempt for task in (*tasks, *self._later.values())}
        self._stop, self.watch = stop, watch
        self.closed = False
        self.no_lane_because = ""  # what the cluster said when it last gave no machine
        self._running: set[JudgeProcess] = set()
        self.ended: queue.SimpleQueue[TaskEnded | BaseException | None] = queue.SimpleQueue()

    def served(self, lanes: Sequence[threading.Thread]) -> Iterator[TaskEnded]:
        """Start the lanes, yield what ends, and close when the last one ended."""
        for lane in lanes:
            lane.start()
        try:
            running = len(lanes)
            while running:
                ended = self.ended.get()
                if isinstance(ended, BaseException):
                    raise ended
                if ended is None:
                    running -= 1
                else:
                    yield ended
            while (task := self.next()) is not None:
                why = f": {self.no_lane_because}" if self.no_lane_because else ""
                stopped = EngineStopped(
                    exit_code=3, message=f"no machine was left to judge it on{why}"
                )
                yield TaskEnded(task=task, event=stopped, lane="", duration_s=0.0, lost=True)
        finally:
            self.close()

    def put_back(self, task: Task) -> None:
        """Put a task at the end of the queue."""
        with self._change:
            self._tasks.append(task)
            self._change.notify_all()

    def first_attempt(self, task: Task) -> int:
        """Return the attempt that a task was given with."""
        return self._first.get(task.id, task.attempt)

    def next(self, problem: str = "") -> Task | None:
        """Return the next task, or None where there is none or no more may be started.

        One of the `problem` that the lane judged last, else one of a problem that no other lane
        judges, else any: who stays with a problem keeps its judge. Waits for tasks that are still
        being built.
        """
        with self._change:
            if problem:
                self._at_work[problem] -= 1
            while not (self.closed or self._stop()):
                if self._tasks:
                    # `place` is where in the queue the next task of a lane stands.
                    problems = [task.job.problem for task in self._tasks]
                    if problem in problems:
                        place = problems.index(problem)
                    else:
                        free = (n for n, one in enumerate(problems) if not self._at_work[one])
                        place = next(free, 0)
                    task = self._tasks[place]
                    self._tasks.remove(task)
                    self._at_work[task.job.problem] += 1
                    return task
                if not self._later:
                    return None
                self._change.wait(timeout=_LOOK_S)
        return None

    def changes(self, problem: str) -> bool:
        """Whether another task will be started, and none of them is of this problem."""
        with self._change:
            if any(task.job.problem == problem for task in self._tasks):
                return False
        return self.has_more()

    def arrive(self, name: str) -> None:
        """Let the lanes have a task that was built."""
        with self._change:
            self._tasks.append(self._later.pop(name))
            self._change.notify_all()

    def has_more(self) -> bool:
        """Whether another task will be started."""
        left = bool(self._tasks) or bool(self._later)
        return left and not self.closed and not self._stop()

    @contextlib.contextmanager
    def running(self, judge: JudgeProcess) -> Iterator[None]:
        """Have a judge killed where everything is closed meanwhile."""
        self._running.add(judge)
        try:
            if self.closed:
                judge.kill()
            yield
        finally:
            self._running.discard(judge)

    def close(self) -> None:
        """Start no more and kill what runs."""
        self.closed = True
        for judge in tuple(self._running):
            judge.kill()


def another_attempt(task: Task) -> Task:
    """Return a task to be run once more, in a run folder of its own."""
    attempt = task.attempt + 1
    folder = task.folder.with_name(f"{task.folder.name.rpartition('-')[0]}-{attempt}")
    job = dataclasses.replace(task.job, run_label=str(folder))
    return dataclasses.replace(task, job=job, attempt=attempt, folder=folder)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
