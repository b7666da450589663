"""The algebra of a run, chosen by `Options.shadow`: its seed and the residues kept in memory.

A cell of shadow memory has 32 bits and a residue 62, so that memory holds numbers of entries of a
table: 0 is what the kernel has not written, 1 a value without a residue of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxsan import pages
from ptxsan.runtime import layout as L

_ENTRIES = 1 << 25


def _table() -> NDArray[np.uint64]:
    table = pages.zeros(_ENTRIES, np.uint64)  # pages cost nothing until they are touched
    table[L.T_NEXT], table[L.T_LIMIT] = L.T_FIRST, _ENTRIES
    return table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Residues:
    """One choice of random residues, for launches that share memory: the same seed, the same ones.

    `table` is the runtime's: the next entry, the limit and the seed, then residues. With `strict`
    nothing is taken for granted that real numbers do not keep for every sign: a root is a function
    of its argument and nothing more, and an exponential that is 0 in floats is none.
    """

    seed: int = 1
    strict: bool = False
    table: NDArray[np.uint64] = field(default_factory=_table)

    def __post_init__(self) -> None:
        self.table[L.T_SEED] = self.key

    @property
    def key(self) -> int:
        """The seed with what else decides residues, as `numerics.residues.of_input` takes it."""
        return (self.seed & 0xFFFFFFFF) | (int(self.strict) << 32)

    @property
    def stored(self) -> int:
        """How many computed values were written to memory."""
        return int(self.table[L.T_NEXT]) - L.T_FIRST
