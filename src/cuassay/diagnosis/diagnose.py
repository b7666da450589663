"""Findings grouped by cause, the cause to repair first in front."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cuassay.diagnosis.causes import PAGES
from cuassay.diagnosis.clues import Clue, Clues
from cuassay.model.diagnosis import Basis, Cause, Diagnosis, SourceLine
from cuassay.model.outcome import Finding, FindingClass, worst_first

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
_STATE = (Cause.STALE_ANSWER, Cause.FIRST_CALL, Cause.CALL_HISTORY, Cause.OUTPUT_REUSED)
_MEMORY = (
    Cause.FALSE_ASSUMPTION,
    Cause.MISALIGNED,
    Cause.OUT_OF_BOUNDS,
    Cause.RACE,
    Cause.BARRIER,
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
    Cause.TRIVIAL_ANSWER,
    Cause.SPECIAL_CASE,
    Cause.WRONG_VALUES,
    Cause.TRAINING,
)
_LAWS = ("META001",)  # relations and laws say that something is wrong, never what
_SHAPES, _NUMERIC, _HOT = "SHP001", "NUM001", "NUM002"
_LEFT_BEHIND = (Cause.UNINITIALISED, Cause.UNWRITTEN)
_WITH_THE_MESSAGE = (
    Cause.INPUT_IGNORED,
    Cause.INPUT_MISREAD,
    Cause.WRONG_VALUES,
    Cause.OUT_OF_RANGE,
)
# What the check's own message says better than the page of the cause.
_IN_ITS_OWN_WORDS = frozenset(Cause) - frozenset(NUMBERS)


def diagnose(findings: Iterable[Finding], clues: Clues | None = None) -> tuple[Diagnosis, ...]:
    """Return one to three causes of the wrong findings; none where nothing is wrong.

    Order: broken contracts, which are named alone; then causes with a line, then those with a
    smallest input, then the rest. Every wrong finding belongs to one of them, as far as three
    causes go.
    """
    clues = clues or Clues()
    wrong = [f for f in worst_first(findings) if f.finding_class is FindingClass.WRONG]
    if not wrong:
        return ()
    state = any(finding.cause in _STATE for finding in wrong) and not clues.alone
    for cause in (*_ALONE, *_CONTRACT):
        held = [finding for finding in wrong if finding.cause is cause]
        if cause is Cause.RAISES and any(f.cause is Cause.INPUT_CHANGED for f in wrong):
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
    groups = _groups(wrong, clues)
    made = [_diagnosis(cause, held, clues) for cause, held in groups]
    return tuple(sorted(made, key=_rank)[:MOST])


def _groups(wrong: Sequence[Finding], clues: Clues) -> list[tuple[Cause, list[Finding]]]:
    """Return the findings by cause; what another cause explains joins its group."""
    numbers = [
        f
        for f in wrong
        if f.cause is None or f.cause in NUMBERS or f.cause is Cause.WRONG_STRUCTURE
    ]
    groups: dict[Cause, list[Finding]] = {}
    for finding in wrong:
        if finding not in numbers and finding.cause is not None:
            groups.setdefault(finding.cause, []).append(finding)
    state = _merge(groups, _STATE)
    memory = _merge(groups, _MEMORY)
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
            groups = {_of_numbers(numbers, clues): numbers, **groups}
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


def _of_numbers(numbers: Sequence[Finding], clues: Clues) -> Cause:
    """Return the cause of wrong numbers: what experiments say, else what the checks say."""
    known = [finding.cause for finding in numbers if finding.cause in NUMBERS]
    if clues.numbers is not None:
        omitted = clues.numbers.cause in (Cause.TERM_OMITTED, Cause.WRONG_CONSTANT)
        # The operation that is missing is the one that would have used the input.
        ignored = omitted and Cause.INPUT_IGNORED in known
        return Cause.INPUT_IGNORED if ignored else clues.numbers.cause
    for cause in (Cause.INPUT_IGNORED, Cause.OUT_OF_RANGE, Cause.LOW_ACCUMULATION):
        if cause in known:
            return cause
    codes = {finding.code for finding in numbers if finding.code not in _LAWS}
    if codes <= {_SHAPES}:
        return Cause.TAIL if codes else Cause.WRONG_VALUES
    if codes <= {_HOT}:
        return Cause.LOW_ACCUMULATION
    return next((cause for cause in known if cause is not None), Cause.WRONG_VALUES)


def _diagnosis(cause: Cause, held: Sequence[Finding], clues: Clues) -> Diagnosis:
    ordered = sorted(held, key=lambda f: (f.code in _LAWS, f.cause is not cause))
    lead = ordered[0]
    clue = clues.numbers if cause in NUMBERS else None
    example = next((finding.counterexample for finding in ordered if finding.counterexample), "")
    if cause in clues.repaired:
        basis = Basis.REPAIR
    elif clue is not None:
        basis = clue.basis
    elif lead.lines:
        basis = Basis.MACHINE if lead.code.endswith("101") else Basis.CHECK
    else:
        basis = Basis.TRACE if cause in clues.lines else Basis.CHECK
    lead = ordered[0]
    if cause in _IN_ITS_OWN_WORDS:
        words = lead.message
    else:
        said = clue.words if clue is not None else PAGES[cause].words
        growth = next((f.growth for f in ordered if f.growth is not None), None)
        if cause is Cause.LOW_ACCUMULATION and growth is not None:
            words = f"{said}; the error grows as {growth.axis}^{growth.exponent:.1f}"
        else:
            general = next((f.holds_for for f in ordered if f.holds_for), "")
            if cause is Cause.TAIL and general:
                words = f"{said} ({general})"
            elif clue is None and cause in _WITH_THE_MESSAGE:
                words = f"{said}: {lead.message}"
            else:
                words = said
    return Diagnosis(
        cause=cause,
        words=words,
        remedy=PAGES[cause].remedy,
        basis=basis,
        line=_line(cause, ordered, clue, clues),
        example=example,
        findings=tuple(finding.id for finding in ordered if finding.id),
    )


def _line(
    cause: Cause, held: Sequence[Finding], clue: Clue | None, clues: Clues
) -> SourceLine | None:
    if cause in clues.repaired:
        return clues.lines[cause]
    if clue is not None and clue.line is not None:
        return clue.line
    own = next((f.lines[0] for f in held if f.lines and f.cause is cause), None)
    return own or clues.lines.get(cause)


def _rank(made: Diagnosis) -> tuple[int, int]:
    """Order diagnoses: with a line, with a smallest input, the rest; then as causes are listed."""
    told = 0 if made.line is not None else 1 if made.example else 2
    return told, list(Cause).index(made.cause)
