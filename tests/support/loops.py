"""Small models and kernels for tests of the loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from cuassay.model.device import CPU
from cuassay.model.problem import Problem
from cuassay_loops import sites
from cuassay_loops.kernels import Kernel, Value, local_kernel
from cuassay_loops.model.operators import Operators
from cuassay_loops.model.transformer import Transformer
from cuassay_loops.results import Preset
from cuassay_loops.train.cell import Settings
from tests.zoo import planted

MICRO = Preset(
    name="micro",
    vocab=300,
    hidden=16,
    layers=1,
    heads=2,
    kv_heads=1,
    ffn=32,
    batch=8,
    length=64,
)
MICRO_MOE = replace(MICRO, name="micro-moe", ffn=8, experts=16)


def problem(site: str, precision: str = "bf16") -> Problem:
    """Return the problem at a site for the micro model."""
    return sites.site_problem(sites.find_site(site), precision, vocab=MICRO.vocab)


def zoo_kernel(site: str, name: str, *, folder: str = "bugs", precision: str = "bf16") -> Kernel:
    """Return a zoo candidate as a kernel in this process."""
    space: dict[str, Callable[..., object]] = {}
    path = planted.candidate(folder, name)
    exec(compile(path.read_text(), str(path), "exec"), space)
    return local_kernel(space["run"], problem(site, precision))


def settings(site: str, kernel: Kernel, *, steps: int = 20, **more: object) -> Settings:
    """Return settings of a cell of the micro model."""
    fields: dict[str, object] = {"preset": MICRO, "device": CPU, "seed": 5} | more
    return Settings(site=site, kernel=kernel, steps=steps, **fields)  # type: ignore[arg-type]


def micro(
    precision: str = "fp32", kernels: dict[str, Kernel] | None = None, preset: Preset = MICRO
) -> Transformer:
    """Return a micro model with the same weights every time."""
    torch.manual_seed(0)
    ops = Operators(precision=precision, vocab=preset.vocab, device=CPU, kernels=kernels)
    return Transformer(preset, ops)


def never(values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
    """A kernel that must not be called."""
    raise AssertionError("called")
