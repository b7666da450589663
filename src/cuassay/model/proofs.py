"""What was proved of a candidate's launches for all sizes, and what was not, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ProofAnswer(StrEnum):
    """PROVED: for all sizes of the scope. REFUTED: the machine shows a fault. UNKNOWN: neither."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProof:
    """The answer to one launch. `law` are lines that say what is launched.

    Proved: `accesses` were shown, `discharged` counts goals by what settled them. Refuted: `sizes`
    with `block` and `thread`. Unknown: `reason` at `ptx_line`; `suspects` are sizes that the
    solver names and that were run without a fault, or are too large to run. `file` and `line` are
    the source's. Times in seconds.
    """

    kernel: str
    answer: ProofAnswer
    law: tuple[str, ...] = ()
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
    suspects: tuple[Mapping[str, int], ...] = ()
    seconds: float = 0.0
    solver_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProof:
    """One class of calls: those that launch the same kernels of the same PTX.

    `scope` says which sizes it is for, `fitted` and `confirmed` count the calls behind its law.
    """

    scope: str
    fitted: int
    confirmed: int
    launches: tuple[LaunchProof, ...]

    @property
    def answer(self) -> ProofAnswer:
        """REFUTED if a launch is, PROVED if all are, else UNKNOWN."""
        found = {one.answer for one in self.launches}
        if ProofAnswer.REFUTED in found:
            return ProofAnswer.REFUTED
        return ProofAnswer.PROVED if found == {ProofAnswer.PROVED} else ProofAnswer.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofEvidence:
    """Every class of calls that was observed. `refused` says why nothing can be said, if so."""

    calls: tuple[CallProof, ...] = ()
    refused: str = ""

    @property
    def answer(self) -> ProofAnswer:
        """REFUTED if a class is, PROVED if all are and there is one, else UNKNOWN."""
        found = {one.answer for one in self.calls}
        if ProofAnswer.REFUTED in found:
            return ProofAnswer.REFUTED
        proved = found == {ProofAnswer.PROVED} and not self.refused
        return ProofAnswer.PROVED if proved else ProofAnswer.UNKNOWN
