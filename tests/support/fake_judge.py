"""A judge that judges nothing: it reads its job and does what the candidate's first line says.

`# accept`, `# reject`, `# wait SECONDS` or `# until FILE` (before the verdict), `# die`,
`# unreadable`, `# stop`. It stands in for `python -m cuassay.judge` where the driver is what is
tested.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

from cuassay.engine import judge_process
from cuassay.model import serial
from cuassay.model.events import Document, EngineFinished, EngineStarted, EngineStopped, Event
from cuassay.model.jobs import BuildJob, TrialJob
from cuassay.model.verdict import BenchmarkRule, Verdict

sys.path.insert(0, str(Path(__file__).absolute().parents[2]))
from tests.support import samples

COMMAND = (sys.executable, "-P", str(Path(__file__).absolute()))


def install(monkeypatch: object) -> None:
    """Put the fake in place of the real judge for one test."""
    monkeypatch.setattr(judge_process, "COMMAND", COMMAND)  # type: ignore[attr-defined]


def verdict_for(job: TrialJob) -> Verdict:
    """Return the verdict of a job: what the candidate's text says, the job's seed in it."""
    text = Path(job.candidate).read_text()
    base = samples.rejected() if "# reject" in text else samples.accepted()
    rule = BenchmarkRule(
        accepted="theirs" in text,
        matched_ratio=1.0,
        required_ratio=0.99,
        atol=0.01,
        rtol=0.01,
        workload="w",
    )
    return dataclasses.replace(
        base,
        problem=Path(job.problem).name,
        candidate=Path(job.candidate).stem,
        profile=job.profile,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        seed=job.seed or 0,
        benchmark_rule=rule,
        run=Path(job.run_dir).name,
    )


def _end_with_driver() -> None:
    driver = int(os.environ.get("CUASSAY_DRIVER", "0"))

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.05)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Answer one job on the descriptor named by the last argument."""
    _end_with_driver()
    text = sys.stdin.read()
    if not text:
        return
    job: TrialJob | BuildJob = serial.loads(TrialJob | BuildJob, text)
    first = Path(job.candidate).read_text().partition("\n")[0]

    def emit(event: Event) -> None:
        os.write(int(sys.argv[-1]), serial.dumps(event).encode() + b"\n")

    if isinstance(job, BuildJob):
        Path(job.candidate).with_suffix(".built").write_text(os.environ["CUDA_VISIBLE_DEVICES"])
        emit(Document(text="{}"))
        return
    emit(
        EngineStarted(
            run=Path(job.run_dir).name,
            problem=job.problem,
            candidate=job.candidate,
            profile=job.profile.value,
            device=job.device or "cpu",
            digest="d",
            checks=(),
            seed=job.seed or 0,
        )
    )
    if "# wait" in first:
        time.sleep(float(first.split()[2]))
    while "# until" in first and not Path(first.split()[2]).exists():
        time.sleep(0.02)
    if "# die" in first:
        os.kill(os.getpid(), signal.SIGKILL)
    if "# unreadable" in first:
        emit(EngineStopped(exit_code=2, message="line 1: not valid JSON"))
    elif "# stop" in first:
        emit(EngineStopped(exit_code=3, message="the reference fails"))
    else:
        emit(EngineFinished(verdict=verdict_for(job)))


if __name__ == "__main__":
    main()
