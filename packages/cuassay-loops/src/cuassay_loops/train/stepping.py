"""Optimizers whose step is a site: asked of the operators, a parameter at a time.

What a step makes of the same weights, states and gradient is compared: the change of the weights,
and every new state. The noise twin's answers differ by four units of rounding of float32; for
Muon, whose iteration runs in the working dtype, the trusted answer is the iteration in float32 and
the twin's is the one as written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from cuassay_loops.kernels import Value
from cuassay_loops.model.operators import Operators
from cuassay_loops.sequential import LEAN, Group
from cuassay_loops.sites import Site
from cuassay_loops.train.optimizers import WARM_UP
from cuassay_loops.train.pairs import Gradients

_TABLES = ("embed", "head")  # Muon leaves them to AdamW, as its author advises
_STATES = {
    "adamw_step": ("exp_avg", "exp_avg_sq"),
    "sgd_momentum_step": ("momentum_buffer",),
    "muon_step": ("momentum_buffer",),
}
_DECAY, _COUPLED_DECAY = 0.1, 5e-4
# One rounding to bf16 inside the iteration, as a lean of its result.
_MUON_LEAN = 2.0**-8


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerState:
    """What an optimizer holds of a parameter."""

    name: str
    parameter: nn.Parameter
    site: str
    states: list[torch.Tensor]


class SiteDescent:
    """An optimizer of the loop: gradients in, weights and states changed in place.

    `nesterov` is of SGD. The learning rate is warmed up as those of other optimizers are.
    """

    def __init__(
        self,
        site: Site,
        ops: Operators,
        named: Sequence[tuple[str, nn.Parameter]],
        rate: float,
        *,
        nesterov: bool,
    ) -> None:
        self._ops, self._rate, self._nesterov, self._steps = ops, rate, nesterov, 0
        self._held = [_held(site, name, parameter) for name, parameter in named]

    def step(self, gradients: Gradients) -> None:
        """Take one step in the operators' mode."""
        made = self._proposed(gradients)
        self._steps += 1
        with torch.no_grad():
            for held, (weights, *states) in zip(self._held, made, strict=True):
                held.parameter.copy_(weights.reshape(held.parameter.shape))
                for state, fresh in zip(held.states, states, strict=True):
                    state.copy_(fresh)

    def changes(self, gradients: Gradients) -> Gradients:
        """Return what a step would change: of each weight the difference, of states the new value.

        States are named `parameter: state`. Nothing is changed. Differences are float64.
        """
        found: Gradients = {}
        for held, (weights, *states) in zip(self._held, self._proposed(gradients), strict=True):
            before = held.parameter.detach().double()
            found[held.name] = weights.reshape(before.shape).double() - before
            for name, state in zip(_STATES[held.site], states, strict=True):
                found[f"{held.name}: {name}"] = state
        return found

    def groups(self, base: Mapping[str, Group]) -> dict[str, Group]:
        """Return the groups of parameters and rows in `base`, and one a state."""
        found = dict(base)
        for held in self._held:
            own = found[held.name]
            if held.site == "muon_step":
                own.lean = _MUON_LEAN
            for name in _STATES[held.site]:
                full = f"{held.name}: {name}"
                found[full] = Group(name=full, floor=own.floor, lean=max(LEAN, own.floor))
        return found

    def _proposed(self, gradients: Gradients) -> list[tuple[torch.Tensor, ...]]:
        rate = self._rate * min(1.0, (self._steps + 1) / WARM_UP)
        with torch.no_grad():
            answers = []
            for held in self._held:
                shape = held.parameter.shape if held.site == "muon_step" else (-1,)
                weights = held.parameter.detach().reshape(shape).clone()
                low = gradients[held.name].reshape(shape).to(self._ops.low).contiguous()
                states = [state.clone() for state in held.states]
                scalars: tuple[Value, ...]
                match held.site:
                    case "adamw_step":
                        scalars = rate, 0.9, 0.95, 1e-8, _DECAY, self._steps + 1
                    case "sgd_momentum_step":
                        scalars = rate, 0.9, _COUPLED_DECAY, self._nesterov
                    case _:
                        scalars = rate, 0.95
                answers.append(self._ops(held.site, weights, low, *states, *scalars))
            return answers


def _held(site: Site, name: str, parameter: nn.Parameter) -> OptimizerState:
    kind = site.name
    if kind == "muon_step" and (parameter.ndim != 2 or name in _TABLES):
        kind = "adamw_step"
    shape = parameter.shape if kind == "muon_step" else (parameter.numel(),)
    states = [torch.zeros(shape, device=parameter.device) for _ in _STATES[kind]]
    return OptimizerState(name=name, parameter=parameter, site=kind, states=states)
