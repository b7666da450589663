"""The verdict as one HTML file: no network, reads with scripts off, below 300 kB.

The content security policy allows the page's own style sheet and script by hash and nothing
else. Every text is cleaned and escaped; the JSON document of the verdict is embedded as data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from cuassay.model.diagnosis import Diagnosis
from cuassay.model.outcome import CheckReport, Finding
from cuassay.model.verdict import Decision, Verdict
from cuassay.report import words
from cuassay.report.clean import html_text, one_line
from cuassay.report.html.coverage import coverage_section
from cuassay.report.html.drawings import timeline
from cuassay.report.html.finding import code_block, finding_card, rows
from cuassay.report.html.page import page
from cuassay.report.html.rules import rules_section
from cuassay.report.html.source import SOURCE_CSS, excerpt, source_section
from cuassay.report.html.style import CSS, SCRIPT
from cuassay.report.html.svg import time_bar
from cuassay.report.json_report import document
from cuassay.report.rules import Rules

LIMIT_BYTES = 300_000
_ITEMS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """How much a page tells: findings as cards, of these with pictures, text and list lengths."""

    cards: int
    pictures: int
    text: int
    items: int


# A page that comes out too big is made again with less detail; --json always has everything.
_DETAILS = (
    _Detail(cards=30, pictures=4, text=8192, items=60),
    _Detail(cards=20, pictures=3, text=1024, items=30),
    _Detail(cards=8, pictures=2, text=256, items=12),
    _Detail(cards=3, pictures=1, text=128, items=6),
)
_VERDICT_TONES = {
    Decision.ACCEPTED: "good",
    Decision.REJECTED: "bad",
    Decision.INCONCLUSIVE: "mid",
}
_OUTCOME_TONES = {
    "passed": "good",
    "failed": "bad",
    "inconclusive": "mid",
    "skipped": "calm",
    "errored": "mid",
}


def render(verdict: Verdict, *, rules: Rules | None = None) -> str:
    """Return the whole page, at most 300 kB long; `rules` adds the pages of the checks."""
    text = ""
    for detail in _DETAILS:
        telling, rest = words.grouped(words.identified(verdict))
        findings = (*telling, *rest)
        title = f"{verdict.decision.value}: {one_line(verdict.candidate, limit=120)}"
        top = (
            f'<div class="top"><b>cuassay</b><span>{html_text(one_line(verdict.problem))}</span>'
            f"<span>{html_text(one_line(verdict.candidate))}</span></div>"
        )
        power = verdict.power
        items = ""
        if power is not None:
            survivors = [one_line(name, limit=200) for name in power.survivors[:40]]
            items = "".join(f"<li>{html_text(name)}</li>" for name in survivors)
        told = html_text(words.power_line(power))
        fast = words.speed_line(verdict.speed)
        fast = (
            f'<section><h2>Speed</h2><div class="card"><p>{html_text(fast)}.</p></div></section>'
            if fast
            else ""
        )
        kept = f'<div class="plot"><h3>Not told apart</h3><ul class="list">{items}</ul></div>'
        body = "".join(
            (
                top,
                _hero(verdict),
                _sides(verdict),
                _findings(verdict, findings, detail),
                rules_section(findings, rules),
                source_section(verdict),
                _left_out(verdict),
                coverage_section(verdict),
                _checks(verdict),
                "<section><h2>What these inputs can tell</h2>"
                f'<div class="card"><p>{told}.</p>{kept if items else ""}</div></section>{fast}',
                _origin(verdict),
            )
        )
        # Long texts and lists of the JSON document are cut so that the page stays small.
        telling, rest = words.grouped(words.identified(verdict))
        found = (*telling, *rest)[: detail.cards]
        shown = document(verdict, findings=found)
        island = _shortened(shown, text=min(detail.text, 1500), items=detail.items)
        text = page(
            title=title,
            body=body,
            css=CSS + SOURCE_CSS,
            script=SCRIPT,
            island=island,
            name="verdict",
        )
        if len(text.encode()) < LIMIT_BYTES:
            break
    return text


def _shortened(value: Any, *, text: int, items: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= text else value[:text] + " [cut: --json has all of it]"
    if isinstance(value, list):
        return [_shortened(item, text=text, items=items) for item in value[:items]]
    if isinstance(value, dict):
        return {
            _shortened(key, text=text, items=items): _shortened(item, text=text, items=items)
            for key, item in list(value.items())[:_ITEMS]
        }
    return value


def _hero(verdict: Verdict) -> str:
    facts = [
        ("profile", verdict.profile.value),
        ("device", one_line(verdict.environment.get("device", "") or verdict.device)),
        ("truth", one_line(verdict.truth)),
        ("time", words.seconds(verdict.timing.total_s)),
    ]
    listed = "".join(
        f"<div><dt>{name}</dt><dd>{html_text(value)}</dd></div>" for name, value in facts if value
    )
    conditions = "".join(
        f"<li>{html_text(one_line(text))}</li>" for text in verdict.conditions[:_ITEMS]
    )
    title = "Accepted as long as" if verdict.passed else "Would also have to hold"
    binding = (
        f'<div class="plot"><h3>{title}</h3><ul class="list">{conditions}</ul></div>'
        if conditions
        else ""
    )
    causes = words.diagnosed(verdict)
    if not causes:
        first_command = ""
    else:
        first = causes[0]
        found = next((f for f in words.identified(verdict) if f.id in first.findings), None)
        parts = []
        if first.line is not None:
            parts.append(f"<h3>The line</h3>{excerpt(first.line, verdict.sources)}")
        if first.example:
            shown = code_block("\n".join(words.block(first.example, lines=12)))
            parts.append(f"<h3>Smallest failing input</h3>{shown}")
        parts.append(f"<h3>What to do</h3><p>{html_text(first.remedy)}.</p>")
        if found is not None and found.reproduce:
            command = one_line(found.reproduce)
            shown = code_block(f"{command}\n{command} --export repro.py", wrap=True)
            parts.append(f"<h3>See it fail</h3>{shown}")
        drawn = "".join(f"<div>{part}</div>" for part in parts)
        first_command = f'<div class="pair lead">{drawn}</div>'
    return (
        f'<header class="card hero {_VERDICT_TONES[verdict.decision]}">'
        f'<h1 class="word">{verdict.decision.value}</h1>'
        f'<p class="why">{html_text(one_line(verdict.reason))}</p>'
        f'<dl class="facts">{listed}</dl>{first_command}{binding}</header>'
    )


def _sides(verdict: Verdict) -> str:
    """Return the problem's own rule beside ours, where a problem has one."""
    rule = verdict.benchmark_rule
    if rule is None or rule.accepted is None:
        return ""
    sides = words.rule_sides(verdict)
    clash = " clash" if sides.differ else ""
    theirs = {True: "good", False: "bad"}[rule.accepted]
    return (
        f'<section class="pair"><div class="card side {theirs}{clash}"><h3>By the problem\'s own '
        f'tolerance</h3><p class="verdict">{sides.theirs}</p>'
        f"<p>{html_text(sides.theirs_why)}</p></div>"
        f'<div class="card side {_VERDICT_TONES[verdict.decision]}"><h3>Against float64 and what '
        f'is achievable</h3><p class="verdict">{sides.ours}</p>'
        f"<p>{html_text(sides.ours_why)}</p></div></section>"
    )


