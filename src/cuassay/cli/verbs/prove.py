"""`cuassay prove`: what holds of a kernel's launches for all sizes of a problem."""

from __future__ import annotations

import sys

import click

from cuassay.cli import options
from cuassay.cli.drive import emit_json
from cuassay.cli.sinks import say


@click.command("prove")
@click.argument("path", metavar="KERNEL")
@click.option("--problem", default="", metavar="PROBLEM", help="Whose sizes are legal.")
@click.option(
    "--limit-s", type=click.FloatRange(min=1.0), default=60.0, show_default=True, metavar="SECONDS",
    help="Time for the proof of one launch.",
)  # fmt: skip
@click.option(
    "--elements",
    type=click.IntRange(min=1),
    default=None,
    metavar="COUNT",
    help="Prove it for tensors of fewer elements than COUNT each.  [default: 2^31, else 2^29]",
)
@click.option(
    "--only", "only", multiple=True, metavar="PROPERTY",
    type=click.Choice(["memory", "races", "initialized", "equal"]),
    help="Prove memory, races, initialized or equal alone; may be repeated.  [default: all]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--strict/--lenient", default=False, help="Refuse unknown keys.")
@click.pass_context
def prove(
    context: click.Context, *, path: str, problem: str, limit_s: float, elements: int | None,
    only: tuple[str, ...], as_json: bool, strict: bool,
) -> None:  # fmt: skip
    """Prove that KERNEL stays within its memory and does not race at any size, and is PROBLEM's.

    cuassay records what KERNEL launches at many sizes, fits the launch to the sizes of PROBLEM,
    and follows the PTX for all blocks and threads at once. A refutation is a size at which the
    PTX machine shows the fault. Whether outputs are the reference's expressions is proved at a
    few small sizes, for all data that decide comparisons alike.
    """
    from cuassay.engine import run as engine
    from cuassay.model import serial
    from cuassay.model.jobs import ProveJob
    from cuassay.model.proofs import ProofAnswer, ProofEvidence, Property
    from cuassay.report.clean import one_line
    from cuassay.report.terminal.proofs import lines

    job = ProveJob(
        problem=problem, candidate=options.candidate_path(path), limit_s=limit_s, strict=strict,
        elements=elements or 0,
        properties=tuple(one for one in Property if not only or one.value in only),
    )  # fmt: skip
    quiet = as_json or not sys.stderr.isatty()
    document = engine.document(job, lambda text: None if quiet else say(text))
    evidence: ProofEvidence = serial.from_json(ProofEvidence, document["proof"])
    code = {ProofAnswer.PROVED: 0, ProofAnswer.REFUTED: 1, ProofAnswer.UNKNOWN: 3}[evidence.answer]
    if as_json:
        emit_json({**document, "exit_code": code})
    else:
        names = [one_line(str(document[key])) for key in ("candidate", "problem")]
        click.echo(f"{names[0]} on {names[1]}: {document['sizes_recorded']} sizes recorded")
        for line in lines(evidence):
            click.echo(line)
    context.exit(code)
