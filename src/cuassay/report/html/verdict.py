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
from cuassay.report.html.finding import finding_card
from cuassay.report.html.page import page
from cuassay.report.html.parts import (
    bullets,
    code_block,
    counted,
    facts,
    folded,
    more,
    plot,
    rows,
    section,
    text,
)
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
    made = ""
    top = (
        f'<div class="top"><b>cuassay</b><span>{text(verdict.problem)}</span>'
        f"<span>{text(verdict.candidate)}</span></div>"
    )
    telling, rest = words.grouped(words.identified(verdict))
    findings = (*telling, *rest)
    power = verdict.power
    survivors = power.survivors[:40] if power is not None else ()
    kept = bullets(text(name, limit=200) for name in survivors)
    told = f"<p>{html_text(words.power_line(power))}.</p>"
    fast = words.speed_line(verdict.speed)
    left = bullets(map(html_text, words.not_checked(verdict)[:_ITEMS]))
    for detail in _DETAILS:
        # Long texts and lists of the JSON document are cut so that the page stays small.
        shown = document(verdict, findings=findings[: detail.cards])
        made = page(
            title=f"{verdict.decision.value}: {one_line(verdict.candidate, limit=120)}",
            body="".join(
                (
                    top,
                    _hero(verdict),
                    _sides(verdict),
                    _findings(verdict, findings, detail),
                    rules_section(findings, rules),
                    source_section(verdict),
                    section(
                        "What was not checked",
                        left or "<p>Nothing that this profile plans.</p>",
                    ),
                    coverage_section(verdict),
                    _checks(verdict),
                    section(
                        "What these inputs can tell",
                        told + (plot("Not told apart", kept) if kept else ""),
                    ),
                    section("Speed", f"<p>{html_text(fast)}.</p>") if fast else "",
                    _origin(verdict),
                )
            ),
            css=CSS + SOURCE_CSS,
            script=SCRIPT,
            island=_shortened(shown, text=min(detail.text, 1500), items=detail.items),
            name="verdict",
        )
        if len(made.encode()) < LIMIT_BYTES:
            break
    return made


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
    told = [
        ("profile", verdict.profile.value),
        ("device", one_line(verdict.environment.get("device", "") or verdict.device)),
        ("truth", one_line(verdict.truth)),
        ("time", words.seconds(verdict.timing.total_s)),
    ]
    conditions = bullets(map(text, verdict.conditions[:_ITEMS]))
    title = "Accepted as long as" if verdict.passed else "Would also have to hold"
    first_command = ""
    for first in words.diagnosed(verdict)[:1]:
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
        f'<p class="why">{text(verdict.reason)}</p>'
        f"{facts(told)}{first_command}{plot(title, conditions) if conditions else ''}</header>"
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
    cards = _cards(left, detail)
    rest = more(len(findings) - detail.cards)
    title = "Causes" if groups else "Findings"
    others = f"<h2>Other findings</h2>{cards}" if groups and cards else cards
    return f"<section><h2>{title}</h2>{''.join(groups)}{others}{rest}</section>"


def _cards(findings: list[Finding], detail: _Detail, *, pictures: bool = False) -> str:
    return "".join(finding_card(one, pictures=pictures, text_bytes=detail.text) for one in findings)


def _cause_card(
    number: int, made: Diagnosis, own: list[Finding], verdict: Verdict, detail: _Detail
) -> str:
    others = line = remedy = ""
    if len(own) > 1:
        summary = f"{counted(len(own) - 1, 'more finding')} of this cause"
        others = folded(summary, _cards(own[1:], detail))
    if number > 1:
        remedy = f'<p class="key">To do: {html_text(made.remedy)}.</p>'
        if made.line is not None:
            line = f'<div class="plot">{excerpt(made.line, verdict.sources)}</div>'
    return (
        f'<div class="card cause bad"><h3>Cause {number}</h3>'
        f'<p class="message">{text(made.words)}</p>{line}{remedy}'
        f"{_cards(own[:1], detail, pictures=detail.pictures > 0)}{others}</div>"
    )


def _checks(verdict: Verdict) -> str:
    passed = [check for check in verdict.checks if words.outcome_word(check) == "passed"]
    other = [check for check in verdict.checks if words.outcome_word(check) != "passed"]
    shown = check_table(other) if other else ""
    if passed:
        shown += folded(f"{counted(len(passed), 'check')} passed", check_table(passed))
    return section("Checks", shown)


def check_table(checks: list[CheckReport]) -> str:
    """Return a table of checks with their outcomes."""
    body = ""
    for check in checks[:_ITEMS]:
        word = words.outcome_word(check)
        tone = "mid" if word == "failed" and words.only_condition(check) else _OUTCOME_TONES[word]
        shown = "condition" if tone == "mid" and word == "failed" else word
        shown = shown if words.applies(check) else "not applicable"
        share = words.outcome_share(check)
        reason = one_line(words.outcome_reason(check), limit=240) or (
            words.times(share) if share is not None else ""
        )
        took = words.seconds(check.duration_s) if word != "skipped" else ""
        body += (
            f'<tr class="{tone}"><td class="mono">{text(check.code, limit=20)}</td>'
            f'<td class="state">{shown}</td><td class="title">{text(check.title, limit=160)}</td>'
            f'<td class="reason">{html_text(reason)}</td><td class="num">{took}</td></tr>'
        )
    return (
        '<div class="scroll"><table class="checks"><tr class="head-row"><th>Check</th>'
        '<th>Outcome</th><th></th><th>Why</th><th class="num">Time</th></tr>'
        f"{body}</table></div>"
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
    picture = timeline(verdict.timeline)
    drawn = (
        f'<figure class="plot"><h3>Who worked when</h3>{picture}<figcaption>Before the first check '
        "the judge starts and loads torch.</figcaption></figure>"
        if picture
        else ""
    )
    environment = list(verdict.environment.items())[:_ITEMS]
    origin += [(one_line(n, limit=60), one_line(v, limit=160)) for n, v in environment]
    body = f'{time_bar(parts)}<div class="key">{key}</div>{drawn}{rows(origin)}'
    return (
        f"{section('Time and origin', body)}"
        "<footer>Made by cuassay. A verdict holds for this source, this toolchain and this "
        "device; it shows the presence of faults, never their absence. The same data as JSON is "
        "in the script element with the id verdict.</footer>"
    )
