"""Parts of every HTML page: sections, tables, lists. Text is cleaned and escaped, HTML is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cuassay.report.clean import html_text, one_line

JSON = "more, all in the JSON report"


def text(value: str, *, limit: int = 400) -> str:
    """Return untrusted text on one line, escaped."""
    return html_text(one_line(value, limit=limit))


def section(title: str, body: str, *, box: str = "card") -> str:
    """Return a section with its body in a box (a class of the style sheet)."""
    return f'<section><h2>{title}</h2><div class="{box}">{body}</div></section>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the facts of a page's head; those with an empty value are left out."""
    told = (
        f"<div><dt>{name}</dt><dd>{html_text(value)}</dd></div>" for name, value in pairs if value
    )
    return f'<dl class="facts">{"".join(told)}</dl>'


def rows(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a definition list of escaped pairs; pairs with an empty value are left out."""
    found = [
        f"<dt>{html_text(name)}</dt><dd>{html_text(value)}</dd>" for name, value in pairs if value
    ]
    return f'<dl class="rows">{"".join(found)}</dl>' if found else ""


def bullets(items: Iterable[str]) -> str:
    """Return a list of HTML; nothing for no items."""
    found = "".join(f"<li>{item}</li>" for item in items)
    return f'<ul class="list">{found}</ul>' if found else ""


def plot(title: str, body: str) -> str:
    """Return a body below a small title."""
    return f'<div class="plot"><h3>{title}</h3>{body}</div>'


def folded(summary: str, body: str) -> str:
    """Return a body that a click shows."""
    return f"<details><summary>{summary}</summary>{body}</details>"


def table(
    heads: Sequence[tuple[str, str]],
    lines: Iterable[Sequence[str | tuple[str, str]]],
    css: str = "",
) -> str:
    """Return a table of HTML cells; a cell has the class of its column, or says its own first."""
    head = "".join(_cell("th", kind, name) for name, kind in heads)
    body = ""
    for line in lines:
        cells = zip(heads, line, strict=True)
        body += "<tr>" + "".join(
            _cell("td", kind, cell) if isinstance(cell, str) else _cell("td", *cell)
            for (_, kind), cell in cells
        )
        body += "</tr>"
    return f"{_open('table', css)}<tr>{head}</tr>{body}</table>"


def _cell(tag: str, css: str, body: str) -> str:
    return f"{_open(tag, css)}{body}</{tag}>"


def _open(tag: str, css: str) -> str:
    return f'<{tag} class="{css}">' if css else f"<{tag}>"


def more(count: int, words: str = JSON) -> str:
    """Return how many are not shown; nothing where all are."""
    return f'<p class="key">and {count} {words}</p>' if count > 0 else ""


def counted(number: int, noun: str) -> str:
    """Return `1 check` or `3 checks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def code_block(text: str, *, wrap: bool = False) -> str:
    """Return text in a box that the script gives a copy button."""
    kind = ' class="wrap"' if wrap else ""
    return f'<div class="code"><pre{kind}>{html_text(text)}</pre></div>'
