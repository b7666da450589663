"""An audit for a person: a line a candidate while it runs, tables at its end.

Names, reasons and authors come from files that strangers wrote: every one is cleaned and put
on one line, and nothing is parsed as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuassay.model.audit import Audit, AuditItem, AuditResult, Oddity, ProblemPower
from cuassay.model.failure_classes import class_name
from cuassay.model.verdict import Decision
from cuassay.report import audit_tables as tables
from cuassay.report.clean import one_line

_NAME, _REASON = 40, 110
_ROWS = 12  # of each table; --json has them all
_CLASSES = 10


def plan_lines(items: Sequence[AuditItem], *, left_out: int) -> Iterator[str]:
    """Yield what will be judged: one line for the sum, one for each problem."""
    problems: dict[str, list[AuditItem]] = {}
    for item in items:
        problems.setdefault(item.problem_name, []).append(item)
    rest = f", {left_out} left out by the filters" if left_out else ""
    yield f"{len(items)} candidates of {len(problems)} problems{rest}"
    rows = [
        (one_line(name, limit=_NAME), found[0].family, found[0].format, _names(found))
        for name, found in sorted(problems.items())
    ]
    yield from _columns(("problem", "family", "format", "candidates"), rows)


def oddity_lines(oddities: Sequence[Oddity]) -> Iterator[str]:
    """Yield what was passed over, and why."""
    places = (f"{one_line(one.path, limit=200)}: " if one.path else "" for one in oddities)
    told = (one_line(one.message, limit=300) for one in oddities)
    yield from _listed("Passed over", [f"{a}{b}" for a, b in zip(places, told, strict=True)])


def result_line(result: AuditResult, done: int, total: int) -> str:
    """Return one line for a candidate that ended."""
    width = len(str(total))
    verdict = result.verdict.value if result.verdict else result.ending.value.upper()
    theirs = {True: "theirs: accepts", False: "theirs: rejects", None: "theirs: -"}[result.theirs]
    name = f"{result.item.problem_name} / {result.item.candidate_name}"
    codes = " ".join(dict.fromkeys(f.code for f in result.findings)) or one_line(
        result.reason if result.verdict is not Decision.ACCEPTED else "", limit=60
    )
    line = f"[{done:>{width}}/{total}] {verdict:<12} {theirs:<15} {one_line(name, limit=70)}"
    return f"{line}  {result.duration_s:.1f} s  {codes}".rstrip()


def lines(audit: Audit) -> Iterator[str]:
    """Yield the whole report of an audit."""
    totals = tables.totals(audit)
    header = audit.header
    names = {result.item.problem for result in audit.results}
    devices = dict.fromkeys(result.device for result in audit.results if result.device)
    device = ", ".join(devices) or header.device
    yield (
        f"AUDIT {header.id}  {header.profile.value} on {one_line(device)}, "
        f"{totals.candidates} candidates of {len(names)} problems"
    )
    yield ""
    clean = totals.accepted_clean
    yield f"  {'accepted':<14}{totals.accepted:>6}   {clean} of them without any condition"
    yield f"  {'rejected':<14}{totals.rejected:>6}"
    stopped = f"   {totals.stopped} could not be carried out" if totals.stopped else ""
    yield f"  {'inconclusive':<14}{totals.inconclusive:>6}{stopped}"
    for name, count in (
        ("unreadable", totals.unreadable),
        ("lost", totals.lost),
        ("not run", totals.not_run),
    ):
        if count:
            yield f"  {name:<14}{count:>6}"
    yield ""
    if totals.faulty_share is None:
        yield "The benchmark's own rule was evaluated on none, or accepts none."
    else:
        yield (
            f"The benchmark's own rule accepts {totals.theirs_accepted}: "
            f"{totals.theirs_accepted_rejected} of them ({totals.faulty_share:.0%}) are REJECTED "
            "here."
        )
        if totals.theirs_rejected_accepted:
            yield (
                f"It rejects {totals.theirs_rejected_accepted} that are ACCEPTED here "
                "(within what is achievable, outside its tolerance)."
            )
    causes = [
        (c.code, one_line(c.title, limit=60), str(c.candidates), str(c.theirs_accepted))
        for c in tables.causes(audit)
    ]
    survivors, undecided = [], []
    for result in audit.results:
        who = one_line(f"{result.item.problem_name} / {result.item.candidate_name}", limit=80)
        if result.verdict is Decision.ACCEPTED:
            keys = ", ".join(dict.fromkeys(c.partition(":")[0] for c in result.conditions))
            survivors.append(who + (f"  if {one_line(keys, limit=_REASON)}" if keys else ""))
        elif result.verdict is not Decision.REJECTED:
            word = "" if result.verdict else f"{result.ending.value}: "
            undecided.append(f"{who}  {word}{one_line(result.reason, limit=_REASON)}")
    for block in (
        _groups("Operator families, those that fail most first", tables.by_family(audit)),
        _table(
            "Why kernels are rejected",
            ("check", "", "kernels", "accepted by the benchmark"),
            causes,
            right=(2, 3),
        ),
        _cells(audit),
        _groups("Authors and models", tables.by_author(audit)),
        _leaderboard(audit),
        _listed("Survivors", survivors),
        _listed("Without a decision", undecided),
        oddity_lines(audit.oddities),
    ):
        found = list(block)
        if found:
            yield ""
            yield from found


def measured_line(power: ProblemPower, done: int, total: int) -> str:
    """Return one line for a problem that was measured."""
    width = len(str(total))
    name = one_line(power.problem_name, limit=70)
    if power.killed_theirs is None:
        return (
            f"[{done:>{width}}/{total}] {name}  not measured: {one_line(power.reason, limit=160)}"
        )
    trivial = f", {len(power.trivial)} of them trivial" if power.trivial else ""
    return (
        f"[{done:>{width}}/{total}] {name}  lets through {len(power.survivors)} of "
        f"{power.mutants}{trivial}  {power.duration_s:.1f} s"
    )


def power_lines(audit: Audit) -> Iterator[str]:
    """Yield what the problems' own inputs and rules let through, the weakest first."""
    measured = [power for power in audit.powers if power.killed_theirs is not None]
    mutants = sum(power.mutants for power in measured)
    alive = sum(len(power.survivors) for power in measured)
    weak = [power for power in measured if power.trivial]
    yield f"{len(audit.powers)} problems, {len(measured)} of them measured"
    if mutants:
        ours = sum(power.killed_ours for power in measured)
        yield (
            f"Their own inputs and rules let through {alive} of {mutants} broken versions "
            f"({alive / mutants:.0%}); cuassay's inputs {mutants - ours}."
        )
        yield f"{len(weak)} of them accept an answer that computes nothing."
    ordered = sorted(measured, key=lambda p: (-_alive_share(p), p.problem_name))
    rows = [
        (
            one_line(power.problem_name, limit=_NAME),
            power.family,
            str(power.mutants),
            str(len(power.survivors)),
            f"{_alive_share(power):.0%}",
            one_line(
                "; ".join(tuple(dict.fromkeys((*power.trivial, *power.survivors)))[:2]), limit=90
            ),
        )
        for power in ordered
    ]
    heads = ("problem", "family", "broken", "let through", "share", "such as")
    if rows:
        yield ""
        yield from _columns(heads, rows, right=(2, 3, 4))
    rest = [power for power in audit.powers if power.killed_theirs is None]
    if rest:
        yield ""
        yield f"Not measured ({len(rest)})"
        yield from (f"  {one_line(p.problem_name)}: {one_line(p.reason, limit=200)}" for p in rest)


