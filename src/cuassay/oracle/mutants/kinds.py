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
    from cuassay.oracle.mutants.sites import Site

Outputs: TypeAlias = tuple[torch.Tensor, ...]
Implementation: TypeAlias = Callable[[Sequence[Value]], Outputs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What mutants of one kind do wrong, and the failure classes that they stand for."""

    words: str
    classes: tuple[str, ...]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "bypass": Kind(words="an operation left out", classes=("O1",)),
        "operand": Kind(words="a term or a factor left out", classes=("O1",)),
        "constant": Kind(words="a constant off or exchanged", classes=("O1", "A6")),
        "epsilon": Kind(words="an epsilon left out or too large", classes=("O1", "N11")),
        "mask": Kind(words="a mask ignored", classes=("O1", "N12")),
        "shift": Kind(words="no maximum subtracted before exp", classes=("N10",)),
        "low": Kind(words="a sum accumulated in 16 bits", classes=("N1", "N2")),
        "cast": Kind(words="an operand rounded to a lower precision", classes=("N8",)),
        "divisor": Kind(words="a reduction with the wrong scale", classes=("N14", "O10")),
        "dropped": Kind(words="the last term of a reduction dropped", classes=("O10",)),
        "tile": Kind(words="a tile of a reduction left out", classes=("O8", "O10")),
        "axis": Kind(words="a reduction along the wrong axis", classes=("O8",)),
        "neighbour": Kind(words="a neighbouring row read", classes=("O8", "M3")),
        "input ignored": Kind(words="an input ignored", classes=("A6", "O1")),
        "input scaled": Kind(words="a scalar or flag misread", classes=("A6", "A7")),
        "input frozen": Kind(words="a scalar frozen at its usual value", classes=("A6", "S7")),
        "input rows": Kind(words="rows of an input confused", classes=("A12", "A13")),
        "inputs exchanged": Kind(words="two inputs exchanged", classes=("A6",)),
        "trivial answer": Kind(words="an answer that computes nothing", classes=("O2", "T3")),
        "stale answer": Kind(words="the previous output left in place", classes=("S1", "M6")),
    }
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken implementation: what is wrong with it, and what inputs would show it."""

    kind: str
    words: str
    shown_by: str
    run: Implementation
    site: Site | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Codes of the failure classes that this kind of fault belongs to."""
        return KINDS[self.kind].classes
