"""CUDA graphs: one call captured, replayed as a server or a training loop does."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cuassay.model.scenario import Poison
from cuassay.model.steps import Capture, Replay
from cuassay.sandbox.guest.callers.streams import copies, on_stream, settle
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.memory import placement


@dataclass(slots=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    slot: str
    held: list[tuple[str, object]]


class Graphs:
    """The graphs of one scenario; they are given back with it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._graphs: dict[str, _Captured] = {}

    def capture(self, step: Capture) -> Made:
        """Warm up, then capture one call. Raises what the candidate or the capture raises."""
        outputs = self._host.destinations(step.slot, Poison.NAN)
        settle(self._host)
        with on_stream("capture"):
            for _ in range(step.warmups):
                self._host.invoke(step.slot, outputs)
        settle(self._host)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            held = self._host.invoke(step.slot, outputs)
        settle(self._host)
        self._graphs[step.graph] = _Captured(graph, step.slot, held)
        return Made()

    def replay(self, step: Replay) -> Made:
        """Poison the captured outputs, replay, and hold a copy of them."""
        found = self._graphs[step.graph]
        inputs = self._host.slot(found.slot).tensors
        for _, value in found.held:
            if not isinstance(value, torch.Tensor) or not value.is_contiguous():
                continue
            if not any(
                value.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
                for tensor in inputs.values()
            ):
                placement.fill(value, Poison.NAN)
        settle(self._host)
        found.graph.replay()
        settle(self._host)
        self._host.hold(step.result, found.slot, copies(found.held))
        settle(self._host)
        return Made()
