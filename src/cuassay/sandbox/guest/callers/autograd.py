"""Differentiates the candidate as training code does, and holds the gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cuassay.model.problem import Scalar
from cuassay.model.reports import Differentiated
from cuassay.model.scenario import Poison
from cuassay.model.steps import Backward, Use
from cuassay.sandbox import upstream
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.guest.observe import launch_errors

Held = list[tuple[str, object]]
Values = Mapping[str, torch.Tensor | Scalar]
_NODES = 4096  # of a graph that are looked at
_DIFFERENTIABLE = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_BESIDE_INPUTS = 0.5  # of the other call's inputs and upstream gradients: both are exact
_BESIDE_UPSTREAM = -2.0

_ENGINE: Any = getattr(torch.autograd.Variable, "_execution_engine", None)


class BackwardError(RuntimeError):
    """The candidate's own derivative raised: its type and message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forward:
    """One differentiable call: its inputs, what it returned, and what carries a gradient."""

    inputs: Values
    held: Held
    carrying: tuple[tuple[int, str, torch.Tensor], ...]  # number, name, output

    @property
    def leaves(self) -> dict[str, torch.Tensor]:
        """The inputs that require a gradient."""
        tensors = {k: v for k, v in self.inputs.items() if isinstance(v, torch.Tensor)}
        return {name: value for name, value in tensors.items() if value.requires_grad}


