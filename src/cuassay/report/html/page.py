"""The frame of every HTML page: one file, no network, a policy that allows its own script only."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from cuassay.report.clean import html_text, json_island


def page(
    *, title: str, body: str, css: str, script: str, island: Any, name: str, head_script: str = ""
) -> str:
    """Return a page: `body` is HTML, `title` is text, `island` JSON data under the id `name`.

    `head_script` runs before the body is read. Nothing inline but these is allowed to run.
    """
    early = f"<script>{head_script}</script>\n" if head_script else ""
    scripts = [text for text in (head_script, script) if text]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(css, *scripts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html_text(title)}</title>\n<style>{css}</style>\n{early}</head>\n"
        f"<body>\n<main>\n{body}</main>\n"
        f'<script type="application/json" id="{name}">{json_island(island)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def policy(css: str, *scripts: str) -> str:
    """Return the content security policy of a page with this style sheet and these scripts."""
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
