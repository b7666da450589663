"""How large the numbers become that a reference computes on its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cuassay.dispatch_modes import tensors_in
from cuassay.hooks import Operation, PassThrough

_MEASURED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Magnitudes(PassThrough):
    """Measures the floating inputs of a run as written, then what each of its operations returns.

    Types of fewer than 16 bits and empty tensors are left out.
    """

    def __init__(self, inputs: Sequence[object]) -> None:
        # Where they were made (a number that is stored into a tensor is made on the CPU), and read
        # once, at the end.
        self._largest: list[torch.Tensor] = []
        self._measure(inputs)

    def after(self, operation: Operation, out: Any) -> object:
        """Measure the results of the operation."""
        self._measure(out)
        return out

    def read(self) -> tuple[float, ...]:
        """Return the largest magnitudes in order; infinite or NaN where a number is."""
        largest = self._largest
        if not largest:
            return ()
        home = next((one.device for one in largest if one.device.type != "cpu"), largest[0].device)
        return tuple(torch.stack([one.to(home) for one in largest]).tolist())

    def _measure(self, values: object) -> None:
        for tensor in tensors_in(values):
            if tensor.dtype in _MEASURED and tensor.numel():
                self._largest.append(tensor.detach().abs().amax().double())