class Differentiator:
    """Executes Backward steps; remembers when there is nothing left to differentiate."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._over = ""  # why later steps do nothing
        self._own = False

    def backward(self, step: Backward) -> Made:
        """Execute one step."""
        if not self._over and self._host.destinations(step.slot, Poison.NONE):
            self._over = "it writes into outputs given to it"
        if self._over:
            return self._hold(step, [], [], Differentiated(passed_over=self._over))
        launch_errors.clear(self._host.device)
        try:
            if step.use is Use.FORWARD:
                with torch.no_grad():
                    held = self._called(step, self._fresh(step, ()))
                made = self._hold(step, [], held, None)
            else:
                made = self._made(step)
        except BaseException:
            if not self._own:
                self._over = "an earlier call on inputs that require gradients raised"
            raise
        launch_errors.raise_pending(self._host.device)
        if self._host.device.on_gpu:
            torch.cuda.synchronize()
        return made

    def _fresh(self, step: Backward, wanted: Sequence[str]) -> Values:
        # The values with every tensor copied; those of `wanted` require gradients
        values = self._host.slot(step.slot).values
        found: dict[str, torch.Tensor | Scalar] = {}
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                value = placement.own_copy(value, self._host.device, label=name)
                value.requires_grad_(name in wanted)
            found[name] = value
        return found

    def _made(self, step: Backward) -> Made:
        forward = self._forward(step, self._fresh(step, step.wanted))
        if not forward.carrying:
            if not self._own:
                self._over = "no output carries a gradient"
            return self._hold(step, [], forward.held, Differentiated())
        self._own = self._own or has_own_derivative([y for _, _, y in forward.carrying])
        given = []
        for number, _, output in forward.carrying:
            kind, shape, dtype = step.upstream, tuple(output.shape), output.dtype
            values = upstream.drawn(kind, shape, dtype, seed=step.seed, number=number)
            given.append(upstream.laid_out(kind, values.to(output.device)))
        kept = [value.clone() for value in given]
        try:
            leaves = forward.leaves
            outputs = [output for _, _, output in forward.carrying]
            match step.use:
                case Use.TWICE:
                    second = [y for _, _, y in self._forward(step, forward.inputs).carrying]
                    pairs = [*outputs, *second], [*given, *given[: len(second)]]
                    gradients = _gradients(pairs[0], leaves, pairs[1])
                    gradients = [
                        (n, g * 0.5 if isinstance(g, torch.Tensor) else g) for n, g in gradients
                    ]
                case Use.BESIDE:
                    # Other values that are as legal: what requires gradients is half as large
                    found: dict[str, torch.Tensor | Scalar] = {}
                    for name, value in forward.inputs.items():
                        if isinstance(value, torch.Tensor) and value.requires_grad:
                            value = (value.detach() * _BESIDE_INPUTS).requires_grad_()
                        found[name] = value
                    other = self._forward(step, found)
                    gradients = _gradients(outputs, leaves, given)
                    theirs = [y for _, _, y in other.carrying]
                    turned = [value * _BESIDE_UPSTREAM for value in given]
                    if theirs:
                        _gradients(theirs, other.leaves, turned[: len(theirs)])
                case Use.RETAINED:
                    _gradients(outputs, leaves, given, retain=True)
                    gradients = _gradients(outputs, leaves, given)
                case _:
                    gradients = _gradients(outputs, leaves, given)
        except Exception as error:
            if not self._own:
                raise
            raise BackwardError(f"{type(error).__name__}: {error}") from error
        written = self._written(step, forward, zip(given, kept, strict=True))
        if not self._own:
            self._over = "torch differentiates it: it has no derivative of its own"
        carries = tuple(name for _, name, _ in forward.carrying if name)
        report = Differentiated(carries=carries, own=self._own, written=tuple(written))
        return self._hold(step, gradients, forward.held, report)

    def _forward(self, step: Backward, inputs: Values) -> _Forward:
        with torch.enable_grad():
            if step.use is Use.CHECKPOINT:
                held = recomputed(lambda: self._called(step, inputs))
            else:
                held = self._called(step, inputs)
        names = [spec.name for spec in self._host.problem.outputs]
        carrying = tuple(
            (names.index(name) if name in names else number, name, value)
            for number, (name, value) in enumerate(held)
            if isinstance(value, torch.Tensor)
            and value.requires_grad
            and value.dtype in _DIFFERENTIABLE  # codes of 8 bits carry none that means anything
        )
        return _Forward(inputs=inputs, held=held, carrying=carrying)

    def _called(self, step: Backward, inputs: Values) -> Held:
        """Call the candidate on other values than those in the slot, which stay there."""
        values = self._host.slot(step.slot).values
        kept = dict(values)
        values.update(inputs)
        try:
            return self._host.invoke(step.slot, ())
        finally:
            values.update(kept)

    def _written(
        self, step: Backward, forward: _Forward, given: zip[tuple[torch.Tensor, torch.Tensor]]
    ) -> list[str]:
        """Return the inputs and upstream gradients whose bytes changed."""
        before = self._host.slot(step.slot).tensors
        now = {k: v for k, v in forward.inputs.items() if isinstance(v, torch.Tensor)}
        found = [name for name, value in now.items() if not _same_bits(value, before[name])]
        for (_, name, _), (value, kept) in zip(forward.carrying, given, strict=True):
            if not _same_bits(value, kept):
                found.append(f"upstream gradient of {name}")
        return found

    def _hold(
        self, step: Backward, gradients: Held, outputs: Held, report: Differentiated | None
    ) -> Made:
        self._host.hold(step.result, step.slot, gradients)
        detached = [(n, v.detach() if isinstance(v, torch.Tensor) else v) for n, v in outputs]
        self._host.hold(step.outputs, step.slot, detached)
        return Made(report=report)


def _gradients(
    outputs: Sequence[torch.Tensor],
    leaves: Mapping[str, torch.Tensor],
    given: Sequence[torch.Tensor],
    *,
    retain: bool = False,
) -> Held:
    found = _grad(tuple(outputs), tuple(leaves.values()), tuple(given), retain=retain)
    return [(f"grad_{name}", value) for name, value in zip(leaves, found, strict=True)]


def _grad(
    outputs: tuple[torch.Tensor, ...],
    leaves: tuple[torch.Tensor, ...],
    given: tuple[torch.Tensor, ...],
    *,
    retain: bool,
) -> Sequence[torch.Tensor | None]:
    """Return what torch.autograd.grad returns, without its import of symbolic shapes (0.3 s)."""
    if _ENGINE is None:
        return torch.autograd.grad(outputs, leaves, given, retain, allow_unused=True)
    found: Sequence[torch.Tensor | None] = _ENGINE.run_backward(
        outputs, given, retain, False, leaves, allow_unreachable=True, accumulate_grad=False
    )
    return found


def _same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    with torch.no_grad():
        ours, theirs = first.detach().contiguous(), second.detach().contiguous()
        return torch.equal(placement.as_bytes(ours), placement.as_bytes(theirs))


def has_own_derivative(outputs: Sequence[torch.Tensor]) -> bool:
    """Whether the graph behind some outputs has a node that torch does not bring itself."""
    found = [output.grad_fn for output in outputs]
    seen: set[object] = set()
    while found and len(seen) < _NODES:
        node = found.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return True
        if "CppNode" in node.name():
            return True
        found += [following for following, _ in node.next_functions]
    return False


def recomputed(call: Callable[[], Held]) -> Held:
    """Make a call that saves no tensors: a backward pass makes it again for what it needs.

    As torch.utils.checkpoint does without reentry; that one imports the compiler when first
    used, which takes seconds.
    """
    saved: list[torch.Tensor] = []
    count = 0

    def number(_: torch.Tensor) -> int:
        nonlocal count
        count += 1
        return count - 1

    def again(place: int) -> torch.Tensor:
        if not saved:

            def keep(tensor: torch.Tensor) -> torch.Tensor:
                saved.append(tensor.detach())
                return tensor

            hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
            with torch.enable_grad(), hooks:
                call()
            if len(saved) != count:
                raise RuntimeError(
                    f"recomputation saved {len(saved)} tensors, the forward call {count}"
                )
        return saved[place]

    with torch.autograd.graph.saved_tensors_hooks(number, again):
        return call()
