"""A judge and the process that its workers are forked from import torch at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cuassay.model.device import CPU
from cuassay.model.trace import Finished
from cuassay.sandbox.host.apart import Apart
from cuassay.sandbox.host.nursery import Nursery
from tests.support.workers import LIMITS, candidate, nursery, pool, problem, ramp, scenario

_CODE = (
    "import sys\n"
    "from cuassay.model.device import CPU\n"
    "from cuassay.sandbox.host.nursery import Nursery\n"
    "from cuassay.sandbox.host.waits import run_now\n"
    "with Nursery(CPU) as nursery:\n"
    "    print('torch' in sys.modules, 'numpy' in sys.modules)\n"
    "    run_now(nursery.wait_ready())\n"
)


def test_who_starts_workers_imports_no_torch_for_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_the_next_trial_finds_it_as_new_until_it_has_a_compiler_or_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    with Nursery(CPU) as made:
        assert made.sandbox  # it is ready
        assert made.is_as_new()
        made.load_compiler()
        assert not made.is_as_new()
    with Nursery(CPU) as killed:
        assert killed.sandbox
        killed._process.kill()
        killed._process.wait()
        assert not killed.is_as_new()


def test_the_next_trial_finds_it_as_new_once_nothing_lives_below_it(tmp_path: Path) -> None:
    """Whatever a candidate left, and whoever was to end it: the judge looks itself."""
    with nursery() as made:
        with pool("def run(x):\n    return x", tmp_path, made) as workers:
            workers.run(scenario(), ramp)
            assert not made.is_as_new()
        assert made.is_as_new()


def test_a_crowded_folder_on_the_path_is_not_the_end_of_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may be read is told entry by entry where a home folder lies below: beyond 64 KiB."""
    crowd = tmp_path / "crowd"
    for number in range(1000):
        (crowd / f"{'x' * 60}{number}").mkdir(parents=True)
    monkeypatch.setenv("CUASSAY_HOME", str(crowd / "home"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(crowd)])
    source = "def run(x):\n    return x"
    with nursery() as made:
        with pool(source, tmp_path, made) as workers:
            assert workers.run(scenario(), ramp).result.termination == Finished()
        with Apart(
            candidate(source), problem(), device=CPU, nursery=lambda: made, limits=LIMITS
        ) as apart:
            assert apart.run(scenario(), ramp, fresh=True).result.termination == Finished()
