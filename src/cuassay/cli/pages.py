"""The documentation site's pages of checks, failure classes and causes, made from the source.

`mkdocs_hooks.py` adds them to the site. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator

from cuassay.checks import registry
from cuassay.cli import exit_codes
from cuassay.diagnosis import PAGES
from cuassay.model.failure_classes import FAILURE_CLASSES, GROUPS

CLASSES_PAGE = "checks/failure-classes.md"
_HEADINGS = {
    "What it does": "What it looks for",
    "Why it matters": "Why it matters",
    "How it decides": "How to read a finding",
    "Can it be wrong?": "What it cannot see, and when it can be wrong",
    "Example": "Example",
    "Options": "Options",
}


def pages() -> dict[str, str]:
    """Return the Markdown text of every page by its path below the site's sources."""
    rows = "\n".join(
        f"| `{cause.value}` | {_cell(page.words)} | {_cell(page.remedy)} |"
        for cause, page in PAGES.items()
    )
    index_rows = "\n".join(
        f"| [{code}]({code}.md) | {_cell(registry.page(code).title)} |" for code in registry.codes()
    )
    return {
        "checks/index.md": (
            "# Checks\n\n"
            "One page a check: what it looks for, how to read its findings, an example, and what "
            "it "
            "cannot see. `cuassay explain CODE` prints the same text. Checks run in this order.\n\n"
            "A rejection leads with a [cause](causes.md), not with a check. Findings are filed by "
            "[failure class](failure-classes.md).\n\n"
            f"| Code | What must hold |\n|---|---|\n{index_rows}\n"
        ),
        **{f"checks/{code}.md": _of_check(code) for code in registry.codes()},
        CLASSES_PAGE: "\n".join(_class_lines()) + "\n",
        "checks/causes.md": (
            "# Causes\n\n"
            "The causes that a diagnosis can name, and what repairs each "
            "([how a cause is found](../diagnosis.md)).\n\n"
            f"| Cause | What is wrong | What to do |\n|---|---|---|\n{rows}\n"
        ),
        "exit-codes.md": exit_codes.page(),
    }


def _of_check(code: str) -> str:
    page = registry.page(code)
    parts = [f"# {code}: {page.title}"]
    for heading, body in page.sections:
        parts.append(f"## {_HEADINGS[heading]}\n\n{body}")
    classes = [known for name in registry.classes(code) if (known := FAILURE_CLASSES.get(name))]
    if classes:
        rows = "\n".join(
            f"- [{one.code}](failure-classes.md#{one.code.lower()}): {one.name}" for one in classes
        )
        parts.append(f"## Failure classes that it covers\n\n{rows}")
    parts.append(
        "## Again\n\n`cuassay replay last/F1` runs the finding F1 of the last trial again; "
        "`--export repro.py` writes it as a file that needs torch alone."
    )
    return "\n\n".join(parts) + "\n"


def _class_lines() -> Iterator[str]:
    covered: dict[str, list[str]] = {}
    for code in registry.codes():
        for name in registry.classes(code):
            covered.setdefault(name, []).append(f"[{code}]({code}.md)")
    yield "# Failure classes\n"
    yield "How GPU kernels go wrong. The codes are stable names for JSON, SARIF and filters.\n"
    for letter, group in GROUPS.items():
        yield f"## {group[0].upper()}{group[1:]}\n"
        for one in FAILURE_CLASSES.values():
            if one.code[0] != letter:
                continue
            checks = ", ".join(covered.get(one.code, ()))
            yield f"### {one.code}\n"
            yield f"**{one.name[0].upper()}{one.name[1:]}**: {one.mechanism}.\n"
            yield f"Checks that file findings here: {checks or 'none yet'}.\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
