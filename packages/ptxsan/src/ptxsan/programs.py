"""A whole CUDA program in the machine: its host code runs, every launch is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ptxsan import reporting
from ptxsan.errors import UsageError
from ptxsan.findings import MachineFinding, Severity, strict
from ptxsan.host.program import ProgramReport, run_program
from ptxsan.names import plain_name

OK, NO_VERDICT = 0, 3
_BAR = "========= "
_OPENMP = "-fopenmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a program is run: `flags` are -D, -I and -std of its compilers, limits are in seconds.

    With `strict_order`, missing order of strong accesses is an error (`findings.ORDER`). `devices`
    is how many the program finds; device code is compiled for `arch` (sm_100a), whose limits hold.
    """

    paths: Sequence[Path]
    arguments: Sequence[str] = ()
    flags: Sequence[str] = ()
    schedules: Sequence[tuple[str, int]] = (("forward", 0),)
    launch_limit_s: float = 60.0
    limit_s: float = 600.0
    strict_order: bool = False
    devices: int = 1
    arch: str = ""


def run_whole(wish: Wish) -> ProgramReport:
    """Compile and run a program. Raises CompileError and UsageError."""
    per_thread = "--default-stream=per-thread"
    defines = [one[2:] for one in wish.flags if one.startswith("-D")]
    defines += ["CUDA_API_PER_THREAD_DEFAULT_STREAM"] if per_thread in wish.flags else []
    folders = [Path(one[2:]) for one in wish.flags if one.startswith("-I")]
    standards = [one.partition("=")[2] for one in wish.flags if one.startswith("-std=")]
    for one in wish.flags:
        if not one.startswith(("-D", "-I", "-std=", per_thread, _OPENMP)):
            raise UsageError(
                f"--flag={one}: of a whole program expected -DNAME=VALUE, -IFOLDER, -std=c++17, "
                f"{_OPENMP} or {per_thread}"
            )
    report = run_program(
        wish.paths, wish.arguments, defines=defines, folders=folders,
        standard=standards[-1] if standards else "", schedules=wish.schedules,
        host_flags=[_OPENMP] if _OPENMP in wish.flags else [],
        launch_limit_s=wish.launch_limit_s, timeout_s=wish.limit_s, devices=wish.devices,
        arch=wish.arch,
    )  # fmt: skip
    if not wish.strict_order:
        return report
    launches = tuple(replace(one, findings=strict(one.findings)) for one in report.launches)
    return replace(report, launches=launches)


def _findings(report: ProgramReport) -> list[tuple[MachineFinding, int, int]]:
    """Return (finding, first launch that shows it, number of those): once a kernel and place."""
    first: dict[Any, tuple[MachineFinding, int]] = {}
    count: Counter[Any] = Counter()
    for number, launch in enumerate(report.launches):
        for one in launch.findings:
            key = (launch.kernel, one.place)
            first.setdefault(key, (one, number))
            count[key] += 1
    return [(one, number, count[key]) for key, (one, number) in first.items()]


def exit_code(report: ProgramReport, *, found: int) -> int:
    """Return `found` where something is wrong, 3 without a verdict, else the program's own."""
    if report.wrong:
        return found
    if report.not_covered or report.timed_out or report.status < 0:
        return NO_VERDICT
    return int(report.status)


def document(report: ProgramReport) -> dict[str, Any]:
    """Return the report as plain data for JSON."""
    return {
        "version": 1,
        "status": report.status,
        "output": report.output,
        "timed_out": report.timed_out,
        "ok": exit_code(report, found=1) == OK,
        "host": [reporting.row(one) for one in report.host],
        "not_covered": list(report.not_covered),
        "launches": [
            {"kernel": plain_name(one.kernel), "grid": one.grid, "block": one.block,
             "findings": [reporting.row(each) for each in one.findings],
             "left_out": list(one.left_out),
             "inconclusive": one.inconclusive or None}
            for one in report.launches
        ],
    }  # fmt: skip


def sarif(report: ProgramReport, path: Path) -> str:
    """Return the findings as a SARIF 2.1.0 log."""
    every = [*(one for one, _, _ in _findings(report)), *report.host]
    return reporting.sarif_of(every, str(path))


def text(report: ProgramReport) -> str:
    """Return what the program printed, and the report in the shape of compute-sanitizer's."""
    lines = [report.output.rstrip("\n")] if report.output else []
    lines.append(f"{_BAR}PTXSAN")
    wrong = 0
    for one, number, count in _findings(report):
        launch = report.launches[number]
        grid, block = ("x".join(map(str, sizes)) for sizes in (launch.grid, launch.block))
        place = f"in launch {number + 1} of {len(report.launches)}, {grid} blocks of {block}"
        place += f", and in {count - 1} others" if count > 1 else ""
        lines += reporting.lines_of(one, plain_name(launch.kernel), place=place)
        wrong += one.severity is Severity.WRONG
    for one in report.host:
        lines += reporting.lines_of(one, "")
        wrong += one.severity is Severity.WRONG
    for why, count in Counter(report.stopped).items():
        times = f" ({count} launches)" if count > 1 else ""
        lines.append(f"{_BAR}Not executed to the end: {why}{times}")
    if report.timed_out:
        lines.append(f"{_BAR}The program did not end within {report.run_s:.0f} s and was stopped")
    elif report.status < 0:
        lines.append(f"{_BAR}The program ended by signal {-report.status}")
    lines.append(f"{_BAR}{len(report.launches)} launches, exit status {report.status}")
    summary = f"ERROR SUMMARY: {wrong} error{'' if wrong == 1 else 's'}"
    if exit_code(report, found=1) == NO_VERDICT:
        summary += "; no verdict"
    launched = (text for one in report.launches for text in one.left_out)
    summary += reporting.left_out((*report.uncovered, *launched))
    lines.append(f"{_BAR}{summary}")
    return "\n".join(lines)
