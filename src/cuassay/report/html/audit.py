"""An audit as one HTML file: what share is wrong, which operators fail most, and every kernel.

One file, no network, readable with scripts off; sorting, filters and deep links need the
page's own script, which the content security policy allows by its hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cuassay.model.audit import Audit, ProblemPower
from cuassay.model.failure_classes import class_name
from cuassay.report import audit_tables as tables
from cuassay.report import words
from cuassay.report.clean import html_text, one_line
from cuassay.report.html.audit_rows import anchor, candidates_section, filter_link, tone, word
from cuassay.report.html.audit_style import CSS, HEAD_SCRIPT, SCRIPT
from cuassay.report.html.page import page

_LISTED = 200  # lines of the small tables
_PLACES = 10  # of one problem's leaderboard
_CLASSES = 24


def render(audit: Audit, *, runs: str = "") -> str:
    """Return the whole page. 1 000 candidates take some 2 MB; of more than 5 000 the worst.

    `runs` is the address below which a server shows each candidate's own report; empty for a
    page that stands alone.
    """
    totals = tables.totals(audit)
    top = (
        f'<div class="top"><b>cuassay audit</b><span>{_text(audit.header.tree)}</span>'
        f"<span>{_text(audit.header.started_at)}</span></div>"
    )
    groups = tables.by_author(audit)
    if len(groups) < 2:
        authors = ""
    else:
        table = _groups(groups, "Author or model", "author")
        authors = f"<section><h2>Who wrote them</h2>{table}</section>"
    header = audit.header
    facts = [
        ("audit", header.id),
        ("seed", str(header.seed)),
        ("filters", " ".join(header.filters)),
        ("required", ", ".join(header.require)),
        ("cuassay", header.version),
        *sorted(header.environment.items()),
    ]
    listed = "".join(
        f"<dt>{_text(name, limit=60)}</dt><dd>{_text(value)}</dd>" for name, value in facts if value
    )
    if not audit.oddities:
        oddities = ""
    else:
        body = "".join(
            f'<li><span class="mono">{_text(odd.path)}</span>: {_text(odd.message)}</li>'
            for odd in audit.oddities[:_LISTED]
        )
        more = len(audit.oddities) - _LISTED
        rest = f'<p class="key">and {more} more, all in the JSON report</p>' if more > 0 else ""
        oddities = (
            "<section><h2>Passed over in the tree</h2>"
            f'<div class="card"><ul class="list">{body}</ul>{rest}</div></section>'
        )
    body = "".join(
        (
            top,
            _hero(audit, totals),
            _families_and_causes(audit),
            _heat(audit),
            authors,
            candidates_section(audit, runs=runs),
            _leaderboards(audit),
            _powers(audit.powers),
            oddities,
            (
                f'<section><h2>Origin</h2><div class="card"><dl class="rows">{listed}</dl></div>'
                "</section>"
                "<footer>Made by cuassay. Verdicts hold for these sources, this toolchain and this "
                "device; they show the presence of faults, never their absence.</footer>"
            ),
        )
    )
    # The sums as data; every finding is in the JSON report.
    names = ("candidates", "judged", "accepted", "rejected", "inconclusive", "findings")
    return page(
        title=f"Audit of {one_line(audit.header.tree, limit=120)}",
        body=body,
        css=CSS,
        script=SCRIPT,
        head_script=HEAD_SCRIPT,
        island={
            "schema": "cuassay/audit-summary/1",
            "id": audit.header.id,
            "seed": str(audit.header.seed),
            "totals": {name: getattr(totals, name) for name in names},
            "faulty_share": totals.faulty_share,
        },
        name="audit",
    )


def _text(value: str, *, limit: int = 300) -> str:
    return html_text(one_line(value, limit=limit))


def _hero(audit: Audit, totals: tables.Totals) -> str:
    header = audit.header
    bad = totals.theirs_accepted_rejected
    if totals.theirs_accepted:
        lede = (
            f"<em>{bad} of {totals.theirs_accepted}</em> kernels that the benchmark accepts "
            f"{'is' if bad == 1 else 'are'} wrong."
        )
    else:
        lede = f"<em>{totals.rejected} of {totals.judged}</em> kernels judged are wrong."
    state = "" if audit.finished_at else '<p class="why">Unfinished: more results will follow.</p>'
    facts = [
        ("profile", header.profile.value),
        ("device", header.environment.get("device", "") or header.device),
        ("executor", header.executor),
        ("time", words.seconds(audit.wall_s) if audit.wall_s else ""),
        ("findings", words.count(totals.findings)),
    ]
    listed = "".join(
        f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in facts if value
    )
    color = "bad" if bad or totals.rejected else "good"
    # A bar of all candidates by verdict, with its key; each part is a filter
    parts = [
        ("accepted", "ACCEPTED", totals.accepted_clean, "t-good"),
        (
            "accepted under conditions",
            "ACCEPTED",
            totals.accepted - totals.accepted_clean,
            "t-cond",
        ),
        ("rejected", "REJECTED", totals.rejected, "t-bad"),
        ("inconclusive", "INCONCLUSIVE", totals.inconclusive, "t-mid"),
        ("unreadable", "UNREADABLE", totals.unreadable, "t-calm"),
        ("lost or not run", "NOT RUN", totals.lost + totals.not_run, "t-calm"),
    ]
    whole = sum(number for _, _, number, _ in parts) or 1
    drawn, key, left = "", "", 0.0
    for name, verdict, number, css in parts:
        if number:
            width = 1000 * number / whole
            drawn += (
                f'<rect class="{css}" x="{left:.2f}" width="{max(width - 2, 1):.2f}" height="20"/>'
            )
            left += width
            key += (
                f'<a href="#{filter_link("verdict", verdict)}"><svg viewBox="0 0 10 10">'
                f'<rect class="{css}" width="10" height="10" rx="2"/></svg>'
                f"<b>{words.count(number)}</b> {name}</a>"
            )
    spread = (
        '<svg class="spread" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" '
        f'aria-label="Kernels by verdict">{drawn}</svg><div class="legend">{key}</div>'
    )
    return (
        f'<header class="card hero {color}"><h1 class="lede">{lede}</h1>{state}{spread}'
        f'<dl class="facts">{listed}</dl></header>'
    )


def _families_and_causes(audit: Audit) -> str:
    families = _groups(tables.by_family(audit), "Operator family", "family")
    found = tables.causes(audit)[:_LISTED]
    body = "".join(
        f'<tr><td class="mono"><a href="#{filter_link("check", cause.code)}">'
        f"{_text(cause.code, limit=20)}"
        f"</a></td><td>{_text(cause.title, limit=120)}</td>"
        f'<td class="num">{cause.candidates}</td><td class="num">{cause.theirs_accepted}</td></tr>'
        for cause in found
    )
    causes = (
        '<div class="card scroll"><table class="groups"><tr><th>Check</th><th>What fails</th>'
        '<th class="num">Kernels</th><th class="num">Of these, accepted by their rule</th></tr>'
        f"{body}</table></div>"
        if found
        else '<div class="card"><p>No kernel was rejected.</p></div>'
    )
    return (
        '<div class="two"><section><h2>Which operators fail most</h2>'
        f"{families}</section><section><h2>Why they fail</h2>{causes}</section></div>"
    )


def _groups(groups: Sequence[tables.CandidateGroup], title: str, field: str) -> str:
    shares = [
        "" if g.rejected_share is None else f"{g.rejected_share:.0%}" for g in groups[:_LISTED]
    ]
    body = "".join(
        f'<tr><td><a href="#{filter_link(field, group.name)}">'
        f'{_text(group.name, limit=80)}</a></td><td class="num">{group.candidates}</td>'
        f'<td class="num">{group.rejected}</td>'
        f'<td class="num">{share}</td>'
        f'<td class="gauge">{_bar(group.rejected_share)}</td>'
        f'<td class="num">{group.theirs_accepted_rejected} of {group.theirs_accepted}</td></tr>'
        for group, share in zip(groups[:_LISTED], shares, strict=True)
    )
    return (
        f'<div class="card scroll"><table class="groups"><tr><th>{title}</th>'
        '<th class="num">Kernels</th><th class="num">Rejected</th><th class="num">Share</th>'
        '<th class="gauge"></th><th class="num">Wrong of those their rule accepts</th></tr>'
        f"{body}</table></div>"
    )


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    return (
        '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="10" rx="3"/>'
        f'<rect class="fill-bad" width="{share * 100:.1f}" height="10" rx="3"/></svg>'
    )


def _heat(audit: Audit) -> str:
    """Return the table of operator family x failure class, each cell a filter."""
    counts: Counter[tuple[str, str]] = Counter()
    for cell in tables.cells(audit):
        counts[cell.family, cell.failure_class] += cell.candidates
    if not counts:
        return ""
    totals: Counter[str] = Counter()
    for (_, name), number in counts.items():
        totals[name] += number
    classes = sorted(name for name, _ in totals.most_common(_CLASSES))
    families = sorted({family for family, _ in counts})[:_LISTED]
    most = max(counts.values())
    head = "".join(
        f'<th title="{_text(class_name(name), limit=120)}">{_text(name, limit=20)}</th>'
        for name in classes
    )
    told = "; ".join(f"{_text(n, limit=20)}: {_text(class_name(n), limit=120)}" for n in classes)
    body = "".join(
        f"<tr><th>{_text(family, limit=80)}</th>"
        + "".join(_cell(family, name, counts[family, name], most) for name in classes)
        + "</tr>"
        for family in families
    )
    left = len(totals) - len(classes)
    rest = f'<p class="key">and {left} rarer classes, in the JSON report</p>' if left > 0 else ""
    return (
        "<section><h2>Operator family by failure class</h2>"
        '<div class="card scroll"><table class="heat"><thead><tr><th></th>'
        f'{head}</tr></thead>{body}</table><p class="key">{told}</p>{rest}</div></section>'
    )


def _cell(family: str, name: str, number: int, most: int) -> str:
    if not number:
        return "<td></td>"
    level = max(1, min(6, round(6 * number / most)))
    where = f"#{filter_link('family', family)}&amp;{filter_link('class', name)}"
    return f'<td><a class="h{level}" href="{where}">{number}</a></td>'


def _leaderboards(audit: Audit) -> str:
    boards = tables.leaderboard(audit)
    several = [(name, places) for name, places in boards.items() if len(places) > 1]
    if not several:
        return ""
    parts = []
    for name, places in several[:_LISTED]:
        board_body = "".join(_place(place) for place in places[:_PLACES])
        more = len(places) - _PLACES
        rest = f'<p class="key">and {more} more</p>' if more > 0 else ""
        parts.append(
            f"<details><summary>{_text(name, limit=120)}, {len(places)} kernels</summary>"
            '<div class="scroll"><table><tr><th class="num">Rank</th><th class="num">Theirs</th>'
            '<th>Kernel</th><th>Verdict</th><th class="num">Speed-up</th></tr>'
            f"{board_body}</table></div>{rest}</details>"
        )
    body = "".join(parts)
    return (
        "<section><h2>The leaderboard, by correctness first</h2>"
        f'<div class="card">{body}</div></section>'
    )


def _place(place: tables.Standing) -> str:
    result = place.result
    theirs = str(place.their_rank) if place.their_rank is not None else "–"
    moved = ""
    if place.their_rank is not None and place.their_rank != place.rank:
        moved = " up" if place.rank < place.their_rank else " down"
    faster = f"{place.speedup:.2f} x" if place.speedup is not None else ""
    return (
        f'<tr><td class="num{moved}">{place.rank}</td><td class="num">{theirs}</td>'
        f'<td><a href="#{anchor(result)}">{_text(result.item.candidate_name, limit=120)}</a></td>'
        f'<td class="state {tone(result)}">{word(result)}</td><td class="num">{faster}</td></tr>'
    )


def _powers(powers: Sequence[ProblemPower]) -> str:
    if not powers:
        return ""
    parts = []
    for power in powers[:_LISTED]:
        theirs = "" if power.killed_theirs is None else str(power.killed_theirs)
        told = [*power.trivial, *(s for s in power.survivors if s not in power.trivial)]
        shown = "; ".join(one_line(text, limit=120) for text in told[:6])
        more = f"; and {len(told) - 6} more" if len(told) > 6 else ""
        parts.append(
            f"<tr><td>{_text(power.problem_name, limit=120)}</td><td "
            f'class="num">{power.mutants}</td>'
            f'<td class="num">{power.killed_ours}</td><td class="num">{theirs}</td>'
            f"<td>{html_text(shown + more) or _text(power.reason)}</td></tr>"
        )
    body = "".join(parts)
    return (
        "<section><h2>What the benchmark's own inputs can tell</h2>"
        '<div class="card scroll"><table><tr><th>Problem</th><th class="num">Broken versions</th>'
        '<th class="num">Told apart by ours</th><th class="num">by theirs</th>'
        f"<th>Their rule accepts</th></tr>{body}</table></div></section>"
    )
