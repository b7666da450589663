"""What a waiting judge does before its job is known."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cuassay.judge import rehearsal
from cuassay.judge.trial import JudgeTrial
from cuassay.model.case import Case
from cuassay.model.device import CPU
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
    rehearsal.rehearse(CPU)
    assert tuple(dict.fromkeys(made)) == rehearsal._REHEARSED


def test_triton_is_whole_for_torch_while_its_first_steps_are_taken() -> None:
    """Torch begins with modules of Triton's depth: a second thread would meet half of the package.

    In a process of its own, where nothing of Triton was loaded.
    """
    pytest.importorskip("triton")
    program = (
        "import torch\n"
        "from cuassay.judge import rehearsal\n"
        "rehearsal.begin_triton()\n"
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
