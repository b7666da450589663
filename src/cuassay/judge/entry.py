"""What a judge process does: a job on standard input, events on the descriptor named by argv.

Standard output and error are a log: references and libraries may print what they like.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
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
from cuassay.model.events import EngineStopped, Event
from cuassay.model.jobs import (
    BuildJob,
    ExecuteJob,
    Job,
    LoopJob,
    PowerJob,
    ProveJob,
    ReplayJob,
    ShowJob,
    TrialJob,
)
from cuassay.sandbox.environment_failure import environment_failure
from cuassay.sandbox.gpu_context import begin_context
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.syscalls import set_dumpable

# The driver's names for them are engine.judge_process.PREWARM, DRIVER and STARTED.
PREWARM, DRIVER, STARTED = "CUASSAY_PREWARM", "CUASSAY_DRIVER", "CUASSAY_STARTED"
_WATCH_S = 0.5
_RunsCandidate: TypeAlias = TrialJob | ReplayJob | BuildJob | ExecuteJob | ProveJob | LoopJob
_KERNEL_SIGNS = ("triton", "load_inline", "__global__")


def main() -> int:
    """Judge the job on standard input and write its events; return the exit code."""
    started = float(os.environ.pop(STARTED, time.time()))
    set_dumpable(False)  # no other process of this user reads the seed out of this one
    with os.fdopen(int(sys.argv[1]), "wb", buffering=0) as sink, ExitStack() as stack:

        def emit(event: Event) -> None:
            sink.write(serial.dumps(event).encode() + b"\n")

        nursery = None
        driver = int(os.environ.pop(DRIVER, "0"))
        if PREWARM in os.environ:
            wish = json.loads(os.environ.pop(PREWARM))
            nursery = stack.enter_context(_prepared(wish, driver))
            text = sys.stdin.read()
            if not text:
                return 0  # it was not needed
            started = time.time()
        else:
            text = sys.stdin.read()
        return _guarded(serial.loads(Job, text), emit, started, nursery, driver)


def _prepared(wish: dict[str, Any], driver: int) -> Nursery:
    """Do what takes long and needs no job: a spare judge waits for one."""
    hidden = [*private_dirs(), *map(Path, wish["hide"])]
    nursery = Nursery(wish["device"], hide=hidden, machine=True)
    if not wish.get("no_sandbox"):
        _confined(wish["device"], wish.get("within", ()), wish["hide"])
    _end_with_driver(driver)
    begin_context(wish["device"])
    with contextlib.suppress(ImportError):  # told with the job
        _verbs(wish["device"]).prepare(wish["device"])
    return nursery


def _verbs(device: str = "") -> ModuleType:
    """Import what does the jobs, torch first, and return it; a GPU `device` warms up meanwhile.

    What is imported stays until the end: nobody looks for garbage in it, which takes a sixth of
    the time, now or later.
    """
    gc.disable()
    try:
        if device.startswith("cuda"):
            from cuassay.judge.warm_up import begin_warm_up

            begin_warm_up(device)
        from cuassay.judge import verbs
    finally:
        gc.enable()
    gc.freeze()
    return verbs


def _confined(device: str, within: Sequence[str], writable: Sequence[str]) -> None:
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


def _guarded(
    job: Job, emit: Callable[[Event], None], started: float, nursery: Nursery | None, driver: int
) -> int:
    """Run the job; every failure becomes one EngineStopped event."""
    try:
        with ExitStack() as stack:
            _known_settings()
            prepared = nursery is not None
            writable: tuple[str, ...] = ()
            if not isinstance(job, ShowJob | PowerJob):
                writable = job.hide
                if job.no_sandbox:
                    settings.tell(settings.told() | {"CUASSAY_SANDBOX": "off"})
                # Before torch is imported here: the zygote imports its own copy meanwhile.
                nursery = nursery or stack.enter_context(_nursery(job))
            if not prepared:  # a thread that is started before would not be confined
                _confined(job.device or _likely_kind(), job.within, writable)
                _end_with_driver(driver)
                if nursery is not None:
                    begin_context(nursery.device)
            warmed = nursery.device if nursery is not None and not prepared else ""
            _verbs(warmed).run(job, emit, started, nursery)
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
    device = _likely_device(job)
    hidden = [*private_dirs(), *map(Path, job.hide)]
    return Nursery(device, hide=hidden, machine=_likely_machine(job))


def _likely_machine(job: _RunsCandidate) -> bool:
    """Whether kernels will be executed in the PTX machine, by the look of the candidate's file.

    A wrong guess costs time only: its runtime is then loaded in each worker, or for nothing.
    """
    path = Path(job.candidate.partition("::")[0]).expanduser()
    if isinstance(job, ExecuteJob | ProveJob) or path.suffix in (".cu", ".cuh"):
        return True
    with contextlib.suppress(OSError):
        if path.is_dir():
            return any(path.glob("**/*.cu"))
        if path.is_file():  # a pipe would never end, and is refused as it is loaded
            return any(sign in path.read_text(errors="ignore") for sign in _KERNEL_SIGNS)
    return False


def _known_settings() -> None:
    """Raise UsageError for a setting of the environment that means nothing."""
    way = settings.get(settings.TRITON)
    if way and way not in settings.TRITON_WAYS:
        raise UsageError(
            f"{settings.TRITON} is '{way}': expected {' or '.join(settings.TRITON_WAYS)}; leave it "
            f"unset for {settings.TRITON_WAYS[0]}"
        )


def _likely_device(job: _RunsCandidate) -> str:
    """Return the device that torch will most likely choose; a wrong guess costs time only."""
    return job.device or _likely_kind()


def _likely_kind() -> str:
    return "cuda" if Path("/dev/nvidiactl").exists() else "cpu"


def _import_message(error: ImportError) -> str:
    missing = (error.name or "").split(".")[0]
    extra = {"torch": "torch", "triton": "triton", "numpy": "torch", "ml_dtypes": "triton"}
    if missing in extra:
        return f"{missing} is not installed: pip install 'cuassay[{extra[missing]}]'"
    here = Path(__file__).name
    return f"{type(error).__name__}: {error} (met while starting {here})"
