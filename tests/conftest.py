"""What every test of a trial needs to know of this machine: which walls it can build."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

_SOURCE = Path(__file__).resolve().parent.parent / "src"


def pytest_collection() -> None:
    """Collect eight thousand tests without looking for garbage: a fifth of the time otherwise."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let later searches for garbage pass over modules and tests, which stay to the end."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def walls() -> Mapping[str, str]:
    """Return wall -> "yes", or why it does not stand on this machine."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cuassay.sandbox.guest.process.walls"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=dict(os.environ, PYTHONPATH=str(_SOURCE)),
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="session", autouse=True)
def judge_without_walls_where_there_are_none(request: pytest.FixtureRequest) -> None:
    """Let trials run on machines that confine nothing: elsewhere nothing changes.

    Tests of a wall itself ask for `walls` and skip with its reason.
    """
    from cuassay.model.walls import fallen

    if fallen(request.getfixturevalue("walls")):
        os.environ["CUASSAY_SANDBOX"] = "off"
