"""Operators as folders: a fault at sizes that no listed shape has is found, its twin accepted.

`operators/NAME/FAULT.diff` plants a fault in `operators/NAME/solution.py` that is right at every
listed shape: only a size that was a constant of the reference's module shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.formats import load_problem
from tests.zoo import planted
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate

HERE = Path(__file__).parent / "operators"
CODES = ("NUM001", "SHP001")
_FAULTS = sorted(HERE.glob("*/*.diff"))


@pytest.fixture(scope="module")
def local() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


@pytest.mark.parametrize(
    "operator", sorted({path.parent for path in _FAULTS}), ids=lambda p: p.name
)
def test_a_solution_is_accepted_at_sizes_that_are_not_listed(
    operator: Path, local: Gate, secret_seed: int
) -> None:
    problem = load_problem(str(operator))
    judged = local.judge(problem, operator / "solution.py", seed=secret_seed, only=CODES)
    assert judged.accepted, str(judged)
    assert not [one for one in judged.verdict.conditions if one.startswith("built:")]
    tried = {entry.axis: set(entry.values) for entry in judged.verdict.coverage}
    listed = {
        name: {workload.axes[name] for workload in problem.workloads} for name in problem.built
    }
    assert all(tried[name] - sizes for name, sizes in listed.items()), tried


@pytest.mark.parametrize("patch", _FAULTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_fault_that_no_listed_shape_shows_is_rejected(
    patch: Path, local: Gate, secret_seed: int, tmp_path: Path
) -> None:
    twin = patch.parent / "solution.py"
    file = tmp_path / f"{patch.stem}.py"
    file.write_text(planted.patched(twin.read_text("utf-8"), patch.read_text("utf-8")), "utf-8")
    problem = load_problem(str(patch.parent))
    assert local.first_finding(problem, file, codes=CODES, seed=secret_seed, only=CODES)
