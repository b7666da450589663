"""How a run ended, as a finding: build failures, exceptions, crashes, hangs, tampering."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

from cuassay.checks.doing import doing
from cuassay.checks.endings.pages import ENDINGS, EarlyEnding
from cuassay.checks.follow import case_of_step
from cuassay.checks.numeric.listed_sizes import refusal_condition
from cuassay.model.diagnosis import Cause, SourceLine
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Call, Scenario
from cuassay.model.steps import Misuse
from cuassay.model.trace import (
    BuildFailed,
    Claim,
    Exited,
    Flooded,
    Garbled,
    Killed,
    StepRaised,
    StepRecord,
    TimedOut,
    ToolMissing,
)

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.model.problem import Problem

_EVIDENCE = 6000  # characters kept of a log or traceback
_MESSAGE = 300
# CUDA faults that leave the device in a state in which nothing can be trusted.
_MEMORY_FAULTS = (
    "illegal memory access",
    "misaligned address",
    "device-side assert",
    "unspecified launch failure",
    "illegal instruction",
    "illegal address",
    "invalid address space",
    "hardware stack error",
)

# What CUDA says where the operating system, the driver or the device refuses it something
# (cudaErrorOperatingSystem and its like): no arithmetic of a kernel leads there.
_SYSTEM_REFUSALS = (
    "os call failed or operation not supported",
    "cuda-capable device(s) is/are busy or unavailable",
    "system not yet initialized",
    "system has unsupported display driver",
    "mps client failed to connect",
)


def termination_finding(
    scenario: Scenario, run: Run, *, problem: Problem | None = None
) -> Finding | None:
    """Return the finding of a run that did not reach its end, or None where it did.

    Blames the first failure: an exception before a crash is the finding. None as well for a
    tool that was missing before the candidate was loaded. With `problem`, an exception at a size
    that nobody promised is a condition of use instead. Nothing that the candidate's process
    says of a failure excuses it: the caller asks whether the reference fails too.
    """
    result = run.result
    if isinstance(result.termination, ToolMissing):
        return None
    if isinstance(result.termination, BuildFailed):
        failed = result.termination
        return _finding(
            "BUILD001",
            f"the candidate does not build or import: {failed.what}",
            scenario,
            evidence=_tail(failed.log),
            lines=tuple(SourceLine(file=file, line=line) for file, line in reversed(failed.frames)),
        )
    raised = first_raised(run)
    if raised is not None:
        return _raised(raised, scenario, problem=problem)
    printed = _tail(result.output_text)
    match result.termination:
        case Exited(index=index, exit_code=code):
            text = f"the process ended with exit code {code} while {doing(scenario, index)}"
            return _finding("RUN002", text, scenario, index=index, evidence=printed)
        case Killed(index=index, signal=number):
            text = f"the process died of {signal_name(number)} while {doing(scenario, index)}"
            # The limit that the worker's watch names as the last line of the output, if any
            lines = result.output_text.rstrip().splitlines()
            ours = bool(lines) and lines[-1].startswith("[ended by cuassay: ")
            text += f"; {lines[-1].strip('[]')[:_MESSAGE]}" if ours else ""
            return _finding("RUN003", text, scenario, index=index, evidence=printed)
        case TimedOut(index=index, limit_s=limit_s, idle=idle):
            text = f"no end within {limit_s:g} s while {doing(scenario, index)}"
            text += ": it waits, and uses no processor" if idle else ""
            return _finding("RUN004", text, scenario, index=index, evidence=printed)
        case Garbled(index=index, what=what):
            text = f"something wrote to the result channel while {doing(scenario, index)}: {what}"
            return _finding("RUN005", text, scenario, index=index, evidence=printed)
        case Flooded(index=index, what=what):
            text = f"the kernel printed without end while {doing(scenario, index)}: {what}"
            return _finding("RUN006", text, scenario, index=index, evidence=printed)
        case _:
            return None


def claims_no_memory(run: Run) -> bool:
    """Whether the candidate's process says that memory ran out: nobody else saw it."""
    first = first_raised(run)
    return first is not None and first.claim is Claim.NO_MEMORY


def may_lack_memory(scenario: Scenario, run: Run) -> bool:
    """Whether a lack of memory could explain how a run ended, if there was one.

    The process says so, or ended by itself in a step that calls nothing of the candidate. Never
    an excuse by itself: the candidate may have done either.
    """
    end = run.result.termination
    if isinstance(end, Exited) and 0 <= end.index < len(scenario.steps):
        return not isinstance(scenario.steps[end.index], Call)
    return claims_no_memory(run)


def claims_no_tool(run: Run) -> bool:
    """Whether the candidate's process says that a tool is missing: nobody else saw it."""
    return any(_lacks_tool(record) for record in run.result.records)


def _lacks_tool(record: StepRecord) -> TypeGuard[StepRaised]:
    return isinstance(record, StepRaised) and record.claim in (Claim.NO_TOOL, Claim.UNCOVERED)


