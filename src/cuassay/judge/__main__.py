"""Entry of the judge process: a job on standard input, events on the descriptor named by argv.

Standard output and error are a log: references and libraries may print what they like.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from cuassay.engine.job import Job
from cuassay.errors import BuildError, CannotJudgeError, CuassayError, UsageError
from cuassay.model import serial
from cuassay.model.events import EngineStopped, Event
from cuassay.worker.nursery import Nursery


def main() -> int:
    """Judge the job on standard input and write its events; return the exit code."""
    started = float(os.environ.get("CUASSAY_STARTED", time.time()))
    with os.fdopen(int(sys.argv[1]), "wb", buffering=0) as sink:

        def emit(event: Event) -> None:
            sink.write(serial.dumps(event).encode() + b"\n")

        return _guarded(serial.loads(Job, sys.stdin.read()), emit, started)


def _guarded(job: Job, emit: Callable[[Event], None], started: float) -> int:
    """Run the job; every failure becomes one EngineStopped event."""
    try:
        with ExitStack() as stack:
            # Before torch is imported here: the zygote imports its own copy meanwhile.
            nursery = stack.enter_context(Nursery(_likely_device(job))) if _works(job) else None
            from cuassay.judge.verbs import run

            run(job, emit, started, nursery)
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
    except Exception as error:  # our own fault: shown in full
        text = f"{type(error).__name__}: {error}"
        emit(EngineStopped(exit_code=3, message=text, traceback=traceback.format_exc()))
        return 3
    return 0


def _works(job: Job) -> bool:
    """Whether the job runs a candidate at all."""
    return job.mode not in ("show", "power")


def _likely_device(job: Job) -> str:
    """Return the device that torch will most likely choose; a wrong guess costs time only."""
    if job.device:
        return job.device
    return "cuda" if Path("/dev/nvidiactl").exists() else "cpu"


def _import_message(error: ImportError) -> str:
    missing = (error.name or "").split(".")[0]
    extra = {"torch": "torch", "triton": "triton", "numpy": "torch", "ml_dtypes": "triton"}
    if missing in extra:
        return f"{missing} is not installed: pip install 'cuassay[{extra[missing]}]'"
    here = Path(__file__).name
    return f"{type(error).__name__}: {error} (met while starting {here})"


if __name__ == "__main__":
    # Everything is closed by now; taking torch and CUDA apart would cost the user half a second.
    os._exit(main())
