"""`cuassay prove`: what holds of a kernel's launches for all sizes of a problem."""

from __future__ import annotations

import sys

import click

from cuassay.cli import options
from cuassay.cli.drive import emit_json, say


@click.command("prove")
@click.argument("path", metavar="KERNEL")
@click.option("--problem", default="", metavar="PROBLEM", help="Whose sizes are legal.")
@click.option(
    "--limit-s", type=click.FloatRange(min=1.0), default=60.0, show_default=True, metavar="SECONDS",
    help="Time for the proof of one launch.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--strict/--lenient", default=False, help="Refuse unknown keys.")
@click.pass_context
def prove(
    context: click.Context, *, path: str, problem: str, limit_s: float, as_json: bool, strict: bool
) -> None:
    """Prove that KERNEL stays within its memory at every size, or find a size where it does not.

    cuassay records what KERNEL launches at many sizes, fits the launch to the sizes of PROBLEM,
    and follows the PTX for all blocks and threads at once. A refutation is a size at which the
    PTX machine shows the fault.
    """
    from cuassay.engine import run as engine
    from cuassay.model import serial
    from cuassay.model.jobs import ProveJob
    from cuassay.model.proofs import ProofAnswer, ProofEvidence
    from cuassay.report.clean import one_line
    from cuassay.report.terminal.proofs import lines

    job = ProveJob(
        problem=problem, candidate=options.candidate(path), limit_s=limit_s, strict=strict
    )
    quiet = as_json or not sys.stderr.isatty()
    document = engine.prove(job, progress=lambda text: None if quiet else say(text))
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
