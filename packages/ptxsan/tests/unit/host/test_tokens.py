"""Tokens of CUDA C++: literals, directives and brackets are where the standard has them."""

from __future__ import annotations

import pytest

from ptxsan.host.tokens import Kind, closing, closing_angle, directives, split_commas, tokenize


def _texts(text: str) -> list[str]:
    return [one.text for one in tokenize(text)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("name_1", Kind.NAME), ("größe", Kind.NAME), ("1'000", Kind.NUMBER),
        ("0x1.8p-3f", Kind.NUMBER), (".5f", Kind.NUMBER), ("'\\''", Kind.CHARACTER),
        ('u8"a\\"b"', Kind.STRING), ('R"(a " b)"', Kind.STRING),
        ('LR"x(a )" b)x"', Kind.STRING), ("::", Kind.PUNCTUATION), ("->", Kind.PUNCTUATION),
        ("<", Kind.PUNCTUATION), ("#define A(x) \\\n  x", Kind.DIRECTIVE),
    ],
)  # fmt: skip
def test_a_token_is_one_token(text: str, kind: Kind) -> None:
    assert [(one.kind, one.text) for one in tokenize(text)] == [(kind, text)]


def test_comments_separate_and_places_stay() -> None:
    text = "a/* b */c // d\\\n e\nf"
    found = tokenize(text)
    assert [one.text for one in found] == ["a", "c", "f"]
    assert all(text[one.start : one.end] == one.text for one in found)


def test_a_directive_begins_a_line_and_keeps_what_looks_like_a_comment() -> None:
    assert _texts('x # y\n  #include "a//b.h" // why\nz') == [
        "x", "#", "y", '#include "a//b.h" // why', "z",
    ]  # fmt: skip
    assert _texts("/* c */ #pragma once\nx") == ["#pragma once", "x"]


@pytest.mark.parametrize(
    "text",
    [
        'x # y\n  #include "a//b.h" // why\nz', "/* c */ #pragma once\nx", "/* a\n#b */\n#c",
        "// no \\\n# n\n# yes", 'R"(\n#no\n)"\n# yes', "'\"'\n#a \"\n'#'\n#b", "1'000\n# a\n'#'",
        "x /* a\n b */ # c", "#define A \\\n # b\n#c /* d\n e */ f\n#g", "x \\\n# y",
    ],
)  # fmt: skip
def test_directives_alone_are_those_of_all_tokens(text: str) -> None:
    every = [one for one in tokenize(text) if one.kind is Kind.DIRECTIVE]
    assert directives(text) == every


def test_what_never_ends_is_one_token_up_to_the_end() -> None:
    assert _texts('R"(never') == ['R"(never']
    assert _texts("a /* never") == ["a"]


def test_brackets_close_where_their_pairs_do() -> None:
    found = tokenize("f(a[1], {b}) + 1")
    assert found[closing(found, 1)].text == ")"
    assert closing(found, 1) == len(found) - 3
    assert closing(tokenize("( a"), 0) == 1  # the compiler will say so


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("<a, b<c>>", True),
        ("<(a > b)>", True),
        ("<p->x>", True),
        ("<b; c>", False),
        ("<b)", False),
    ],
)
def test_a_template_list_closes_or_is_a_comparison(text: str, closes: bool) -> None:
    found = tokenize(text)
    assert closing_angle(found, 0) == (len(found) - 1 if closes else None)


def test_parameters_part_at_commas_of_their_own() -> None:
    parts = split_commas(tokenize("std::pair<int, float> a, int b[f(1, 2)], c < d, e"))
    assert ["".join(one.text for one in part) for part in parts] == [
        "std::pair<int,float>a", "intb[f(1,2)]", "c<d", "e",
    ]  # fmt: skip
    assert split_commas([]) == []
