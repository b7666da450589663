"""How far gates are closed: 1 is where float32 may lose what is left of one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cuassay.hooks import Observed
from cuassay.oracle.lift.gates import Gates


def _read(call: Callable[[Tensor], object], x: Tensor) -> tuple[tuple[float, float], ...]:
    gates = Gates()
    with Observed(gates):
        call(x)
    return gates.read()


# Another form of each gate, which loses its tail.
_FORMS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "sigmoid": (torch.sigmoid, lambda x: 0.5 * (1.0 + torch.tanh(0.5 * x))),
    "silu": (functional.silu, lambda x: x * (0.5 * (1.0 + torch.tanh(0.5 * x)))),
    "gelu": (functional.gelu, lambda x: 0.5 * x * (1.0 + torch.erf(x * 0.5**0.5))),
    "tanh": (torch.tanh, lambda x: 1.0 - 2.0 / (torch.exp(2.0 * x) + 1.0)),
}


@pytest.mark.parametrize("name", _FORMS)
def test_a_form_loses_the_tail_where_a_gate_is_closed(name: str) -> None:
    gate, form = _FORMS[name]
    tail = (lambda x: 1.0 + form(x)) if name == "tanh" else form
    ((_, closed),) = _read(gate, torch.tensor([-2.0]))
    at = -2.0 / closed  # the argument at which the gate counts as closed
    assert float(tail(torch.tensor(at * 1.06))) == 0.0
    assert float(tail(torch.tensor(at * 0.9))) != 0.0


def test_the_most_open_and_the_most_closed_element_of_each_gate_are_told() -> None:
    x = torch.tensor([3.46, -1.73, -17.3])
    first, second = _read(lambda x: torch.sigmoid(x) * functional.silu(2 * x) + x.relu(), x)
    assert first == pytest.approx((-0.2, 1.0))
    assert second == pytest.approx((-0.4, 2.0))


def test_a_reference_without_gates_has_none() -> None:
    assert _read(lambda x: torch.softmax(x, -1).cumsum(-1), torch.ones(4)) == ()
    assert _read(torch.sigmoid, torch.empty(0)) == ()
