"""Activations in the steps of a model's code, each of which may be stored.

A fused activation is one operation whose result alone is rounded. A model's code may have it
written out (GPT-2's GELU is), and in 16 bits each step is rounded then. What is an operation's last
digit elsewhere is the whole of a result that cancels: 1 + tanh of a number far below zero.

Formulas: Hendrycks and Gimpel, arXiv 1606.08415.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

Store: TypeAlias = Callable[[Tensor], Tensor]
Steps: TypeAlias = Callable[[Mapping[str, Any], Store], Tensor]

_ROOT = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715  # both of the tanh form


def _gelu(named: Mapping[str, Any], store: Store) -> Tensor:
    """Return x / 2 (1 + tanh) or x / 2 (1 + erf); halving x is exact."""
    x: Tensor = named["self"]
    if named["approximate"] == "tanh":
        cubic = store(store(x * x * x) * _CUBIC)
        bent = store(torch.tanh(store(store(x + cubic) * _ROOT)))
    else:
        bent = store(torch.erf(store(x * math.sqrt(0.5))))
    return 0.5 * x * store(1.0 + bent)


WRITTEN_OUT: Mapping[str, Steps] = {"gelu": _gelu}
