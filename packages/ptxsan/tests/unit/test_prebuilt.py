"""A prebuilt runtime is used only where it fits, and numba is asked for what it lacks."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest

from ptxsan.runtime import prebuilt


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PTXSAN_RUNTIME", str(tmp_path))
    for one in (prebuilt._opened, prebuilt.address):
        one.cache_clear()
    yield
    for one in (prebuilt._opened, prebuilt.address):
        one.cache_clear()


def _file(tag: str) -> None:
    """Write a file with one function, int64 -> int64, that adds 5."""
    made = numba.cfunc("int64(int64)", error_model="numpy")(lambda x: x + 5)
    prebuilt.places()[1].parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(prebuilt.places()[1], "w") as file:
        symbols = {"adds_five": made.native_name}
        file.writestr("manifest.json", json.dumps({"tag": tag, "symbols": symbols}))
        file.writestr("adds_five.o", prebuilt._object(made.inspect_llvm()))


def test_functions_of_a_file_that_fits_are_called() -> None:
    import ctypes

    _file(prebuilt.tag())
    prebuilt._try(prebuilt.places()[1])
    place = prebuilt.address("adds_five")
    assert place is not None
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(place)(37) == 42
    assert prebuilt.address("another") is None
    assert prebuilt.names() == ("adds_five",)


def test_a_file_for_other_sources_is_left_alone() -> None:
    _file("x86_64-cp311-0.1-0-other")
    assert prebuilt.names() == ()
    assert prebuilt.address("adds_five") is None


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    _file(prebuilt.tag())
    monkeypatch.setenv("PTXSAN_PREBUILT", "off")
    assert prebuilt.names() == ()


def test_a_torn_file_is_none() -> None:
    prebuilt.places()[1].parent.mkdir(parents=True, exist_ok=True)
    prebuilt.places()[1].write_bytes(b"PK\x03\x04 torn")
    assert prebuilt.names() == ()
