"""The table of an audit's candidates: a row each, what was found folded below it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from urllib.parse import quote

from cuassay.model.audit import Audit, AuditFinding, AuditResult, Ending
from cuassay.model.failure_classes import class_name
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Decision
from cuassay.report import words
from cuassay.report.audit_tables import UNCLASSED, speedup
from cuassay.report.clean import html_text, one_line
from cuassay.report.html.parts import JSON, bullets, code_block, more, rows, text

ROWS = 5000  # candidates that a page shows; the JSON document has all
_FINDINGS = 6  # of one candidate
_TONES = {
    Decision.ACCEPTED: "good",
    Decision.REJECTED: "bad",
    Decision.INCONCLUSIVE: "mid",
    None: "calm",
}
_ORDER = {Decision.REJECTED: 0, Decision.INCONCLUSIVE: 1, None: 2, Decision.ACCEPTED: 3}
_HEADS = (
    ("Kernel", ""),
    ("Verdict", ""),
    ("Their rule", ""),
    ("Worst finding", ""),
    ("Of its limit", "num opt"),
    ("Speed-up", "num opt"),
    ("Seconds", "num opt"),
)


def candidates_section(audit: Audit, *, runs: str = "") -> str:
    """Return the section with its filters and its table, the worst kernels first."""
    ranked = sorted(
        audit.results, key=lambda one: (_ORDER[one.verdict], -(_share(one) or 0.0), one.item.id)
    )
    shown = ranked[:ROWS]
    heads = "".join(f'<th class="{kind}">{name}</th>' for name, kind in _HEADS)
    items = "".join(_item(result, runs) for result in shown)
    rest = more(len(ranked) - len(shown), "more kernels, all in the JSON report")
    verdicts = dict.fromkeys(word(result) for result in shown)
    families = sorted({result.item.family for result in shown})
    authors = sorted({_author(result) for result in shown})
    classes = sorted({name for result in shown for name in _classes(result)})
    checks = sorted({f.code for result in shown for f in result.findings})
    filters = (
        '<form class="filters" autocomplete="off">'
        '<label>Search<input name="q" type="search" placeholder="kernel, problem, message"></label>'
        + _select("verdict", "Verdict", [*verdicts], clash=True)
        + _select("family", "Operator family", families)
        + _select("class", "Failure class", classes)
        + _select("author", "Author or model", authors)
        + _select("check", "Check", checks)
        + '<button type="button">Clear</button><output aria-live="polite"></output></form>'
    )
    return (
        f'<section id="kernels"><h2>Every kernel</h2>{filters}'
        f'<table class="items"><thead><tr>{heads}</tr></thead>{items}</table>'
        f'<p class="none">No kernel fits these filters.</p>{rest}</section>'
    )


def word(result: AuditResult) -> str:
    """Return the verdict, or how the trial ended where there is none."""
    if result.verdict is not None:
        return result.verdict.value
    return result.ending.value.upper()


def anchor(result: AuditResult) -> str:
    """Return the page's id of a candidate."""
    return "c-" + re.sub(r"[^A-Za-z0-9_.-]", "_", result.item.id)[:80]


def tone(result: AuditResult) -> str:
    """Return the tone of the verdict: good, bad, mid or calm."""
    return _TONES[result.verdict]


def _share(result: AuditResult) -> float | None:
    """Return the largest share of a limit among the findings, None where none was measured."""
    shares = [f.share for f in result.findings if f.share is not None]
    return max(shares, key=lambda x: math.inf if math.isnan(x) else x, default=None)


def clash(result: AuditResult) -> bool:
    """Return whether the benchmark's rule accepts what is REJECTED here."""
    return bool(result.theirs) and result.verdict is Decision.REJECTED


def _select(name: str, label: str, values: Iterable[str], *, clash: bool = False) -> str:
    extra = '<option value="clash">wrong, yet accepted by their rule</option>' if clash else ""
    options = "".join(
        f'<option value="{html_text(key(value))}">{text(value, limit=80)}</option>'
        for value in values
    )
    return (
        f'<label>{label}<select name="{name}"><option value="">all</option>{extra}{options}'
        "</select></label>"
    )


