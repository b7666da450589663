"""How far the gates of a reference are closed: operations that tend to zero for some arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cuassay.dispatch_modes import tensors_in
from cuassay.hooks import Operation, PassThrough

# The argument at which another form of the operation has lost the whole tail in float32: of
# 1 + tanh(x / 2) nothing is left where exp(x) is 2^-25, of 1 + tanh(x) where exp(2 x) is, of
# 1 + erf(x / sqrt(2)) where that tail is. Those of one kind stand together.
_LOST: Mapping[str, float] = {
    **dict.fromkeys(("sigmoid", "silu", "softplus", "mish", "log_sigmoid_forward"), -17.3),
    **dict.fromkeys(("elu", "selu", "celu", "expm1"), -17.3),
    "tanh": -8.7,
    "gelu": -5.4,
    "erf": -3.8,
}


class Gates(PassThrough):
    """Notes for each gate of a run how far its most open and its most closed element are closed.

    1 is where float32 may lose what is left, 0 where the gate is half open.
    """

    def __init__(self) -> None:
        self._found: list[torch.Tensor] = []

    def after(self, operation: Operation, out: Any) -> object:
        """Look at the argument of a gate."""
        lost = _LOST.get(str(operation.op.overloadpacket.__name__).rstrip("_"))
        given = tensors_in(operation.args)[:1]
        if lost is not None and given and given[0].is_floating_point() and given[0].numel():
            low, high = torch.aminmax(given[0].detach().double() / lost)
            self._found.append(torch.stack([low, high]).cpu())
        return out

    def read(self) -> tuple[tuple[float, float], ...]:
        """Return the least and the most that each gate is closed, in the order of the run."""
        return tuple((float(low), float(high)) for low, high in self._found)
