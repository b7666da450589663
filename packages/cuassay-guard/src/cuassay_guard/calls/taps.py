"""Gradients of a sampled call: what came in from above, and what the kernel passed on.

Hooks on views of the inputs and on the outputs see exactly the part of the gradient that went
through this call. They copy and return; the graph is what it would be without the guard.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cuassay_guard.calls import device
from cuassay_guard.calls.snapshot import Snapshot, detached_copies
from cuassay_guard.calls.structure import flatten, rebuild

if TYPE_CHECKING:
    from cuassay_guard.watch import Entry, Watch
    from cuassay_guard.wrap import Guarded


class Tap:
    """One differentiated call on its way to a gradient check.

    Lives as long as the autograd graph of the call; a graph that is dropped without a backward
    pass drops it too, and its memory with it.
    """

    def __init__(self, guarded: Guarded, entry: Entry, snapshot: Snapshot) -> None:
        self._guarded, self._entry = guarded, entry
        self._tensors, self._template = list(snapshot.tensors), snapshot.template
        self._autocast, self._wanted = snapshot.autocast, snapshot.differentiated
        self._upstream: dict[int, Tensor] = {}
        self._found: dict[int, Tensor] = {}
        self._outputs: list[Tensor] = []  # zeros for those that no gradient reaches
        self._done = False
        self._lock = threading.Lock()
        self._memory = snapshot.memory
        # Twice the inputs: themselves, and their gradients to come.
        nbytes = 2 * sum(t.numel() * t.element_size() for t in self._tensors)
        self._holder = object()  # of its bytes; not the tap, which would be kept alive
        self._active = self._memory.reserve(self._holder, nbytes)

    def __del__(self) -> None:
        self._memory.release(self._holder)

    def inputs(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the arguments with watched views in place of what requires a gradient."""
        if not self._active:
            return arguments, keywords
        tensors, template = flatten([tuple(arguments), dict(keywords)])
        for place in self._wanted:
            view = tensors[place].view_as(tensors[place])
            hook: Any = view.register_hook
            hook(lambda grad, place=place: self._arrived(place, grad))
            tensors[place] = view
        given: tuple[Sequence[Any], Mapping[str, Any]] = tuple(rebuild(template, tensors))
        return given

    def outputs(self, result: Any) -> None:
        """Watch what comes back from above."""
        if not self._active:
            return
        for index, tensor in enumerate(flatten(result)[0]):
            self._outputs.append(tensor.detach())
            if tensor.requires_grad:
                hook: Any = tensor.register_hook
                hook(lambda grad, index=index: self._above(index, grad))

    def _above(self, index: int, grad: Tensor) -> None:
        with self._lock:
            self._upstream[index] = detached_copies([grad])[0]

    def _arrived(self, place: int, grad: Tensor) -> None:
        with self._lock:
            self._found[place] = detached_copies([grad])[0]
            complete = len(self._found) == len(self._wanted) and not self._done
            self._done = self._done or complete
        if complete:
            try:
                self._submit()
            except Exception as failure:
                self._guarded.watch.trouble("a gradient's snapshot", failure)

    def _submit(self) -> None:
        from cuassay_guard.sampled.jobs import CheckJob

        upstream = [
            self._upstream.get(index, torch.zeros_like(output))
            for index, output in enumerate(self._outputs)
        ]
        gradients = [self._found[place] for place in self._wanted]
        tensors = self._tensors + upstream
        snapshot = Snapshot(
            tensors=tensors,
            template=self._template,
            holder=self._holder,
            autocast=self._autocast,
            memory=self._memory,
            outputs=gradients,
            moment=device.now(device.device_of(tensors)),
        )
        self._holder, self._tensors, self._outputs = object(), [], []
        self._upstream, self._found = {}, {}
        guarded = self._guarded
        guarded.submit(
            CheckJob(
                watch=guarded.watch,
                entry=self._entry,
                snapshot=snapshot,
                call=guarded.watch.gate.calls,
                gradient_of=self._wanted,
                upstream=len(upstream),
                kernel=guarded.kernel,
            )
        )


def trace_id(watch: Watch) -> str:
    """Return the trace that a call belongs to: the user's function, else OpenTelemetry's span."""
    if watch.config.trace_id is not None:
        return str(watch.config.trace_id())
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return ""
    context = api.get_current_span().get_span_context()
    return format(context.trace_id, "032x") if context.is_valid else ""
