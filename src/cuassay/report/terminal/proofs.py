"""What was proved for all sizes, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cuassay.model.proofs import (
    LAUNCHES,
    CallProof,
    Claim,
    ProofAnswer,
    ProofEvidence,
    Property,
    reach_in_words,
)
from cuassay.report.clean import one_line

_WORDS = {
    Property.MEMORY: {
        ProofAnswer.PROVED: "PROVED: every launch stays within its memory",
        ProofAnswer.REFUTED: "REFUTED: a launch leaves its memory",
        ProofAnswer.UNKNOWN: "NOT PROVED: some launch may leave its memory at some size",
    },
    Property.RACES: {
        ProofAnswer.PROVED: "PROVED: no two threads race, all of a block meet its barriers",
        ProofAnswer.REFUTED: "REFUTED: threads race, or not all of a block meet a barrier",
        ProofAnswer.UNKNOWN: "NOT PROVED: some threads may race at some size",
    },
    Property.INITIALIZED: {
        ProofAnswer.PROVED: "PROVED: every byte that is read was written before",
        ProofAnswer.REFUTED: "REFUTED: a launch computes with memory that nobody wrote",
        ProofAnswer.UNKNOWN: "NOT PROVED: some launch may read memory that nobody wrote",
    },
    Property.EQUAL: {
        ProofAnswer.PROVED: "PROVED: outputs are the reference's expressions, up to rounding",
        ProofAnswer.REFUTED: "REFUTED: outputs are not the reference's",
        ProofAnswer.UNKNOWN: "NOT PROVED: outputs may be other expressions than the reference's",
    },
}
_SHOWN = {
    Property.MEMORY: "accesses in bounds and aligned",
    Property.RACES: "pairs of accesses in order or apart",
    Property.INITIALIZED: "reads of memory that was written before",
}


def lines(evidence: ProofEvidence) -> Iterator[str]:
    """Yield each class of calls with its law, its launches and their answers, then the answers."""
    for number, call in enumerate(evidence.calls, start=1):
        yield ""
        of = f" {number} of {len(evidence.calls)}" if len(evidence.calls) > 1 else ""
        yield f"Calls{of}: {_text(call.scope)}"
        confirmed = f"confirmed by {call.confirmed} others{reach_in_words(call)}"
        yield f"  law fitted to {call.fitted} calls, {confirmed}"
        for one in call.launches:
            took = f"{one.seconds:.1f} s, {one.solver_s:.1f} s of it in z3"
            yield f"  kernel {_text(one.kernel)} ({took})"
            for line in one.law:
                yield f"    {_text(line)}"
            for claim in one.claims:
                yield from _claim(claim)
    if evidence.equality is not None:
        equality = evidence.equality
        yield ""
        yield f"Expressions ({equality.seconds:.1f} s)"
        match equality.answer:
            case ProofAnswer.PROVED:
                how = f"{equality.elements:,} output elements in {equality.data} sets of data"
                yield f"  equal: proved: {how}"
                for line in equality.scope:
                    yield f"    {_text(line)}"
            case ProofAnswer.REFUTED:
                yield f"  equal: refuted at {_sizes(equality.sizes)}:"
                yield f"    {_text(equality.reason)}"
            case ProofAnswer.UNKNOWN:
                yield f"  equal: not proved: {_text(equality.reason)}"
    yield ""
    if evidence.refused:
        yield f"launches: {_text(evidence.refused)}"
    for what in evidence.wanted:
        proved = evidence.of(what) is ProofAnswer.PROVED
        scope = ", for all sizes and all data" if proved and what is not Property.EQUAL else ""
        yield f"{what}: {_WORDS[what][evidence.of(what)]}{scope}"
    if any(evidence.of(what) is ProofAnswer.PROVED for what in LAUNCHES):
        yield from _limits(evidence.calls)


def _claim(one: Claim) -> Iterator[str]:
    where = f"{_text(one.file)}:{one.line}: " if one.file and one.line else ""
    ptx = f" (PTX line {one.ptx_line})" if one.ptx_line else ""
    match one.answer:
        case ProofAnswer.PROVED:
            counts = ", ".join(f"{count:,} by {_text(by)}" for by, count in one.discharged.items())
            goals = f"; goals: {counts}" if counts else ""
            yield f"    {one.what}: proved: {one.accesses:,} {_SHOWN[one.what]}{goals}"
        case ProofAnswer.REFUTED:
            at = f", block {one.block}, thread {one.thread}" if one.block else ""
            yield f"    {one.what}: refuted at {_sizes(one.sizes)}{at}:"
            for datum in one.data:
                place = datum.offset // datum.nbytes
                yield f"      where element {place:,} of '{_text(datum.input)}' is {datum.value:,}"
            yield f"      {where}{_text(one.reason)}{ptx}"
            if one.gpu:
                yield f"      {_text(one.gpu)}; it is refuted by the PTX machine, which ran it"
        case ProofAnswer.UNKNOWN:
            yield f"    {one.what}: not proved: {where}{_text(one.reason)}{ptx}"
            for suspect in one.suspects:
                yield f"      the solver names {_sizes(suspect)}; no fault was seen there"


def _limits(calls: tuple[CallProof, ...]) -> Iterator[str]:
    limit = min(
        (
            claim.limit_elements
            for call in calls
            for one in call.launches
            for claim in one.claims
            if claim.limit_elements
        ),
        default=0,
    )
    if limit:
        yield f"where each tensor has fewer than {limit:,} elements"
    yield "trusted: the law above, the compiler, and that addresses of buffers are multiples of 256"


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{_text(name)}={size}" for name, size in sizes.items())


def _text(text: str) -> str:
    return one_line(text, limit=200)
