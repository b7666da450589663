"""A candidate inside a function that torch.compile has compiled, as training code has it.

On a GPU by the default compiler (Inductor); on a CPU by its front and middle alone (`aot_eager`:
tracing, functionalisation, dead code removed), which needs no C++ compiler. Imports are late:
the compiler takes a second to load.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch

from cuassay.model.candidate import Candidate, Language
from cuassay.model.device import Device
from cuassay.model.scenario import Poison
from cuassay.model.steps import CompiledCall
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.interface import Around, Host, Made


def untraceable(candidate: Candidate, device: Device) -> str:
    """Return why a candidate is not called from compiled code here, or an empty string."""
    from cuassay.build.python import speaks_of_a_gpu

    if candidate.language is Language.CUDA_KERNEL:
        return "a raw CUDA kernel is launched by cuassay itself"
    if not device.on_gpu and speaks_of_a_gpu(candidate):
        return "on a CPU stand-ins for CUDA and Triton would be traced"
    return ""


class Compiler:
    """Compiles a host's candidate once, and calls it on one slot after another."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._compiled: Callable[..., object] | None = None

    def call(self, step: CompiledCall, around: Around) -> Made:
        """Execute a CompiledCall."""
        if around.untraceable:
            return Made(facts=(("skipped", around.untraceable),))
        host = self._host
        outputs = host.destinations(step.slot, Poison.NAN)
        arguments = [*host.slot(step.slot).values.values(), *(tensor for _, tensor in outputs)]
        if self._compiled is None:
            self._compiled = _compile(host.candidate, len(outputs), device=host.device)
        returned = self._compiled(*arguments)
        names = [spec.name for spec in host.problem.outputs]
        held = items.returned_items(returned, names)
        host.hold(step.result, step.slot, held)
        if host.device.on_gpu:
            torch.cuda.synchronize()
        return Made()


def _compile(call: Callable[..., object], outputs: int, *, device: Device) -> Callable[..., object]:
    """Return a compiled function that calls the candidate and copies what it gives.

    The copies are work of the graph's own: it reads what the candidate is thought to write.
    """
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool in a bounded process
    import torch._dynamo

    torch._dynamo.reset()

    def inside(*arguments: object) -> object:
        returned = call(*arguments)
        given = arguments[len(arguments) - outputs :]
        return _copies(given) if outputs else _copies(returned)

    backend = "inductor" if device.on_gpu else "aot_eager"
    compiled: Callable[..., object] = torch.compile(inside, backend=backend)
    return compiled


def _copies(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(v.clone() if isinstance(v, torch.Tensor) else v for v in value)
    return value
