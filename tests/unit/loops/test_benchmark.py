"""The loops' GPU benchmark goes on where an earlier call ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.benchmark_modules import BENCHMARKS, loaded


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "loops_gpu", "common")


def _run(task: Any, **more: object) -> dict[str, Any]:
    names = ("part", "kernel", "site", "preset", "data", "optimizer", "seed", "start")
    fields = {name: getattr(task, name) for name in names}
    return {**fields, "planned_steps": task.steps, **more}


def test_runs_that_are_there_are_not_made_again(benchmark: ModuleType, tmp_path: Path) -> None:
    tasks = benchmark.tasks(True, "medium")
    assert len({benchmark._key(task) for task in tasks}) == len(tasks)
    full = [t for t in tasks if t.part in ("headline", "twins at full size")]
    assert len(full) == 108
    cells = [_run(full[0]), _run(full[1], error="it broke"), _run(full[2], undecided="no memory")]
    kept = tmp_path / "loops.json"
    kept.write_text(json.dumps({"results": {"cells": cells}}))
    part = tmp_path / "1-0.ndjson"
    part.write_text(json.dumps(_run(full[3])) + "\n" + '{"part": "headline", "ker')  # cut off
    found = benchmark.earlier([kept, tmp_path / "absent.json"], [part])
    assert set(found) == {benchmark._key(full[0]), benchmark._key(full[3])}


def test_the_kept_headline_is_known_by_its_runs(benchmark: ModuleType) -> None:
    planned = {benchmark._key(task) for task in benchmark.tasks(True, "medium")}
    found = benchmark.earlier([BENCHMARKS / "results" / "loops-h200.json"], [])
    assert len(found) >= 22
    assert set(found) <= planned
