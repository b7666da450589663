"""Compiled functions on a GPU: Inductor around Triton kernels and custom operators."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
import torch
from tests.zoo.judging import Gate
from tests.zoo.manifest import HERE, PAIRS, Pair, load

from cuassay.model.outcome import Passed
from cuassay.model.verdict import Profile

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
OPERATORS = [pair for pair in PAIRS if pair.codes[0] in ("OPCHECK001", "COMPILE001")]
ONLY = ("NUM001", "OPCHECK001", "COMPILE001")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Gate("cuda") as opened:
        yield opened


@pytest.mark.parametrize("pair", OPERATORS, ids=lambda pair: pair.name)
def test_bug_is_rejected_and_twin_is_not(pair: Pair, gate: Gate) -> None:
    for path, accepted in ((pair.bug, False), (pair.twin, True)):
        found = gate.judge(
            load(pair.problem),
            path,
            profile=Profile.STANDARD,
            seed=secrets.randbits(62),
            require=pair.require,
            only=ONLY,
        )
        assert found.accepted is accepted, f"{path}: {found}"


@pytest.mark.parametrize(("name", "problem"), [("rmsnorm", "rmsnorm"), ("swiglu", "swiglu")])
def test_triton_kernels_compile_to_the_same_answers(name: str, problem: str, gate: Gate) -> None:
    found = gate.judge(
        load(problem),
        HERE / "honest" / f"{name}_triton.py",
        profile=Profile.STANDARD,
        seed=secrets.randbits(62),
        require=("compile",),
        only=ONLY,
    )
    assert found.accepted, str(found)
    (report,) = (r for r in found.verdict.checks if r.code == "COMPILE001")
    assert isinstance(report.outcome, Passed), report.outcome
