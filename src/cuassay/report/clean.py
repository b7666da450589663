"""Hostile text made harmless, once for every sink.

Whatever a candidate prints, raises or is called may hold terminal escapes (colours, titles,
hyperlinks, cursor moves), control characters, bidirectional overrides, Rich markup, HTML and
workflow commands. `clean` is applied to every string before any sink; each sink then adds its
own escaping: `html_text`, `json_island`, `github_fence`; the terminal never parses markup.
"""

from __future__ import annotations

import dataclasses
import enum
import html
import json
import math
import re
import secrets
from collections.abc import Mapping
from typing import Any

CAP_BYTES = 64 * 1024

# ESC-introduced and 8-bit (C1) sequences: CSI, string sequences (OSC, DCS, SOS, PM, APC) up to
# their terminator or the end of the line, then two-character escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# C0 and C1 controls but tab and newline, lone surrogates, bidirectional controls, zero-width
# characters that hide text, line separators, tag characters and non-characters.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u00ad\u061c\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\ufeff\ufff0-\uffff\U000e0000-\U000e0fff]"
)
_WHITE = re.compile(r"\s+")


def clean(text: str, *, cap_bytes: int = CAP_BYTES) -> str:
    """Return `text` without escapes and controls, at most `cap_bytes` of UTF-8 long.

    Tabs and newlines stay, a carriage return becomes a newline, other controls become `�`.
    """
    text = text[: 4 * cap_bytes].replace("\r\n", "\n").replace("\r", "\n")
    if _CONTROLS.search(text):  # holds the escape characters too
        text = _CONTROLS.sub("�", _ESCAPES.sub("", text))
    data = text.encode()
    if len(data) <= cap_bytes:
        return text
    kept = data[:cap_bytes].decode(errors="ignore")
    return f"{kept}\n[cut at {cap_bytes} bytes]"


def one_line(text: str, *, limit: int = 400) -> str:
    """Return `text` cleaned, on one line, at most `limit` characters long."""
    flat = _WHITE.sub(" ", clean(text, cap_bytes=8 * limit)).strip().replace("##[", "# #[")
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def html_text(text: str) -> str:
    """Return `text` cleaned and escaped for HTML text and quoted attributes."""
    return html.escape(clean(text), quote=True)


def plain_data(value: Any) -> Any:
    """Return a dataclass or container as JSON data with every text cleaned.

    Numbers that JSON cannot hold become "NaN", "Infinity" and "-Infinity".
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def plain_fields(value: object, names: str) -> dict[str, Any]:
    """Return some attributes of a value as JSON data, in the order in which they are named."""
    return {name: plain_data(getattr(value, name)) for name in names.split()}


def json_island(document: object) -> str:
    """Return JSON that can stand inside a <script> element: no `<`, `>`, `&` in it."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def github_fence(text: str, *, token: str | None = None) -> str:
    """Return `text` so that a GitHub workflow log prints it and obeys none of it.

    Commands (`::error::`, `::add-mask::`) are off between the two fence lines. The token is
    random: text that guessed it could switch commands on again.
    """
    token = token or secrets.token_hex(16)
    body = clean(text).replace(token, "")
    return f"::stop-commands::{token}\n{body}\n::{token}::"
