"""Two recordings in the algebra: equal, unequal, and what cannot be compared."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from tests.support.builds import problem
from tests.unit.build.machine.test_launch import SOURCE, raw

from cuassay import build
from cuassay.algebra.programs import compare
from cuassay.build.cuda.nvrtc import find_nvrtc
from cuassay.build.machine import candidates as machine
from cuassay.errors import UsageError
from cuassay.model import serial
from cuassay.model.device import CPU
from cuassay.model.machine import EqualityEvidence
from cuassay.model.recording import RecordedResult, Recording, decode, encode
from cuassay.model.steps import ReadRecording
from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.observe import recordings

pytest.importorskip("numba")
pytestmark = pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")
OTHER = SOURCE.replace("half_of(x[i]) * factor", "x[i] * (factor * 0.5f) + 0.0f")
WRONG = SOURCE.replace("half_of(x[i]) * factor", "half_of(x[i]) * factor + x[i] * 1e-9f")


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))


class _Host:
    """Holds one result, as the interpreter does."""

    def __init__(self, held: list[tuple[str, object]]) -> None:
        self._held = held

    def result(self, name: str) -> list[tuple[str, object]]:
        return self._held


def recorded(source: str, folder: Path, *, after: float = 0.0) -> Recording:
    """Call a kernel once; return its launches with the place of its answer."""
    built = build.load(raw(source), problem(), device=CPU, folder=folder)
    assert machine.current is not None
    machine.current.recorder.start()
    x = torch.linspace(-3.0, 4.0, 24).reshape(3, 8)
    answer = built.call(x, 3.0)
    assert isinstance(answer, torch.Tensor)
    answer += after
    made = recordings.read(_Host([("y", answer)]), Around(), ReadRecording(result="r"))  # type: ignore[arg-type]
    return decode(bytes(made.tensors[0].numpy()))


def told(first: Recording, second: Recording) -> EqualityEvidence:
    """Return what the process says of two recordings."""
    given = [memoryview(encode(one)) for one in (first, second)]
    data = compare(given[0], given[1], memoryview(json.dumps({}).encode()))
    found: EqualityEvidence = serial.loads(EqualityEvidence, data.decode())
    return found


def test_other_roundings_are_equal_and_another_term_is_not(tmp_path: Path) -> None:
    first = recorded(SOURCE, tmp_path / "a")
    same = told(first, recorded(OTHER, tmp_path / "b"))
    assert (same.refused, same.elements, same.equal, same.seeds) == ("", 24, 24, 2)
    other = told(first, recorded(WRONG, tmp_path / "c"))
    assert (other.equal, other.output, other.element) == (0, "y", 0)


def test_what_torch_changed_after_the_launches_is_refused(tmp_path: Path) -> None:
    first = recorded(SOURCE, tmp_path / "a")
    assert (
        "was changed after the last kernel"
        in told(first, recorded(SOURCE, tmp_path / "b", after=1.0)).refused
    )
    elsewhere = dataclasses.replace(first.results[0], base=64, offset=0)
    moved = dataclasses.replace(first, results=(elsewhere,))
    assert "wrote or read" in told(first, moved).refused
    nothing = dataclasses.replace(first, results=())
    assert "1 outputs and 0" in told(first, nothing).refused


def test_a_result_that_leaves_its_memory_is_refused(tmp_path: Path) -> None:
    first = recorded(SOURCE, tmp_path)
    for change in ({"shape": (3, 9)}, {"shape": (1 << 40, 8)}, {"dtype": "complex64"}):
        result = dataclasses.replace(first.results[0], **change)
        refused = told(first, dataclasses.replace(first, results=(result,))).refused
        assert "leaves its memory" in refused or "cannot be compared" in refused


def test_a_recording_with_negative_strides_is_no_recording() -> None:
    result = RecordedResult(name="y", dtype="float32", base=0, offset=0, shape=(2,), strides=(-4,))
    with pytest.raises(UsageError, match="strides"):
        decode(encode(Recording(modules=(), launches=(), results=(result,))))
