"""What evidence proves: a refutation outweighs all, and nothing is proved of what was not seen."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.model.proofs import (
    CallProof,
    Claim,
    Equality,
    LaunchProof,
    ProofAnswer,
    ProofEvidence,
    Property,
    proofs_of,
    reach_in_words,
)

PROVED, REFUTED, UNKNOWN = ProofAnswer.PROVED, ProofAnswer.REFUTED, ProofAnswer.UNKNOWN


def _call(*answers: ProofAnswer, **changes: object) -> CallProof:
    """Return a call of which each launch has one answer to MEMORY."""
    launches = tuple(
        LaunchProof(
            kernel="k",
            claims=(Claim(what=Property.MEMORY, answer=one, reason=f"because {one}"),),
        )
        for one in answers
    )
    call = CallProof(scope="all rows", fitted=2, confirmed=3, launches=launches)
    return dataclasses.replace(call, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("calls", "answer"),
    [
        ((_call(PROVED, PROVED),), PROVED),
        ((_call(PROVED), _call(PROVED)), PROVED),
        ((_call(PROVED, UNKNOWN),), UNKNOWN),
        ((_call(PROVED), _call(UNKNOWN, REFUTED)), REFUTED),
        ((_call(PROVED, everywhere=False),), UNKNOWN),
        ((_call(REFUTED, everywhere=False),), REFUTED),
        ((_call(),), UNKNOWN),  # no launch: nothing was shown
        ((), UNKNOWN),
    ],
)
def test_a_property_is_proved_where_it_is_of_every_launch(
    calls: tuple[CallProof, ...], answer: ProofAnswer
) -> None:
    assert ProofEvidence(calls=calls).of(Property.MEMORY) is answer


def test_a_launch_without_a_claim_leaves_the_property_unknown() -> None:
    call = _call(PROVED)
    silent = dataclasses.replace(
        call, launches=(*call.launches, LaunchProof(kernel="j", claims=()))
    )
    assert ProofEvidence(calls=(silent,)).of(Property.MEMORY) is UNKNOWN


def test_a_refusal_proves_nothing_of_launches_and_leaves_equality_alone() -> None:
    equality = Equality(answer=PROVED, scope=("rows=3",))
    found = ProofEvidence(calls=(_call(PROVED),), refused="no PTX", equality=equality)
    assert found.of(Property.MEMORY) is UNKNOWN
    assert found.of(Property.EQUAL) is PROVED
    assert ProofEvidence().of(Property.EQUAL) is UNKNOWN


def test_the_answer_is_to_all_that_somebody_asked() -> None:
    wanted = (Property.MEMORY, Property.EQUAL)
    calls = (_call(PROVED),)
    equal = Equality(answer=PROVED)
    assert ProofEvidence(calls=calls, equality=equal, wanted=wanted).answer is PROVED
    assert ProofEvidence(calls=calls, wanted=wanted).answer is UNKNOWN
    refuted = Equality(answer=REFUTED)
    assert ProofEvidence(calls=calls, equality=refuted, wanted=wanted).answer is REFUTED


def test_a_proof_says_its_scope_and_why_it_is_none() -> None:
    claims = (
        Claim(what=Property.MEMORY, answer=UNKNOWN, reason="a division"),
        Claim(what=Property.MEMORY, answer=REFUTED, reason="reads past x", sizes={"rows": 3}),
    )
    call = _call(launches=(LaunchProof(kernel="k", claims=claims),))
    (proof,) = proofs_of(ProofEvidence(calls=(call,), wanted=(Property.MEMORY,)))
    assert proof.reason == "reads past x at rows=3"  # the refutation, though it comes second
    assert proof.scope[0] == "all rows; launch law confirmed by 3 calls"
    assert "initialized" in proof.scope[1]


def test_reasons_where_nothing_was_claimed() -> None:
    def reason(evidence: ProofEvidence) -> str:
        return proofs_of(evidence)[0].reason

    assert reason(ProofEvidence(refused="no PTX")) == "no PTX"
    assert reason(ProofEvidence(calls=(_call(),))) == "no launch was recorded"
    few = ProofEvidence(calls=(_call(PROVED, everywhere=False),))
    assert reason(few) == "too few calls were recorded for a launch law; it holds at all rows"
    assert reason(ProofEvidence(calls=(_call(PROVED),))) == ""


def test_the_smallest_limit_of_the_launches_bounds_the_scope() -> None:
    claims = [
        Claim(what=Property.MEMORY, answer=PROVED, limit_elements=limit)
        for limit in (1 << 31, 4096)
    ]
    launches = tuple(LaunchProof(kernel="k", claims=(one,)) for one in claims)
    (proof,) = proofs_of(
        ProofEvidence(calls=(_call(launches=launches),), wanted=(Property.MEMORY,))
    )
    assert "tensors of 1 to 4,095 elements" in proof.scope[0]


def test_the_reach_of_a_law_names_what_confirms_it() -> None:
    assert reach_in_words(_call()) == ""
    words = reach_in_words(_call(beyond=2, elements=5000, ends=True))
    assert words.startswith(
        " and 2 without memory, of up to 5,000 elements a tensor; a larger call"
    )
