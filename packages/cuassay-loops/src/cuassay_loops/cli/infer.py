"""`cuassay loop infer`: what a kernel does to prefill and decode."""

from __future__ import annotations

import click

from cuassay.cli import options
from cuassay.model.device import Device
from cuassay_loops.cli import options as loop_options


@click.command("infer")
@click.argument("path", metavar="KERNEL")
@click.option(
    "--site",
    required=True,
    metavar="SITE",
    help="The operator of the model that the kernel replaces: "
    f"{', '.join(loop_options.INFER_SITES)}. `cuassay problem show SITE` prints its inputs.",
)
@click.option(
    "--problem",
    default="",
    metavar="PROBLEM",
    help="The problem that the kernel was written for, where it is not the site's own: a name "
    "of the catalogue, a folder or a file, as for `cuassay check`.",
)
@click.option(
    "--data", default="real", show_default=True, metavar="NAME", help="Which tokens to decode."
)
@click.option("--precision", default="bf16", show_default=True, help="bf16, fp16 or fp32.")
@click.option("--preset", default="", metavar="NAME", help="tiny, small, medium or large.")
@click.option("--weights", default="", metavar="NAME", help="minilm: encode with real weights.")
@click.option("--sequences", type=int, default=6, show_default=True, help="Sequences in a batch.")
@click.option(
    "--tokens", type=int, default=96, show_default=True, help="Length of the longest sequence."
)
@click.option(
    "--longest", type=int, default=1024, show_default=True, help="Longest context of attention."
)
@options.device_option
@click.option("--seed", type=int, metavar="N", help="Repeat a run: the seed that it names.")
@loop_options.form_options
@click.pass_context
def infer(
    context: click.Context,
    /,
    *,
    path: str,
    site: str,
    problem: str,
    data: str,
    precision: str,
    device: Device | None,
    seed: int | None,
    output: loop_options.LoopForms,
    **more: object,
) -> None:
    """Decode ragged batches with the kernel at SITE, over a paged cache, beside trusted kernels.

    cuassay compares the logits with a float64 model position by position. It varies batches, pages
    and unused rows, and lengthens contexts. The kernel runs in a process of its own.
    """
    from cuassay.model.jobs import InferJob
    from cuassay_loops.cli.drive import drive

    job = loop_options.job(
        InferJob,
        path,
        device=device,
        seed=options.read_seed(seed),
        site=site,
        source=problem,
        data=(data,),
        precisions=(precision,),
        more=more,
    )
    context.exit(drive(job, output))
