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
from cuassay.report.html.parts import bullets, facts, folded, more, rows, section, table, text

_LISTED = 200  # lines of the small tables
_PLACES = 10  # of one problem's leaderboard
_CLASSES = 24


def render(audit: Audit, *, runs: str = "") -> str:
    """Return the whole page. 1 000 candidates take some 2 MB; of more than 5 000 the worst.

    `runs` is the address below which a server shows each candidate's own report; empty for a
    page that stands alone.
    """
    totals = tables.totals(audit)
    header = audit.header
    authors = tables.by_author(audit)
    wrote = _groups(authors, "Author or model", "author")
    origin = [
        ("audit", header.id),
        ("seed", str(header.seed)),
        ("filters", " ".join(header.filters)),
        ("required", ", ".join(header.require)),
        ("cuassay", header.version),
        *sorted(header.environment.items()),
    ]
    told = [(one_line(name, limit=60), one_line(value, limit=300)) for name, value in origin]
    oddities = bullets(
        f'<span class="mono">{_text(odd.path)}</span>: {_text(odd.message)}'
        for odd in audit.oddities[:_LISTED]
    )
    oddities += more(len(audit.oddities) - _LISTED)
    # The sums as data; every finding is in the JSON report.
    names = ("candidates", "judged", "accepted", "rejected", "inconclusive", "findings")
    return page(
        title=f"Audit of {one_line(header.tree, limit=120)}",
        body="".join(
            (
                f'<div class="top"><b>cuassay audit</b><span>{_text(header.tree)}</span>'
                f"<span>{_text(header.started_at)}</span></div>",
                _hero(audit, totals),
                _families_and_causes(audit),
                _heat(audit),
                f"<section><h2>Who wrote them</h2>{wrote}</section>" if len(authors) > 1 else "",
                candidates_section(audit, runs=runs),
                _leaderboards(audit),
                _powers(audit.powers),
                section("Passed over in the tree", oddities) if oddities else "",
                section("Origin", rows(told)),
                "<footer>Made by cuassay. Verdicts hold for these sources, this toolchain and this "
                "device; they show the presence of faults, never their absence.</footer>",
            )
        ),
        css=CSS,
        script=SCRIPT,
        head_script=HEAD_SCRIPT,
        island={
            "schema": "cuassay/audit-summary/1",
            "id": header.id,
            "seed": str(header.seed),
            "totals": {name: getattr(totals, name) for name in names},
            "faulty_share": totals.faulty_share,
        },
        name="audit",
    )


