"""`cuassay run`: one call of a kernel in the PTX machine, and what it did there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cuassay.cli import options
from cuassay.cli.drive import emit_json, waiting
from cuassay.errors import UsageError
from cuassay.model.device import CPU, Device

if TYPE_CHECKING:
    from cuassay.model.machine import MachineEvidence

_RECORDED = (
    "{} holds launches that were recorded; --problem, --axes, --record and --device say how "
    "launches come about: leave them out"
)
_AGAINST = (
    "--against compares two candidates called on one problem; it goes with --problem, --axes, "
    "--seed and --json only"
)


@click.command("run")
@click.argument("path", metavar="KERNEL")
@click.option(
    "--problem", default="", metavar="PROBLEM", help="What the kernel is called on, as for check."
)
@click.option("--axes", default="", metavar="NAME=N,...", help="Sizes to call it at.")
@click.option("--trace", is_flag=True, help="Show the source with what ran and what was found.")
@click.option("--record", default="", metavar="FILE", help="Keep the launches in FILE.")
@click.option(
    "--device",
    metavar="DEVICE",
    callback=options.read_device,
    help="Call it there: cpu, cuda or cuda:N. Default: cpu.",
)
@click.option(
    "--against", default="", metavar="OTHER", help="Compare with OTHER as real-number expressions."
)
@click.option("--seed", type=int, metavar="N", help="Draw the inputs from N.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--strict/--lenient", default=False, help="Refuse unknown keys.")
@click.pass_context
def run(
    context: click.Context,
    *,
    path: str,
    problem: str,
    axes: str,
    trace: bool,
    record: str,
    device: Device | None,
    against: str,
    seed: int | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Execute KERNEL's launches on the CPU: races, bounds, unwritten memory, lost precision.

    KERNEL is a .cu file with declared launches or a Python file with Triton kernels, called
    once on a small case of PROBLEM; or a .safetensors file of recorded launches. With --device
    cuda the call runs on the GPU, and cuassay compares what it left there as well. With --against
    cuassay compares both kernels as expressions over real numbers, and looks for no fault.
    """
    from cuassay.engine import run as engine
    from cuassay.model import serial
    from cuassay.model.jobs import ExecuteJob
    from cuassay.model.machine import MachineEvidence
    from cuassay.report.terminal.machine import lines

    job = ExecuteJob(
        problem=problem,
        candidate=options.candidate_path(path),
        seed=options.read_seed(seed),
        strict=strict,
        axes=_sizes(axes),
        record=record,
        device=device or CPU,
        against=options.candidate_path(against) if against else "",
    )
    is_file = path.endswith(".safetensors")
    if is_file and (problem or axes or record or device):
        raise UsageError(_RECORDED.format(path))
    if against and (trace or record or device or is_file):
        raise UsageError(_AGAINST)
    with waiting(
        "executes the launches on the CPU; the first use of a kernel compiles it"
    ) as progress:
        document = engine.document(job, progress)
    if against:
        context.exit(_compared(document, as_json=as_json))
    evidence: MachineEvidence = serial.from_json(MachineEvidence, document["evidence"])
    if as_json:
        emit_json({**document, "exit_code": _code(evidence, whole=not is_file)})
    else:
        found = lines(evidence, document["sources"], trace=trace)
        from cuassay.report.clean import one_line

        sizes = ", ".join(f"{name} = {size}" for name, size in document["axes"].items())
        click.echo(f"{one_line(str(document['candidate']))}{f' at {sizes}' if sizes else ''}")
        for line in found:
            click.echo(line)
    context.exit(_code(evidence, whole=not is_file))


def _compared(document: Mapping[str, Any], *, as_json: bool) -> int:
    """Show a comparison; return its exit code."""
    from cuassay.model import serial
    from cuassay.model.machine import EqualityEvidence
    from cuassay.report.clean import one_line
    from cuassay.report.terminal.equality import lines

    evidence: EqualityEvidence = serial.from_json(EqualityEvidence, document["equality"])
    code = 0 if evidence.equal == evidence.elements else 3
    if as_json:
        emit_json({**document, "exit_code": code})
        return code
    sizes = ", ".join(f"{name} = {size}" for name, size in document["axes"].items())
    names = [one_line(str(document[key])) for key in ("candidate", "against")]
    click.echo(f"{names[0]} and {names[1]} at {sizes}")
    for line in lines(evidence):
        click.echo(line)
    return code


def _code(evidence: MachineEvidence, *, whole: bool = False) -> int:
    """Return the exit code; with `whole` a launch that was not recorded decides nothing."""
    if any(fault.severity == "wrong" for _, fault in evidence.faults):
        return 1
    left_out = whole and bool(evidence.notes)
    return 3 if left_out or any(launch.inconclusive for launch in evidence.launches) else 0


def _sizes(text: str) -> dict[str, int]:
    """Return `rows=4,hidden=100` as sizes. Raises UsageError."""
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, size = part.partition("=")
        if not name.strip().isidentifier() or not size.strip().isdecimal() or int(size) < 1:
            raise UsageError(
                f"--axes: '{part}' is no size; expected NAME=N with N of at least 1, such as "
                "rows=64,hidden=1024"
            )
        found[name.strip()] = int(size)
    return found
