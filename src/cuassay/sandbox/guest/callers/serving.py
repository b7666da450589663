"""Calls in a row as a server makes them: on the same tensors or in turn, every result held."""

from __future__ import annotations

import contextlib
import time

import torch

from cuassay.model.reports import Served
from cuassay.model.scenario import Poison
from cuassay.model.steps import Misuse, Serve
from cuassay.sandbox.guest.callers.streams import settle
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.observe import launch_errors

_LOOKED_AT = 16  # calls between two looks at the clock of a GPU, which waits for nothing else


def serve(host: Host, step: Serve) -> Made:
    """Execute a Serve: nothing waits for a GPU between its calls, as in a server."""
    held: list[list[tuple[str, object]]] = []
    bytes_held = 0
    launch_errors.clear(host.device)
    begun = time.monotonic()
    for number in range(step.count):
        if number and number % step.turn == 0:
            if host.device.on_gpu and number % _LOOKED_AT < step.turn:
                settle(host)  # what is asked for is not done yet
            if time.monotonic() - begun > step.budget_s or bytes_held > step.most_bytes:
                break
        slot = step.slots[number % len(step.slots)]
        if step.values:
            # Copy the values of one slot into the tensors of another, which a kernel is called on.
            into, values = host.slot(slot), host.slot(step.values[number % len(step.values)])
            for name, value in values.values.items():
                into.put(name, values.before.get(name, value))
            into.case = values.case
        made = host.invoke(slot, host.destinations(slot, Poison.NAN))
        bytes_held += sum(_bytes_behind(value) for _, value in made)
        held.append(made)
    settle(host)
    launch_errors.raise_pending(host.device)
    # Fewer than asked for are whole turns: a later name stands for a call in the same place.
    for number in range(step.count):
        slot = step.slots[number % len(step.slots)]
        host.hold(step.name(number), slot, held[number % len(held)])
    return Made(report=Served(calls=len(held)))


def misuse(host: Host, step: Misuse) -> Made:
    """Execute a Misuse; only SystemExit and its like pass."""
    values = host.slot(step.slot).values
    outputs = (tensor for _, tensor in host.destinations(step.slot, Poison.NAN))
    arguments = [None if name == step.name else value for name, value in values.items()]
    with contextlib.suppress(Exception):
        host.candidate(*arguments, *outputs)
    return Made()


def _bytes_behind(value: object) -> int:
    """Return the bytes that a result keeps alive: of the whole storage that it lies in."""
    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        return 0
    return value.untyped_storage().nbytes()
