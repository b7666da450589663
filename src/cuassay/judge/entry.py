"""What a judge process does: jobs on standard input, events on the descriptor named by argv.

Standard output and error are a log: references and libraries may print what they like.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import site
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from cuassay import settings
from cuassay.errors import BuildError, CannotJudgeError, CuassayError, UsageError
from cuassay.home import private_dirs
from cuassay.model import serial
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.events import EngineStopped, Event
from cuassay.model.jobs import (
    LOG,
    BuildJob,
    ExecuteJob,
    Job,
    LoopJob,
    PowerJob,
    ProveJob,
    ReplayJob,
    ShowJob,
    TacticsJob,
    TrialJob,
)
from cuassay.model.packages import packages_of
from cuassay.sandbox.environment_failure import environment_failure
from cuassay.sandbox.gpu_context import begin_context
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.syscalls import set_dumpable

# The driver's names for them are engine.judge_process.PREWARM, DRIVER and STARTED.
PREWARM, DRIVER, STARTED = "CUASSAY_PREWARM", "CUASSAY_DRIVER", "CUASSAY_STARTED"
READY = b"\n"  # engine.judge_process.READY
_AT_START = frozenset(sys.modules)  # no job has imported these
_WATCH_S = 0.5
_RunsCandidate: TypeAlias = (
    TrialJob | ReplayJob | BuildJob | TacticsJob | ExecuteJob | ProveJob | LoopJob
)
_KERNEL_SIGNS = ("load_inline", "__global__")


def main() -> int:
    """Judge the jobs on standard input, a line each, and write their events; return the exit code.

    The next one is taken after a job that ended well, once nothing of it is left.
    """
    started = float(os.environ.pop(STARTED, time.time()))
    set_dumpable(False)  # no other process of this user reads the seed out of this one
    with os.fdopen(int(sys.argv[1]), "wb", buffering=0) as sink, ExitStack() as stack:

        def emit(event: Event) -> None:
            sink.write(serial.dumps(event).encode() + b"\n")

        driver = int(os.environ.pop(DRIVER, "0"))
        place: _Place | None = None
        if PREWARM in os.environ:
            wish = json.loads(os.environ.pop(PREWARM))
            place = stack.enter_context(contextlib.closing(_Place(driver, _prepared(wish, driver))))
        code = 0
        # A driver that wants one verdict closes the other end; one that wants more waits for READY.
        for number, line in enumerate(iter(sys.stdin.readline, "")):
            if place is None:
                place = stack.enter_context(contextlib.closing(_Place(driver)))
            else:
                started = time.time()
            job: Job = serial.loads(Job, line)
            if number and isinstance(job, TrialJob) and job.run_dir:
                with contextlib.suppress(OSError), open(Path(job.run_dir) / LOG, "ab") as log:
                    os.dup2(log.fileno(), 1)
                    os.dup2(log.fileno(), 2)
            code = _guarded(job, emit, started, place)
            if code or not place.is_as_new() or _imported_elsewhere(job):
                return code
            # Free what the last job left: cycles that hold tensors, and memory that torch keeps.
            gc.collect()
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_initialized():
                torch.cuda.empty_cache()
            with contextlib.suppress(OSError):  # nobody waits for it
                sink.write(READY)
        return code


def _prepared(wish: dict[str, Any], driver: int) -> Nursery:
    """Do what takes long and needs no job: a spare judge waits for one."""
    hidden = [*private_dirs(), *map(Path, wish["hide"])]
    device = Device(wish["device"])
    nursery = Nursery(device, hide=hidden, machine=True)
    if not wish.get("no_sandbox"):
        _confined(device, wish.get("within", ()), wish["hide"])
    _end_with_driver(driver)
    begin_context(device)
    with contextlib.suppress(ImportError):  # told with the job
        _verbs(device)
        from cuassay.judge.rehearsal import prepare

        prepare(device)
    return nursery


def _verbs(device: Device | None = None) -> ModuleType:
    """Import what does the jobs, torch first, and return it; a GPU `device` warms up meanwhile.

    What is imported stays until the end: nobody looks for garbage in it, which takes a sixth of
    the time, now or later.
    """
    loaded = sys.modules.get("cuassay.judge.verbs")
    if loaded is not None:
        return loaded
    gc.disable()
    try:
        if device is not None and device.on_gpu:
            from cuassay.judge.warm_up import begin_warm_up

            begin_warm_up(device)
        from cuassay.judge import verbs
    finally:
        gc.enable()
    gc.freeze()
    return verbs


def _confined(device: Device, within: Sequence[str], writable: Sequence[str]) -> None:
    """Confine this process where the reference is a foreign one. Raises CannotJudgeError."""
    if not within or settings.get("CUASSAY_SANDBOX") == "off":
        return
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()  # what is begun would not be confined; it loads libraries, and ends
    from cuassay.judge.confine_judge import confine

    why = confine(device=device, within=within, writable=writable)
    if why:
        raise CannotJudgeError(
            f"this machine does not confine the references of an audit ({why}). `cuassay doctor` "
            "tests each wall. For problems that you trust like your own code: --no-sandbox"
        )


def _end_with_driver(driver: int) -> None:
    """Kill this process group when the driver is gone: nobody would read the verdict.

    A parent-death signal would come when the driver's *thread* ends.
    """

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_WATCH_S)
        os.killpg(0, signal.SIGKILL)

    if driver and os.getpgrp() == os.getpid():
        threading.Thread(target=watch, daemon=True).start()


class _Place:
    """What the jobs of a judge share: the process that workers are forked from."""

    def __init__(self, driver: int, nursery: Nursery | None = None) -> None:
        """`nursery` is that of a judge that waited for its job: everything else is ready, too."""
        self._driver, self._is_ready = driver, nursery is not None
        self.nursery = nursery

    def prepare(self, job: Job) -> Device | None:
        """Prepare for a job; return the device that is still to be warmed up, if any."""
        writable: tuple[str, ...] = ()
        if not isinstance(job, ShowJob | PowerJob):
            writable = job.hide
            if job.no_sandbox:
                settings.tell(settings.told() | {"CUASSAY_SANDBOX": "off"})
            if job.arch:
                settings.tell(settings.told() | {settings.MACHINE_ARCH: job.arch})
            # Before torch is imported here: the zygote imports its own copy meanwhile.
            self.nursery = self.nursery or _nursery(job)
        if self._is_ready:
            return None
        self._is_ready = True
        # A thread that is started before would not be confined.
        _confined(job.device or _likely_kind(), job.within, writable)
        _end_with_driver(self._driver)
        if self.nursery is None:
            return None
        begin_context(self.nursery.device)
        return self.nursery.device

    def is_as_new(self) -> bool:
        """Whether the next job finds what the first one found."""
        return self.nursery is None or self.nursery.is_as_new()

    def close(self) -> None:
        """End every process."""
        if self.nursery is not None:
            self.nursery.close()


def _imported_elsewhere(job: Job) -> bool:
    """Whether this process holds code whose changes the driver does not see.

    The driver looks at the files of the problem's folder. What is installed does not change beneath
    a running process; anything else that a problem imported might.
    """
    known = [Path(path) for path in (*sysconfig.get_paths().values(), *site.getsitepackages())]
    for name in ("cuassay", "cuassay_guard", "cuassay_loops", "ptxsan"):  # checkouts, perhaps
        known += [Path(p) for p in getattr(sys.modules.get(name), "__path__", ())]
    problem = Path(job.problem.partition(":")[0]).expanduser()
    if problem.exists():
        known.append(problem if problem.is_dir() else problem.parent)
    roots = tuple(str(path.resolve()) + os.sep for path in known)
    later = [module for name, module in tuple(sys.modules.items()) if name not in _AT_START]
    files = (getattr(module, "__file__", None) for module in later)
    # What torch makes up has a name that is no path: `_ops.py`.
    named = (Path(file) for file in files if isinstance(file, str))
    return any(f.is_absolute() and not str(f.resolve()).startswith(roots) for f in named)


def _guarded(job: Job, emit: Callable[[Event], None], started: float, place: _Place) -> int:
    """Run the job; every failure becomes one EngineStopped event."""
    try:
        _known_settings()
        warmed = place.prepare(job)
        _verbs(warmed).run(job, emit, started, place.nursery)
    except UsageError as error:
        emit(EngineStopped(exit_code=2, message=str(error)))
        return 2
    except (CannotJudgeError, BuildError) as error:
        emit(EngineStopped(exit_code=3, message=str(error)))
        return 3
    except CuassayError as error:
        emit(EngineStopped(exit_code=3, message=str(error)))
        return 3
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        emit(EngineStopped(exit_code=3, message=_import_message(error)))
        return 3
    except Exception as error:  # the machine's fault, or our own: shown in full
        failure = environment_failure(error)
        if failure:
            emit(EngineStopped(exit_code=3, message=failure))
            return 3
        text = f"{type(error).__name__}: {error}"
        emit(EngineStopped(exit_code=3, message=text, traceback=traceback.format_exc()))
        return 3
    return 0


def _nursery(job: _RunsCandidate) -> Nursery:
    device = job.device or _likely_kind()
    hidden = [*private_dirs(), *map(Path, job.hide)]
    return Nursery(device, hide=hidden, machine=_likely_machine(job))


def _likely_machine(job: _RunsCandidate) -> bool:
    """Whether kernels will be executed in the PTX machine, by the look of the candidate's file.

    A wrong guess costs time only: its runtime is then loaded for nothing, or compiled by a worker,
    which takes minutes.
    """
    path = Path(job.candidate.partition("::")[0]).expanduser()
    if isinstance(job, ExecuteJob | ProveJob) or path.suffix in (".cu", ".cuh"):
        return True
    with contextlib.suppress(OSError):
        if path.is_dir() and any(path.glob("**/*.cu")):
            return True
        files = path.glob("**/*.py") if path.is_dir() else (path,)
        texts = (one.read_text(errors="ignore") for one in files if one.is_file())  # no pipe
        return any(packages_of(t) or any(sign in t for sign in _KERNEL_SIGNS) for t in texts)
    return False


def _known_settings() -> None:
    """Raise UsageError for a setting of the environment that means nothing."""
    way = settings.get(settings.TRITON)
    if way and way not in settings.TRITON_WAYS:
        raise UsageError(
            f"{settings.TRITON} is '{way}': expected {' or '.join(settings.TRITON_WAYS)}; leave it "
            f"unset for {settings.TRITON_WAYS[0]}"
        )


def _likely_kind() -> Device:
    return CUDA if Path("/dev/nvidiactl").exists() else CPU


def _import_message(error: ImportError) -> str:
    missing = (error.name or "").split(".")[0]
    if missing in ("torch", "triton", "numpy", "ml_dtypes"):
        return (
            f"{missing} is not installed; `cuassay doctor` prints the command that installs what "
            "is missing here"
        )
    here = Path(__file__).name
    return f"{type(error).__name__}: {error} (met while starting {here})"
