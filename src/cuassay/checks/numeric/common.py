"""What the numeric checks share: scenarios of plain calls and the finding of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Trial
from cuassay.model.case import Case, Fill
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import (
    Poison,
    Release,
    Scenario,
    Step,
    call_steps,
)

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison, Statistic

_SHOWN_VALUES = 8
_LEAST_FLOAT = 2.0**-150  # half of the smallest number of float32
# Relative errors from which on wrong numbers are this bad.
_SEVERITIES = ((1e-2, Severity.CRITICAL), (1e-3, Severity.HIGH))
_STATISTICS = {
    "W": "the worst element's error",
    "G": "the mean error",
    "Z": "the mean error, each element by its own rounding",
    "P": "a constant gain or bias",
    "class": "NaN, infinite or finite where the truth is not",
    "exact": "exact values",
    "codes": "codes of 8 bits",
}


def single_call(case: Case, *, label: str, poison: Poison = Poison.NAN) -> Scenario:
    """Return the scenario that allocates a case, calls once and reads the result (step 2)."""
    return Scenario(label=label, cases=(case,), steps=call_steps("a", 0, "r", poison=poison))


def comparison_finding(
    check: Check,
    trial: Trial,
    scenario: Scenario,
    case: Case,
    comparison: Comparison,
    *,
    lead: str = "",
) -> Finding:
    """Return the finding of a failed comparison; outside the domain it is advice."""
    worst, low = worst_statistic(comparison), trial.problem.low_type.value
    extra: dict[str, object] = {"error_map": comparison.error_map, "details": details(comparison)}
    if comparison.mismatch:
        cause: Cause | None = Cause.WRONG_STRUCTURE
    else:
        born = not math.isfinite(comparison.got) and math.isfinite(comparison.expected)
        cause = Cause.OUT_OF_RANGE if worst is not None and worst.name == "class" and born else None
    if cause is not None:
        extra["cause"] = cause
    # `severity` is how bad an error is by its size, beside values that are not finite the worst.
    if comparison.mismatch or not math.isfinite(comparison.got - comparison.expected):
        severity = Severity.CRITICAL
    else:
        size = max(abs(comparison.got), abs(comparison.expected))
        relative = abs(comparison.got - comparison.expected) / size if size else 0.0
        error = max(relative, comparison.relative_error)
        severity = next((how for least, how in _SEVERITIES if error >= least), Severity.MEDIUM)
    extra["severity"] = min((check.severity, severity), key=lambda one: -list(Severity).index(one))
    if not case.in_domain:
        extra |= {"finding_class": FindingClass.ADVICE, "severity": Severity.LOW}
    return check.finding(
        (f"{lead}: " if lead else "") + message(comparison, worst, low=low),
        scenario=scenario,
        measured=worst.value if worst else None,
        allowed=worst.limit if worst else None,
        statistic=_STATISTICS.get(worst.name, worst.name) if worst else "structure",
        where=where(comparison, case, worst),
        **extra,
    )


def one_by_one(positions: Iterable[int], *, numbered: bool = True) -> tuple[Step, ...]:
    """Return steps that call on one case after another, each read and let go before the next.

    `positions` are those in the scenario's cases; results are called r0, r1 and so on, or r.
    """
    steps: list[Step] = []
    for number, position in enumerate(positions):
        result = f"r{number}" if numbered else "r"
        steps += [
            *call_steps("a", position, result),
            Release(name=result),
        ]
    return tuple(steps)


def worst_statistic(comparison: Comparison) -> Statistic | None:
    """Return the statistic that overspends its limit the most, or None for a mismatch."""
    worst = comparison.worst
    return worst if worst is not None and worst.share > 1.0 else None


def message(comparison: Comparison, worst: Statistic | None, *, low: str = "16 bits") -> str:
    """Return one sentence: which output is off, where, by how much, and what was allowed.

    Where a weaker precision policy accepts the error, it says so; `low` is the 16-bit type's name.
    """
    if comparison.mismatch:
        return comparison.mismatch
    if worst is None:
        return f"{comparison.output}: outside the achievable error"
    advice = comparison.precision.advice(low)
    more = f"; {advice}" if advice else ""
    if worst.name == "codes":
        found, allowed = f"{worst.value:.0f} {worst.group}", f"allowed {worst.limit:.0f}"
        return f"{_values(comparison)}; {found}, {allowed}{more}"
    if worst.name in ("class", "exact"):
        return f"{_values(comparison)} ({_STATISTICS[worst.name]}, {worst.group}){more}"
    name = _STATISTICS.get(worst.name, worst.name)
    # The hit-count group whose error is furthest above the trusted one, else the whole.
    whole = ("", comparison.relative_error, comparison.trusted_relative_error)
    groups = [(f" on {name}", a, b) for name, (a, b) in comparison.groups.items() if b > 0]
    place, ours, trusted = max(
        [whole, *groups], key=lambda row: row[1] / row[2] if row[2] > 0 else 0.0
    )
    return (
        f"{_values(comparison)}; {name} is {worst.value:.3g} times what rounding explains on "
        f"{worst.group}, allowed {worst.limit:.3g}; relative error {ours:.2e}{place} "
        f"where a trusted kernel has {trusted:.2e}{more}"
    )


def _values(comparison: Comparison) -> str:
    """Return `y[3, 17] is 0.52, expected 0.61`."""
    index = ", ".join(map(str, comparison.worst_index))
    got, expected = comparison.got, _shown(comparison.expected)
    return f"{comparison.output}[{index}] is {got:.6g}, expected {expected:.6g}"


def _shown(expected: float) -> float:
    """Return a truth as a reader is told it: 0 for what no 32-bit float holds."""
    return 0.0 if abs(expected) < _LEAST_FLOAT else expected


def details(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    """Return every overspent statistic and the error by hit-count group as label and text."""
    rows = [
        (
            f"{_STATISTICS.get(s.name, s.name)}, {s.group}",
            f"{s.value:.3g} (allowed {s.limit:.3g})",
        )
        for s in comparison.statistics
        if s.value > s.limit
    ]
    rows += [
        (group, f"relative error {ours:.2e}, trusted {trusted:.2e}")
        for group, (ours, trusted) in comparison.groups.items()
    ]
    return tuple(rows[:12])


def where(comparison: Comparison, case: Case, worst: Statistic | None) -> Where:
    """Return the place of the worst element with the case's axes and fills.

    An output of another shape or type has no element to show.
    """
    shown = not comparison.mismatch
    return Where(
        output=comparison.output,
        group=worst.group if worst else "",
        index=tuple(comparison.worst_index or ()),
        got=str(comparison.got) if shown else "",
        expected=str(_shown(comparison.expected)) if shown else "",
        axes=dict(case.axes),
        fills={name: fill_text(fill) for name, fill in case.fills.items()},
    )


def fill_text(fill: Fill) -> str:
    """Return a fill as text, such as `normal(scale=30)`; long lists of values are cut."""
    shorts = []
    for name, value in fill.parameters.items():
        if not isinstance(value, tuple) or len(value) <= _SHOWN_VALUES:
            short = str(value)
        else:
            first = ", ".join(str(item) for item in value[:_SHOWN_VALUES])
            short = f"({first}, ... {len(value)} values)"
        shorts.append(f"{name}={short}")
    parameters = ", ".join(shorts)
    return f"{fill.kind}({parameters})" if parameters else fill.kind
