"""The optimizers of the matrix, with learning rates at which trusted runs are stable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from cuassay.errors import UnknownNameError, UsageError

WARM_UP = 10  # steps over which the learning rate rises to its value


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How an optimizer is made, and its usual learning rate."""

    learning_rate: float
    make: Callable[[list[nn.Parameter], float], list[torch.optim.Optimizer]]


def _one(kind: str, **fields: Any) -> Callable[..., list[torch.optim.Optimizer]]:
    def make(parameters: list[nn.Parameter], rate: float) -> list[torch.optim.Optimizer]:
        return [getattr(torch.optim, kind)(parameters, lr=rate, **fields)]

    return make


def _muon(parameters: list[nn.Parameter], rate: float) -> list[torch.optim.Optimizer]:
    """Muon for matrices; AdamW for gains and for tables of tokens, as its author advises."""
    if not hasattr(torch.optim, "Muon"):
        raise UsageError(f"optimizer 'muon' needs torch 2.9 or newer, this is {torch.__version__}")
    matrices = [p for p in parameters if p.ndim == 2 and max(p.shape) <= 8 * min(p.shape)]
    chosen = {id(p) for p in matrices}
    others = [p for p in parameters if id(p) not in chosen]
    made: Any = torch.optim.Muon(matrices, lr=rate, weight_decay=0.0)
    return [made, torch.optim.AdamW(others, lr=0.1 * rate, weight_decay=0.0, betas=(0.9, 0.95))]


RECIPES: Mapping[str, Recipe] = {
    "sgd": Recipe(learning_rate=0.5, make=_one("SGD")),
    "momentum": Recipe(learning_rate=0.05, make=_one("SGD", momentum=0.9)),
    "adamw": Recipe(learning_rate=2e-3, make=_one("AdamW", weight_decay=0.0, betas=(0.9, 0.95))),
    "adafactor": Recipe(learning_rate=1e-2, make=_one("Adafactor")),
    "muon": Recipe(learning_rate=2e-2, make=_muon),
}


def recipe(name: str) -> Recipe:
    """Return an optimizer's recipe. Raises UnknownNameError."""
    if name not in RECIPES:
        raise UnknownNameError("optimizer", name, RECIPES)
    return RECIPES[name]


class Descent:
    """One model's optimizer: gradients in, weights changed in place, learning rate warmed up."""

    def __init__(self, name: str, parameters: list[nn.Parameter], learning_rate: float) -> None:
        self._parameters = parameters
        self._inner = recipe(name).make(parameters, learning_rate)
        self._rates = [[group["lr"] for group in each.param_groups] for each in self._inner]
        self._steps = 0

    def step(self, gradients: Mapping[str, torch.Tensor]) -> None:
        """Take one step along gradients that are in the order of the parameters."""
        self._steps += 1
        share = min(1.0, self._steps / WARM_UP)
        for parameter, gradient in zip(self._parameters, gradients.values(), strict=True):
            parameter.grad = gradient
        for each, rates in zip(self._inner, self._rates, strict=True):
            for group, rate in zip(each.param_groups, rates, strict=True):
                group["lr"] = rate * share
            each.step()
        for parameter in self._parameters:
            parameter.grad = None
