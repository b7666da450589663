"""A kernel with an autotuner of Triton's, without a kernel of Triton's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from tests.support.fake_trial import Function


class OutOfResources(Exception):
    """What Triton raises where a configuration needs too much; named as there."""


def tuned(
    wrong: tuple[int, ...] = (),
    refused: tuple[int, ...] = (),
    left: float = 0.0,
    also: Callable[[torch.Tensor, torch.Tensor, int], None] = lambda x, y, block: None,
) -> Function:
    """Return a kernel whose autotuner has four blocks, wrong or refused with some of them.

    Where it is wrong the last element is `left`; `also` is done beside in each launch. A call
    that nobody forces a configuration on takes the first.
    """
    triton = importlib.import_module("triton")
    module = importlib.import_module("triton.runtime.autotuner")
    plain = module.Autotuner.run
    configs = [triton.Config({"BLOCK": block}) for block in (16, 32, 64, 128)]

    def launch(x: torch.Tensor, y: torch.Tensor, *, BLOCK: int, **_: Any) -> None:
        if BLOCK in refused:
            raise OutOfResources("shared memory")
        y.copy_(x)
        if BLOCK in wrong:
            y.reshape(-1)[-1] = left
        also(x, y, BLOCK)

    tuner = module.Autotuner.__new__(module.Autotuner)
    tuner.configs, tuner.arg_names = configs, ["x", "y"]
    tuner.early_config_prune = tuner.perf_model = None
    tuner.keys, tuner.cache, tuner.cache_results = [], {}, False
    tuner.pre_hook = tuner.post_hook = lambda *_, **__: None
    tuner.base_fn = SimpleNamespace(__name__="_copy")
    tuner.fn = SimpleNamespace(run=launch)

    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        y = torch.empty_like(x)
        if module.Autotuner.run is plain:
            launch(x * gain + bias, y, BLOCK=16)
        else:
            tuner.run(x * gain + bias, y)
        return y

    return call
