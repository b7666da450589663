"""Reports of loops made up for tests of their words: nothing is trained."""

from __future__ import annotations

from dataclasses import replace

from cuassay.model.loop import Start
from cuassay.model.verdict import Decision
from cuassay_loops.results import (
    BlameReport,
    Cell,
    CellResult,
    Duplicates,
    Generation,
    InferReport,
    PairedRun,
    Quality,
    TrainReport,
)
from tests.support.loops import MICRO

CELL = Cell(data="real", optimizer="adamw", precision="bf16", seed=1)
IN_BAND = CellResult(
    cell=CELL,
    learning_rate=3e-4,
    steps=40,
    loss_trusted=2.5,
    loss_noise=2.5001,
    loss_candidate=2.4999,
)
LEFT = replace(
    IN_BAND,
    cell=replace(CELL, start=Start.TRAINED),
    gradient_left_band=True,
    step=7,
    parameter="blocks.0.norm",
    rows=(1, 2, 3, 4, 5),
    bias=-0.25,
    deviation=0.5,
    noise=0.01,
)
PROBE = Duplicates(
    precision="bf16", start=Start.SCRATCH, samples=256, spread=1e-3, noise_spread=2e-3
)


def train_report() -> TrainReport:
    """Return a report of two cells and a batch of duplicates."""
    return TrainReport(
        decision=Decision.REJECTED,
        reason="a gradient left the band",
        site="rmsnorm",
        problem="rmsnorm",
        candidate="kernel.py",
        digest="d" * 8,
        device="cpu",
        preset=MICRO,
        steps=40,
        false_alarm_rate=1e-4,
        seed=5,
        cells=(IN_BAND, LEFT),
        planned=2,
        duplicates=(PROBE,),
        options={"accumulate": "2"},
        text={"real": "Zipf 1.1"},
        environment={"torch": "2.13"},
        duration_s=12.4,
        kept="/runs/x",
    )


def infer_report() -> InferReport:
    """Return a report of decoding that stayed in the band."""
    quality = Quality(kl=1e-6, worst_kl=1e-5, top1=0.995, top5=1.0, perplexity=12.3456)
    return InferReport(
        decision=Decision.ACCEPTED,
        reason="the logits stay in the band",
        site="attention",
        problem="attention",
        candidate="kernel.py",
        digest="d" * 8,
        device="cpu",
        preset=MICRO,
        precision="bf16",
        seed=5,
        lengths=(20, 48),
        false_alarm_rate=1e-4,
        quality={"trusted": quality, "kernel": quality},
        generations=(
            Generation(kind="greedy", tokens=32, agreed=32),
            Generation(kind="sampled", tokens=32, agreed=9, margin=0.015),
        ),
        checks={"pages": "in any order"},
        slope=0.5,
        slope_trusted=0.45,
        advice=("the kernel copies its cache",),
        environment={"torch": "2.13"},
        duration_s=3.0,
    )


def blame_report() -> BlameReport:
    """Return a report that blames one of two kernels."""
    return BlameReport(
        decision=Decision.REJECTED,
        reason="norm makes the run leave the band",
        config="config.py",
        sites=("norm", "rope"),
        culprit="norm",
        search=2,
        runs=(
            PairedRun(active=("norm", "rope"), left=True, step=3, group="w", deviation=0.5,
                      noise=0.01),
            PairedRun(active=("rope",), left=False),
        ),
        false_alarm_rate=1e-4,
        duration_s=9.0,
    )  # fmt: skip
