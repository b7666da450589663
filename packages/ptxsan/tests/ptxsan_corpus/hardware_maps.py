"""Tensor maps in hardware's own form, as CuTe DSL 4.8 writes them, and what they mean."""

from __future__ import annotations

# What CuTe DSL 4.8 wrote for tensors (40 rows; the fifth 3 of them) and boxes, in words of 32 bits:
# flags, the first two strides, the first three sizes; then the box; the element and the swizzle.
WRITTEN = (
    (0x46312, (32, 0), (255, 39, 0), (63, 7), "f16", 128),
    (0x44512, (32, 0), (255, 39, 0), (31, 15), "bf16", 64),
    (0x42392, (24, 0), (95, 39, 0), (7, 7), "f32", 32),
    (0x44012, (16, 0), (255, 39, 0), (63, 3), "u8", 64),
    (0x46322, (25, 1000), (199, 39, 2), (63, 7, 0), "f16", 128),
    (0x40112, (16, 0), (63, 39, 0), (7, 7), "u32", 0),
    (0x42492, (32, 0), (63, 39, 0), (3, 7), "f64", 32),
    (0x2563A2, (32, 8192), (127, 255, 0), (31, 127, 0), "tf32", 128),
    (0x465A2, (8, 2048), (255, 255, 0), (255, 127, 0), "b4x16", 128),
)
ADDRESS = 0x7F0000BEEF00


def hardware_bytes(
    flags: int, strides: tuple[int, ...], sizes: tuple[int, ...], box: tuple[int, ...],
    address: int = ADDRESS,
) -> bytes:  # fmt: skip
    """Return the 128 bytes of a map over memory at an address."""
    words = [address % (1 << 32), address >> 32, flags, *strides, 0, 0, 0, *sizes, 0, 0, 0]
    start = b"".join(word.to_bytes(4, "little") for word in words)
    return (start[:55] + bytes(box)).ljust(128, b"\0")
