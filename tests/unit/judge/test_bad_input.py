"""Problems that nobody can judge end with one message; those that look so are judged."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from cuassay.errors import CannotJudgeError
from cuassay.formats import load_problem
from cuassay.judge import entry
from cuassay.judge.plan.preconditions import generate_once
from cuassay.judge.plan.smoke import smoke
from cuassay.judge.run.stuck import ended_where_stuck
from cuassay.model.device import CPU
from cuassay.model.jobs import TrialJob
from cuassay.model.problem import Problem
from tests.support import trees
from tests.unit.contract.problems import trial_of

_TWICE = "def run(x):\n    return x * 2\n"
_LOOPS = "def run(x):\n    while True:\n        pass\n"
_EVEN_ALONE = f"""import torch

def get(axes, device):
    if axes["n"] % 2:
        raise ValueError("n is odd")
    return {{"x": torch.arange(axes["n"] * axes["k"], device=device).view(axes["n"], axes["k"])}}

{_TWICE}"""
_VAR, _HUGE = {"type": "var"}, 1 << 40


def _problem(
    folder: Path,
    reference: str,
    n: Mapping[str, object],
    bound: Mapping[str, int],
    generator: str = "",
) -> Problem:
    changes: dict[str, object] = {"custom_inputs_entrypoint": generator} if generator else {}
    spec = {"shape": ["n", "k"], "dtype": "int64" if generator else "float32"}
    place = trees.sol(
        folder,
        "p",
        axes={"n": n, "k": _VAR},
        inputs={"x": spec},
        outputs={"y": spec},
        reference=reference,
        **changes,
    )
    source = {"x": {"type": "custom" if generator else "random"}}
    place.write_text(json.dumps({"uuid": "w", "axes": bound, "inputs": source}) + "\n")
    return load_problem(str(folder))


_STUCK = """
import sys
from cuassay.formats import load_problem
from cuassay.judge.plan.smoke import smoke
from cuassay.judge.run.stuck import ended_where_stuck
from tests.unit.contract.problems import trial_of

trial = trial_of(load_problem(sys.argv[1]))
with ended_where_stuck(lambda event: print(event.exit_code, event.message, flush=True),
                       "the reference", limit_s=2.0,
                       progress=lambda: len(trial.planned.learning.tried)):
    smoke(trial)
"""


def test_a_reference_that_loops_ends_the_trial_with_one_message(tmp_path: Path) -> None:
    _problem(tmp_path, _LOOPS, _VAR, {"n": 8, "k": 8})
    ended = subprocess.run(
        (sys.executable, "-c", _STUCK, str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.startswith("3 the reference did not return within 2 s: no verdict")
    assert len(ended.stdout.splitlines()) == 1


def test_what_makes_progress_is_left_alone() -> None:
    steps, for_long = itertools.count(), threading.Event()

    def progress() -> int:
        step = next(steps)
        if step > 8:  # four looks are one limit
            for_long.set()
        return step

    with ended_where_stuck(print, "nothing", progress=progress, limit_s=0.01):
        assert for_long.wait(300)


def test_a_generator_that_refuses_half_of_all_sizes_is_asked_for_the_others(tmp_path: Path) -> None:
    trial = trial_of(_problem(tmp_path, _EVEN_ALONE, _VAR, {"n": 8, "k": 8}, "get"))
    smoke(trial)
    generate_once(trial)
    cases = trial.cases("small")
    assert len(cases) > 2
    assert not any(case.axes["n"] % 2 for case in cases)
    assert any("n is odd" in one.refused for one in trial.planned.learning.tried)


def test_a_workload_beyond_all_memory_is_judged_at_smaller_sizes(tmp_path: Path) -> None:
    trial = trial_of(_problem(tmp_path, _TWICE, _VAR, {"n": _HUGE, "k": 8}))
    smoke(trial)
    assert max(case.axes["n"] for case in trial.cases("numeric")) < _HUGE


def test_a_constant_axis_beyond_all_memory_is_one_message(tmp_path: Path) -> None:
    constant = {"type": "const", "value": _HUGE}
    trial = trial_of(_problem(tmp_path, _TWICE, constant, {"k": 8}))
    with pytest.raises(CannotJudgeError, match=r"inputs and outputs of [0-9,]+ GiB, and this"):
        smoke(trial)


_DRAWS = """import torch

def run(x):
    return torch.nn.functional.dropout(x, 0.5)
"""
_DRAWS_IN_VAIN = """import torch

def run(x):
    weight = torch.nn.Linear(2, 1).weight
    weight.data = torch.full((2, 1), 2.0)
    return x * weight.detach()[0]
"""


def test_a_reference_that_draws_its_answer_is_named(tmp_path: Path) -> None:
    problem = _problem(tmp_path, _DRAWS, _VAR, {"n": 8, "k": 8})
    with pytest.raises(CannotJudgeError, match=r"draws random numbers.*'y'.*an input"):
        smoke(trial_of(problem))


def test_numbers_that_are_drawn_and_not_used_do_no_harm(tmp_path: Path) -> None:
    smoke(trial_of(_problem(tmp_path, _DRAWS_IN_VAIN, _VAR, {"n": 8, "k": 8})))


def test_a_pipe_is_not_waited_for_where_the_kind_of_a_kernel_is_guessed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kernel.py")
    job = TrialJob(problem="gemm", candidate=str(tmp_path / "kernel.py"), device=CPU)
    assert not entry._likely_machine(job)


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ("import triton", True),
        ("from quack.softmax import softmax_fwd", True),
        ("import cutlass.cute as cute", True),
        ("from liger_kernel.ops.rms_norm import LigerRMSNormFunction", True),
        ("import torch", False),
    ],
)
@pytest.mark.parametrize("folder", [False, True])
def test_the_machine_is_made_ready_for_what_it_will_execute(
    tmp_path: Path, text: str, machine: bool, folder: bool
) -> None:
    """A worker that finds it wanting compiles its runtime itself, for minutes."""
    (tmp_path / "kernel.py").write_text(text)
    place = tmp_path if folder else tmp_path / "kernel.py"
    job = TrialJob(problem="gemm", candidate=str(place), device=CPU)
    assert entry._likely_machine(job) is machine
