"""The frame of every page: its policy allows its own style and scripts, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from cuassay.report.html.page import page, policy

_CSS, _SCRIPT, _EARLY = "b{color:red}", "go();", "before();"


def _digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _page(**changes: object) -> str:
    given: dict[str, object] = {
        "title": "a <b>", "body": "<p>x</p>", "css": _CSS, "script": _SCRIPT,
        "island": {"x": "</script><script>alert(1)</script>"}, "name": "data",
    }  # fmt: skip
    return page(**(given | changes))  # type: ignore[arg-type]


def test_nothing_but_its_own_text_may_run() -> None:
    found = policy(_CSS, _SCRIPT, _EARLY)
    assert found.startswith("default-src 'none'; ")
    assert f"style-src {_digest(_CSS)}; script-src {_digest(_SCRIPT)} {_digest(_EARLY)};" in found
    assert "unsafe" not in found


def test_the_policy_is_that_of_the_scripts_which_are_there() -> None:
    for text, scripts in ((_page(), [_SCRIPT]), (_page(head_script=_EARLY), [_EARLY, _SCRIPT])):
        assert policy(_CSS, *scripts) in text
        assert re.findall(r"<script>(.*?)</script>", text) == scripts


def test_data_cannot_end_their_island_and_titles_are_text() -> None:
    text = _page()
    (island,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert json.loads(island) == {"x": "</script><script>alert(1)</script>"}
    assert "alert(1)</script>" not in text
    assert "<title>a &lt;b&gt;</title>" in text
