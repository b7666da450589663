"""Findings grouped by cause, the cause to repair first in front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from cuassay.diagnosis.causes import PAGES
from cuassay.diagnosis.clues import TESTED, Clues
from cuassay.diagnosis.growth import grows_steadily
from cuassay.model.diagnosis import Basis, Cause, Diagnosis
from cuassay.model.outcome import Finding, FindingClass, worst_first
from cuassay.model.told import told_apart

MOST = 3
# Nothing else that was seen of such a candidate means anything: first, and alone. Of the
# others, an exception counts only where it is the plain call that raises.
_ALONE = (
    Cause.NOT_BUILT,
    Cause.FORGES,
    Cause.WRONG_STRUCTURE,
    Cause.ENDS_PROCESS,
    Cause.CRASHES,
    Cause.RAISES,
    Cause.LAUNCH_FAILED,
    Cause.HANGS,
    Cause.PRINTS,
)
# What a call does beside its arguments explains whatever later calls show.
_CONTRACT = (Cause.INPUT_CHANGED, Cause.OUTPUT_SHARES_INPUT, Cause.OUTPUT_SHARES_OUTPUT)
_STATE = (
    Cause.STALE_ANSWER,
    Cause.FIRST_CALL,
    Cause.AUTOTUNER,
    Cause.CALL_HISTORY,
    Cause.OUTPUT_REUSED,
)
_MEMORY = (
    Cause.FALSE_ASSUMPTION,
    Cause.MISALIGNED,
    Cause.OUT_OF_BOUNDS,
    Cause.RACE,
    Cause.BARRIER,
    Cause.RANKS,
    Cause.UNINITIALISED,
    Cause.UNWRITTEN,
)
# Facets of one thing, wrong numbers: one diagnosis says which.
NUMBERS = (
    Cause.LOW_ACCUMULATION,
    Cause.LOW_PRECISION,
    Cause.OUT_OF_RANGE,
    Cause.INPUT_IGNORED,
    Cause.INPUT_MISREAD,
    Cause.TERM_OMITTED,
    Cause.WRONG_CONSTANT,
    Cause.OTHER_FORM,
    Cause.WRONG_REDUCTION,
    Cause.TAIL,
    Cause.SIZES,
    Cause.TRIVIAL_ANSWER,
    Cause.MAGNITUDE,
    Cause.SPECIAL_CASE,
    Cause.WRONG_VALUES,
    Cause.TRAINING,
)
_LAWS = ("META001",)  # relations and laws say that something is wrong, never what
_LEFT_BEHIND = (Cause.UNINITIALISED, Cause.UNWRITTEN)
# What the check's own message says better than the page of the cause.
_IN_ITS_OWN_WORDS = frozenset(Cause) - frozenset(NUMBERS)


def diagnose(findings: Iterable[Finding], clues: Clues | None = None) -> tuple[Diagnosis, ...]:
    """Return one to three causes of the wrong findings; none where nothing is wrong.

    A cause that must be tested is said only where `clues` confirm it: else its findings say that
    the numbers are wrong, and where. Order: broken contracts, which are named alone; then causes
    with a line, then those with a smallest input, then the rest. Every wrong finding belongs to
    one of them, as far as three causes go.
    """
    clues = clues or Clues()
    wrong = [f for f in worst_first(findings) if f.finding_class is FindingClass.WRONG]
    if not wrong:
        return ()
    causes = {id(finding): _cause(finding, clues) for finding in wrong}
    state = any(cause in _STATE for cause in causes.values()) and not clues.alone
    for cause in (*_ALONE, *_CONTRACT):
        held = [finding for finding in wrong if causes[id(finding)] is cause]
        if cause is Cause.RAISES and Cause.INPUT_CHANGED in causes.values():
            continue  # a call on inputs that an earlier one changed; the first would show no change
        if cause is Cause.WRONG_STRUCTURE and state and all(f.code != "API002" for f in held):
            continue
        if cause is Cause.RAISES and held and clues.some_sizes:
            cause, held = (
                Cause.REFUSES_SIZES,
                [f for f in wrong if f.cause in (Cause.RAISES, Cause.REFUSES_SIZES)],
            )
        if held:
            return (_diagnosis(cause, [*held, *(f for f in wrong if f not in held)], clues),)
    groups = _groups(wrong, causes, clues)
    made = [_diagnosis(cause, held, clues) for cause, held in groups]
    return tuple(sorted(made, key=_rank)[:MOST])


def _cause(finding: Finding, clues: Clues) -> Cause | None:
    """Return the cause of a finding where it is seen or confirmed, else None."""
    cause = finding.cause
    if cause is None or cause in clues.refuted:
        return None
    if finding.growth is not None and grows_steadily(finding.growth):
        return cause  # several lengths: the check's own experiment
    if cause in clues.instead:
        return clues.instead[cause]
    held = cause in clues.confirmed or cause in clues.repaired
    return cause if held or cause not in TESTED else None


def _groups(
    wrong: Sequence[Finding], causes: Mapping[int, Cause | None], clues: Clues
) -> list[tuple[Cause, list[Finding]]]:
    """Return the findings by cause; what another cause explains joins its group."""
    facets = (None, Cause.WRONG_STRUCTURE, *NUMBERS)
    numbers = [finding for finding in wrong if causes[id(finding)] in facets]
    groups: dict[Cause, list[Finding]] = {}
    for finding in wrong:
        cause = causes[id(finding)]
        if cause is not None and cause not in facets:
            groups.setdefault(cause, []).append(finding)
    state = _merge(groups, _STATE)
    memory = _merge(groups, _MEMORY)
    _merge_large(groups, memory)
    if state is not None and not clues.alone and memory in _LEFT_BEHIND:
        groups[state] += groups.pop(memory)  # another call leaves other memory, and another answer
        memory = None
    for cause in _LEFT_BEHIND if Cause.NOT_DETERMINISTIC in groups else ():
        if cause in groups and all(f.code == "MEM001" for f in groups[cause]):
            groups[Cause.NOT_DETERMINISTIC] += groups.pop(cause)  # its calls differ anyway
            memory = None
    if state is not None and clues.alone:  # wrong in a new process too: it is the numbers
        numbers = [*numbers, *groups.pop(state)]
        state = None
    if numbers:
        # The cause that wrong numbers follow from, if one was found.
        if state is not None:
            explained = state
        elif memory is not None:
            explained = memory
        elif Cause.NOT_DETERMINISTIC in groups and clues.numbers is None:
            explained = Cause.NOT_DETERMINISTIC
        else:
            explained = None
        if explained is None:
            groups = {_of_numbers(numbers, causes, clues): numbers, **groups}
        else:
            groups[explained] += numbers
    return list(groups.items())


def _merge(groups: dict[Cause, list[Finding]], causes: Sequence[Cause]) -> Cause | None:
    """Put the groups of related causes into one; return its cause.

    That of a finding with a line, else the first of `causes` that was found.
    """
    found = [cause for cause in causes if cause in groups]
    if not found:
        return None
    lead = next((c for c in found if any(f.lines for f in groups[c])), found[0])
    for cause in found:
        if cause is not lead:
            groups[lead] += groups.pop(cause)
    return lead


def _merge_large(groups: dict[Cause, list[Finding]], memory: Cause | None) -> None:
    """Let an access that already fails at a small size explain that it fails at a large one."""
    if memory is None:
        return
    small = {line for finding in groups[memory] for line in finding.lines[:1]}
    large = groups.pop(Cause.LARGE_SIZES, [])
    groups[memory] += [f for f in large if not small.isdisjoint(f.lines)]
    if rest := [f for f in large if small.isdisjoint(f.lines)]:
        groups[Cause.LARGE_SIZES] = rest


def _of_numbers(
    numbers: Sequence[Finding], causes: Mapping[int, Cause | None], clues: Clues
) -> Cause:
    """Return the cause of wrong numbers: what experiments say, else what the checks say."""
    known = {causes[id(finding)] for finding in numbers}
    if clues.numbers is not None:
        omitted = clues.numbers.cause in (Cause.TERM_OMITTED, Cause.WRONG_CONSTANT)
        # The operation that is missing is the one that would have used the input.
        ignored = omitted and Cause.INPUT_IGNORED in known
        return Cause.INPUT_IGNORED if ignored else clues.numbers.cause
    seen = (cause for cause in Cause if cause in known and cause in NUMBERS)
    return next(seen, Cause.WRONG_VALUES)


def _diagnosis(cause: Cause, held: Sequence[Finding], clues: Clues) -> Diagnosis:
    ordered = sorted(held, key=lambda f: (f.code in _LAWS, f.cause is not cause))
    lead = ordered[0]
    own = clues.numbers is not None and clues.numbers.cause is cause
    clue = clues.numbers if own or cause in NUMBERS else None
    example = next((finding.counterexample for finding in ordered if finding.counterexample), "")
    if cause in clues.repaired:
        basis = Basis.REPAIR
    elif clue is not None:
        basis = clue.basis
    elif lead.lines:
        basis = Basis.MACHINE if lead.code.endswith("101") else Basis.CHECK
    else:
        basis = Basis.TRACE if cause in clues.lines else Basis.CHECK
    if cause in _IN_ITS_OWN_WORDS and lead.cause is not cause and clues.instead:
        # What an experiment saw, else the message of a check that looked for another cause.
        said = clue.words if clue is not None else ""
        words = said or f"{PAGES[cause].words}: {lead.message}"
    elif cause in _IN_ITS_OWN_WORDS:
        words = lead.message
    elif cause is Cause.WRONG_VALUES:
        # `words` is where the numbers are wrong, with the grossest error that was seen.
        placed = [f for f in ordered if f.where.got and f.where.expected and f.code not in _LAWS]
        if not placed:
            words = ordered[0].message
        else:
            worst = max(placed, key=_error)
            where = worst.where
            index = f"[{', '.join(map(str, where.index))}]" if where.index else ""
            sizes = ", ".join(f"{name}={size}" for name, size in where.axes.items())
            at = f" at {sizes}" if sizes else ""
            got, expected = told_apart(where.got, where.expected)
            words = f"wrong numbers: {where.output}{index} is {got}, expected {expected}{at}"
    else:
        words = clue.words if clue is not None else PAGES[cause].words
        growth = next((f.growth for f in ordered if f.growth is not None), None)
        if clue is None and growth is not None and cause is Cause.LOW_ACCUMULATION:
            words += f"; the error grows as {growth.axis}^{growth.exponent:.1f}"
        elif clue is None and cause in (Cause.INPUT_IGNORED, Cause.OUT_OF_RANGE):
            words += f": {lead.message}"
    line = clue.line if clue is not None and cause not in clues.repaired else None
    if cause not in clues.repaired:
        line = line or next((f.lines[0] for f in ordered if f.lines and f.cause is cause), None)
    return Diagnosis(
        cause=cause,
        words=words,
        remedy=PAGES[cause].remedy,
        basis=basis,
        line=line or clues.lines.get(cause),
        example=example,
        findings=tuple(finding.id for finding in ordered if finding.id),
    )


def _error(finding: Finding) -> float:
    """Return the relative error of the worst element, at most 1; 0 where it is no number."""
    try:
        got, want = float(finding.where.got), float(finding.where.expected)
    except ValueError:
        return 0.0
    if not math.isfinite(got) or not want:
        return 1.0
    return min(abs(got - want) / abs(want), 1.0)


def _rank(made: Diagnosis) -> tuple[int, int]:
    """Order diagnoses: with a line, with a smallest input, the rest; then as causes are listed."""
    told = 0 if made.line is not None else 1 if made.example else 2
    return told, list(Cause).index(made.cause)
