"""The condition that a trial without a GPU has, by what executed the kernels."""

from __future__ import annotations

import pytest

from cuassay import settings
from cuassay.build import INTERPRETER, MACHINE
from cuassay.judge.decide.executed_by import IN_MACHINE, executed_by
from cuassay.model.candidate import Language
from cuassay.model.device import CPU, CUDA
from tests.support.builds import candidate

_PLAIN = candidate("def run(x):\n    return x\n")
_TRITON = candidate("import triton\ndef run(x):\n    return x\n")
_CUDA = candidate("__global__ void run() {}", language=Language.CUDA_KERNEL)


@pytest.fixture(autouse=True)
def own_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.MACHINE_ARCH, raising=False)


@pytest.mark.parametrize("made", [_PLAIN, _TRITON, _CUDA])
def test_a_gpu_puts_no_condition_on_a_verdict(made: object) -> None:
    assert isinstance(made, type(_PLAIN))
    assert executed_by(made, CUDA, MACHINE) == ""


def test_plain_python_on_a_cpu_has_none_either() -> None:
    assert executed_by(_PLAIN, CPU, "python") == ""


def test_the_machine_is_named_with_the_architecture_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert executed_by(_CUDA, CPU, "whatever") == IN_MACHINE
    assert executed_by(_TRITON, CPU, f"triton{MACHINE}") == IN_MACHINE
    monkeypatch.setenv(settings.MACHINE_ARCH, "sm_100")
    assert executed_by(_CUDA, CPU, "") == f"{IN_MACHINE}; it was compiled for sm_100"


@pytest.mark.parametrize("kind", [INTERPRETER, "nothing that is known"])
def test_the_weaker_statement_stands_where_nothing_better_is_known(kind: str) -> None:
    said = executed_by(_TRITON, CPU, kind)
    assert said.startswith("device: judged on a CPU, numbers by Triton's interpreter;")


def test_a_workers_reason_is_one_short_line() -> None:
    said = executed_by(_TRITON, CPU, INTERPRETER, because="it\nsays \x1b[31m" + "x" * 1000)
    assert "interpreter because it" in said
    assert "\n" not in said
    assert "\x1b" not in said
    assert said.count("x") < 300
