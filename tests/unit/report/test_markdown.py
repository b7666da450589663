"""Markdown: candidate text is inert, and a comment stays within its limit."""

from __future__ import annotations

import re

from cuassay.report import github, markdown
from tests.support import samples
from tests.support.judged import judged_kernel


def test_markdown_text_is_inert() -> None:
    got = markdown.text("**b** @org/team #12 GH-7 [a](http://e.x) <img> www.e.x `c` | ~~s~~")
    assert got == (
        r"\*\*b\*\* @​org/team \#​12 GH\-​7 \[a\]\(http:​//e.x\) &lt;img&gt; www​.e.x \`c\` \| "
        r"\~\~s\~\~"
    )
    assert markdown.fenced("a\n````\nb").startswith("`````\n")


def test_markdown_stays_within_its_limit_and_says_so() -> None:
    trials = [
        judged_kernel(samples.rejected(), path=f"k{n}.py", candidate=None) for n in range(900)
    ]
    text = markdown.markdown(trials)
    assert len(text.encode()) <= markdown.COMMENT_CHARACTERS
    assert re.search(r"\d+ more kernels", text)
    assert text.startswith(markdown.MARKER)
    assert len(github.summary(trials).encode()) <= markdown.SUMMARY_BYTES
