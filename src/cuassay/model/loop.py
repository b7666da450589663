"""What `cuassay loop` asks of a judge, as plain data; what it reports is in `cuassay_loops`."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Start(enum.StrEnum):
    """What the weights are when a cell begins."""

    SCRATCH = "scratch"
    TRAINED = "trained"  # a checkpoint that cuassay trained with trusted kernels, and keeps
    SURE = "sure"  # that checkpoint with larger logits, so that many targets have p near 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """What `cuassay loop train` and `infer` ask of a judge. Empty means the usual choice.

    `source` names another problem with the site's inputs and outputs, `checkpoint_every_block`
    recomputes blocks in the backward pass, `again` passes over what an earlier call left.
    """

    site: str
    preset: str = ""
    source: str = ""
    data: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ("bf16",)
    seeds: int = 3
    steps: int = 0
    starts: tuple[Start, ...] = ()
    learning_rate: float | None = None
    accumulate: int = 1
    checkpoint_every_block: bool = False
    compile_with: str = ""
    whole: bool = False  # go on after both gradient and loss have left
    again: bool = False
    weights: str = ""  # real weights to encode with: minilm
    vocab: int = 0
    sequences: int = 6
    tokens: int = 96
    longest: int = 1024
