"""The table of textures and surfaces of a launch, as the runtime reads it (runtime/textures.py)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptxsan.launch import Texture
from ptxsan.runtime import layout as L


def table(textures: Sequence[Texture]) -> NDArray[np.uint8]:
    """Return the records of textures behind their number."""
    rows = [struct.pack("<Q", len(textures))]
    for one in textures:
        buffer, offset = one.pointer.buffer, one.pointer.offset
        flags = buffer.initialised
        texel = one.channels * one.bits // 8
        pitch = one.pitch or one.width * texel
        bits = (
            L.X_NORMALIZED * one.normalized | L.X_LINEAR * one.linear
            | L.X_FRACTIONS * (one.fractions and one.kind != L.X_FLOAT)
        )  # fmt: skip
        row = struct.pack(
            "<QQQIIIIQIIIIBBBx4f", one.handle, buffer.data.ctypes.data + offset,
            0 if flags is None else flags.ctypes.data + offset, one.width, max(1, one.height),
            max(1, one.depth), pitch, one.slice_bytes or pitch * max(1, one.height),
            one.channels, one.bits, one.kind, bits, *one.modes, *one.border,
        )  # fmt: skip
        rows.append(row.ljust(L.X_RECORD, b"\0"))
    return np.frombuffer(b"".join(rows), np.uint8).copy()
