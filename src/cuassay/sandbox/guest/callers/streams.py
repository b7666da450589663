"""Calls on streams with work before and after them, and several calls at once.

Everything that a stream is given here is put there before the host waits for anything: a call
that looks at another stream's past, or waits for another stream's future, then shows.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from cuassay.model.case import Case
from cuassay.model.scenario import Autograd, Call, Poison
from cuassay.model.steps import StreamCall, Together
from cuassay.sandbox.guest.callers.interrupted import interrupt_everywhere
from cuassay.sandbox.guest.interface import Given, Host, Made, Slot
from cuassay.sandbox.guest.memory import placement

# Taken before any candidate runs.
_SLEEP: Callable[[int], None] | None = getattr(torch.cuda, "_sleep", None)
_CYCLES_PER_MS = 1_900_000  # of an H200 at its highest clock, within 10 % of other GPUs
_JOIN_S = 50.0
_Held = list[tuple[str, object]]


def on_stream(name: str) -> AbstractContextManager[object]:
    """Return a context manager in which `name` is the current stream (nothing on the CPU)."""
    if not torch.cuda.is_available():
        return contextlib.nullcontext()
    if name == "default":
        return torch.cuda.stream(torch.cuda.default_stream())
    if name not in _STREAMS:
        _STREAMS[name] = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    return torch.cuda.stream(_STREAMS[name])


_STREAMS: dict[str, torch.cuda.Stream] = {}


def sleep(milliseconds: float) -> None:
    """Keep the current stream busy for a while; one block of one multiprocessor."""
    if _SLEEP is not None and torch.cuda.is_available():
        _SLEEP(int(milliseconds * _CYCLES_PER_MS))


def called_as(step: Call, slot: Slot, call: Callable[[], _Held]) -> _Held:
    """Call on the stream, from the thread and with the gradients that a Call step names.

    Gradient mode, inference mode and autocast belong to a thread: they are set where the call is
    made.
    """

    def there() -> _Held:
        device = next((tensor.device.type for tensor in slot.tensors.values()), "cpu")
        cast = torch.autocast(device) if step.autocast else contextlib.nullcontext()
        with on_stream(step.stream) if step.stream else contextlib.nullcontext(), mode(), cast:
            return call()

    match step.autograd:
        case Autograd.ON:
            mode: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
        case Autograd.OFF:
            mode = torch.no_grad
        case Autograd.INFERENCE:
            mode = torch.inference_mode

    plain = dict(slot.values)
    for name, tensor in slot.tensors.items():
        if step.parameters and tensor.is_floating_point():  # in the same memory
            records = step.autograd is Autograd.ON
            slot.values[name] = torch.nn.Parameter(tensor.detach(), requires_grad=records)
        elif step.autograd is Autograd.INFERENCE and not step.gradients:
            # Made there, as a server's are, in the same memory.
            with torch.inference_mode():
                own = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                where = tensor.storage_offset(), tensor.shape, tensor.stride()
                slot.values[name] = own.set_(tensor.untyped_storage(), *where)
    try:
        with requiring_gradients(slot) if step.gradients else contextlib.nullcontext():
            return from_thread(there) if step.thread else there()
    finally:
        slot.values.update(plain)


@contextlib.contextmanager
def requiring_gradients(slot: Slot) -> Iterator[None]:
    """While active, the floating inputs of a slot require gradients; they are the same tensors."""
    leaves = [value for value in slot.tensors.values() if value.is_floating_point()]
    for leaf in leaves:
        leaf.requires_grad_(True)
    try:
        yield
    finally:
        for leaf in leaves:
            leaf.requires_grad_(False)


def from_thread(call: Callable[[], _Held]) -> _Held:
    """Call from a new thread and wait for it; raises what the call raises.

    However long it takes: the limit of the step ends the process.
    """
    returned: list[_Held] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            returned.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return returned[0]


def settle(host: Host) -> None:
    """Wait until the device has done everything."""
    if host.device.on_gpu:
        torch.cuda.synchronize()


def copies(held: Sequence[tuple[str, object]]) -> _Held:
    """Return what a call returned with its tensors copied on the current stream."""
    return [(name, _copy(value)) for name, value in held]


def _copy(value: object) -> object:
    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        return value
    made = torch.empty(value.shape, dtype=value.dtype, device=value.device)
    placement.copy_into(made, value)
    return made


def stream_call(host: Host, step: StreamCall, given: Given, case: Case | None) -> Made:
    """Execute a StreamCall. Its fact is after how many milliseconds the host had control again."""
    slot = host.slot(step.slot)
    staged = {
        name: placement.own_copy(value, host.device) if isinstance(value, torch.Tensor) else value
        for name, value in (given.inputs or {}).items()
    }
    outputs = host.destinations(step.slot, Poison.NAN)
    settle(host)
    if host.device.on_gpu:
        # A result that is read too early may lie where the last one lay, with the right values.
        placement.fill_free_cuda_blocks(0xFF)
    started = time.perf_counter()
    if step.default_delay_ms:
        # Streams of torch do not wait for the legacy stream; what is launched without a stream,
        # on the stream of a thread, or on a stream of cudaStreamCreate does.
        with on_stream("default"):
            sleep(step.default_delay_ms)
    with on_stream(step.stream):
        sleep(step.delay_ms)
        for name, value in staged.items():
            slot.put(name, value)
        returned = host.invoke(step.slot, outputs)
        waited_ms = 1e3 * (time.perf_counter() - started)
        copied = copies(returned)
    if case is not None:
        slot.case = case
    settle(host)
    host.hold(step.result, step.slot, copied)
    return Made(facts=(("host had control after ms", f"{waited_ms:.3f}"),))


@dataclass(slots=True)
class _Lane:
    """One slot of a Together: its stream's name, its outputs, and the rounds' copies."""

    slot: str
    stream: str
    outputs: list[tuple[str, torch.Tensor]]
    rounds: list[_Held]
    error: BaseException | None = None


def together(host: Host, step: Together) -> Made:
    """Execute a Together: each slot on a stream of its own, from threads or in turn."""
    lanes = [
        _Lane(slot, f"lane {number}", host.destinations(slot, Poison.NAN), [])
        for number, slot in enumerate(step.slots)
    ]
    settle(host)
    if step.threads and not host.device.on_gpu and len(lanes) > 1:
        # Call on the first slot, and on the second one while that call stands still, `rounds` times
        #
        # Threads that run beside each other on a CPU are seldom in each other's way.
        def caller(lane: _Lane) -> Callable[[], None]:
            def call() -> None:
                try:
                    lane.rounds.append(copies(host.invoke(lane.slot, lane.outputs)))
                except BaseException as error:
                    lane.error = error

            return call

        first, second = map(caller, lanes[:2])
        interrupt_everywhere(first, second, rounds=step.rounds)
        for lane in lanes:
            if not lane.rounds and lane.error is None:  # no Python of its own to stand still in
                caller(lane)()
    elif step.threads:
        _from_threads(host, lanes, step)
    else:
        for number in range(step.rounds):
            for lane in lanes:
                with on_stream(lane.stream):
                    if not number:
                        sleep(step.delay_ms)
                    lane.rounds.append(copies(host.invoke(lane.slot, lane.outputs)))
    settle(host)
    for lane, result in zip(lanes, step.results, strict=True):
        if lane.error is not None:
            raise lane.error
        host.hold(result, lane.slot, _odd_one(lane.rounds))
    return Made()


def _from_threads(host: Host, lanes: Sequence[_Lane], step: Together) -> None:
    """Call on each slot from a thread of its own, all at once."""
    start = threading.Barrier(len(lanes))

    def work(lane: _Lane) -> None:
        try:
            with on_stream(lane.stream):
                sleep(step.delay_ms)
                start.wait(_JOIN_S)
                for _ in range(step.rounds):
                    lane.rounds.append(copies(host.invoke(lane.slot, lane.outputs)))
        except BaseException as error:
            lane.error = error

    threads = [threading.Thread(target=work, args=(lane,), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_JOIN_S)
    if any(thread.is_alive() for thread in threads):
        raise TimeoutError(f"calls from {len(lanes)} threads did not end within {_JOIN_S:g} s")


def _odd_one(rounds: Sequence[_Held]) -> _Held:
    """Return the first round that differs from the last one, or the last one."""
    last = rounds[-1]
    return next((held for held in rounds if not _same(held, last)), last)


def _same(first: _Held, second: _Held) -> bool:
    for (_, one), (_, other) in zip(first, second, strict=False):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            if one.shape != other.shape or one.dtype != other.dtype:
                return False
            if not torch.equal(placement.as_bytes(one), placement.as_bytes(other)):
                return False
    return len(first) == len(second)
