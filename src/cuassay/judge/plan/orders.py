"""Whether a reference orders or selects elements: equal ones then have to be tried."""

from __future__ import annotations

from typing import Any

from cuassay.hooks import Operation, PassThrough

TIES = ("small integers",)  # the regime in which many elements are equal, and not all of a row
_ORDERING = frozenset(
    [
        *("sort", "topk", "argsort", "msort", "kthvalue", "median", "nanmedian", "mode"),
        *("argmax", "argmin", "searchsorted", "bucketize", "_unique2", "unique_dim"),
        *("cummax", "cummin"),
    ]
)


class Orders(PassThrough):
    """Notes in `found` whether an operation depends on the order of equal elements."""

    def __init__(self) -> None:
        self.found = False

    def after(self, operation: Operation, out: Any) -> object:
        """Look at the operation."""
        name = str(operation.op.overloadpacket.__name__)
        # Of a maximum along a dimension the place is returned as well.
        places = name in ("max", "min") and "dim" in str(operation.op._overloadname)
        self.found = self.found or name in _ORDERING or places
        return out
