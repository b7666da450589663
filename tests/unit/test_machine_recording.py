"""Recorded launches: files that read back as they were written, and files that are refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuassay.errors import UsageError
from cuassay.machine.recording import RecordedLaunch, Recording, Region, decode, encode

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
RECORDING = Recording(modules=(".version 8.0",), launches=(LAUNCH, LAUNCH), sources={"k.cu": "//"})


def test_a_recording_reads_back_as_it_was_written() -> None:
    assert decode(encode(RECORDING)) == RECORDING


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
    [("module", 7), ("grid", [1, 2]), ("contents", {"5": 1}), ("contents", {"0": 99})],
)
def test_a_launch_that_names_what_is_not_there_is_refused(field: str, value: object) -> None:
    data = encode(RECORDING)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    document = json.loads(header["__metadata__"]["cuassay-launches"])
    document["launches"][0][field] = value
    header["__metadata__"]["cuassay-launches"] = json.dumps(document)
    text = json.dumps(header).encode()
    forged = len(text).to_bytes(8, "little") + text + data[8 + size :]
    with pytest.raises(UsageError, match="not a recording of launches"):
        decode(forged)