def _text(value: str, *, limit: int = 300) -> str:
    return text(value, limit=limit)


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
    told = [
        ("profile", header.profile.value),
        ("device", header.environment.get("device", "") or header.device),
        ("executor", header.executor),
        ("time", words.seconds(audit.wall_s) if audit.wall_s else ""),
        ("findings", words.count(totals.findings)),
    ]
    color = "bad" if bad or totals.rejected else "good"
    # A bar of all candidates by verdict, with its key; each part is a filter
    conditional = totals.accepted - totals.accepted_clean
    parts = [
        ("accepted", "ACCEPTED", totals.accepted_clean, "t-good"),
        ("accepted under conditions", "ACCEPTED", conditional, "t-cond"),
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
    return (
        f'<header class="card hero {color}"><h1 class="lede">{lede}</h1>{state}'
        '<svg class="spread" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" '
        f'aria-label="Kernels by verdict">{drawn}</svg><div class="legend">{key}</div>'
        f"{facts((name, one_line(value, limit=300)) for name, value in told)}</header>"
    )


def _families_and_causes(audit: Audit) -> str:
    found = tables.causes(audit)[:_LISTED]
    causes = '<div class="card"><p>No kernel was rejected.</p></div>'
    if found:
        heads = (
            ("Check", ""),
            ("What fails", ""),
            ("Kernels", "num"),
            ("Of these, accepted by their rule", "num"),
        )
        lines = [
            (
                ("mono", _filter("check", cause.code, _text(cause.code, limit=20))),
                _text(cause.title, limit=120),
                str(cause.candidates),
                str(cause.theirs_accepted),
            )
            for cause in found
        ]
        causes = f'<div class="card scroll">{table(heads, lines, "groups")}</div>'
    return (
        '<div class="two"><section><h2>Which operators fail most</h2>'
        f"{_groups(tables.by_family(audit), 'Operator family', 'family')}</section>"
        f"<section><h2>Why they fail</h2>{causes}</section></div>"
    )


def _filter(field: str, value: str, shown: str) -> str:
    return f'<a href="#{filter_link(field, value)}">{shown}</a>'


def _groups(groups: Sequence[tables.CandidateGroup], title: str, field: str) -> str:
    heads = (
        (title, ""),
        *((name, "num") for name in ("Kernels", "Rejected", "Share")),
        ("", "gauge"),
        ("Wrong of those their rule accepts", "num"),
    )
    lines = []
    for group in groups[:_LISTED]:
        share, told, bar = group.rejected_share, "", ""
        if share is not None:
            told = f"{share:.0%}"
            bar = (
                '<svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" '
                'aria-hidden="true"><rect class="track" width="100" height="10" rx="3"/>'
                f'<rect class="fill-bad" width="{share * 100:.1f}" height="10" rx="3"/></svg>'
            )
        name = _filter(field, group.name, _text(group.name, limit=80))
        theirs = f"{group.theirs_accepted_rejected} of {group.theirs_accepted}"
        lines.append((name, str(group.candidates), str(group.rejected), told, bar, theirs))
    return f'<div class="card scroll">{table(heads, lines, "groups")}</div>'


def _heat(audit: Audit) -> str:
    """Return the table of operator family x failure class, each cell a filter."""
    counts: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for one in tables.cells(audit):
        counts[one.family, one.failure_class] += one.candidates
        totals[one.failure_class] += one.candidates
    if not counts:
        return ""
    classes = sorted(name for name, _ in totals.most_common(_CLASSES))
    families = sorted({family for family, _ in counts})[:_LISTED]
    most = max(counts.values())
    named = [(_text(name, limit=20), _text(class_name(name), limit=120)) for name in classes]
    head = "".join(f'<th title="{title}">{name}</th>' for name, title in named)
    told = "; ".join(f"{name}: {title}" for name, title in named)
    body = ""
    for family in families:
        body += f"<tr><th>{_text(family, limit=80)}</th>"
        for name in classes:
            number, inside = counts[family, name], ""
            if number:
                level = max(1, min(6, round(6 * number / most)))
                where = f"#{filter_link('family', family)}&amp;{filter_link('class', name)}"
                inside = f'<a class="h{level}" href="{where}">{number}</a>'
            body += f"<td>{inside}</td>"
        body += "</tr>"
    return section(
        "Operator family by failure class",
        f'<table class="heat"><thead><tr><th></th>{head}</tr></thead>{body}</table>'
        f'<p class="key">{told}</p>'
        + more(len(totals) - len(classes), "rarer classes, in the JSON report"),
        box="card scroll",
    )


def _leaderboards(audit: Audit) -> str:
    several = [pair for pair in tables.leaderboard(audit).items() if len(pair[1]) > 1]
    heads = ("Rank", "num"), ("Theirs", "num"), ("Kernel", ""), ("Verdict", ""), ("Speed-up", "num")
    boards = []
    for name, places in several[:_LISTED]:
        lines: list[Sequence[str | tuple[str, str]]] = []
        for place in places[:_PLACES]:
            result, theirs = place.result, place.their_rank
            moved = ""
            if theirs is not None and theirs != place.rank:
                moved = " up" if place.rank < theirs else " down"
            shown = _text(result.item.candidate_name, limit=120)
            lines.append(
                (
                    (f"num{moved}", str(place.rank)),
                    "–" if theirs is None else str(theirs),
                    f'<a href="#{anchor(result)}">{shown}</a>',
                    (f"state {tone(result)}", word(result)),
                    "" if place.speedup is None else f"{place.speedup:.2f} x",
                )
            )
        body = f'<div class="scroll">{table(heads, lines)}</div>'
        body += more(len(places) - _PLACES, "more")
        boards.append(folded(f"{_text(name, limit=120)}, {len(places)} kernels", body))
    return section("The leaderboard, by correctness first", "".join(boards)) if boards else ""


def _powers(powers: Sequence[ProblemPower]) -> str:
    heads = (
        ("Problem", ""),
        *((name, "num") for name in ("Broken versions", "Told apart by ours", "by theirs")),
        ("Their rule accepts", ""),
    )
    lines = []
    for power in powers[:_LISTED]:
        theirs = "" if power.killed_theirs is None else str(power.killed_theirs)
        told = [*power.trivial, *(s for s in power.survivors if s not in power.trivial)]
        shown = "; ".join(one_line(text, limit=120) for text in told[:6])
        rest = f"; and {len(told) - 6} more" if len(told) > 6 else ""
        why = html_text(shown + rest) or _text(power.reason)
        name = _text(power.problem_name, limit=120)
        lines.append((name, str(power.mutants), str(power.killed_ours), theirs, why))
    title = "What the benchmark's own inputs can tell"
    return section(title, table(heads, lines), box="card scroll") if lines else ""
