"""Tensor maps of declared launches: the same declaration for the driver and for the PTX machine.

Dimensions are turned here: a declaration has the tensor's own order, the driver the innermost
first. Reference: CUDA driver API, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuassay.errors import BuildError
from cuassay.model.axes import evaluate
from cuassay.model.candidate import PixelColumns, TileMap

if TYPE_CHECKING:
    import torch

    from ptxsan.launch import Columns

_ELEMENTS = {
    "uint8": "u8", "int8": "u8", "bool": "u8", "uint16": "u16", "int16": "u16", "uint32": "u32",
    "int32": "s32", "uint64": "u64", "int64": "s64", "float16": "f16", "float32": "f32",
    "float64": "f64", "bfloat16": "bf16", "float8_e4m3fn": "u8", "float8_e5m2": "u8",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """What cuTensorMapEncodeTiled (with `columns`: cuTensorMapEncodeIm2col) takes.

    The innermost dimension comes first; strides are in bytes.
    """

    address: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...] = ()
    columns: Columns | None = None
    steps: tuple[int, ...] = ()
    swizzle: int = 0
    nan_fill: bool = False


def encoded(spec: TileMap, tensor: torch.Tensor, sizes: Mapping[str, int]) -> Encoded:
    """Return a declared tensor map over a contiguous tensor.

    Raises BuildError where box (or columns) and tensor have different numbers of dimensions or the
    dtype has no counterpart.
    """
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind not in _ELEMENTS:
        raise BuildError(f"the tensor map '{spec.name}' is over {kind}, which TMA does not know")
    shape = [evaluate(one, sizes) for one in spec.shape] or list(tensor.shape)
    box = [evaluate(one, sizes) for one in spec.box]
    columns, steps = (None, ()) if spec.columns is None else _columns(spec.columns, sizes)
    rank = len(box) if columns is None else len(columns.lower) + 2
    if len(shape) != rank:
        what, parts = ("a box", "the box one size") if columns is None else ("columns", "corners")
        raise BuildError(
            f"the tensor map '{spec.name}' has {what} of {rank} dimensions over a tensor of "
            f"{len(shape)}; give {parts} a dimension, or a shape"
        )
    strides, step = [], tensor.element_size()
    for size in reversed(shape):
        step *= size
        strides.append(step)
    return Encoded(
        address=int(tensor.data_ptr()), element=_ELEMENTS[kind], sizes=tuple(reversed(shape)),
        strides=tuple(strides[:-1]), box=tuple(reversed(box)), columns=columns, steps=steps,
        swizzle=spec.swizzle, nan_fill=spec.nan_fill,
    )  # fmt: skip


def _columns(spec: PixelColumns, sizes: Mapping[str, int]) -> tuple[Columns, tuple[int, ...]]:
    """Return what the driver takes, W first, and the element strides of all axes."""
    from ptxsan.launch import Columns

    def turned(expressions: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(evaluate(one, sizes) for one in reversed(expressions))

    found = Columns(
        lower=turned(spec.lower), upper=turned(spec.upper),
        channels=evaluate(spec.channels, sizes), pixels=evaluate(spec.pixels, sizes),
    )  # fmt: skip
    return found, (1, *turned(spec.strides), 1) if spec.strides else ()


# A tensor map's element types by their numbers, which are those of tensormap.replace in PTX.
_BY_NUMBER = (
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32",
    "tf32.ftz", "b4x16", "b4x16_p64", "b6x16_p32",
)  # fmt: skip

# Of a hardware map: f32 that becomes tf32, and the types whose numbers are hardware's own.
_ROUNDED, _OWN_NUMBERS = 1 << 16, {11: "b4x16"}


def hardware_map(raw: bytes) -> Encoded | None:
    """Return what a tensor map of sm_90 to sm_120 says; None for what is none, or is not known.

    128 bytes: an address; 4 bits that are 2, dimensions less one (3), element type (4),
    interleaving (2), swizzling (3), what follows is for caches; strides in units of 16 bytes (32
    bits each, 4 more behind them); sizes less one (32 bits each); element strides less one, the
    box less one (a byte each). f32 whose numbers become tf32 on their way has a bit of its own.
    Read off what NVIDIA's CuTe DSL writes; tiled maps without interleaving and filled with zeros
    are known.
    """
    if len(raw) != 128:
        return None
    words = [int.from_bytes(raw[at : at + 4], "little") for at in range(0, 64, 4)]
    flags, rank = words[2], (words[2] >> 4 & 7) + 1
    number, swizzle = flags >> 7 & 15, flags >> 13 & 7
    known = flags & 15 == 2 and not flags & 3 << 11
    element = _OWN_NUMBERS.get(number, "" if number > max(_OWN_NUMBERS) else _BY_NUMBER[number])
    if flags & _ROUNDED:
        element = "tf32" if element == "f32" else ""
    if not known or not element or rank > 5 or swizzle > 3:
        return None
    if any(raw[52:55]):  # element strides
        return None
    tops = [words[7] >> 4 * one & 15 for one in range(4)]
    strides = tuple(16 * (words[3 + one] | tops[one] << 32) for one in range(rank - 1))
    return Encoded(
        address=words[0] | words[1] << 32, element=element,
        sizes=tuple(one + 1 for one in words[8 : 8 + rank]), strides=strides,
        box=tuple(one + 1 for one in raw[55 : 55 + rank]), swizzle=(0, 32, 64, 128)[swizzle],
    )  # fmt: skip


def element_bytes(element: str) -> int:
    """Return the bytes of an element type."""
    from ptxsan.launch import element_bytes as found

    return found(element)


def machine_bytes(one: Encoded) -> bytes:
    """Return the PTX machine's 128 bytes. Raises BuildError for what hardware does not take."""
    from ptxsan.errors import MachineError
    from ptxsan.launch import Buffer, Pointer, TensorMap

    nobody: Any = Buffer(name="tensor", data=b"")  # type: ignore[arg-type]
    try:
        return TensorMap(
            pointer=Pointer(buffer=nobody), element=one.element, sizes=one.sizes,
            strides=one.strides, box=one.box, columns=one.columns, steps=one.steps,
            swizzle=one.swizzle, nan_fill=one.nan_fill,
        ).packed(one.address)  # fmt: skip
    except MachineError as error:
        name = "Tiled" if one.columns is None else "Im2col"
        raise BuildError(f"{error}, as cuTensorMapEncode{name} demands") from None