def _findings(verdict: Verdict, findings: tuple[Finding, ...], detail: _Detail) -> str:
    """Return a card a cause with its findings folded below the first, then the other findings."""
    if not findings:
        return ""
    left = list(findings[: detail.cards])
    groups = []
    for number, made in enumerate(words.diagnosed(verdict), start=1):
        own = [finding for finding in left if finding.id in made.findings]
        left = [finding for finding in left if finding.id not in made.findings]
        groups.append(_cause_card(number, made, own, verdict, detail))
    cards = "".join(
        finding_card(finding, pictures=False, text_bytes=detail.text) for finding in left
    )
    more = len(findings) - detail.cards
    rest = f'<p class="key">and {more} more, all in the JSON report</p>' if more > 0 else ""
    title = "Causes" if groups else "Findings"
    others = f"<h2>Other findings</h2>{cards}" if groups and cards else cards
    return f"<section><h2>{title}</h2>{''.join(groups)}{others}{rest}</section>"


def _cause_card(
    number: int, made: Diagnosis, own: list[Finding], verdict: Verdict, detail: _Detail
) -> str:
    shown = own[:1]
    folded = own[1:]
    first = "".join(
        finding_card(finding, pictures=detail.pictures > 0, text_bytes=detail.text)
        for finding in shown
    )
    others = ""
    if folded:
        cards = "".join(
            finding_card(finding, pictures=False, text_bytes=detail.text) for finding in folded
        )
        noun = "finding" if len(folded) == 1 else "findings"
        others = (
            f"<details><summary>{len(folded)} more {noun} of this cause</summary>{cards}</details>"
        )
    line = ""
    if number > 1 and made.line is not None:
        line = f'<div class="plot">{excerpt(made.line, verdict.sources)}</div>'
    remedy = f'<p class="key">To do: {html_text(made.remedy)}.</p>' if number > 1 else ""
    return (
        f'<div class="card cause bad"><h3>Cause {number}</h3>'
        f'<p class="message">{html_text(one_line(made.words))}</p>'
        f"{line}{remedy}{first}{others}</div>"
    )


