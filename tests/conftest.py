"""What every test of a trial needs to know of this machine: which walls it can build."""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from cuassay.judge.__main__ import keep_memory
from tests.support.heartbeat import Heartbeat

if TYPE_CHECKING:
    from cuassay.sandbox.host.nursery import Nursery

# Examples of a property: few and always the same in `make test`, many and new ones in `make power`.
settings.register_profile("few", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("few")  # `--hypothesis-profile` comes later, and wins
_ROOT = Path(__file__).resolve().parent.parent
_SOURCE = _ROOT / "src"
# What takes longest is begun first: the last file of a run keeps one worker busy and no other.
_LONGEST = (
    "tests/zoo/test_verdicts.py",
    "tests/zoo/test_verdicts_other.py",
    "tests/zoo/test_false_alarms.py",
    "tests/hostile/test_hostile.py",
    "packages/ptxsan/tests/unit/prove/test_memory.py",
    "packages/ptxsan/tests/unit/host/test_program.py",
    "packages/ptxsan/tests/unit/test_textures.py",
    "tests/unit/sandbox/test_hostile.py",
    "tests/unit/engine/test_run.py",
    "tests/unit/engine/test_sidecar.py",
    "tests/unit/judge/proofs/test_beyond.py",
    "tests/unit/judge/proofs/test_host_changes.py",
    "tests/unit/judge/test_concurrent.py",
    "tests/unit/judge/diagnose/test_clues.py",
    "tests/unit/judge/kept/test_export.py",
    "tests/unit/guard/fleet/test_recertify.py",
    "tests/unit/test_pytest_plugin.py",
    "tests/repo/test_readme_sections.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Let processes that tests start find what `tests/support/startup` says of garbage.

    Where pytest-xdist has the tests in other processes, say now and then how far they are.
    """
    keep_memory()  # as a judge does: many tests judge in this process
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Heartbeat(config))
    startup = str(Path(__file__).parent / "support" / "startup")
    paths = [startup, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def pytest_collection() -> None:
    """Collect eight thousand tests without looking for garbage: a fifth of the time otherwise."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, then with those of most tests; pytest-xdist keeps the order."""
    counts = Counter(item.path for item in items)
    places = {_ROOT / name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: (places.get(item.path, len(places)), -counts[item.path]))


def pytest_collection_finish() -> None:
    """Let later searches for garbage pass over modules and tests, which stay to the end."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 20, 20)  # truths make many short-lived objects
    atexit.register(gc.freeze)


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


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Return what workers are forked from, one for all tests of a process that need no own.

    It has the PTX machine loaded, and its workers can import builders of `tests`.
    """
    from cuassay.model.device import CPU
    from cuassay.sandbox.host.nursery import Nursery

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(_SOURCE), str(_SOURCE.parent)]))
        patch.setenv("CUASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        made = Nursery(CPU, machine=True)
    with made:
        yield made


@pytest.fixture
def judge_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what the engine asks of a judge be done in this process: see `JudgeHere`.

    A busy machine ends no trial at `quick` before its checks are done. What repeats calls until a
    clock ends it has a tenth of its time.
    """
    from cuassay.engine import run
    from cuassay.judge.run import budget
    from tests.support.few_calls import give_little_time
    from tests.support.judge_here import JudgeHere

    monkeypatch.setattr(budget, "QUICK_S", 3600.0)
    give_little_time(monkeypatch)
    made = partial(JudgeHere, lambda: request.getfixturevalue("nursery"))
    monkeypatch.setattr(run, "JudgeProcess", made)


@pytest.fixture
def judge_of_plain_calls(judge_here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trials of `judge_here` run the checks of plain calls alone.

    For tests of what is done with verdicts: that all checks run is held by `tests/unit/engine`,
    and takes ten seconds of a processor a trial.
    """
    from cuassay.checks.registry import all_checks
    from cuassay.judge import trial_job

    few = tuple(one for one in all_checks() if one.code in ("API002", "NUM001", "SHP001"))
    monkeypatch.setattr(trial_job, "all_checks", lambda: few)
