"""A judge that judges nothing: it reads its job and does what the candidate's first line says.

`# accept`, `# reject`, `# wait SECONDS` or `# until FILE` (before the verdict), `# die`,
`# unreadable`, `# stop`. It stands in for `python -m cuassay.judge` where the driver is what is
tested. What it says is written here, once: its process imports nothing of cuassay.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from cuassay.engine import judge_process
from cuassay.model import serial
from cuassay.model.events import Document, EngineFinished, EngineStarted, EngineStopped, Event
from cuassay.model.verdict import BenchmarkRule, Profile, Verdict

sys.path.insert(0, str(Path(__file__).absolute().parents[2]))
from tests.support import samples

_RULE = BenchmarkRule(
    accepted=False,
    matched_ratio=1.0,
    required_ratio=0.99,
    atol=0.01,
    rtol=0.01,
    workload="w",
)


def _finished(verdict: Verdict) -> Event:
    """Return the last event; the process writes names, digest and seed of its job into it."""
    return EngineFinished(verdict=dataclasses.replace(verdict, benchmark_rule=_RULE))


_STARTED = EngineStarted(
    run="", problem="", candidate="", profile=Profile.QUICK.value, device="cpu", digest="d",
    checks=(), seed=0,
)  # fmt: skip
_SAYS: dict[str, Event] = {
    "built": Document(text="{}"),
    "started": _STARTED,
    "accepted": _finished(samples.accepted()),
    "rejected": _finished(samples.rejected()),
    "unreadable": EngineStopped(exit_code=2, message="line 1: not valid JSON"),
    "stop": EngineStopped(exit_code=3, message="the reference fails"),
}
COMMAND = (
    *(sys.executable, "-I", "-S"),
    str(Path(__file__).absolute().with_name("fake_judge_process.py")),
    json.dumps({name: serial.to_json(event) for name, event in _SAYS.items()}),
)


def install(monkeypatch: object) -> None:
    """Put the fake in place of the real judge for one test."""
    monkeypatch.setattr(judge_process, "COMMAND", COMMAND)  # type: ignore[attr-defined]