def claims_no_system(run: Run) -> bool:
    """Whether the candidate's process says that CUDA was refused something by the system."""
    first = first_raised(run)
    text = first.message.lower() if first is not None else ""
    return any(refusal in text for refusal in _SYSTEM_REFUSALS)


def inconclusive_reason(run: Run) -> str:
    """Return why a run shows nothing, in the words of the candidate's process, or nothing.

    A claim that only costs: whoever asks must not let a pass follow from it.
    """
    if isinstance(run.result.termination, ToolMissing):
        return run.result.termination.what
    for record in run.result.records:
        if _lacks_tool(record):
            lines = record.message.strip().splitlines()
            return lines[0][:_MESSAGE] if lines else "a tool is missing"
    if claims_no_memory(run):
        return "out of memory: run it again alone, or with smaller workloads"
    first = first_raised(run)
    if first is not None and claims_no_system(run):
        return f"the system refused CUDA something ({exception_text(first)}): run it again alone"
    return ""


def first_raised(run: Run) -> StepRaised | None:
    """Return the first exception that left the candidate, if one did."""
    return next((r for r in run.result.records if isinstance(r, StepRaised)), None)


def memory_fault(raised: StepRaised) -> bool:
    """Whether an exception reports a fault of the device, after which nothing can be trusted."""
    message = raised.message.lower()
    return any(fault in message for fault in _MEMORY_FAULTS)


def exception_text(raised: StepRaised) -> str:
    """Return the exception's type and the first line of its message, shortened.

    A first line that ends in a colon announces something: the last line stands beside it. Triton's
    compiler says where it failed, shows the source, and says why in the end.
    """
    lines = raised.message.strip().splitlines()
    first = lines[0][:_MESSAGE] if lines else ""
    if first.endswith(":") and len(lines) > 1:
        first = f"{first} {lines[-1].strip()}"[:_MESSAGE]
    return f"{raised.exception}: {first}" if first else raised.exception


def signal_name(number: int) -> str:
    """Return `SIGSEGV (segmentation fault)` for a signal number."""
    hints: Mapping[int, str] = {
        signal.SIGSEGV: "segmentation fault",
        signal.SIGBUS: "bus error",
        signal.SIGABRT: "abort, often a failed assertion or heap corruption",
        signal.SIGFPE: "arithmetic error, often an integer division by zero",
        signal.SIGILL: "illegal instruction",
        signal.SIGKILL: "killed from outside or by itself, or by a memory limit",
        signal.SIGXCPU: "limit of CPU time",
        signal.SIGXFSZ: "limit of file size",
        signal.SIGSYS: "forbidden system call",
    }
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"{name} ({hints[number]})" if number in hints else name


def _raised(raised: StepRaised, scenario: Scenario, *, problem: Problem | None) -> Finding:
    text = f"{exception_text(raised)} while {doing(scenario, raised.index)}"
    case = case_of_step(scenario, raised.index)
    condition = ""
    if problem is not None and case is not None and not memory_fault(raised):
        condition = refusal_condition(problem, case)
    extra: dict[str, object] = {
        "lines": tuple(SourceLine(file=file, line=line) for file, line in reversed(raised.frames)),
        "details": tuple((f"rank {rank}", does) for rank, does in raised.ranks),
    }
    if case is not None and not case.in_domain:
        extra |= {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW}
    elif condition:
        extra |= {
            "cause": Cause.REFUSES_SIZES,
            "finding_class": FindingClass.UNSAFE,
            "severity": Severity.MEDIUM,
            "condition": condition,
        }
    evidence = _tail(raised.traceback or raised.message)
    if raised.claim is Claim.LAUNCH:
        lines = {"lines": extra["lines"]}
        return _finding("RUN007", text, scenario, index=raised.index, evidence=evidence, **lines)
    if raised.claim is Claim.INPUT_CHANGED:
        text = exception_text(raised).removeprefix(f"{raised.exception}: ")
        extra["cause"] = Cause.INPUT_CHANGED
    return _finding("RUN001", text, scenario, index=raised.index, evidence=evidence, **extra)


def _finding(
    code: str,
    message: str,
    scenario: Scenario,
    *,
    index: int = -1,
    evidence: str = "",
    **extra: object,
) -> Finding:
    ending: type[EarlyEnding] = ENDINGS[code]
    case = case_of_step(scenario, index) if index >= 0 else None
    fields: dict[str, object] = {
        "finding_class": FindingClass.WRONG,
        "severity": ending.severity,
        "cause": ending.cause,
        "where": Where(axes=dict(case.axes)) if case else Where(),
        "seed": case.seed if case else None,
    }
    # How a call with arguments that no caller may pass ends is outside of the contract.
    if 0 <= index < len(scenario.steps) and isinstance(scenario.steps[index], Misuse):
        fields |= {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW}
    return Finding(
        code=code,
        title=ending.title,
        message=message,
        classes=ending.classes,
        scenario=scenario,
        evidence=evidence,
        **(fields | extra),  # type: ignore[arg-type]
    )


def _tail(text: str) -> str:
    return text if len(text) <= _EVIDENCE else "[...]\n" + text[-_EVIDENCE:]
