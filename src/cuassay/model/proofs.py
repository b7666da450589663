"""What was proved of a candidate's launches for all sizes, and what was not, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

_NOT_WRITTEN = "whether what is read was written before is another property: initialized"


class Property(StrEnum):
    """What is proved of a kernel; docs/proofs.md has the theorem that each stands for."""

    MEMORY = "memory"  # every access in bounds and aligned
    RACES = "races"  # threads are in order wherever they share memory, barriers are met by all
    INITIALIZED = "initialized"  # every byte that is read was written before
    EQUAL = "equal"  # outputs are the reference's expressions at some sizes, up to rounding


LAUNCHES = (Property.MEMORY, Property.RACES, Property.INITIALIZED)  # what launches are asked for


class ProofAnswer(StrEnum):
    """PROVED: for all sizes of the scope. REFUTED: the machine shows a fault. UNKNOWN: neither."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Datum:
    """What an input holds where a refutation shows: an integer at a byte of its memory."""

    input: str
    offset: int
    nbytes: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The answer to one property of a launch.

    Proved: `accesses`, or pairs of them, were shown; `discharged` counts goals by what settled
    them. Refuted: `sizes` with `block` and `thread`, and `data` that show it. Unknown: `reason` at
    `ptx_line`; `suspects` are sizes that the solver names and that were run without a fault, or
    are too large to run.
    `file` and `line` are the source's. `gpu` says what a GPU showed of a refutation, which stands
    without it.
    """

    what: Property
    answer: ProofAnswer
    accesses: int = 0
    discharged: Mapping[str, int] = field(default_factory=dict)
    limit_elements: int = 0
    reason: str = ""
    ptx_line: int = 0
    file: str = ""
    line: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    data: tuple[Datum, ...] = ()
    suspects: tuple[Mapping[str, int], ...] = ()
    gpu: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProof:
    """The answers to one launch. `law` are lines that say what is launched. Times in seconds."""

    kernel: str
    claims: tuple[Claim, ...]
    law: tuple[str, ...] = ()
    seconds: float = 0.0
    solver_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProof:
    """One class of calls: those that launch the same kernels of the same PTX.

    `scope` says which sizes it is for, `fitted` and `confirmed` count the calls behind its law,
    `beyond` those on tensors without memory that confirm it. `elements` are those of the largest
    tensor of all of them; `ends`: the law holds no further, as another call contradicts it.
    Where too few confirm it, `everywhere` is False and the answers are for one recorded call.
    """

    scope: str
    fitted: int
    confirmed: int
    launches: tuple[LaunchProof, ...]
    everywhere: bool = True
    beyond: int = 0
    elements: int = 0
    ends: bool = False

    def claims(self, what: Property) -> tuple[Claim, ...]:
        """Return the claims of a property."""
        return tuple(one for launch in self.launches for one in launch.claims if one.what is what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """Whether a candidate's outputs are the reference's expressions.

    `scope` are the sizes and data that were tried, a line each, and what the answer rests on.
    `elements` were compared, each with `seeds` choices of residues for every one of `data` sets of
    inputs, of which `shared` is the share of numbers that are not the only ones of their size.
    Refuted: at `sizes`, where the float results differ as well. Unknown: `reason`.
    """

    answer: ProofAnswer
    scope: tuple[str, ...] = ()
    reason: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    elements: int = 0
    seeds: int = 0
    data: int = 0
    prime: int = 0
    shared: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofEvidence:
    """Every class of calls that was observed. `refused` says why nothing can be said, if so.

    `equality` is None where nobody asked. `wanted` are the properties that somebody asked for.
    """

    calls: tuple[CallProof, ...] = ()
    refused: str = ""
    equality: Equality | None = None
    wanted: tuple[Property, ...] = LAUNCHES

    def of(self, what: Property) -> ProofAnswer:
        """REFUTED if a launch is, PROVED if all of them are and there is one, else UNKNOWN."""
        if what is Property.EQUAL:
            return self.equality.answer if self.equality else ProofAnswer.UNKNOWN
        if self.refused or not self.calls:
            return ProofAnswer.UNKNOWN
        found = {one.answer for call in self.calls for one in call.claims(what)}
        if ProofAnswer.REFUTED in found:
            return ProofAnswer.REFUTED
        complete = all(
            call.everywhere and len(call.claims(what)) == len(call.launches) > 0
            for call in self.calls
        )
        return (
            ProofAnswer.PROVED
            if complete and len(found) == 1 and (ProofAnswer.PROVED in found)
            else ProofAnswer.UNKNOWN
        )

    @property
    def answer(self) -> ProofAnswer:
        """REFUTED if a property is, PROVED if all are, else UNKNOWN."""
        found = {self.of(what) for what in self.wanted}
        if ProofAnswer.REFUTED in found:
            return ProofAnswer.REFUTED
        return ProofAnswer.PROVED if found == {ProofAnswer.PROVED} else ProofAnswer.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a verdict says of one property: the answer, and the exact scope that it is for.

    `scope` has one line a class of calls; `reason` says why it is not proved.
    """

    what: Property
    answer: ProofAnswer
    scope: tuple[str, ...] = ()
    reason: str = ""


def proofs_of(evidence: ProofEvidence) -> tuple[Proof, ...]:
    """Return what evidence says of every property."""
    return tuple(
        Proof(
            what=what,
            answer=evidence.of(what),
            scope=_scopes(evidence, what),
            reason=_reason(evidence, what),
        )
        for what in evidence.wanted
    )


def _scopes(evidence: ProofEvidence, what: Property) -> tuple[str, ...]:
    if what is Property.EQUAL:
        return evidence.equality.scope if evidence.equality else ()
    scopes: list[str] = []
    for call in evidence.calls:
        limits = [one.limit_elements for one in call.claims(what) if one.limit_elements]
        below = f"; tensors of 1 to {min(limits) - 1:,} elements" if limits else ""
        scopes.append(
            f"{call.scope}{below}; launch law confirmed by {call.confirmed} calls"
            f"{reach_in_words(call)}"
        )
    if scopes and what is Property.MEMORY:
        scopes.append(_NOT_WRITTEN)
    return tuple(scopes)


def reach_in_words(call: CallProof) -> str:
    """Return up to which size calls confirm a launch law, as the end of a sentence that says so."""
    others = f" and {call.beyond} without memory" if call.beyond else ""
    size = f", of up to {call.elements:,} elements a tensor" if call.elements else ""
    end = "; a larger call launches something else, which is in no scope" if call.ends else ""
    return f"{others}{size}{end}"


def _reason(evidence: ProofEvidence, what: Property) -> str:
    """Return why a property is not proved, a refutation first."""
    if what is Property.EQUAL:
        return evidence.equality.reason if evidence.equality else "nobody looked"
    if evidence.refused:
        return evidence.refused
    claims = [one for call in evidence.calls for one in call.claims(what)]
    for answer in (ProofAnswer.REFUTED, ProofAnswer.UNKNOWN):
        for one in claims:
            if one.answer is answer:
                at = ", ".join(f"{name}={size}" for name, size in one.sizes.items())
                return f"{one.reason} at {at}" if at else one.reason
    some = [call.scope for call in evidence.calls if not call.everywhere]
    if some:
        return f"too few calls were recorded for a launch law; it holds at {some[0]}"
    return "" if claims else "no launch was recorded"
