"""An engine that judges nothing: events and failures for tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cuassay.engine import run  # here, not by name: pytester forgets what a test imports
from cuassay.model.events import Event
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Verdict
from tests.support import samples


class FakeEngine:
    """Stands in for `cuassay.engine.run`: remembers what it was asked, yields what it was given."""

    def __init__(self, events: tuple[Event, ...] = (), *, error: BaseException | None = None):
        self.events, self.error = events, error
        self.jobs: list[TrialJob] = []
        self.replays: list[tuple[str, str | None]] = []

    def check(self, job: TrialJob) -> Iterator[Event]:
        self.jobs.append(job)
        return self._stream()

    def replay(self, where: str, *, device: str | None = None, export: str = "") -> Iterator[Event]:
        self.replays.append((where, device))
        return self._stream()

    def show_problem(self, where: str, *, strict: bool = False) -> Mapping[str, Any]:
        if self.error is not None:
            raise self.error
        return DOCUMENT | {"signature": "x, rstd, mask, eps", "name": where, "strict": strict}

    def _stream(self) -> Iterator[Event]:
        yield from self.events
        if self.error is not None:
            raise self.error


def install(
    monkeypatch: pytest.MonkeyPatch,
    verdict: Verdict | None = None,
    *,
    events: tuple[Event, ...] = (),
    error: BaseException | None = None,
) -> FakeEngine:
    """Put a fake engine in place of the real one for one test and return it."""
    fake = FakeEngine(events if verdict is None else samples.events(verdict), error=error)
    for name in ("check", "replay", "show_problem"):
        monkeypatch.setattr(run, name, getattr(fake, name))
    return fake


DOCUMENT: dict[str, Any] = {
    "signature": "x, rstd, mask, eps",
    "template": [
        "import torch",
        "",
        "def run(x, rstd, mask, eps):",
        "    # y: bfloat16[rows, hidden]",
        "    return y",
    ],
    "reference": {"path": "rmsnorm.py", "function": "run", "text": "def run(x): ..."},
    "name": "rmsnorm",
    "description": "RMSNorm over the last axis.",
    "axes": [
        {"name": "rows", "kind": "var", "minimum": 1, "maximum": None, "multiple_of": 1,
         "declared": False, "source": "default", "description": ""},
        {"name": "groups", "kind": "var", "minimum": 1, "maximum": 64, "multiple_of": 8,
         "declared": True, "source": "sidecar cuassay.toml", "description": ""},
        {"name": "length", "kind": "var", "minimum": 1, "maximum": 512, "multiple_of": 1,
         "declared": False, "source": "sidecar cuassay.toml", "description": ""},
        {"name": "hidden", "kind": "const", "value": 4096, "description": ""},
        {"name": "half", "kind": "expr", "expression": "hidden // 2", "description": ""},
    ],
    "inputs": [
        {"name": "x", "dtype": "bfloat16", "kind": "tensor", "shape": ["rows", "hidden"],
         "description": "what is normalized"},
        {"name": "rstd", "dtype": "float32", "kind": "tensor", "shape": ["rows"]},
        {"name": "mask", "dtype": "bool", "kind": "tensor", "shape": ["rows"]},
        {"name": "eps", "dtype": "float32", "kind": "scalar", "default": 1e-6},
    ],
    "outputs": [{"name": "y", "dtype": "bfloat16", "kind": "tensor", "shape": ["rows", "hidden"]}],
    "domains": {
        "x": {"type": "Real", "low": None, "high": None, "source": "default",
              "words": "a finite number"},
        "rstd": {"type": "Positive", "low": 0.5, "high": 2.0, "source": "sidecar cuassay.toml",
                 "words": "positive in [0.5, 2.0]"},
        "mask": {"type": "Mask", "kind": "padding", "additive": False, "source": "inferred",
                 "words": "padding mask"},
        "eps": {"type": "Real", "low": 1e-7, "high": 1e-3, "source": "declared",
                "words": "real in [1e-07, 0.001]"},
    },
    "workloads": [{"id": f"w{n}", "axes": {"rows": 2**n, "hidden": 4096}} for n in range(14)],
    "accumulation": "bfloat16",
    "growth_target": {"rows": 1_000_000},
    "truth": "float64",
    "truth_reason": "every operation was lifted",
}  # fmt: skip
