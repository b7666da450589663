"""Where a matrix descriptor of wgmma says that an element lies in shared memory.

PTX ISA 9.7.15.5.1.2 and the canonical layouts of CUTLASS (mma_sm90_desc.hpp).
"""

from __future__ import annotations

from ptxsan.numerics.native import native
from ptxsan.runtime.native import export


@native
def swizzled(address: int, span: int) -> int:
    """Return an address with bits 4 to 6 turned by bits 7 to 9, for rows of `span` bytes."""
    return address ^ (((address >> 7) & (span // 16 - 1)) << 4)


@native
def in_canonical_layout(
    start: int, leading: int, stride: int, span: int, outer: int, inner: int, how: int
) -> int:  # fmt: skip
    """Return the address of a chunk; `span`: bytes of a row that are swizzled, 16: none."""
    if (how & 1) == 0:
        if span == 16:
            return start + (outer >> 3) * stride + (inner >> 4) * leading + (outer & 7) * 16
        plain = start + (outer >> 3) * stride + (outer & 7) * span + inner
        return swizzled(plain, span)
    place = outer * (how >> 1)  # bytes along M or N
    if span == 16:
        return start + (place >> 4) * stride + (inner >> 3) * leading + (inner & 7) * 16
    plain = start + place // span * leading + place % span
    return swizzled(plain + (inner >> 3) * stride + (inner & 7) * span, span)


@export("int64(int64, int64, int64, int64)")
def group_address(descriptor: int, outer: int, inner: int, how: int) -> int:
    """Return the shared address of a chunk of 16 bytes.

    `outer` is the row (of A) or column (of B). K-major: `inner` is the byte along K. Transposed
    (bit 0 of `how`; the bytes of an element above it): `inner` is the K index, and the chunk runs
    along `outer`.
    """
    start = (descriptor & 0x3FFF) << 4
    leading, stride = ((descriptor >> 16) & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    mode = (descriptor >> 62) & 3
    span = 16 if mode == 0 else 256 >> mode
    return int(in_canonical_layout(start, leading, stride, span, outer, inner, how))
