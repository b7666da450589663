"""Changes of process-wide state: which kind each is, and which are none."""

from __future__ import annotations

import pytest

from cuassay.checks.state.process_kinds import StateChange, StateKind, changes_of, kind_of
from cuassay.model.outcome import FindingClass


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("function torch.allclose", StateKind.TAMPERED),
        ("library torch.nn.functional.gelu", StateKind.REPLACED),
        ("flag torch.backends.cuda.matmul.allow_tf32", StateKind.FLAGS),
        ("seed torch", StateKind.SEEDED),
        ("generator torch", StateKind.DRAWS),
        ("process signal handler SIGTERM", StateKind.HANDLERS),
        ("process garbage collector", StateKind.HABITS),
        ("environment CUDA_VISIBLE_DEVICES", StateKind.VARIABLES),
        ("environment MY_OWN", StateKind.OTHER_VARIABLES),
        ("environment _TORCHINDUCTOR_X", StateKind.NONE),
        ("asks inspect.stack", StateKind.ASKS),
        ("anything else", StateKind.NONE),
    ],
)
def test_a_reading_has_a_kind_by_its_name(name: str, kind: StateKind) -> None:
    assert kind_of(name) is kind


def test_what_measures_is_wrong_to_replace_and_binds_no_condition() -> None:
    wrong = {kind for kind in StateKind if kind.verdict[0] is FindingClass.WRONG}
    assert wrong == {StateKind.TAMPERED}
    assert not StateKind.TAMPERED.binds
    assert StateKind.FLAGS.binds
    assert all(kind.verb for kind in StateKind)


def _changes(before: dict[str, str], now: dict[str, str]) -> list[tuple[str, str, str]]:
    return [(one.name, one.old, one.new) for one in changes_of(before, now)]


def test_only_what_differs_from_before_is_a_change() -> None:
    assert _changes({}, {"flag tf32": "False -> True"}) == [("flag tf32", "False", "True")]
    assert _changes({"flag tf32": "a -> b"}, {"flag tf32": "a -> b"}) == []
    # It had changed before: what it is now is told beside what it was then.
    assert _changes({"flag tf32": "a -> b"}, {"flag tf32": "a -> c"}) == [("flag tf32", "b", "c")]
    assert _changes({}, {"flag tf32": "no arrow"}) == []


def test_a_higher_recursion_limit_harms_nobody_and_a_lower_one_does() -> None:
    name = "process recursion limit"
    assert _changes({}, {name: "1000 -> 3000"}) == []
    assert _changes({}, {name: "1000 -> 50"}) == [(name, "1000", "50")]


def test_texts_are_cleaned_of_addresses_and_control_characters() -> None:
    ((_, old, new),) = _changes({}, {"library f": "<function f at 7f00> -> <g\x1b at 12ab"})
    assert "\x1b" not in new
    assert new == "<g"
    assert old == "<function f at 7f00>"


def test_values_are_shown_where_they_say_something() -> None:
    flag = StateChange(name="flag tf32", old="False", new="True")
    assert flag.words == "tf32 from False to True"
    assert flag.full == "False -> True"
    place = StateChange(name="process working folder", old="/a", new="/b")
    assert place.words == "working folder"
    assert StateChange(name="generator torch", old="", new="").words == "the generator of torch"
    assert StateChange(name="seed torch", old="", new="").plain == "the seed torch"
