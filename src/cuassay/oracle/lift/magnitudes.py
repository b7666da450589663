"""How large the numbers become that a reference computes on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuassay.dispatch_modes import UntracedMode, tensors_in
from cuassay.oracle.lift.run import run_as_written

_MEASURED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def magnitudes(call: Callable[..., Any], values: Sequence[Any]) -> tuple[float, ...]:
    """Return the largest magnitude of each floating input, then of each operation's results.

    In the order of the operations, as the reference is written; infinite or NaN where a result
    is. Types of fewer than 16 bits and empty tensors are left out. Raises ReferenceError_ for the
    reference's own exceptions.
    """
    mode = _Measured()
    for tensor in tensors_in(list(values)):
        mode.measure(tensor)
    run_as_written(_under(mode, call), values)
    if not mode.found:
        return ()
    home = next(
        (one.device for one in mode.found if one.device.type != "cpu"), mode.found[0].device
    )
    return tuple(torch.stack([one.to(home) for one in mode.found]).tolist())


def _under(mode: _Measured, call: Callable[..., object]) -> Callable[..., object]:
    def measured(*values: object) -> object:
        with mode, torch.no_grad():
            return call(*values)

    return measured


class _Measured(UntracedMode):
    def __init__(self) -> None:
        super().__init__()
        # Where they were made (a number that is stored into a tensor is made on the CPU), and read
        # once, at the end.
        self.found: list[torch.Tensor] = []

    def measure(self, tensor: torch.Tensor) -> None:
        if tensor.dtype in _MEASURED and tensor.numel():
            self.found.append(tensor.detach().abs().amax().double())

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tensors_in(made):
            self.measure(tensor)
        return made
