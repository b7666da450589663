"""Every planted bug that a CPU can express is rejected by the gate, for one of its reasons."""

from __future__ import annotations

import pytest

from cuassay.model.verdict import Profile
from tests.zoo.judging import Gate
from tests.zoo.manifest import HERE, PAIRS, Pair, load

# What only `deep` can show takes too long here: `make power` with --profile deep has it.
# By problem: one after another, candidates of a problem share its truths.
ON_CPU = sorted(
    (pair for pair in PAIRS if not pair.needs_gpu and pair.since is not Profile.DEEP),
    key=lambda pair: (pair.problem, pair.since),
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


@pytest.mark.parametrize("pair", ON_CPU, ids=lambda pair: pair.name)
def test_bug_is_rejected(pair: Pair, gate: Gate, secret_seed: int) -> None:
    if pair.triton:
        pytest.importorskip("triton")
    found = gate.first_finding(
        load(pair.problem),
        pair.bug,
        codes=pair.codes,
        seed=secret_seed,
        profile=pair.since,
        require=pair.require,
        only=pair.checks,
    )
    assert found is not None, f"accepted at {pair.since}: CUASSAY_ZOO_SEED={secret_seed}"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_real_faults_has_a_pair(family: str) -> None:
    assert any(pair.lesson.startswith(family) for pair in ON_CPU)


def test_the_precision_grade_looks_at_plain_calls_alone(gate: Gate, secret_seed: int) -> None:
    """Kernels that were disarmed, or read poison, give answers that grade nothing."""
    pytest.importorskip("triton")
    path = HERE / "honest" / "swiglu_triton.py"
    found = gate.judge(load("swiglu"), path, seed=secret_seed)
    assert found.verdict.precision_grade == "float32"
