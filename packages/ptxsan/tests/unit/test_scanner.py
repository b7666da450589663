"""Statements of a PTX text: where they begin and end, whatever comments and braces are there."""

from __future__ import annotations

from ptxsan.scanner import statements


def _of(text: str) -> list[tuple[str, str, int]]:
    return [(one.kind, one.text, one.line) for one in statements(text)]


def test_comments_disappear_and_lines_stay() -> None:
    text = "mov.u32 a, 1; // first; {\n/* over\n two lines; */ add.u32 a, a,\n 2;"
    assert _of(text) == [("text", "mov.u32 a, 1", 1), ("text", "add.u32 a, a,  2", 3)]


def test_a_string_keeps_what_looks_like_a_comment() -> None:
    assert _of('.file 1 "a//b;{c}.cu"\nret;') == [
        ("text", '.file 1 "a//b;{c}.cu"', 1),
        ("text", "ret", 2),
    ]


def test_braces_of_operands_open_no_scope() -> None:
    assert _of("ld.v2.f32 {a, b}, [p];") == [("text", "ld.v2.f32 {a, b}, [p]", 1)]
    assert _of(".global .b8 t[2] = {1, 2};") == [("text", ".global .b8 t[2] = {1, 2}", 1)]


def test_functions_and_scopes_within_them() -> None:
    assert _of(".visible .entry k(.param .u64 a)\n{\n {\n ret;\n }\n}") == [
        ("open", ".visible .entry k(.param .u64 a)", 1),
        ("open", "", 3),
        ("text", "ret", 4),
        ("close", "", 5),
        ("close", "", 6),
    ]


def test_directives_and_labels_end_with_their_line() -> None:
    assert _of(".version 8.0\n.loc 1 7 3\nAGAIN:\nbra AGAIN;") == [
        ("text", ".version 8.0", 1),
        ("text", ".loc 1 7 3", 2),
        ("text", "AGAIN:", 3),
        ("text", "bra AGAIN", 4),
    ]


def test_debug_sections_are_left_out() -> None:
    text = ".section .debug_str\n{\n.b8 97,0;\n$L: .b8 1\n}\nret;"
    assert _of(text) == [("text", "ret", 6)]
