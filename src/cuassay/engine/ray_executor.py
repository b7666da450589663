"""Lanes on a Ray cluster: one actor a GPU, which runs one process tree a candidate.

An actor holds a whole GPU for as long as the audit runs and feeds it like a local lane, with a
judge that prepares itself beside the one that works. Ray retries nothing: a trial whose actor
or node is lost goes back to the queue, at most twice, and is reported. What travels is source
text and events; no callable and no tensor is pickled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cuassay import __version__
from cuassay.engine import run
from cuassay.engine.executors import (
    DeviceLane,
    LaneQueue,
    Task,
    TaskEnded,
    Watcher,
    another_attempt,
    judge_for,
)
from cuassay.engine.judge_process import JudgeProcess
from cuassay.engine.shipping import packed, unpacked
from cuassay.errors import CannotJudgeError, missing_extra
from cuassay.held_folder import RAY, make_held_folder
from cuassay.model import serial
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.events import EngineFinished, EngineStarted, EngineStopped, Event
from cuassay.model.jobs import TrialJob
from cuassay.store.runs import RunFolder

ATTEMPTS = 3  # the first, and twice again
_READY_S = 120.0
_KEPT = ("candidate.json", "problem.json", "judge.log")
_KEPT_BYTES = 8 * 2**20


class RayWorker:
    """The actor: runs jobs one after another on the GPU that Ray gave it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        os.environ.update(environment)
        # A node or an actor may be killed: the next actor there removes what it left.
        self._folder, self._lock = make_held_folder(
            RAY, remove=lambda left: shutil.rmtree(left, ignore_errors=True)
        )
        self._waiting: JudgeProcess | None = None
        self._count = 0

    def ready(self) -> tuple[str, str, str]:
        """Return version, host and GPU."""
        return __version__, socket.gethostname(), os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def judge(
        self, job_text: str, contents: Mapping[str, bytes], options: Mapping[str, Any]
    ) -> Iterator[bytes]:
        """Yield the events of a trial as JSON lines, and at last the files of its run folder."""
        self._count += 1
        place = self._folder / str(self._count)
        (place / "files").mkdir(parents=True)
        given: TrialJob = serial.loads(TrialJob, job_text)
        job = unpacked(given, contents, place / "files")
        job = dataclasses.replace(job, device=Device(options["device"]), hide=(str(self._folder),))
        if job.within:  # what was shipped lies here now
            job = dataclasses.replace(job, within=(str(self._folder),))
        lane = DeviceLane(name="ray", device=Device(options["device"]))
        task = Task(id=str(self._count), job=job, folder=place / "run")
        waiting, self._waiting = self._waiting, None
        judge = waiting if waiting and waiting.alive else judge_for(lane, task, prewarm=False)
        for event in run.check(
            job, folder=task.folder, judge=judge, timeout_s=options["timeout_s"]
        ):
            if isinstance(event, EngineStarted) and options["more"]:
                self._waiting = judge_for(lane, task, prewarm=True)
            # Messages name files as the driver has them.
            yield serial.dumps(event).replace(str(place / "files"), "").encode()
        found = {}
        for name in _KEPT:
            with contextlib.suppress(OSError):
                data = (task.folder / name).read_bytes()[-_KEPT_BYTES:]
                found[name] = data.decode(errors="replace")
        yield json.dumps({"files": found}).encode()
        shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """End a judge that waits, and remove what was written."""
        if self._waiting is not None:
            self._waiting.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


