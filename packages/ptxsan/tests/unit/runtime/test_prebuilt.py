"""A prebuilt runtime is used only where it fits, and numba is asked for what it lacks."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ptxsan.runtime import native, prebuilt


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PTXSAN_RUNTIME", str(tmp_path))
    kept = (prebuilt._opened, prebuilt._loaded, prebuilt.address)
    for one in kept:
        one.cache_clear()
    yield
    for one in kept:
        one.cache_clear()


_EXPORTS = """
from ptxsan.runtime.native import export, native

@native
def doubled(x: int) -> int:
    return 2 * x

@export("int64(int64)")
def adds_five(x: int) -> int:
    return x + 5

@export("int64(int64)")
def doubles_and_adds_one(x: int) -> int:
    return doubled(x) + 1

@export("int64(int64)")
def doubles_the_third(x: int) -> int:
    return doubled(x // 3)
"""
_MAKE = """
import json, sys, exports
from ptxsan.runtime import linking, native
code, symbols = linking.object_of(native.exported(), sys.argv[1])
open("exports.o", "wb").write(code)
print(json.dumps(symbols))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, str]]:
    """Return one object with three functions, int64 -> int64, made as the runtime is."""
    folder = tmp_path_factory.mktemp("exports")
    (folder / "exports.py").write_text(_EXPORTS)
    path = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", _MAKE, prebuilt._PROCESSORS[platform.machine()][0]],
        capture_output=True, text=True, check=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PTXSAN_RUNTIME": str(folder)},
    )  # fmt: skip
    return (folder / "exports.o").read_bytes(), json.loads(done.stdout)


@pytest.fixture
def keep(made: tuple[bytes, dict[str, str]]) -> Callable[[str], None]:
    def write(tag: str) -> None:
        prebuilt.places()[1].parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(prebuilt.places()[1], "w") as file:
            pieces = {"sums": made[1]}
            file.writestr("manifest.json", json.dumps({"tag": tag, "pieces": pieces}))
            file.writestr("sums.o", made[0])

    return write


def test_functions_of_a_file_that_fits_are_called(keep: Callable[[str], None]) -> None:
    keep(prebuilt.tag())
    prebuilt._try(prebuilt.places()[1])
    found = {}
    for name in ("adds_five", "doubles_and_adds_one", "doubles_the_third"):
        place = prebuilt.address(name)
        assert place is not None
        found[name] = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(place)(37)
    assert found == {"adds_five": 42, "doubles_and_adds_one": 75, "doubles_the_third": 24}
    assert prebuilt.address("another") is None
    assert set(prebuilt.names()) == set(found)


def test_a_file_for_other_sources_is_left_alone(keep: Callable[[str], None]) -> None:
    keep("x86_64-cp311-0.1-0-other")
    assert prebuilt.names() == ()
    assert prebuilt.address("adds_five") is None


def test_it_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, keep: Callable[[str], None]
) -> None:
    keep(prebuilt.tag())
    monkeypatch.setenv("PTXSAN_PREBUILT", "off")
    assert prebuilt.names() == ()


def test_a_torn_file_is_none() -> None:
    prebuilt.places()[1].parent.mkdir(parents=True, exist_ok=True)
    prebuilt.places()[1].write_bytes(b"PK\x03\x04 torn")
    assert prebuilt.names() == ()


def test_what_a_piece_does_not_export_is_not_seen_outside(
    made: tuple[bytes, dict[str, str]],
) -> None:
    engine = prebuilt._engine(made[0])
    assert all(engine.get_function_address(symbol) for symbol in made[1].values())
    assert b"_ZN7exports7doubled" not in made[0]  # it is part of its callers alone


def test_every_module_that_exports_belongs_to_one_piece() -> None:
    prebuilt.load_helpers()
    prebuilt.load_algebra()
    named = [f"ptxsan.runtime.{one}" for piece in prebuilt._PIECES.values() for one in piece]
    assert len(named) == len(set(named))
    exporting = {native.declared(one)[1].__module__ for one in native.exported()}
    assert exporting - {"exports"} <= set(named)


def test_a_file_is_made_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, keep: Callable[[str], None]
) -> None:
    assert prebuilt.names() == ()
    monkeypatch.setattr(prebuilt, "build", lambda place: keep(prebuilt.tag()))
    prebuilt.make()
    assert "adds_five" in prebuilt.names()


def test_a_file_that_cannot_be_made_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def failing(place: Path) -> None:
        (tmp_path / "tried").touch()
        raise RuntimeError

    monkeypatch.setattr(prebuilt, "build", failing)
    prebuilt.make()
    assert prebuilt.names() == ()
    assert (tmp_path / "tried").exists()


def test_none_is_made_where_it_would_not_be_used(
    monkeypatch: pytest.MonkeyPatch, keep: Callable[[str], None]
) -> None:
    monkeypatch.setenv("PTXSAN_PREBUILT", "off")
    monkeypatch.setattr(prebuilt, "build", lambda place: keep(prebuilt.tag()))
    prebuilt.make()
    assert not prebuilt.places()[1].exists()


def test_functions_stay_where_they_are_when_files_are_looked_for_again(
    keep: Callable[[str], None],
) -> None:
    """Kernels were compiled with their addresses."""
    keep(prebuilt.tag())
    place = prebuilt.address("adds_five")
    prebuilt._loaded.cache_clear()
    gc.collect()
    assert place is not None
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(place)(37) == 42
    assert prebuilt.address("doubles_and_adds_one") not in (None, place)
