"""Recorded launches: files that read back as they were written, and files that are refused."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuassay.errors import UsageError
from cuassay.model.recording import RecordedLaunch, Recording, Region, decode, encode

LAUNCH = RecordedLaunch(
    module=0,
    kernel="k",
    grid=(3, 1, 1),
    block=(32, 2, 1),
    shared_bytes=48,
    arguments=(b"\x00\x10\x00\x00\x00\x00\x00\x00", b"\x05\x00\x00\x00"),
    regions=(Region(name="x", base=0x1000, nbytes=4), Region(name="y", base=0x2000, nbytes=8)),
    contents={0: b"abcd", 1: bytes(8)},
    written={1: b"\x0f"},
)
ON_GPU = dataclasses.replace(
    LAUNCH,
    regions=(Region(name="x", base=0x1000, nbytes=4, dtype="int32"), LAUNCH.regions[1]),
    after={0: b"abcd", 1: b"12345678"},
    failure="CUDA error",
)
RECORDING = Recording(
    modules=(".version 8.0",),
    launches=(LAUNCH, ON_GPU),
    sources={"k.cu": "//"},
    device="a GPU",
    notes=("1 launch of 'k': why",),
)


def test_a_recording_reads_back_as_it_was_written() -> None:
    assert decode(encode(RECORDING)) == RECORDING


def test_a_file_of_an_earlier_version_has_no_outcome() -> None:
    data = _changed(lambda document: document["launches"][0]["regions"].append(["z", 1, 0]))
    assert decode(data).launches[0].after is None
    assert decode(data).launches[0].regions[-1].dtype == ""


def test_more_launches_than_any_machine_executes_are_refused() -> None:
    def many(document: dict[str, Any]) -> None:
        document["launches"] = document["launches"][:1] * 4097

    with pytest.raises(UsageError, match="4097 launches, expected 4096 at most"):
        decode(_changed(many))


def _changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the file with its document changed."""
    data = encode(RECORDING)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    document = json.loads(header["__metadata__"]["cuassay-launches"])
    change(document)
    header["__metadata__"]["cuassay-launches"] = json.dumps(document)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def test_the_file_is_a_safetensors_file() -> None:
    safetensors = pytest.importorskip("safetensors")
    names = dict(safetensors.deserialize(encode(RECORDING)))
    assert names["b0"]["dtype"] == "U8"
    assert bytes(names["b0"]["data"]) == b".version 8.0"


@given(st.integers(0, len(encode(RECORDING)) - 1))
def test_a_cut_file_is_refused_with_one_message(length: int) -> None:
    data = encode(RECORDING)
    with pytest.raises(UsageError, match="not a recording of launches"):
        decode(data[:length])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("module", 7),
        ("grid", [1, 2]),
        ("contents", {"5": 1}),
        ("contents", {"0": 99}),
        ("after", {"1": 1}),
        ("regions", [["x", 0x1000, 4], ["y", 0x2000, 5 << 30]]),
        ("regions", [["x", 0x1000, 4], ["y", 0x2000, -1]]),
        ("regions", [["x", -1, 4]]),
        ("regions", [["x", (1 << 64) - 2, 4]]),
        ("regions", [["x", 0x1000, 4]] * 4097),
    ],
)
def test_a_launch_that_names_what_is_not_there_is_refused(field: str, value: object) -> None:
    forged = _changed(lambda document: document["launches"][0].__setitem__(field, value))
    with pytest.raises(UsageError, match="not a recording of launches"):
        decode(forged)
