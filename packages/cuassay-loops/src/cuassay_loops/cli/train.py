"""`cuassay loop train`: what a kernel does to a training run."""

from __future__ import annotations

import click

from cuassay.cli import options
from cuassay.model.device import Device
from cuassay_loops.cli import options as loop_options


@click.command("train")
@click.argument("path", metavar="KERNEL")
@click.option(
    "--site",
    required=True,
    metavar="SITE",
    help="The operator of the model that the kernel replaces: "
    f"{', '.join(loop_options.TRAIN_SITES)}. Each is an operator of the catalogue: `cuassay "
    "problem show SITE` prints its inputs.",
)
@click.option(
    "--problem",
    default="",
    metavar="PROBLEM",
    help="The problem that the kernel was written for, where it is not the site's own: a name "
    "of the catalogue, a folder or a file, as for `cuassay check`.",
)
@click.option("--data", multiple=True, metavar="NAME", help="real, uniform, zipf1.0, file:PATH ...")
@click.option("--optimizer", multiple=True, metavar="NAME", help="sgd, momentum, adamw, muon ...")
@click.option("--precision", multiple=True, metavar="NAME", help="bf16 (default), fp16, fp32.")
@click.option("--seeds", type=int, default=3, show_default=True, help="Runs of each setting.")
@click.option(
    "--steps", type=int, default=0, help="Steps of each run. Default: 60, or 200 on a GPU."
)
@click.option("--preset", default="", metavar="NAME", help="tiny, small, medium or large.")
@click.option("--vocab", type=int, default=0, metavar="N", help="Another vocabulary size.")
@click.option(
    "--start",
    type=click.Choice(("scratch", "trained", "sure", "both")),
    help="scratch: random weights (default). trained: a partly trained checkpoint, which cuassay "
    "makes once and keeps. sure: that checkpoint with larger logits. both: scratch and trained "
    "(default for gradients of the loss).",
)
@click.option("--lr", type=float, default=None, metavar="X", help="Another learning rate.")
@click.option("--accumulate", type=int, default=1, metavar="K", help="Micro-batches a step.")
@click.option("--checkpointing", is_flag=True, help="Recompute every block in the backward pass.")
@click.option(
    "--compile",
    "compile_with",
    default="",
    metavar="BACKEND",
    help="Compile the model with this torch.compile backend.",
)
@click.option("--whole", is_flag=True, help="Keep training after the first violation.")
@click.option(
    "--again", is_flag=True, help="Train every cell again, also those kept from earlier runs."
)
@options.device_option
@click.option("--seed", type=int, metavar="N", help="Repeat a matrix: the seed that it names.")
@loop_options.form_options
@click.pass_context
def train(
    context: click.Context,
    /,
    *,
    path: str,
    data: tuple[str, ...],
    optimizer: tuple[str, ...],
    precision: tuple[str, ...],
    start: str | None,
    device: Device | None,
    seed: int | None,
    output: loop_options.LoopForms,
    site: str,
    problem: str,
    **more: object,
) -> None:
    """Train a small real transformer with the kernel at SITE, paired with trusted kernels.

    cuassay compares the gradients at the same weights and batch, and rejects the kernel where one
    leaves the noise band. The kernel runs in a process of its own.
    """
    from cuassay.model.jobs import TrainJob
    from cuassay.model.loop import Start
    from cuassay_loops.cli.drive import drive

    starts = {None: (), "both": (Start.SCRATCH, Start.TRAINED)}.get(start) or (
        (Start(start),) if start else ()
    )
    job = loop_options.job(
        TrainJob,
        path,
        device=device,
        seed=options.read_seed(seed),
        site=site,
        source=problem,
        data=data,
        optimizers=optimizer,
        precisions=precision or ("bf16",),
        starts=starts,
        more=more,
    )
    context.exit(drive(job, output))
