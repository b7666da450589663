"""What a mutant is: the kinds of fault, and the failure classes that each belongs to.

Class codes are those that the checks carry: N numerics, O over-fit and special-casing,
M memory and indexing, S state, A the contract of the call, T faults of the test itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import torch

from cuassay.oracle.lift.run import Value

if TYPE_CHECKING:
    from cuassay.oracle.mutants.sites import MutantSite

Outputs: TypeAlias = tuple[torch.Tensor, ...]
Implementation: TypeAlias = Callable[[Sequence[Value]], Outputs]


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantKind:
    """What mutants of one kind do wrong, and the failure classes that they stand for."""

    words: str
    classes: tuple[str, ...]


KINDS: Mapping[str, MutantKind] = MappingProxyType(
    {
        "bypass": MutantKind(words="an operation left out", classes=("O1",)),
        "operand": MutantKind(words="a term or a factor left out", classes=("O1",)),
        "constant": MutantKind(words="a constant off or exchanged", classes=("O1", "A6")),
        "epsilon": MutantKind(words="an epsilon left out or too large", classes=("O1", "N11")),
        "form": MutantKind(words="a function in another form", classes=("N14",)),
        "mask": MutantKind(words="a mask ignored", classes=("O1", "N12")),
        "shift": MutantKind(words="no maximum subtracted before exp", classes=("N10",)),
        "low": MutantKind(words="a sum accumulated in 16 bits", classes=("N1", "N2")),
        "cast": MutantKind(words="an operand rounded to a lower precision", classes=("N8",)),
        "divisor": MutantKind(words="a reduction with the wrong scale", classes=("N14", "O10")),
        "dropped": MutantKind(words="the last term of a reduction dropped", classes=("O10",)),
        "tile": MutantKind(words="a tile of a reduction left out", classes=("O8", "O10")),
        "axis": MutantKind(words="a reduction along the wrong axis", classes=("O8",)),
        "neighbour": MutantKind(words="a neighbouring row read", classes=("O8", "M3")),
        "input ignored": MutantKind(words="an input ignored", classes=("A6", "O1")),
        "input scaled": MutantKind(words="a scalar or flag misread", classes=("A6", "A7")),
        "input frozen": MutantKind(
            words="a scalar frozen at its usual value", classes=("A6", "S7")
        ),
        "input rows": MutantKind(words="rows of an input confused", classes=("A12", "A13")),
        "inputs exchanged": MutantKind(words="two inputs exchanged", classes=("A6",)),
        "trivial answer": MutantKind(words="an answer that computes nothing", classes=("O2", "T3")),
        "stale answer": MutantKind(words="the previous output left in place", classes=("S1", "M6")),
    }
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken implementation: what is wrong with it, and what inputs would show it."""

    kind: str
    words: str
    shown_by: str
    run: Implementation
    site: MutantSite | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Codes of the failure classes that this kind of fault belongs to."""
        return KINDS[self.kind].classes
