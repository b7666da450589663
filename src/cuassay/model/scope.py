"""How far a trial looked: sizes, workloads, launches, checks that did not run, power.

A verdict carries it, and an acceptance prints it. Where what was judged ends below what the problem
declares or lists, that is a condition, which `--require` can bind.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# The keys of the conditions that a scope leads to.
SIZES, WORKLOADS, LAUNCHES, POWER, STREAMS = "sizes", "workloads", "launches", "power", "streams"
UNREACHED, LARGE, THREADS = "unreached", "large-tensors", "threads"
SCOPE_CONDITIONS = (LAUNCHES, POWER, SIZES, UNREACHED, WORKLOADS)
_LARGE_ELEMENTS = 1 << 31
_SHOWN = 4  # axes, workloads or checks that a line names


class JudgedBy(enum.StrEnum):
    """How a listed workload was judged."""

    VALUES = "values"  # its numbers, against truth
    RULE = "rule"  # its numbers, by the benchmark's own rule alone
    ADDRESSES = "addresses"  # the addresses of its launches alone
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisScope:
    """One axis that varies: what is asked of it and how far it was judged.

    `declared` is its largest size by the problem, None where nothing bounds it; `listed` the
    largest of a workload, 0 for none. `values` is the largest size whose numbers were judged,
    `addresses` the largest whose addresses were; 0 for none.
    """

    axis: str
    declared: int | None = None
    listed: int = 0
    values: int = 0
    addresses: int = 0

    @property
    def wanted(self) -> int:
        """The largest size that a caller may use."""
        return max(self.declared or 0, self.listed)

    @property
    def is_covered(self) -> bool:
        """Whether numbers were judged as far as a caller may go."""
        return self.values >= self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadScope:
    """One listed workload: its sizes, how it was judged, and why not by its values."""

    workload: str
    axes: Mapping[str, int]
    judged: JudgedBy
    elements: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyScope:
    """Checks that did not run for one reason: their codes, and what they look at."""

    codes: tuple[str, ...]
    titles: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreached:
    """Code of the candidate that no judged call ran, or whose values decided nothing in any.

    Lines count from 1. `test` leads there, or says what is not known of it.

    `test` is the candidate's text.
    """

    file: str
    line: int
    last: int
    test: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How far a trial looked.

    `values` is the largest number of elements of inputs and outputs of one call whose numbers were
    judged, `wanted` that of the largest call that the problem declares or lists. `launches_made`
    and `launches_judged` count kernels that the PTX machine executed; `has_launches` says whether
    the candidate has kernels of its own and the machine was to execute them. `power_missing` says
    why no power was measured, empty where it was, or where nobody asked for it.
    `unreached` is code of the candidate that no judged call ran. `shared` are expressions that
    came to a tensor which calls keep to work in.
    """

    axes: tuple[AxisScope, ...] = ()
    values: int = 0
    wanted: int = 0
    workloads: tuple[WorkloadScope, ...] = ()
    families: tuple[FamilyScope, ...] = ()
    launches_made: int = 0
    launches_judged: int = 0
    has_launches: bool = False
    power_missing: str = ""
    unreached: tuple[Unreached, ...] = ()
    shared: tuple[Unreached, ...] = ()


def scope_conditions(scope: Scope, *, streams: bool) -> tuple[str, ...]:
    """Return what an acceptance depends on because the trial looked no farther.

    `streams` says whether streams matter to the candidate: it launches kernels of its own.
    """
    return tuple(f"{key}: {words}" for key, words in _short(scope, streams=streams).items())


def told_by_scope(conditions: Iterable[str], scope: Scope) -> tuple[tuple[str, ...], list[str]]:
    """Return the keys of the conditions whose words the lines of a scope have too, and the rest."""
    words = _short(scope, streams=False)
    keys = {f"{key}: {text}": key for key, text in words.items()}
    every = list(conditions)
    return (
        tuple(keys[one] for one in every if one in keys),
        [one for one in every if one not in keys],
    )


