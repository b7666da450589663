"""Parts of the pages: escaped text, and nothing where there is nothing to show."""

from __future__ import annotations

from cuassay.report.html import parts


def test_text_is_one_escaped_line() -> None:
    assert parts.text("a\n<b>", limit=20) == "a &lt;b&gt;"
    assert len(parts.text("x" * 50, limit=20)) == 20


def test_empty_rows_are_left_out() -> None:
    assert parts.rows([("a", ""), ("b", "")]) == ""
    told = parts.rows([("a", "1 < 2"), ("b", "")])
    assert told == '<dl class="rows"><dt>a</dt><dd>1 &lt; 2</dd></dl>'
    facts = parts.facts([("a", "1 < 2"), ("b", "")])
    assert facts == '<dl class="facts"><div><dt>a</dt><dd>1 &lt; 2</dd></div></dl>'


def test_code_is_escaped() -> None:
    assert (
        parts.code_block("<", wrap=True) == '<div class="code"><pre class="wrap">&lt;</pre></div>'
    )


def test_a_cell_has_the_class_of_its_column_or_its_own() -> None:
    heads = ("Kernel", ""), ("Rank", "num")
    assert parts.table(heads, [("<b>k</b>", ("num up", "1"))], "groups") == (
        '<table class="groups"><tr><th>Kernel</th><th class="num">Rank</th></tr>'
        '<tr><td><b>k</b></td><td class="num up">1</td></tr></table>'
    )
    assert parts.table(heads[:1], []) == "<table><tr><th>Kernel</th></tr></table>"


def test_lists_and_counts_say_nothing_of_nothing() -> None:
    assert parts.bullets([]) == ""
    assert parts.bullets(["a"]) == '<ul class="list"><li>a</li></ul>'
    assert parts.more(0) == ""
    assert parts.more(2, "more") == '<p class="key">and 2 more</p>'
    assert (parts.counted(1, "check"), parts.counted(2, "check")) == ("1 check", "2 checks")


def test_boxes_hold_their_body() -> None:
    assert parts.section("T", "b", box="c") == (
        '<section><h2>T</h2><div class="c">b</div></section>'
    )
    assert parts.plot("T", "b") == '<div class="plot"><h3>T</h3>b</div>'
    assert parts.folded("s", "b") == "<details><summary>s</summary>b</details>"