class RayExecutor:
    """Runs tasks on a Ray cluster, or on one that it starts on this machine.

    `lanes` bounds the actors; `device` is cpu, or cuda for one actor a GPU (the default where
    the cluster has GPUs).
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        device: Device | None = None,
        lanes: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._address, self._device = address, device
        self._lanes, self._timeout_s = lanes, timeout_s

    @property
    def name(self) -> str:
        """`ray`."""
        return "ray"

    def run(
        self, tasks: Sequence[Task], *, stop: Callable[[], bool], watch: Watcher
    ) -> Iterator[TaskEnded]:
        """See Executor. Raises MissingToolError without ray, CannotJudgeError without a cluster."""
        ray = _connected(self._address)
        # How many actors there is room for, and their device.
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        if self._device == CPU or (self._device is None and not gpus):
            count, device = self._lanes or max(1, int(resources.get("CPU", 1)) // 8), CPU
        else:
            if not gpus:
                raise CannotJudgeError(
                    f"--device {self._device}: the Ray cluster has no GPU (it has "
                    f"{dict(resources)}); start it with --num-gpus, or use --device cpu"
                )
            count, device = min(gpus, self._lanes or gpus), CUDA
        shared = LaneQueue(tasks, stop, watch)
        threads = [
            threading.Thread(target=self._serve, args=(ray, number, device, shared), daemon=True)
            for number in range(min(count, max(1, len(tasks))))
        ]
        try:
            yield from shared.served(threads)
        finally:
            if self._address is None:
                ray.shutdown()

    def _serve(self, ray: Any, number: int, device: Device, shared: LaneQueue) -> None:
        """Feed one actor; make another where it is lost."""
        actor: Any = None
        name = f"ray:{number}"
        try:
            while (task := shared.next()) is not None:
                if actor is None:
                    actor, name = self._actor(ray, device, shared)
                if actor is None:
                    shared.put_back(task)
                    return
                ended = self._one(ray, actor, task, name, device=device, shared=shared)
                if shared.closed:
                    return
                if isinstance(ended, TaskEnded):
                    shared.ended.put(ended)
                else:
                    _killed(ray, actor)
                    actor = None
                    # Put a task back, or report it where it was lost too often.
                    another = another_attempt(task)
                    if another.attempt - shared.first_attempt(task) < ATTEMPTS:
                        shared.put_back(another)
                    else:
                        message = f"its machine was lost {ATTEMPTS} times, last on {name}: {ended}"
                        stopped = EngineStopped(exit_code=3, message=message)
                        shared.ended.put(
                            TaskEnded(
                                task=task, event=stopped, lane=name, duration_s=0.0, lost=True
                            )
                        )
        except BaseException as error:
            shared.ended.put(error)
        finally:
            if actor is not None:
                with contextlib.suppress(Exception):
                    ray.get(actor.close.remote(), timeout=10)
                _killed(ray, actor)
            shared.ended.put(None)

    def _actor(self, ray: Any, device: Device, shared: LaneQueue) -> tuple[Any, str]:
        """Return a new actor with its lane's name; None where the cluster has no room for it.

        One that is lost before it is ready is made again. Raises CannotJudgeError where its node
        runs another version.
        """
        kind = ray.remote(RayWorker).options(
            num_gpus=1 if device.on_gpu else 0, num_cpus=1, max_restarts=0, max_task_retries=0
        )
        for _ in range(ATTEMPTS):
            actor = kind.remote({"RAY_USAGE_STATS_ENABLED": "0"})
            try:
                version, host, gpu = ray.get(actor.ready.remote(), timeout=_READY_S)
                break
            except ray.exceptions.RayError as error:
                _killed(ray, actor)
                shared.no_lane_because = _first_line(error)
                if isinstance(error, TimeoutError):
                    return None, ""
        else:
            return None, ""
        if version != __version__:
            raise CannotJudgeError(
                f"node {host} has cuassay {version}, this one {__version__}: verdicts of two "
                "versions cannot stand in one table; install the same on every node"
            )
        return actor, f"ray:{host}:{gpu or 'cpu'}"

    def _one(
        self, ray: Any, actor: Any, task: Task, lane: str, *, device: Device, shared: LaneQueue
    ) -> TaskEnded | str:
        """Run one task and keep its events here as they come; why, where the actor was lost."""
        started = time.monotonic()
        last: Event | None = None
        kept = RunFolder.create(task.job, path=task.folder)
        options = {"device": device, "timeout_s": self._timeout_s, "more": shared.has_more()}
        method = actor.judge.options(num_returns="streaming")
        try:
            for reference in method.remote(serial.dumps(task.job), packed(task.files), options):
                line = ray.get(reference)
                if line.startswith(b'{"files"'):
                    files = json.loads(line)["files"]
                    for name in _KEPT:
                        with contextlib.suppress(OSError):
                            if name in files:
                                (task.folder / name).write_text(files[name], encoding="utf-8")
                    continue
                last = serial.loads(Event, line.decode())
                assert last is not None
                kept.append(last)
                shared.watch(task, lane, last)
                if shared.closed:
                    _killed(ray, actor)
                    break
        except ray.exceptions.RayError as error:
            if not isinstance(last, EngineFinished | EngineStopped):
                return _first_line(error)
        finally:
            kept.close()
        if not isinstance(last, EngineFinished | EngineStopped):
            return "its events ended without a verdict"
        took_s = time.monotonic() - started
        return TaskEnded(task=task, event=last, lane=lane, duration_s=took_s)


def _connected(address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A lane that goes on when the audit has ended would start a cluster of its own.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise missing_extra("ray", "ray") from None
    if ray.is_initialized():
        return ray
    given = {"address": address} if address else {"include_dashboard": False}
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **given)
    except Exception as error:
        where = address or "on this machine"
        raise CannotJudgeError(
            f"the Ray cluster {where} cannot be reached: {type(error).__name__}: {error}; check "
            "--address and `ray status`"
        ) from None
    return ray


def _first_line(error: Exception) -> str:
    """Return what Ray says in one line."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _killed(ray: Any, actor: Any) -> None:
    with contextlib.suppress(Exception):
        ray.kill(actor, no_restart=True)