def _short(scope: Scope, *, streams: bool) -> dict[str, str]:
    """Return where the trial looked no farther, by the key of the condition."""
    found: dict[str, str] = {}
    short = [axis for axis in scope.axes if not axis.is_covered]
    if short or scope.values < scope.wanted:
        told = [_axis_words(axis) for axis in short]
        if scope.values < scope.wanted:
            told.append(f"a call to {scope.values:,} of {scope.wanted:,} elements")
        found[SIZES] = f"judged no farther than {_listed(told)}"
    left = [one for one in scope.workloads if one.judged is not JudgedBy.VALUES]
    if left:
        count = f"{len(left)} of {len(scope.workloads)} listed workloads"
        found[WORKLOADS] = f"{count} not judged by truth: {_work_words(left)}"
    if scope.has_launches and not scope.launches_judged:
        found[LAUNCHES] = "no launch of its kernels was executed by the PTX machine"
    if scope.unreached:
        found[UNREACHED] = f"judged calls say nothing of {_code_words(scope.unreached)}"
    if scope.power_missing:
        found[POWER] = f"not measured: {scope.power_missing}"
    gpu = [one for one in scope.families if "STREAM001" in one.codes]
    if scope.shared:
        found[THREADS] = f"calls at once work in the same memory: {_code_words(scope.shared)}"
    if gpu and streams:
        found[STREAMS] = "not tried without an NVIDIA GPU: side streams, threads, CUDA graphs"
    large = [one for one in scope.families if "BIG001" in one.codes]
    unbounded = any(axis.declared is None for axis in scope.axes)
    if large and streams and unbounded and scope.wanted < _LARGE_ELEMENTS:
        found[LARGE] = "no tensor of 2^31 elements was tried"
    return found


def scope_lines(scope: Scope, *, power: str = "") -> tuple[str, ...]:
    """Return the scope in at most four lines; `power` says what the inputs can tell apart."""
    axes = [_axis_words(axis) for axis in scope.axes] or ["no axis varies"]
    if scope.wanted:
        axes.append(f"a call to {scope.values:,} of {scope.wanted:,} elements")
    lines = [f"sizes: {_listed(axes)}"]
    if scope.workloads:
        by_values = sum(one.judged is JudgedBy.VALUES for one in scope.workloads)
        told = f"workloads: {by_values} of {len(scope.workloads)} judged by truth"
        others = [one for one in scope.workloads if one.judged is not JudgedBy.VALUES]
        lines.append(f"{told}; {_work_words(others)}" if others else told)
    if scope.families:
        parts = [f"{_listed(one.codes)} ({one.reason})" for one in scope.families]
        lines.append(f"not run: {'; '.join(parts)}")
    launches = (
        f"launches: {scope.launches_judged} of {scope.launches_made} executed by the PTX machine"
        if scope.has_launches or scope.launches_made
        else "launches: none by the PTX machine"
    )
    if scope.unreached:
        launches += f"; unreached: {_code_words(scope.unreached)}"
    if scope.shared:
        launches += f"; shared by calls: {_code_words(scope.shared)}"
    missing = f"not measured ({scope.power_missing})" if scope.power_missing else power
    lines.append(f"{launches}; power: {missing}" if missing else launches)
    return tuple(lines)


def _axis_words(axis: AxisScope) -> str:
    words = f"{axis.axis} to {axis.values:,} of {axis.wanted:,}"
    if not axis.values:
        words = f"{axis.axis} at no size of {axis.wanted:,}"
    if axis.addresses > axis.values:
        words += f" (addresses to {axis.addresses:,})"
    return words


def _code_words(code: Iterable[Unreached]) -> str:
    """Return lines of code with the tests that lead there."""
    parts = []
    for one in code:
        lines = f"{one.line}" if one.line == one.last else f"{one.line}-{one.last}"
        parts.append(f"{one.file}:{lines}" + (f" ({one.test})" if one.test else ""))
    return _listed(parts)


def _work_words(workloads: Iterable[WorkloadScope]) -> str:
    """Return how workloads were judged, those that were judged alike together."""
    alike: dict[tuple[JudgedBy, str], list[str]] = {}
    for one in workloads:
        alike.setdefault((one.judged, one.reason), []).append(one.workload or "unnamed")
    parts = []
    for (judged, reason), names in alike.items():
        match judged:
            case JudgedBy.VALUES:
                how = ""
            case JudgedBy.RULE:
                how = " by the benchmark's own rule alone"
            case JudgedBy.ADDRESSES:
                how = f" by addresses alone ({reason})"
            case JudgedBy.NO:
                how = f" not at all ({reason})"
        parts.append(f"{_listed(names)}{how}")
    return "; ".join(parts)


def _listed(parts: Iterable[str]) -> str:
    told = list(parts)
    more = len(told) - _SHOWN
    return ", ".join(told[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
