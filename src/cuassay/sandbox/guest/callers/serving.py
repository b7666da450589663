"""Calls in a row as a server makes them: on the same tensors or in turn, every result held."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Sequence

import torch

from cuassay.model.reports import Served, Varied
from cuassay.model.scenario import Poison
from cuassay.model.steps import CallVaried, Misuse, Serve
from cuassay.sandbox.guest.callers.streams import settle
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.guest.observe import launch_errors

_PAIRS = 64  # of calls with the same result that are told
_TEXT = 64
_LOOKED_AT = 16  # calls between two looks at the clock of a GPU, which waits for nothing else


def serve(host: Host, step: Serve) -> Made:
    """Execute a Serve: nothing waits for a GPU between its calls, as in a server."""
    held: list[list[tuple[str, object]]] = []
    took_s: list[float] = []
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
        outputs = host.destinations(slot, Poison.NAN)
        started = time.monotonic()
        made = host.invoke(slot, outputs)
        took_s.append(time.monotonic() - started)
        bytes_held += sum(_bytes_behind(value) for _, value in made)
        held.append(made)
    settle(host)
    launch_errors.raise_pending(host.device)
    # Fewer than asked for are whole turns: a later name stands for a call in the same place.
    for number in range(step.count):
        slot = step.slots[number % len(step.slots)]
        host.hold(step.name(number), slot, held[number % len(held)])
    later = [took_s[place + step.turn :: step.turn] for place in range(step.turn)]
    least_s = tuple(min(times) for times in later if times)
    return Made(report=Served(calls=len(held), least_s=least_s))


def call_varied(host: Host, step: CallVaried) -> Made:
    """Execute a CallVaried: of what came before, the bytes of each result are kept alone."""
    values = host.slot(step.slot).tensors
    plain = _bytes_of(host.invoke(step.slot, host.destinations(step.slot, Poison.NAN)))
    seen: dict[bytes, int] = {}
    alike: list[tuple[int, int]] = []
    calls, begun = 1, time.thread_time()
    for number, (name, place, value) in enumerate(step.changes):
        if time.thread_time() - begun > step.budget_s:
            break
        # Without a count of versions: who writes by a kernel of its own leaves none.
        element = values[name].data.view(-1)[place : place + 1]
        before = element.clone()
        element.fill_(value)
        made = _bytes_of(host.invoke(step.slot, host.destinations(step.slot, Poison.NAN)))
        element.copy_(before)
        calls += 1
        first = seen.setdefault(made, number)
        elsewhere = step.changes[first][:2] != (name, place)
        if made != plain and elsewhere and len(alike) < _PAIRS:
            alike.append((first, number))
    return Made(report=Varied(calls=calls, alike=tuple(alike)))


def _bytes_of(made: Sequence[tuple[str, object]]) -> bytes:
    """Return the bytes of all tensors that a call returned, and what it returned beside them."""
    parts = []
    for _, value in made:
        if type(value) is torch.Tensor and value.layout is torch.strided:
            whole = placement.as_bytes(value.detach().contiguous()).cpu()
            parts.append(ctypes.string_at(whole.data_ptr(), whole.numel()))
        else:
            parts.append(repr(value)[:_TEXT].encode())
    return b"".join(parts)


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
