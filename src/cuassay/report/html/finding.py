"""One finding in the HTML report: what, how much, where, pictures, input, command, evidence."""

from __future__ import annotations

from cuassay.model.failure_classes import class_names
from cuassay.model.outcome import Finding
from cuassay.report import words
from cuassay.report.clean import clean, html_text, one_line
from cuassay.report.html.drawings import curve_plot, histogram
from cuassay.report.html.rules import rule_anchor
from cuassay.report.html.svg import budget_bar, error_map_drawing, growth_plot, map_key, tells

TONES = {"wrong": "bad", "unsafe": "mid", "advice": "calm"}


def code_block(text: str, *, wrap: bool = False) -> str:
    """Return text in a box that the script gives a copy button."""
    kind = ' class="wrap"' if wrap else ""
    return f'<div class="code"><pre{kind}>{html_text(text)}</pre></div>'


def rows(pairs: list[tuple[str, str]]) -> str:
    """Return a definition list of escaped pairs; pairs with an empty value are left out."""
    found = [
        f"<dt>{html_text(name)}</dt><dd>{html_text(value)}</dd>" for name, value in pairs if value
    ]
    return f'<dl class="rows">{"".join(found)}</dl>' if found else ""


def finding_card(finding: Finding, *, pictures: bool, text_bytes: int) -> str:
    """Return the card of one finding; `pictures` draws its error map and growth plot."""
    kind = finding.finding_class.value
    name = html_text(one_line(finding.id, limit=20))
    if not finding.evidence:
        evidence = ""
    else:
        text = clean(finding.evidence, cap_bytes=text_bytes)
        shown = " open" if finding.measured is None and len(text) < 3000 else ""
        evidence = (
            f'<details class="plot"{shown}><summary>What the candidate printed or raised</summary>'
            f"{code_block(text, wrap=True)}</details>"
        )
    text = ""
    if finding.counterexample:
        example = clean(finding.counterexample, cap_bytes=min(text_bytes, 4096)).strip("\n")
        shown = code_block(example, wrap=True)
        text += f'<div class="plot"><h3>Smallest failing input</h3>{shown}</div>'
    if finding.reproduce:
        command = one_line(finding.reproduce)
        text += f'<div class="plot"><h3>Reproduce</h3>{code_block(command, wrap=True)}</div>'
    # The other measures of a finding, folded.
    pairs = [
        (one_line(name, limit=80), one_line(value, limit=200))
        for name, value in finding.details[:20]
        if name != "holds for"
    ]
    classes = one_line(class_names(finding.classes), limit=400)
    seed = "" if finding.seed is None else str(finding.seed)
    shown = rows([*pairs, ("failure classes", classes), ("seed", seed)])
    where = finding.where
    fills = ", ".join(
        f"{one_line(name, limit=60)}: {one_line(fill, limit=60)}"
        for name, fill in where.fills.items()
    )
    pairs = [
        ("where", words.place(finding)),
        ("worst element", words.values(finding)),
        ("sizes", words.sizes(where.axes)),
        ("inputs", fills),
        ("growth", words.growth_line(finding.growth) if finding.growth else ""),
        ("condition", one_line(finding.condition)),
    ]
    return (
        f'<article class="card finding {TONES[kind]}" id="{name}">'
        f'<div class="head"><a class="name" href="#{name}">{name}</a>'
        f'<span class="tag">{kind}, {finding.severity.value}</span>'
        f'<a class="mono" href="#{html_text(rule_anchor(finding.code))}">'
        f"{html_text(one_line(finding.code, limit=20))}</a>"
        f"<span>{html_text(one_line(finding.title, limit=160))}</span></div>"
        f'<p class="message">{html_text(one_line(finding.message))}</p>'
        + _budget(finding)
        + rows([*pairs, ("holds for", one_line(finding.holds_for, limit=400))])
        + (f"<details><summary>All measures</summary>{shown}</details>" if shown else "")
        + (_pictures(finding) if pictures else "")
        + text
        + evidence
        + "</article>"
    )


def _budget(finding: Finding) -> str:
    if finding.measured is None:
        return ""
    statistic = f" ({one_line(finding.statistic, limit=200)})" if finding.statistic else ""
    allowed = f", allowed {words.number(finding.allowed)}" if finding.allowed is not None else ""
    share = f"<b>{html_text(words.times(finding.share))}</b>: " if finding.share is not None else ""
    mark = '<div class="mark">allowed</div>'
    bar = budget_bar(finding.share) + mark if finding.share is not None else ""
    text = html_text(f"measured {words.number(finding.measured)}{allowed}{statistic}")
    return f'<div class="budget">{bar}<p>{share}{text}</p></div>'


def _pictures(finding: Finding) -> str:
    drawn = []
    if finding.growth is not None and (plot := growth_plot(finding.growth)):
        growth = finding.growth
        axis = html_text(one_line(growth.axis, limit=60))
        of = f" of {html_text(one_line(growth.output, limit=80))}" if growth.output else ""
        drawn.append(
            f'<figure class="plot"><h3>Error{of} grows with {axis}</h3>{plot}'
            f"<figcaption>Relative error against length. Exponent {growth.exponent:.2f}, trusted "
            f"{growth.trusted_exponent:.2f}. The hollow point is the fit carried on to "
            f"{words.count(growth.target)}.</figcaption></figure>"
        )
    errors = finding.error_map
    shaped = errors is not None and 0 < errors.rows * errors.columns == len(errors.cells)
    if errors is not None and shaped and tells(errors):
        output = html_text(one_line(errors.output, limit=80))
        tile = " x ".join(words.count(size) for size in errors.tile)
        drawn.append(
            f'<figure class="plot"><h3>Where {output} is off</h3>{error_map_drawing(errors)}'
            f"{map_key(errors)}"
            f"<figcaption>Worst error per tile of {tile} elements, in units of the error that a "
            "trusted implementation could make there. Ringed: the worst tile.</figcaption></figure>"
        )
    if errors is not None:
        output = html_text(one_line(errors.output, limit=80))
        if errors.curve is not None and (plot := curve_plot(errors.curve)):
            drawn.append(
                f'<figure class="plot"><h3>Values of {output} through its worst element</h3>{plot}'
                "</figure>"
            )
        if plot := histogram(errors.counts):
            drawn.append(
                f'<figure class="plot"><h3>Elements of {output} by the size of their error</h3>'
                f"{plot}<figcaption>In units of the error that a trusted implementation could make "
                "there; lengths by the logarithm of the number.</figcaption></figure>"
            )
    return f'<div class="pair">{"".join(drawn)}</div>' if drawn else ""
