"""tex, suld and sust: what a handle names is in a table of the launch (runtime/textures.py).

PTX ISA, "Texture Instructions" and "Surface Instructions", unified mode: the handle is a register.
Levels of detail are taken for the first level; cubes, gathers and multisampled forms are refused.
"""

from __future__ import annotations

from ptxsan.emit.context import Emit
from ptxsan.emit.registry import emits
from ptxsan.emit.values import width_of
from ptxsan.runtime import layout as L
from ptxsan.syntax import Address, Instruction, Operand, Register, Vector

_SHAPES = {"1d": (1, False), "2d": (2, False), "3d": (3, False), "a1d": (1, True), "a2d": (2, True)}
_OUTSIDE = {"trap": L.X_TRAPS, "zero": L.X_ZERO, "clamp": L.X_CLAMPED}


def _shape(cx: Emit, ins: Instruction) -> tuple[int, bool]:
    """Return the dimensions, and whether the first coordinate is a layer."""
    found = next((_SHAPES[part] for part in ins.parts if part in _SHAPES), None)
    if found is None or "grad" in ins.parts:
        cx.unsupported("has a form of textures that is not modelled (cube, gather, gradients)")
    return found


def _place(cx: Emit, ins: Instruction, operand: Operand, type_: str) -> tuple[str, list[str]]:
    """Return the handle and x, y and z as i64; z is the layer of a layered form."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Register):
        cx.unsupported("needs a handle in a register")
    dims, layered = _shape(cx, ins)
    given = list(operand.coordinates)
    if len(given) == 1 and isinstance(given[0], Vector):
        given = list(given[0].items)
    handle = cx.read(operand.base, "u64").bits
    layer = given.pop(0) if layered else None
    words = ["0", "0", "0"]
    for axis in range(dims):
        words[axis] = _wide(cx, given[axis], type_)
    if layer is not None:
        words[2] = _wide(cx, layer, "u32")
    return handle, words


def _wide(cx: Emit, operand: Operand, type_: str) -> str:
    extend = "sext" if type_ == "s32" else "zext"
    return cx.let(f"{extend} i32 {cx.read(operand, type_).bits} to i64")


@emits("tex")
def emit_fetch(cx: Emit, ins: Instruction) -> None:
    """Fetch four words; integer coordinates name texels."""
    dims, layered = _shape(cx, ins)
    coordinates, type_ = ins.parts[-1], ins.parts[-2]
    if coordinates not in ("f32", "s32") or type_ not in ("f32", "s32", "u32"):
        cx.unsupported("has types of textures that are not modelled")
    handle, words = _place(cx, ins, ins.operands[1], coordinates)
    info = dims | L.X_INTEGERS * (coordinates == "s32") | L.X_LAYERED * layered | cx.site << 24
    given = ("%thread.i", "%launch.i", handle, str(info), *words, "%out.i")
    unwritten = cx.call("i64", "rt_texture", *[("i64", one) for one in given])
    _results(cx, ins.operands[0], type_, unwritten)


def _results(cx: Emit, target: Operand, type_: str, unwritten: str) -> None:
    poison = cx.let(f"icmp ne i64 {unwritten}, 0")
    size = width_of(type_) // 8
    items = target.items if isinstance(target, Vector) else (target,)
    for index, item in enumerate(items):
        place = cx.let(f"getelementptr i8, ptr %out, i64 {size * index}")
        bits = cx.let(f"load i{8 * size}, ptr {place}, align 1")
        cx.write(item, type_, bits, poison=poison)


def _surface(cx: Emit, ins: Instruction, operand: Operand, count: int) -> list[tuple[str, str]]:
    """Return the arguments of an access to a surface; x is in bytes."""
    outside = next((_OUTSIDE[part] for part in ins.parts if part in _OUTSIDE), None)
    if outside is None or "b" not in ins.parts:
        cx.unsupported("has a form of surfaces that is not modelled (formatted)")
    nbytes = count * width_of(ins.parts[-2]) // 8
    handle, words = _place(cx, ins, operand, "s32")
    info = nbytes | outside << 12 | cx.site << 24
    given = ("%thread.i", "%launch.i", handle, str(info), *words, "%out.i")
    return [("i64", one) for one in given]


@emits("suld")
def emit_surface_load(cx: Emit, ins: Instruction) -> None:
    """Read an element, or a vector of elements, of a surface."""
    target = ins.operands[0]
    count = len(target.items) if isinstance(target, Vector) else 1
    unwritten = cx.call("i64", "rt_surface_load", *_surface(cx, ins, ins.operands[1], count))
    _results(cx, target, ins.parts[-2], unwritten)


@emits("sust")
def emit_surface_store(cx: Emit, ins: Instruction) -> None:
    """Write an element, or a vector of elements, of a surface."""
    source, type_ = ins.operands[1], ins.parts[-2]
    items = source.items if isinstance(source, Vector) else (source,)
    size = width_of(type_) // 8
    arguments = _surface(cx, ins, ins.operands[0], len(items))
    for index, item in enumerate(items):
        value = cx.read(item, type_)
        place = cx.let(f"getelementptr i8, ptr %out, i64 {size * index}")
        cx.line(f"store i{8 * size} {value.bits}, ptr {place}, align 1")
    cx.call("void", "rt_surface_store", *arguments)
