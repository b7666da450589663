"""Every planted bug that a CPU can express is rejected by the gate, and its twin accepted.

Half of them: the other one is in test_verdicts_other.py, for another process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.checks.registry import all_checks
from tests.zoo.judging import Gate
from tests.zoo.manifest import HERE, load
from tests.zoo.verdicts import (
    BUGS,
    TWINS,
    Trial,
    half,
    judged_rightly,
    one_a_program,
    program,
)

# The families under "where the faults were" of the audit that the design rests on.
FAMILIES = (
    "host-side state",
    "declared inputs that do not reach the output",
    "NaN on large finite inputs",
    "fp16 range inside a bf16 operator",
    "TF32 inside an fp32 operator",
    "low-precision accumulation",
    "over-fit to shapes",
    "special-casing",
    "outputs not written",
    "output and input contract",
    "non-determinism",
    "does not build",
)


@pytest.mark.parametrize("trial", half(0), ids=str)
def test_bug_is_rejected_and_twin_accepted(trial: Trial, gate: Gate, secret_seed: int) -> None:
    judged_rightly(trial, gate, secret_seed)


def test_the_halves_hold_every_trial_once() -> None:
    trials = [str(trial) for number in (0, 1) for trial in half(number)]
    assert len(trials) == len(set(trials)) == len(one_a_program(TWINS)) + len(BUGS)
    assert 0.7 < len(half(0)) / len(half(1)) < 1.5


def test_each_twin_is_judged_by_the_checks_of_all_pairs_that_it_is_the_twin_of() -> None:
    judged = {program(t.pair): t.checks for n in (0, 1) for t in half(n) if not t.planted}
    assert 0.9 * len(TWINS) < len(judged) < len(TWINS)
    for pair in TWINS:
        assert {*Trial(pair=pair, planted=False).checks} <= {*judged[program(pair)]}, pair.name


def test_a_bug_meets_its_checks_and_its_twin_their_families() -> None:
    pair = next(pair for pair in BUGS if pair.name == "memo_by_sample")  # STATE001, NUM001
    bug, twin = (set(Trial(pair=pair, planted=planted).checks) for planted in (True, False))
    assert bug == {"STATE001", "NUM001"}
    assert twin == bug | {"PROC001"}  # APART001 and META001 have no class of the letter S
    pair = next(pair for pair in BUGS if pair.name == "eps_dropped")  # NUM001
    twin = set(Trial(pair=pair, planted=False).checks)
    assert {"NUM001", "NUM002", "NUM003", "NUM004", "NUM005", "META001"} <= twin
    assert not {code for code in twin if code.startswith(("MEM", "API", "LAYOUT", "SHP"))}


def test_every_check_with_a_bug_judges_a_twin() -> None:
    judged = {code for n in (0, 1) for t in half(n) if not t.planted for code in t.checks}
    known = {check.code for check in all_checks()}
    assert {code for pair in TWINS for code in pair.codes} & known <= judged


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_real_faults_has_a_pair(family: str) -> None:
    assert any(pair.lesson.startswith(family) for pair in BUGS)


def test_the_precision_grade_looks_at_plain_calls_alone(gate: Gate, secret_seed: int) -> None:
    """Kernels that were disarmed, or read poison, give answers that grade nothing."""
    pytest.importorskip("triton")
    path = HERE / "honest" / "swiglu_triton.py"
    found = gate.judge(load("swiglu"), path, seed=secret_seed)
    assert found.verdict.precision_grade == "strict"


def test_a_kernel_that_the_machine_does_not_cover_is_interpreted_and_the_verdict_says_why(
    gate: Gate, secret_seed: int, tmp_path: Path
) -> None:
    """Triton's compiler knows no `break`; its interpreter, which is Python, does."""
    pytest.importorskip("triton")
    plain = (HERE / "honest" / "rmsnorm_triton.py").read_text()
    start, end = plain.index("    columns = tl"), plain.index("\n\n\ndef run")
    body = plain[start:end].replace("\n    ", "\n        ")
    looped = f"{plain[:start]}    for _ in range(2):\n    {body}\n        break{plain[end:]}"
    for name, text in (("plain", plain), ("looped", looped)):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        found = gate.judge(load("rmsnorm"), path, seed=secret_seed, only=("NUM001",))
        assert found.accepted, str(found)
        said = next(text for text in found.verdict.conditions if text.startswith("device:"))
        assert ("UnsupportedLanguageConstruct" in said) == (name == "looped"), said
        assert ("the PTX machine does not cover a kernel" in said) == (name == "looped"), said
