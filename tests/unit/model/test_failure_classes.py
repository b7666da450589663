"""Failure classes: codes are unique and in a group, names are what people read."""

from __future__ import annotations

from cuassay.model.failure_classes import (
    _TABLE,
    FAILURE_CLASSES,
    GROUPS,
    class_name,
    class_names,
)


def test_no_code_and_no_name_stands_twice() -> None:
    assert len(FAILURE_CLASSES) == len(_TABLE) == len({name for _, name, _ in _TABLE})


def test_every_class_belongs_to_a_group_and_every_group_has_a_class() -> None:
    assert {one.group for one in FAILURE_CLASSES.values()} == set(GROUPS.values())
    assert all(code[1:].isdecimal() and mechanism for code, _, mechanism in _TABLE)


def test_names_stand_for_codes_and_an_unknown_code_for_itself() -> None:
    assert class_name("N1") == "low-precision scatter/atomic accumulation"
    assert class_name("Z9") == "Z9"
    assert class_names(["N2", "Z9", "N2"]) == "low-precision block reduction; Z9"
    assert class_names([]) == ""
