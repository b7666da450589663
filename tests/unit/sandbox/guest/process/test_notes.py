"""What a process notes of a candidate's code: its files are read as they are, and parsed once."""

from __future__ import annotations

import ast
import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from cuassay.sandbox.guest.process.notes import watch


def imported(path: Path) -> ModuleType:
    """Return the module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the list of texts that are parsed from now on; imports are as they were after it."""
    texts: list[bytes] = []
    real = ast.parse

    def parse(text: bytes) -> ast.Module:
        texts.append(text)
        return real(text)

    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)
    monkeypatch.setattr(ast, "parse", parse)
    return texts


def test_each_file_of_a_kernel_is_parsed_once(tmp_path: Path, parsed: list[bytes]) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(f"def run(x):\n    return x + 1  # {name}\n")
    watch(str(tmp_path))
    assert [imported(tmp_path / f"{name}.py").run(1) for name in ("first", "second")] == [2, 2]
    assert sorted(parsed) == [
        (tmp_path / f"{name}.py").read_bytes() for name in ("first", "second")
    ]


def test_a_file_that_was_written_meanwhile_is_the_new_one(
    tmp_path: Path, parsed: list[bytes]
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text("def run(x):\n    return x + 1\n")
    watch(str(tmp_path))
    path.write_text("def run(x):\n    return x + 22\n")
    assert imported(path).run(1) == 23
    assert imported(path).run(1) == 23
    assert len(parsed) == 3


def test_a_function_that_is_handed_to_a_compiler_is_left_as_it_is(
    tmp_path: Path, parsed: list[bytes]
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(
        "import pytest\n\ndef body(x):\n    return x + 1\n\n"
        "def run(x):\n    return x + 2\n\nfast = pytest.mark.usefixtures(body)\n"
    )
    watch(str(tmp_path))
    module = imported(path)
    assert not any(map(callable, module.body.__code__.co_consts))
    assert any(map(callable, module.run.__code__.co_consts))
