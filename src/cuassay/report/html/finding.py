"""One finding in the HTML report: what, how much, where, pictures, input, command, evidence."""

from __future__ import annotations

from cuassay.model.failure_classes import class_names
from cuassay.model.outcome import Finding
from cuassay.report import words
from cuassay.report.clean import clean, html_text, one_line
from cuassay.report.html.drawings import curve_plot, histogram
from cuassay.report.html.parts import code_block, folded, plot, rows, text
from cuassay.report.html.rules import rule_anchor
from cuassay.report.html.svg import budget_bar, error_map_drawing, growth_plot, map_key, tells

TONES = {"wrong": "bad", "unsafe": "mid", "advice": "calm"}


def finding_card(finding: Finding, *, pictures: bool, text_bytes: int) -> str:
    """Return the card of one finding; `pictures` draws its error map and growth plot."""
    kind = finding.finding_class.value
    name = text(finding.id, limit=20)
    evidence = ""
    if finding.evidence:
        told = clean(finding.evidence, cap_bytes=text_bytes)
        shown = " open" if finding.measured is None and len(told) < 3000 else ""
        evidence = (
            f'<details class="plot"{shown}><summary>What the candidate printed or raised</summary>'
            f"{code_block(told, wrap=True)}</details>"
        )
    replay = ""
    if finding.counterexample:
        example = clean(finding.counterexample, cap_bytes=min(text_bytes, 4096)).strip("\n")
        replay += plot("Smallest failing input", code_block(example, wrap=True))
    if finding.reproduce:
        replay += plot("Reproduce", code_block(one_line(finding.reproduce), wrap=True))
    measures = rows(
        [
            *(
                (one_line(name, limit=80), one_line(value, limit=200))
                for name, value in finding.details[:20]
                if name != "holds for"
            ),
            ("failure classes", one_line(class_names(finding.classes), limit=400)),
            ("seed", "" if finding.seed is None else str(finding.seed)),
        ]
    )
    where = finding.where
    fills = ", ".join(
        f"{one_line(name, limit=60)}: {one_line(fill, limit=60)}"
        for name, fill in where.fills.items()
    )
    seen = [
        ("where", words.place(finding)),
        ("worst element", words.values(finding)),
        ("sizes", words.sizes(where.axes)),
        ("inputs", fills),
        ("growth", words.growth_line(finding.growth) if finding.growth else ""),
        ("condition", one_line(finding.condition)),
        ("holds for", one_line(finding.holds_for, limit=400)),
    ]
    budget = ""
    if finding.measured is not None:
        statistic = f" ({one_line(finding.statistic, limit=200)})" if finding.statistic else ""
        allowed = (
            f", allowed {words.number(finding.allowed)}" if finding.allowed is not None else ""
        )
        bar = share = ""
        if finding.share is not None:
            bar = budget_bar(finding.share) + '<div class="mark">allowed</div>'
            share = f"<b>{html_text(words.times(finding.share))}</b>: "
        told = html_text(f"measured {words.number(finding.measured)}{allowed}{statistic}")
        budget = f'<div class="budget">{bar}<p>{share}{told}</p></div>'
    return (
        f'<article class="card finding {TONES[kind]}" id="{name}">'
        f'<div class="head"><a class="name" href="#{name}">{name}</a>'
        f'<span class="tag">{kind}, {finding.severity.value}</span>'
        f'<a class="mono" href="#{html_text(rule_anchor(finding.code))}">'
        f"{text(finding.code, limit=20)}</a><span>{text(finding.title, limit=160)}</span></div>"
        f'<p class="message">{text(finding.message)}</p>{budget}{rows(seen)}'
        + (folded("All measures", measures) if measures else "")
        + (_pictures(finding) if pictures else "")
        + f"{replay}{evidence}</article>"
    )


def _pictures(finding: Finding) -> str:
    drawn = []

    def draw(title: str, picture: str, caption: str = "") -> None:
        caption = caption and f"<figcaption>{caption}</figcaption>"
        drawn.append(f'<figure class="plot"><h3>{title}</h3>{picture}{caption}</figure>')

    growth, errors = finding.growth, finding.error_map
    if growth is not None and (picture := growth_plot(growth)):
        of = f" of {text(growth.output, limit=80)}" if growth.output else ""
        draw(
            f"Error{of} grows with {text(growth.axis, limit=60)}",
            picture,
            f"Relative error against length. Exponent {growth.exponent:.2f}, trusted "
            f"{growth.trusted_exponent:.2f}. The hollow point is the fit carried on to "
            f"{words.count(growth.target)}.",
        )
    if errors is not None:
        output = text(errors.output, limit=80)
        if 0 < errors.rows * errors.columns == len(errors.cells) and tells(errors):
            tile = " x ".join(words.count(size) for size in errors.tile)
            draw(
                f"Where {output} is off",
                error_map_drawing(errors) + map_key(errors),
                f"Worst error per tile of {tile} elements, in units of the error that a trusted "
                "implementation could make there. Ringed: the worst tile.",
            )
        if errors.curve is not None and (picture := curve_plot(errors.curve)):
            draw(f"Values of {output} through its worst element", picture)
        if picture := histogram(errors.counts):
            draw(
                f"Elements of {output} by the size of their error",
                picture,
                "In units of the error that a trusted implementation could make there; lengths by "
                "the logarithm of the number.",
            )
    return f'<div class="pair">{"".join(drawn)}</div>' if drawn else ""
