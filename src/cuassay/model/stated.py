"""Facts of inputs that a problem states: what no domain can say, and what nothing may break."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FactKind(StrEnum):
    """A property of one tensor. `ALONG` needs a dimension, the others do not."""

    CONSTANT = "constant"  # every element has one value
    ALONG = "equal_along"  # all slices along a dimension are equal
    ARANGE = "arange"  # every row along the last dimension is n, n + 1, ...
    SORTED = "sorted"  # no row decreases
    DISTINCT = "distinct"  # no row holds a number twice
    BINARY = "binary"  # zeros and ones alone
    SYMMETRIC = "symmetric"  # the last two dimensions may be exchanged
    NON_NEGATIVE = "non_negative"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFact:
    """What holds for `input` in every call; `axis` names the dimension of `equal_along`.

    `where` names the file that states it.
    """

    input: str
    kind: FactKind
    axis: str = ""
    where: str = ""
