"""What a library raises as it finds no GPU says nothing of a kernel; other errors do."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from cuassay import build
from cuassay.errors import BuildError, MissingToolError
from cuassay.model.device import CPU
from tests.support.builds import candidate, guard_process, problem

_TOOL = "import subprocess\ntry:\n    subprocess.run(['{}'])\nexcept OSError:\n    pass\n"
_DRIVER = "import ctypes\ntry:\n    ctypes.CDLL('libcuda.so.1')\nexcept OSError:\n    pass\n"
_ASKS, _LISTS = _TOOL.format("/nowhere/nvidia-smi"), _TOOL.format("/nowhere/ls")
_NONE = "raise RuntimeError('nothing was detected')\n"
_THREAD = """
import threading

def ask():
    try:
        subprocess.run(['/nowhere/nvidia-smi'])
    except OSError:
        pass

import subprocess
one = threading.Thread(target=ask)
one.start()
one.join()
"""
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _restored_import_state(monkeypatch: pytest.MonkeyPatch) -> None:
    guard_process(monkeypatch)


def _load(
    library: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, result: str = "x"
) -> build.Built:
    """Load a candidate that may import {0}, a package of this text that is installed beside it."""
    name, place = f"library_{next(_numbers)}", folder / "installed"
    place.mkdir()
    (place / f"{name}.py").write_text(library)
    monkeypatch.syspath_prepend(str(place))
    made = candidate(text.format(name) + f"\ndef run(x):\n    return {result}\n")
    return build.load(made, problem(), device=CPU, folder=folder / "built")


@pytest.mark.parametrize("asks", [_ASKS, _DRIVER, _THREAD])
def test_a_library_that_finds_no_gpu_is_a_missing_tool(
    asks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingToolError, match=r"'library_\d+' needs an NVIDIA GPU.*nothing was"):
        _load(asks + _NONE, "import {0}", tmp_path, monkeypatch)


def test_so_is_one_that_looks_for_it_when_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = "def relu(x):\n" + "".join(f"    {line}\n" for line in (_ASKS + _NONE).splitlines())
    built = _load(library, "import {0} as library", tmp_path, monkeypatch, "library.relu(x)")
    with pytest.raises(MissingToolError, match="judge it with --device cuda"):
        built.call(3)


@pytest.mark.parametrize(
    ("library", "text"),
    [
        (_LISTS + _NONE, "import {0}"),  # another program
        (_ASKS + "undefined\n", "import {0}"),  # a fault of its code, wherever it runs
        (_ASKS, "import {0}\n" + _NONE),  # the candidate's own words
        ("", _ASKS + _NONE),
        (_NONE, _ASKS + "import {0}"),  # another one asked
    ],
)
def test_what_is_no_lack_of_a_gpu_does_not_build(
    library: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BuildError):
        _load(library, text, tmp_path, monkeypatch)