def _item(result: AuditResult, runs: str) -> str:
    item = result.item
    worst = result.findings[0] if result.findings else None
    share, faster = _share(result), speedup(result)
    why = f"{worst.code} {one_line(worst.title, limit=60)}" if worst else one_line(result.reason)
    data = {
        "verdict": key(word(result)),
        "family": key(item.family),
        "author": key(_author(result)),
        "classes": " ".join(_classes(result)),
        "checks": " ".join(dict.fromkeys(key(f.code) for f in result.findings)),
        "clash": "1" if clash(result) else "0",
    }
    held = "".join(f' data-{name}="{html_text(value)}"' for name, value in data.items())
    sub = " · ".join(one_line(t, limit=80) for t in (item.problem_name, _author(result)) if t)
    if result.theirs is None:
        theirs = '<span class="sub">not evaluated</span>'
    elif clash(result):
        theirs = '<span class="clash-mark">accepted</span>'
    else:
        theirs = "accepted" if result.theirs else "rejected"
    return (
        f'<tbody id="{anchor(result)}"{held}><tr class="row"><td class="what">'
        f'<a href="#{anchor(result)}">{text(item.candidate_name, limit=120)}</a>'
        f'<div class="sub">{html_text(sub)}</div></td>'
        f'<td class="{tone(result)}"><span class="pill">{word(result)}</span></td>'
        f"<td>{theirs}</td>"
        f'<td class="telling">{text(why, limit=140)}</td>'
        f"{_number(share, words.number(share) + ' x' if share is not None else '')}"
        f"{_number(faster, f'{faster:.2f} x' if faster is not None else '')}"
        f"{_number(result.duration_s, f'{result.duration_s:.1f}')}</tr>"
        f'<tr class="more"><td colspan="{len(_HEADS)}">{_body(result, runs)}</td></tr></tbody>'
    )


def _number(value: float | None, text: str) -> str:
    order = "NaN" if value is None or math.isnan(value) else f"{value:.9g}"
    order = order.replace("inf", "Infinity")
    return f'<td class="num opt" data-n="{order}">{html_text(text)}</td>'


def _author(result: AuditResult) -> str:
    return result.item.author or "unknown"


def _classes(result: AuditResult) -> list[str]:
    return sorted({key(name) for f in result.findings for name in f.classes or (UNCLASSED,)})


def key(value: str, *, limit: int = 80) -> str:
    """Return a name as filters and addresses hold it: cleaned, without blanks."""
    return one_line(value, limit=limit).replace(" ", "-")


def filter_link(field: str, value: str) -> str:
    """Return the address of a filter: `family=norm`."""
    return f"{field}={quote(key(value))}"


def _body(result: AuditResult, runs: str) -> str:
    item = result.item
    told = [f"<p>{text(result.reason)}</p>"]
    if result.conditions:
        told.append(f"<h3>Accepted as long as</h3>{bullets(map(text, result.conditions[:20]))}")
    if result.findings:
        listed = "".join(map(_finding, result.findings[:_FINDINGS]))
        left = len(result.findings) - _FINDINGS
        rest = f"<li>and {left} {JSON}</li>" if left > 0 else ""
        told.append(f'<ul class="list">{listed}{rest}</ul>')
    power = ""
    if result.mutants is not None and result.ending is Ending.JUDGED:
        power = f"{result.killed} of {result.mutants} broken versions told apart"
        if result.theirs_killed is not None:
            power += f"; the benchmark's: {result.theirs_killed}"
    facts = [
        ("candidate", item.candidate),
        ("problem", item.problem),
        ("format", item.format),
        ("power", power),
        ("precision", result.precision_grade),
        ("digest", result.digest),
        ("seed", "" if result.seed is None else str(result.seed)),
        ("device", result.device),
        ("run", result.run),
        ("tries", str(result.attempts) if result.attempts > 1 else ""),
    ]
    if runs and result.run:
        place = html_text(runs + quote(one_line(result.run)))
        told.append(f'<p><a href="{place}">The whole report</a></p>')
    told.append(rows((name, one_line(value, limit=300)) for name, value in facts))
    return f'<div class="body">{"".join(told)}</div>'


def _finding(finding: AuditFinding) -> str:
    kind = {FindingClass.WRONG: "bad", FindingClass.UNSAFE: "mid", FindingClass.ADVICE: "calm"}
    share = f" <b>{html_text(words.times(finding.share))}</b>" if finding.share is not None else ""
    chips = "".join(
        f'<span class="chip">{text(class_name(name), limit=80)}</span>'
        for name in finding.classes[:8]
    )
    replay = code_block(one_line(finding.reproduce), wrap=True) if finding.reproduce else ""
    return (
        f'<li class="{kind[finding.finding_class]}"><span class="pill">'
        f"{text(finding.code, limit=20)} {finding.finding_class.value}</span> "
        f"{chips}{text(finding.message)}{share}{replay}</li>"
    )
