"""Operations in the steps of a model's code, each of which may be stored.

A fused activation is one operation whose result alone is rounded. A model's code may have it
written out (GPT-2's GELU is, and timm's Mish and Swish), and in 16 bits each step is rounded then.
What is an operation's last digit elsewhere is the whole of a result that cancels: 1 + tanh of a
number far below zero. And it is the same for all of a tensor where the step is nearly constant: the
softplus of small numbers is log 2, whose rounding is a gain of Mish.

Other functions are written out as often (1 / sqrt), and torch itself stores their steps: its
rsqrt, logit and some powers in 16 bits on a CPU round what they make on the way, which leaves
results off by up to 1.4 spacings. That of a table, such as a channel's scale, is a gain of all
that reads it.

Formulas: Hendrycks and Gimpel, arXiv 1606.08415; Misra, arXiv 1908.08681; Howard et al.,
arXiv 1905.02244.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from cuassay.oracle.truth.associations import Makes
from cuassay.tables import row

Store: TypeAlias = Callable[[Tensor], Tensor]
# A result, each way to make it where there are several, or NotImplemented.
Steps: TypeAlias = Callable[[Mapping[str, Any], Store], Any]

_ROOT = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715  # both of the tanh form


WRITTEN_OUT: dict[str, Steps] = {}


@row(WRITTEN_OUT, "gelu")
def _gelu(named: Mapping[str, Any], store: Store) -> Tensor:
    """Return x / 2 (1 + tanh) or x / 2 (1 + erf); halving x is exact."""
    x: Tensor = named["self"]
    if named["approximate"] == "tanh":
        cubic = store(store(x * x * x) * _CUBIC)
        bent = store(torch.tanh(store(store(x + cubic) * _ROOT)))
    else:
        bent = store(torch.erf(store(x * math.sqrt(0.5))))
    return 0.5 * x * store(1.0 + bent)


@row(WRITTEN_OUT, "silu")
def _silu(named: Mapping[str, Any], store: Store) -> Tensor:
    """Return x sigmoid(x)."""
    x: Tensor = named["self"]
    return x * store(torch.sigmoid(x))


@row(WRITTEN_OUT, "mish")
def _mish(named: Mapping[str, Any], store: Store) -> Tensor:
    """Return x tanh(softplus(x))."""
    x: Tensor = named["self"]
    return x * store(torch.tanh(store(functional.softplus(x))))


@row(WRITTEN_OUT, "hardswish")
def _hardswish(named: Mapping[str, Any], store: Store) -> Makes:
    """Return x (r / 6), as timm has it, and (x r) / 6, as YOLOv5 has it, r being relu6(x + 3)."""
    x: Tensor = named["self"]
    bent = functional.relu6(store(x + 3.0))
    return [lambda: x * store(bent / 6.0), lambda: store(x * bent) / 6.0]


def _rsqrt(named: Mapping[str, Any], store: Store) -> Tensor:
    """Return 1 / sqrt(x)."""
    return store(torch.sqrt(named["self"])).reciprocal()


@row(WRITTEN_OUT, "pow")
def _pow(named: Mapping[str, Any], store: Store) -> object:
    """Return a power that is a few products and a root; NotImplemented for others."""
    x, exponent = named["self"], named["exponent"]
    if isinstance(exponent, Tensor):
        return NotImplemented
    if exponent == -0.5:
        return _rsqrt(named, store)
    if exponent == 3:
        return store(x * x) * x
    if exponent == -2:
        return store(x * x).reciprocal()
    return NotImplemented


@row(WRITTEN_OUT, "logit")
def _logit(named: Mapping[str, Any], store: Store) -> Tensor:
    """Return log(x / (1 - x))."""
    x: Tensor = named["self"]
    if named["eps"] is not None:
        x = x.clamp(named["eps"], 1.0 - named["eps"])
    return torch.log(store(x / store(1.0 - x)))


@row(WRITTEN_OUT, "_softmax")
def _softmax(named: Mapping[str, Any], store: Store) -> Tensor:
    """Return the softmax of x less its largest element, which gpt-oss stores."""
    x, dim = named["self"], named["dim"]
    return torch.softmax(store(x - x.amax(dim, keepdim=True)), dim)


WRITTEN_OUT |= {
    "rsqrt": _rsqrt,
}
