"""Kernels that refuse every size but those of a workload that is too large for most checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.formats import load_problem
from tests.support import foreign, trees
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate

_TEXT = foreign.KERNELBENCH.replace("batch_size = 16", "batch_size = 12_288")
_FIXED = foreign.MODEL_NEW.replace(
    "        return", "        assert x.shape[0] == 12_288, x.shape\n        return"
)
_LAST = "made = self.bn(self.linear(x)) + self.bias\n        made[-1] = 0\n        return made"


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "accepted", "alone"),
    [
        (_FIXED, True, True),
        (_FIXED.replace("return self.bn(self.linear(x)) + self.bias", _LAST), False, True),
        (foreign.MODEL_NEW, True, False),
    ],
)
def test_a_kernel_is_judged_at_the_only_size_that_it_takes(
    tmp_path: Path, gate: Gate, text: str, accepted: bool, alone: bool
) -> None:
    problem = load_problem(str(trees.write(tmp_path / "3_Large.py", _TEXT)))
    file = trees.write(tmp_path / f"kernel{int(accepted)}{int(alone)}.py", text)
    judged = gate.judge(problem, file, seed=11, only=("NUM001", "SHP001", "API003"))
    assert judged.accepted == accepted, str(judged)
    assert bool(judged.codes) == (not accepted)
    said = [one for one in judged.verdict.conditions if one.startswith("shapes:")]
    assert said == (["shapes: only the sizes of its workloads (batch_size in {12288})"] * alone)
    tried = {entry.axis: entry.values for entry in judged.verdict.coverage}
    assert (tried["batch_size"] == (12_288,)) == alone
