"""What a waiting judge does before its job is known."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cuassay.catalog import registry
from cuassay.judge import verbs
from cuassay.judge.trial import JudgeTrial
from cuassay.model.case import Case
from cuassay.model.device import CPU, CUDA
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Profile
from cuassay.oracle.truth.make import Truth


def test_a_rehearsal_makes_a_truth_of_each_of_its_operators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    asked = JudgeTrial.truth

    def noted(self: JudgeTrial, case: Case) -> Truth:
        made.append(self.problem.name)
        return asked(self, case)

    monkeypatch.setattr(JudgeTrial, "truth", noted)
    verbs.rehearse(CPU)
    assert tuple(dict.fromkeys(made)) == verbs._REHEARSED


def test_triton_is_whole_for_torch_while_its_first_steps_are_taken() -> None:
    """Torch begins with modules of Triton's depth: a second thread would meet half of the package.

    In a process of its own, where nothing of Triton was loaded.
    """
    pytest.importorskip("triton")
    program = (
        "import torch\n"
        "from cuassay.judge import verbs\n"
        "verbs._begin_triton()\n"
        "import torch.utils.flop_counter\n"
        "import torch._inductor.runtime.hints\n"
        "import triton\n"
        "print(hasattr(triton.backends, 'compiler'))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert (ran.returncode, ran.stdout, "triton not found" in ran.stderr) == (0, "True\n", False), (
        ran.stderr
    )


def test_what_trials_share_is_that_of_one_problem_seed_profile_and_device() -> None:
    problem, other = registry.get("rmsnorm"), registry.get("swiglu")

    def job(seed: int, profile: Profile = Profile.QUICK) -> TrialJob:
        return TrialJob(problem="", candidate="", seed=seed, profile=profile)

    shared = verbs._OfOneSeed()
    shared.open(job(1), problem, CPU)
    truths, powers = shared.truths, shared.powers
    shared.open(job(1), problem, CPU)
    assert shared.truths is truths
    assert shared.powers is powers
    for asked, of, device in (
        (job(2), problem, CPU),
        (job(2), other, CPU),
        (job(2), other, CUDA),
        (job(2, Profile.STANDARD), other, CUDA),
    ):
        shared.open(asked, of, device)
        assert shared.truths is not truths
        assert shared.powers is not powers
        truths, powers = shared.truths, shared.powers
