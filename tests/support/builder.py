"""A builder of few lines. Each worker imports it, so it imports neither pytest nor torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cuassay.errors import BuildError, MissingToolError
from cuassay.model.candidate import Candidate
from cuassay.model.problem import Problem


@dataclass(frozen=True)
class Loaded:
    """What a builder returns."""

    call: Callable[..., object]
    seconds: float
    cached: bool = False
    kind: str = "python"
    toolchain: Mapping[str, str] = field(default_factory=dict)


def load(candidate: Candidate, problem: Problem, *, device: str, folder: Path) -> Loaded:
    """Execute the entry file; a marker in `folder` tells whether it was there before."""
    started = time.perf_counter()
    marker = folder / "built"
    cached = marker.exists()
    marker.write_text("yes")
    text = candidate.sources[0].text
    if "NEEDS_TOOL" in text:
        raise MissingToolError("nvcc is not installed")
    scope: dict[str, Callable[..., object]] = {}
    exec(compile(text, "kernel.py", "exec"), scope)
    if candidate.entry_function not in scope:
        raise BuildError(f"no function '{candidate.entry_function}'", text)
    return Loaded(scope[candidate.entry_function], time.perf_counter() - started, cached)
