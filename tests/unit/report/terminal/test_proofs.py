"""Proofs as lines of a terminal: laws, answers, and where each ends."""

from __future__ import annotations

from cuassay.model.proofs import (
    CallProof,
    Claim,
    Datum,
    Equality,
    LaunchProof,
    ProofAnswer,
    ProofEvidence,
    Property,
)
from cuassay.report.terminal.proofs import lines


def _evidence(*claims: Claim, **changes: object) -> ProofEvidence:
    launch = LaunchProof(kernel="k", claims=claims, law=("grid = rows / 128",), seconds=2.0)
    call = CallProof(scope="all rows", fitted=2, confirmed=3, launches=(launch,), beyond=1)
    return ProofEvidence(calls=(call,), wanted=(Property.MEMORY,), **changes)  # type: ignore[arg-type]


def test_a_proof_shows_its_law_and_where_it_ends() -> None:
    claim = Claim(
        what=Property.MEMORY, answer=ProofAnswer.PROVED, accesses=1200, limit_elements=1 << 29
    )
    told = "\n".join(lines(_evidence(claim)))
    assert "Calls: all rows" in told
    assert "confirmed by 3 others and 1 without memory" in told
    assert "    grid = rows / 128" in told
    assert "memory: proved: 1,200 accesses in bounds and aligned" in told
    assert "PROVED: every launch stays within its memory" in told
    assert "fewer than 536,870,912 elements" in told


def test_a_refutation_shows_the_sizes_the_thread_and_the_data() -> None:
    claim = Claim(
        what=Property.MEMORY, answer=ProofAnswer.REFUTED, sizes={"rows": 3}, block=(1, 0, 0),
        thread=(31, 0, 0), reason="reads past x", ptx_line=17,
        data=(Datum(input="ids", offset=8, nbytes=4, value=70000),), gpu="a GPU showed nothing",
    )  # fmt: skip
    told = "\n".join(lines(_evidence(claim)))
    assert "refuted at rows=3, block (1, 0, 0), thread (31, 0, 0):" in told
    assert "where element 2 of 'ids' is 70,000" in told
    assert "reads past x" in told
    assert "a GPU showed nothing; it is refuted by the PTX machine" in told


def test_an_unknown_shows_why_and_what_the_solver_suspects() -> None:
    claim = Claim(
        what=Property.MEMORY, answer=ProofAnswer.UNKNOWN, reason="a\x1b[31m loop",
        suspects=({"rows": 1 << 20},),
    )  # fmt: skip
    told = "\n".join(lines(_evidence(claim)))
    assert "memory: not proved:" in told
    assert "\x1b" not in told
    assert "the solver names rows=1048576; no fault was seen there" in told


def test_expressions_are_told_by_their_answer() -> None:
    def told(equality: Equality) -> str:
        return "\n".join(lines(_evidence(equality=equality)))

    proved = Equality(answer=ProofAnswer.PROVED, elements=4096, data=3, scope=("rows=3",))
    assert "equal: proved: 4,096 output elements in 3 sets of data" in told(proved)
    refuted = Equality(answer=ProofAnswer.REFUTED, sizes={"n": 5}, reason="a sign")
    assert "equal: refuted at n=5:\n    a sign" in told(refuted)
    unknown = Equality(answer=ProofAnswer.UNKNOWN, reason="a maximum")
    assert "equal: not proved: a maximum" in told(unknown)