def _left_out(verdict: Verdict) -> str:
    every = words.not_checked(verdict)
    items = "".join(f"<li>{html_text(text)}</li>" for text in every[:_ITEMS])
    text = f'<ul class="list">{items}</ul>' if items else "<p>Nothing that this profile plans.</p>"
    return f'<section><h2>What was not checked</h2><div class="card">{text}</div></section>'


def _checks(verdict: Verdict) -> str:
    passed = [check for check in verdict.checks if words.outcome_word(check) == "passed"]
    other = [check for check in verdict.checks if words.outcome_word(check) != "passed"]
    text = check_table(other) if other else ""
    if passed:
        noun = "check" if len(passed) == 1 else "checks"
        listed = check_table(passed)
        text += f"<details><summary>{len(passed)} {noun} passed</summary>{listed}</details>"
    return f'<section><h2>Checks</h2><div class="card">{text}</div></section>'


def check_table(checks: list[CheckReport]) -> str:
    """Return a table of checks with their outcomes."""
    body = "".join(_row(check) for check in checks[:_ITEMS])
    return (
        '<div class="scroll"><table class="checks"><tr class="head-row"><th>Check</th>'
        '<th>Outcome</th><th></th><th>Why</th><th class="num">Time</th></tr>'
        f"{body}</table></div>"
    )


def _row(check: CheckReport) -> str:
    word = words.outcome_word(check)
    tone = "mid" if word == "failed" and words.only_condition(check) else _OUTCOME_TONES[word]
    shown = "condition" if tone == "mid" and word == "failed" else word
    shown = shown if words.applies(check) else "not applicable"
    share = words.outcome_share(check)
    reason = one_line(words.outcome_reason(check), limit=240) or (
        words.times(share) if share is not None else ""
    )
    took = words.seconds(check.duration_s) if word != "skipped" else ""
    return (
        f'<tr class="{tone}"><td class="mono">{html_text(one_line(check.code, limit=20))}</td>'
        f'<td class="state">{shown}</td>'
        f'<td class="title">{html_text(one_line(check.title, limit=160))}</td>'
        f'<td class="reason">{html_text(reason)}</td><td class="num">{took}</td></tr>'
    )


def _origin(verdict: Verdict) -> str:
    timing = verdict.timing
    named = [
        ("build", timing.build_s),
        ("truth", timing.truth_s),
        ("candidate", timing.candidate_s),
        ("compare", timing.compare_s),
    ]
    rest = timing.total_s - sum(value for _, value in named)
    parts = [*named, ("everything else", rest if math.isfinite(rest) and rest > 0 else 0.0)]
    key = "".join(
        f'<span><svg viewBox="0 0 10 10"><rect class="b{i}" width="10" height="10"/></svg>'
        f"{name} {words.seconds(value)}</span>"
        for i, (name, value) in enumerate(parts)
    )
    origin = [
        ("truth", f"{one_line(verdict.truth)}: {one_line(verdict.truth_reason)}"),
        ("seed", str(verdict.seed)),
        ("digest", one_line(verdict.digest)),
        ("run", one_line(verdict.run)),
    ]
    origin += [("assumed", one_line(note)) for note in verdict.notes[:20]]
    plot = timeline(verdict.timeline)
    drawn = (
        f'<figure class="plot"><h3>Who worked when</h3>{plot}<figcaption>Before the first check '
        "the judge starts and loads torch.</figcaption></figure>"
        if plot
        else ""
    )
    environment = list(verdict.environment.items())[:_ITEMS]
    origin += [(one_line(n, limit=60), one_line(v, limit=160)) for n, v in environment]
    return (
        f'<section><h2>Time and origin</h2><div class="card">{time_bar(parts)}'
        f'<div class="key">{key}</div>{drawn}{rows(origin)}</div></section>'
        "<footer>Made by cuassay. A verdict holds for this source, this toolchain and this "
        "device; it shows the presence of faults, never their absence. The same data as JSON is "
        "in the script element with the id verdict.</footer>"
    )