def _alive_share(power: ProblemPower) -> float:
    return len(power.survivors) / power.mutants if power.mutants else 0.0


def short_line(audit: Audit) -> str:
    """Return the audit in one line."""
    totals = tables.totals(audit)
    other = totals.candidates - totals.accepted - totals.rejected
    share = "" if totals.faulty_share is None else f", {totals.faulty_share:.0%} of theirs rejected"
    return (
        f"{totals.accepted} accepted, {totals.rejected} rejected, {other} undecided of "
        f"{totals.candidates}{share}"
    )


def _groups(title: str, groups: Sequence[tables.CandidateGroup]) -> Iterator[str]:
    if len(groups) < 2 and all(group.name in ("unknown", "other") for group in groups):
        return
    rows = [
        (
            one_line(group.name, limit=_NAME),
            str(group.candidates),
            str(group.accepted),
            str(group.rejected),
            str(group.inconclusive),
            "-" if group.rejected_share is None else f"{group.rejected_share:.0%}",
            f"{group.theirs_accepted_rejected} of {group.theirs_accepted}",
        )
        for group in groups
    ]
    heads = ("", "kernels", "accepted", "rejected", "inconcl.", "share", "rejected of theirs")
    yield from _table(title, heads, rows, right=range(1, 7))


def _cells(audit: Audit) -> Iterator[str]:
    """Yield the table of operator family by failure class, over all authors."""
    cells = tables.cells(audit)
    counts: dict[tuple[str, str], int] = {}
    for cell in cells:
        place = cell.family, cell.failure_class
        counts[place] = counts.get(place, 0) + cell.candidates
    if not counts:
        return
    weight: dict[str, int] = {}
    for (_, name), count in counts.items():
        weight[name] = weight.get(name, 0) + count
    classes = sorted(weight, key=lambda name: (-weight[name], name))[:_CLASSES]
    families = sorted({family for family, _ in counts})
    yield "Rejected kernels by operator family and failure class"
    rows = [(f, *(str(counts.get((f, c), "") or "") for c in classes)) for f in families]
    yield from _columns(("", *classes), rows, right=range(1, len(classes) + 1))
    yield from (f"  {name}: {class_name(name)}" for name in classes)
    yield from _more(len(weight) - _CLASSES, what="failure classes")


