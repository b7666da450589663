"""What the algebra said of two kernels, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from cuassay.model.machine import EqualityEvidence
from cuassay.report.clean import one_line

_DEGREE = 1_000_000


def lines(evidence: EqualityEvidence) -> Iterator[str]:
    """Yield what was compared, how much is equal, and what that is worth."""
    share = 100.0 * evidence.equal / max(1, evidence.elements)
    shown = "100" if evidence.equal == evidence.elements else f"{min(share, 99.99):.2f}"
    yield (
        f"{evidence.equal:,} of {evidence.elements:,} output elements ({shown} %) are the same "
        f"expression in real numbers, by {evidence.seeds} choices of random residues"
    )
    if evidence.equal < evidence.elements:
        text = one_line(evidence.output, limit=200)
        yield f"first other one: element {evidence.element} of output '{text}'"
        yield (
            "that asks for a second look and rejects nothing: rounded constants, logarithms of "
            "bits and sums of tied values differ without being wrong"
        )
    once = _DEGREE / max(1, evidence.prime)
    chance = evidence.seeds * once if evidence.roots else once**evidence.seeds
    yield (
        f"a rational difference of degree d is missed with probability at most "
        f"{'seeds x ' if evidence.roots else ''}d / {evidence.prime}"
        f"{'' if evidence.roots else f' to the power {evidence.seeds}'} an element "
        f"({chance:.1e} for d = 1,000,000)"
    )
