"""What the documents tell the reader to type exists: verbs, options, make targets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cuassay.cli.main import cli

_ROOT = Path(__file__).resolve().parents[2]
_DOCUMENTS = [_ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _texts() -> Iterator[tuple[Path, str]]:
    for path in (*_DOCUMENTS, *sorted((_ROOT / "docs").glob("*.md"))):
        if path.is_file():
            yield path, path.read_text(encoding="utf-8")


def _lines(text: str) -> Iterator[str]:
    """Yield the commands of fenced blocks, and spans of code that begin with a command."""
    for block in _FENCED.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.removeprefix("$ ").strip()
    yield from re.findall(r"`((?:cuassay|make) [^`\n]+)`", _FENCED.sub("", text))


def _commands(program: str) -> Iterator[tuple[str, list[str]]]:
    for path, text in _texts():
        for line in _lines(text):
            if line.split(maxsplit=1)[:1] != [program]:
                continue  # another language, whose quotes are not a shell's
            words = shlex.split(re.sub(r"[\[\]]|\.\.\.|…", " ", line), comments=True)
            yield f"{path.name}: {line}", words[1:]


def _unknown(words: list[str]) -> list[str]:
    """Return the verbs and options of a cuassay call that do not exist."""
    command: click.Command = cli
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in command.commands:
            return [name]
        command = command.commands[name]
    # click keeps the help option of a command's first context: it must be the one that users see
    context = click.Context(command, **cli.context_settings)
    known = {o for p in command.get_params(context) for o in (*p.opts, *p.secondary_opts)}
    own = rest[: rest.index("--")] if "--" in rest else rest  # the rest is another program's
    given = [word.split("=")[0] for word in own if word.startswith("-")]
    return [option for option in given if option not in known]


def test_every_cuassay_command_exists() -> None:
    wrong = {where: bad for where, words in _commands("cuassay") if (bad := _unknown(words))}
    assert wrong == {}


def test_every_make_target_exists() -> None:
    makefile = _ROOT / "Makefile"
    if not makefile.is_file():
        pytest.skip("this tree has no Makefile")
    targets = set(re.findall(r"^([\w-]+):", makefile.read_text(), re.MULTILINE))
    missing = {
        where
        for where, words in _commands("make")
        if not {word for word in words if "=" not in word} <= targets
    }
    assert missing == set()


def test_the_check_itself_sees_what_is_wrong() -> None:
    assert _unknown(["check", "k.py", "--problem", "p", "--json"]) == []
    assert _unknown(["problem", "show", "p", "--json"]) == []
    assert _unknown(["check", "k.py", "--jsn"]) == ["--jsn"]
    assert _unknown(["chek"]) == ["chek"]
    assert _unknown(["problem", "lst"]) == ["lst"]
