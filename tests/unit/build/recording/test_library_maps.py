"""Tensor maps that a library encodes are known by their bytes, whichever way it asks the driver."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from cuassay.build.cuda.tile_maps import Encoded, machine_bytes
from cuassay.build.recording.library_maps import (
    encode_map,
    in_machine_form,
    machine_form,
    map_arguments,
    watch_maps,
)
from cuassay.errors import MissingToolError

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
# A stand-in for driver and runtime: an encoding is a number that nobody else has.
DRIVER = """
#include <cstring>
extern "C" {
static unsigned long long made = 0xABCD0000;
int cuTensorMapEncodeTiled(unsigned long long* map, unsigned element, unsigned rank, void* address,
    const unsigned long long* sizes, const unsigned long long* strides, const unsigned* box,
    const unsigned* steps, unsigned interleave, unsigned swizzle, unsigned l2, unsigned fill) {
    if (rank > 5) return 1;
    for (int i = 0; i < 16; ++i) map[i] = ++made;
    return 0;
}
int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags, int* how) {
    *function = std::strcmp(name, "cuTensorMapEncodeTiled") ? nullptr
                                                            : (void*)&cuTensorMapEncodeTiled;
    return 0;
}
}
"""
USER = """
extern "C" {
typedef int Encode(unsigned long long*, unsigned, unsigned, void*, const unsigned long long*,
    const unsigned long long*, const unsigned*, const unsigned*, unsigned, unsigned, unsigned,
    unsigned);
Encode cuTensorMapEncodeTiled;
int cudaGetDriverEntryPoint(const char*, void**, unsigned long long, int*);
int encode(Encode* with, unsigned long long* map, unsigned element, unsigned rank) {
    const unsigned long long sizes[] = {64, 32}, strides[] = {128};
    const unsigned box[] = {16, 8}, steps[] = {1, 1};
    return with(map, element, rank, (void*)0x1000, sizes, strides, box, steps, 0, 1, 0, 1);
}
int linked(unsigned long long* map, unsigned element, unsigned rank) {
    return encode(cuTensorMapEncodeTiled, map, element, rank);
}
int asked(unsigned long long* map, unsigned element, unsigned rank) {
    void* found = nullptr;
    int how = 0;
    if (cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, 0, &how)) return 9;
    return encode((Encode*)found, map, element, rank);
}
int other() {
    void* found = &found;
    int how = 0;
    return cudaGetDriverEntryPoint("cuMemAlloc", &found, 0, &how) == 0 && found == nullptr;
}
}
"""
_F16 = 6
_MADE = Encoded(
    address=0x1000, element="f16", sizes=(64, 32), strides=(128,), box=(16, 8), steps=(1, 1),
    swizzle=32, nan_fill=True,
)  # fmt: skip


@pytest.fixture
def library(tmp_path: Path) -> ctypes.CDLL:
    """Return a library that is watched."""
    name = f"driver{uuid.uuid4().hex}"
    for title, text, more in (
        (name, DRIVER, []),
        ("user", USER, ["-L", str(tmp_path), f"-l{name}", f"-Wl,-rpath,{tmp_path}"]),
    ):
        source = tmp_path / f"{title}.cpp"
        source.write_text(text)
        command = ["g++", "-shared", "-fPIC", str(source), "-o", str(tmp_path / f"lib{title}.so")]
        subprocess.run([*command, *more], check=True, capture_output=True)
    found = ctypes.CDLL(str(tmp_path / "libuser.so"))
    watch_maps(tmp_path / "libuser.so")
    return found


@pytest.mark.parametrize("way", ["linked", "asked"])
def test_a_map_comes_out_in_the_machine_s_form(library: ctypes.CDLL, way: str) -> None:
    held = (ctypes.c_ulonglong * 16)()
    assert getattr(library, way)(held, _F16, 2) == 0
    raw = bytes(held)
    assert in_machine_form(raw) == (machine_bytes(_MADE), 1)
    structure = struct.pack("<8Q", *range(8)) + raw + struct.pack("<Q", 7)
    made, count = in_machine_form(structure)
    assert count == 1
    assert made == structure[:64] + machine_bytes(_MADE) + structure[192:]


def test_what_is_no_map_stays_as_it_is(library: ctypes.CDLL) -> None:
    held = (ctypes.c_ulonglong * 16)()
    assert library.linked(held, _F16, 6) == 1  # the driver refuses it
    assert in_machine_form(bytes(128)) == (bytes(128), 0)
    assert library.other() == 1


def test_a_map_that_the_machine_does_not_know_is_named(library: ctypes.CDLL) -> None:
    held = (ctypes.c_ulonglong * 16)()
    assert library.linked(held, 10, 2) == 0  # f32 without subnormals
    with pytest.raises(MissingToolError, match="element type 10"):
        in_machine_form(bytes(held))


@pytest.mark.parametrize(
    ("number", "element", "line", "box"),
    [(13, "b4x16", 128, 64), (14, "b4x16_p64", 128, 128), (15, "b6x16_p32", 192, 128)],
)
def test_elements_of_4_and_6_bits_are_known(number: int, element: str, line: int, box: int) -> None:
    places: list[ctypes.Array[Any]] = [
        (ctypes.c_uint64 * 2)(256, 32), (ctypes.c_uint64 * 1)(line), (ctypes.c_uint32 * 2)(box, 8),
        (ctypes.c_uint32 * 2)(1, 1),
    ]  # fmt: skip
    words = (0, number, 2, 0x1000, *(ctypes.addressof(one) for one in places), 0, 0, 0, 0)
    made = Encoded(
        address=0x1000, element=element, sizes=(256, 32), strides=(line,), box=(box, 8),
        steps=(1, 1),
    )  # fmt: skip
    assert machine_form(words) == machine_bytes(made)


def _encoded(known: dict[bytes, str], interleave: int) -> bytes:
    place = (ctypes.c_uint8 * 128)()
    sizes, strides = (ctypes.c_uint64 * 2)(64, 16), (ctypes.c_uint64 * 1)(128)
    box, steps = (ctypes.c_uint32 * 2)(64, 8), (ctypes.c_uint32 * 2)(1, 1)
    at = [ctypes.addressof(one) for one in (sizes, strides, box, steps)]
    words = (ctypes.addressof(place), _F16, 2, 4096, *at, interleave, 3, 0, 0)
    assert encode_map(known, words) == 0
    return bytes(place)


def test_arguments_of_a_launch_keep_the_maps_that_were_encoded_here() -> None:
    known: dict[bytes, str] = {}
    given = [_encoded(known, 0), struct.pack("<Q", 7), bytes(128)]
    assert map_arguments(known, given, [64, 8, 64]) == given
    given[2] = _encoded(known, 1)
    with pytest.raises(MissingToolError, match="interleave 1"):
        map_arguments(known, given, [64, 8, 64])
