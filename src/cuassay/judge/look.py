"""What a run of the reference as written shows beside its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuassay.hooks import Observed
from cuassay.judge.plan.orders import Orders
from cuassay.oracle.lift.gates import Gates
from cuassay.oracle.lift.magnitudes import Magnitudes
from cuassay.sandbox.guest.items import container_of

Call: TypeAlias = Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one run showed.

    `magnitudes` are the largest of each floating input, then of what each operation returns.
    `orders`: it orders or selects elements, so that equal ones have to be tried. `container` is in
    what it returns its outputs (see `Returned`). `gates` says of each gate how far its most open
    and its most closed element are closed (see `Gates`).
    """

    gates: tuple[tuple[float, float], ...]
    magnitudes: tuple[float, ...]
    orders: bool
    container: str


def look_at(call: Call, values: Sequence[object], run: Callable[[Call], object]) -> Look:
    """Return what one run of `call` shows; `run` runs what it is given on copies of `values`."""
    magnitudes, orders, gates = Magnitudes(values), Orders(), Gates()

    def watched(*given: object) -> object:
        with Observed(magnitudes, orders, gates), torch.no_grad():
            return call(*given)

    container = container_in(watched, run)
    return Look(
        gates=gates.read(),
        magnitudes=magnitudes.read(),
        orders=orders.found,
        container=container,
    )


def container_in(call: Call, run: Callable[[Call], object]) -> str:
    """Return in what `call` returns its outputs, without hooks: torch lets not all be watched."""
    found: list[str] = []

    def looked_at(*given: object) -> object:
        returned = call(*given)
        found.append(container_of(returned))
        return returned

    run(looked_at)
    return found[-1]
