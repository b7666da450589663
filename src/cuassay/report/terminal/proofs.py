"""What was proved for all sizes, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cuassay.model.proofs import CallProof, LaunchProof, ProofAnswer, ProofEvidence
from cuassay.report.clean import one_line

_WORDS = {
    ProofAnswer.PROVED: "PROVED: every launch stays within its memory, for all sizes and all data",
    ProofAnswer.REFUTED: "REFUTED: a launch leaves its memory",
    ProofAnswer.UNKNOWN: "NOT PROVED: some launch may leave its memory at some size",
}


def lines(evidence: ProofEvidence) -> Iterator[str]:
    """Yield the answer, then each class of calls with its law, its launches and their answers."""
    for number, call in enumerate(evidence.calls, start=1):
        yield ""
        of = f" {number} of {len(evidence.calls)}" if len(evidence.calls) > 1 else ""
        yield f"Calls{of}: {_text(call.scope)}"
        yield f"  law fitted to {call.fitted} calls, confirmed by {call.confirmed} others"
        for one in call.launches:
            yield from _launch(one)
    yield ""
    yield _WORDS[evidence.answer]
    if evidence.answer is ProofAnswer.PROVED:
        yield from _limits(evidence.calls)


def _launch(one: LaunchProof) -> Iterator[str]:
    yield f"  kernel {_text(one.kernel)}"
    for line in one.law:
        yield f"    {_text(line)}"
    time = f"{one.seconds:.1f} s, {one.solver_s:.1f} s of it in z3"
    where = f"{_text(one.file)}:{one.line}: " if one.file and one.line else ""
    ptx = f" (PTX line {one.ptx_line})" if one.ptx_line else ""
    match one.answer:
        case ProofAnswer.PROVED:
            counts = ", ".join(f"{count:,} by {_text(by)}" for by, count in one.discharged.items())
            yield f"    proved: {one.accesses:,} accesses in bounds and aligned ({time})"
            if counts:
                yield f"    goals: {counts}"
        case ProofAnswer.REFUTED:
            at = f", block {one.block}, thread {one.thread}" if one.block else ""
            yield f"    refuted at {_sizes(one.sizes)}{at} ({time}):"
            yield f"    {where}{_text(one.reason)}{ptx}"
        case ProofAnswer.UNKNOWN:
            yield f"    not proved: {where}{_text(one.reason)}{ptx} ({time})"
            for suspect in one.suspects:
                yield f"    the solver names {_sizes(suspect)}; no fault was seen there"


def _limits(calls: tuple[CallProof, ...]) -> Iterator[str]:
    limit = min(
        (one.limit_elements for call in calls for one in call.launches if one.limit_elements),
        default=0,
    )
    if limit:
        yield f"where each tensor has fewer than {limit:,} elements"
    yield "trusted: the law above, the compiler, and that addresses of buffers are multiples of 256"


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{_text(name)}={size}" for name, size in sizes.items())


def _text(text: str) -> str:
    return one_line(text, limit=200)
