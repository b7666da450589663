"""Whether a reference orders or selects elements: equal ones then have to be tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuassay.dispatch_modes import UntracedMode

TIES = ("small integers",)  # the regime in which many elements are equal, and not all of a row
_ORDERING = frozenset(
    [
        *("sort", "topk", "argsort", "msort", "kthvalue", "median", "nanmedian", "mode"),
        *("argmax", "argmin", "searchsorted", "bucketize", "_unique2", "unique_dim"),
        *("cummax", "cummin"),
    ]
)


class _Watch(UntracedMode):
    """Notes whether an operation depends on the order of equal elements."""

    def __init__(self) -> None:
        super().__init__()
        self.orders = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = str(func.overloadpacket.__name__)
        # Of a maximum along a dimension the place is returned as well.
        places = name in ("max", "min") and "dim" in str(func._overloadname)
        self.orders = self.orders or name in _ORDERING or places
        return func(*args, **(kwargs or {}))


def orders_elements(call: Callable[..., object], values: Sequence[object]) -> bool:
    """Return whether a call orders or selects elements; False where it raises."""
    copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
    watch = _Watch()
    try:
        with torch.no_grad(), watch:
            call(*copies)
    except Exception:  # what a reference refuses is found out elsewhere
        return watch.orders
    return watch.orders
