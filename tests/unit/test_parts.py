"""What the distributions beside this one bring, and what is said where they are absent."""

from __future__ import annotations

import importlib
import sys
import tomllib
import types
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import pytest

import cuassay
from cuassay import parts
from cuassay.checks.numeric.training_inputs import Loop001
from cuassay.cli.main import Grouped, main
from cuassay.errors import MissingToolError
from cuassay.model.verdict import Profile
from cuassay.parts import Part

_PACKAGES = Path(__file__).resolve().parents[2] / "packages"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave cuassay without the distributions beside it."""
    monkeypatch.setattr(parts, "_entry_points", dict)
    monkeypatch.setattr("cuassay.cli.main._FOUND", {})


def _declared() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in _PACKAGES.glob("cuassay-*/pyproject.toml"):
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        found |= dict.fromkeys(project["entry-points"]["cuassay.parts"], project["name"])
    return found


def test_each_part_comes_from_the_distribution_of_its_extra() -> None:
    assert _declared() == {part.value: f"cuassay-{part.extra}" for part in Part}
    installed = {one.name: one for one in metadata.entry_points(group="cuassay.parts")}
    assert installed.keys() == _declared().keys()


@pytest.mark.parametrize("part", Part)
def test_each_part_loads(part: Part) -> None:
    assert parts.is_installed(part)
    assert parts.find_part(part) is not None


def test_the_old_name_is_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("guard", "loops", "adapters"):
        monkeypatch.delitem(sys.modules, f"cuassay.{name}", raising=False)
        assert importlib.import_module(f"cuassay.{name}") is sys.modules[f"cuassay_{name}"]
    public: Any = cuassay
    assert public.guard is sys.modules["cuassay_guard"]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("verb", ["loop", "guard", "certificate"])
def test_a_verb_that_is_absent_names_what_to_install(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--help"]) == 3
    extra = {"loop": "loops", "guard": "guard", "certificate": "attest"}[verb]
    told = f"cuassay-{extra} is not installed; install it with: pip install 'cuassay[{extra}]'"
    assert told in capsys.readouterr().err


@pytest.mark.usefixtures("alone")
def test_a_capsule_needs_the_guard(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "x.capsule.safetensors"]) == 3
    assert "cuassay-guard is not installed" in capsys.readouterr().err


@pytest.mark.usefixtures("alone")
def test_a_check_without_its_states_is_skipped_and_says_why() -> None:
    trial: Any = types.SimpleNamespace(profile=Profile.STANDARD)
    assert "pip install 'cuassay[loops]'" in Loop001().skip(trial)
    with pytest.raises(MissingToolError, match="cuassay-loops is not installed"):
        parts.find_part(Part.LOOP_STATES)


def test_a_verb_of_no_distribution_is_still_unknown() -> None:
    with pytest.raises(click.UsageError, match="No such command 'lop'"):
        Grouped("cuassay").resolve_command(click.Context(click.Command("cuassay")), ["lop"])