def _leaderboard(audit: Audit) -> Iterator[str]:
    boards = {n: p for n, p in tables.leaderboard(audit).items() if len(p) > 1}
    timed = any(place.speedup is not None for places in boards.values() for place in places)
    if not boards:
        return
    title = "Leaderboard, correctness before speed" + ("" if timed else " (no speed was measured)")
    rows = []
    for problem, places in boards.items():
        for place in places[:3]:
            item = place.result.item
            verdict = place.result.verdict
            rows.append(
                (
                    one_line(problem, limit=_NAME) if place.rank == 1 else "",
                    str(place.rank),
                    "-" if place.their_rank is None else str(place.their_rank),
                    one_line(item.candidate_name, limit=_NAME),
                    one_line(item.author, limit=20),
                    verdict.value if verdict else place.result.ending.value,
                    "-" if place.speedup is None else f"{place.speedup:.2f}x",
                )
            )
    heads = ("problem", "rank", "theirs", "candidate", "author", "verdict", "speed")
    yield from _table(title, heads, rows, right=(1, 2, 6), most=3 * _ROWS)


def _names(items: Sequence[AuditItem]) -> str:
    text = ", ".join(one_line(item.candidate_name, limit=30) for item in items[:4])
    return text + (f" and {len(items) - 4} more" if len(items) > 4 else "")


def _listed(title: str, rows: Sequence[str]) -> Iterator[str]:
    if rows:
        yield f"{title} ({len(rows)})"
        yield from (f"  {row}" for row in rows[:_ROWS])
        yield from _more(len(rows) - _ROWS)


def _table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Iterable[int],
    most: int = _ROWS,
) -> Iterator[str]:
    if rows:
        yield title
        yield from _columns(heads, rows[:most], right=right)
        yield from _more(len(rows) - most)


def _more(count: int, *, what: str = "") -> Iterator[str]:
    if count > 0:
        yield f"  and {count} more{f' {what}' if what else ''} (--json has them all)"


def _columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()
) -> Iterator[str]:
    aligned = set(right)
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    for row in (heads, *rows):
        cells = [
            f"{cell:>{width}}" if i in aligned else f"{cell:<{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  " + "  ".join(cells).rstrip()
