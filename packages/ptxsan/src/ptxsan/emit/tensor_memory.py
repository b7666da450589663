"""tcgen05: tensor memory, its loads and stores, products into it, and what orders them.

PTX ISA, "TensorCore 5th Generation Family Instructions". Warps execute `.sync.aligned` forms
together; the runtime moves what each lane gives or takes (runtime.tensor_memory), and multiplies
(runtime.tensor_products). The registers of a load are written by the wait behind it: before, they
count as memory that nobody wrote.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxsan import isa
from ptxsan.dataflow import uses
from ptxsan.emit import cells
from ptxsan.emit.bulk_copies import blocks_of
from ptxsan.emit.context import Emit
from ptxsan.emit.matrix import items_of
from ptxsan.emit.mbarriers import object_address, site_of, wide
from ptxsan.emit.registry import emits
from ptxsan.program import SHARED_WINDOW
from ptxsan.runtime import layout
from ptxsan.runtime.tensor_memory import PACKED, S16X32, S16X64, S16X128, S16X256, S32X32
from ptxsan.runtime.tensor_products import (
    A_INSIDE,
    ACCUMULATE,
    AS_THEY_ARE,
    DEEP,
    DISABLED,
    FROM_4_BITS,
    FROM_6_BITS,
    HALVED,
    PAIR,
    SCALES,
    SHIFTED,
    SPARSE,
    STATIONARY,
)
from ptxsan.syntax import Address, Immediate, Instruction, Operand, Register, Vector

_HERE = (("i64", "%thread.i"), ("i64", "%block.i"), ("i64", "%launch.i"))
_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
# Shape of a load or store: its number, registers of a lane for each count, what the count is of.
_SHAPES = {
    "32x32b": (S32X32, 1), "16x64b": (S16X64, 1), "16x128b": (S16X128, 2),
    "16x256b": (S16X256, 4), "16x32bx2": (S16X32, 1),
}  # fmt: skip
# Shape of a copy: (rows, bytes of one).
_COPIES = {
    ("128x256b", ""): (0, 32), ("128x128b", ""): (0, 16),
    ("64x128b", "warpx2::02_13"): (1, 16), ("64x128b", "warpx2::01_23"): (2, 16),
    ("32x128b", "warpx4"): (3, 16),
}  # fmt: skip
_UNPACKED = {"b6x16_p32": FROM_6_BITS, "b4x16_p64": FROM_4_BITS}
_DEEP_ARCH = 103  # whose descriptors may ask for K = 96
_SCALES = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}


def _refuse(cx: Emit, *parts: str) -> None:
    """Stop where an instruction has a part that is not modelled, or meets the algebra."""
    for part in cx.ins.parts:
        if part in parts or part.startswith(tuple(f"{one}::" for one in parts)):
            cx.unsupported(f"is not covered (.{part})")
    if cx.algebra:
        cx.unsupported("has no meaning in the algebra")


def _group(ins: Instruction) -> int:
    """Return how many blocks work together."""
    return 2 if "cta_group::2" in ins.parts else 1


def _together(cx: Emit, ins: Instruction) -> None:
    """Wait for every lane of the warp; all operands may be read afterwards."""
    if "sync" not in ins.parts or "aligned" not in ins.parts:
        cx.unsupported("is not .sync.aligned")
    cx.collective("together", [], [], keep=ins.operands)


def _tensor_address(cx: Emit, operand: Operand) -> str:
    """Return an address in tensor memory, its lane in the upper half, as an i64."""
    if not isinstance(operand, Address):
        cx.unsupported(f"has no address in tensor memory where one is expected: {operand}")
    if not isinstance(operand.base, Immediate):
        value = cx.read(operand.base, "u32")
        if value.poison != "false":
            cells.report_if(cx, value.poison, layout.K_POISON_ADDRESS)
        text = value.bits
    else:
        text = str(operand.base.bits)
    if operand.offset:
        text = cx.let(f"add i32 {text}, {operand.offset}")
    return cx.let(f"zext i32 {text} to i64")


def _whole(cx: Emit, operand: Operand) -> str:
    """Return a 64-bit operand that decides what is read."""
    value = cx.read(operand, "b64")
    if value.poison != "false":
        cells.report_if(cx, value.poison, layout.K_POISON_ADDRESS)
    return value.bits


@emits("tcgen05", where=lambda ins: ins.parts[1] in ("alloc", "dealloc"))
def emit_allocation(cx: Emit, ins: Instruction) -> None:
    """Allocate columns and write their address to shared memory, or release them."""
    _refuse(cx)
    _together(cx, ins)
    columns = ("i64", wide(cx, ins.operands[1]))
    if ins.parts[1] == "alloc":
        to = ("i64", object_address(cx, ins.operands[0], isa.space_of(ins)))
        group = ("i64", str(_group(ins)))
        cx.call("void", "rt_tensor_alloc", *_HERE, to, columns, group, site_of(cx))
    else:
        at = ("i64", wide(cx, ins.operands[0]))
        cx.call("void", "rt_tensor_dealloc", *_HERE, at, columns, site_of(cx))


@emits("tcgen05", where=lambda ins: ins.parts[1] == "relinquish_alloc_permit")
def emit_relinquish(cx: Emit, ins: Instruction) -> None:
    """Give up the permit to allocate."""
    _refuse(cx)
    _together(cx, ins)
    cx.call("void", "rt_tensor_relinquish", *_HERE[:2])


def _access(cx: Emit, ins: Instruction) -> tuple[int, tuple[Operand, ...], Operand, str]:
    """Return (shape, registers, address, where 16x32bx2 goes on) of a load or store."""
    load = ins.parts[1] == "ld"
    place, values = (ins.operands[1], ins.operands[0]) if load else (ins.operands[0], None)
    rest = ins.operands[2 if load else 1 :]
    half = "0"
    name = next((one for one in ins.parts if one in _SHAPES), "")
    if not name:
        cx.unsupported("has a shape that is not covered")
    if name == "16x32bx2":
        if not rest or not isinstance(rest[0], Immediate):
            cx.unsupported("has no constant where its second half begins")
        half, rest = str(rest[0].bits), rest[1:]
    items = items_of(values if values is not None else rest[0])
    number, each = _SHAPES[name]
    counts = [one[1:] for one in ins.parts if one[:1] == "x" and one[1:].isdigit()]
    count = int(counts[0]) if counts else 1
    if len(items) != each * count:
        cx.unsupported(f"has {len(items)} registers, not {each * count}")
    packed = "pack::16b" in ins.parts or "unpack::16b" in ins.parts
    return number | count << 4 | (PACKED if packed else 0), items, place, half


def _number(cx: Emit, site: int) -> int:
    """Return the number of a load among those of the kernel."""
    sites = [at for at, one in enumerate(cx.program.body) if isa.loads_tensor_memory(one)]
    if len(sites) > layout.TM_SITES:
        cx.unsupported(f"is one of more than {layout.TM_SITES} loads, which are too many")
    return sites.index(site)


@emits("tcgen05", where=lambda ins: ins.parts[1] == "ld")
def emit_load(cx: Emit, ins: Instruction) -> None:
    """Start a load; until the warp waits, its registers hold nothing.

    Where the kernel reads them before any wait, as NVIDIA's own do: who reads a register waits for
    it, in practice, so the load has ended; that the manual asks for a wait is a note.
    """
    _refuse(cx, "red")
    shape, items, place, half = _access(cx, ins)
    _together(cx, ins)
    given = (_tensor_address(cx, place), str(shape), half, str(_number(cx, cx.site)))
    cx.call("void", "rt_tensor_load", *_HERE, *(("i64", one) for one in given), site_of(cx))
    for to in items:
        cx.write(to, "b32", "0", poison="true")
    if _is_read_early(cx, items):
        _take(cx, cx.site)
        cx.call("void", "rt_tensor_wait", *_HERE, ("i64", "0"))
        cells.report_if(cx, "true", layout.K_TENSOR_WAIT)


@emits("tcgen05", where=lambda ins: ins.parts[1] == "st")
def emit_store(cx: Emit, ins: Instruction) -> None:
    """Store registers; who reads them needs the warp to have waited."""
    _refuse(cx)
    shape, items, place, half = _access(cx, ins)
    _together(cx, ins)
    room = cx.call("i64", "rt_tensor_room", ("i64", "%block.i"))
    for index, one in enumerate(items):
        value = cx.read(one, "b32")
        word = cx.let(f"zext i32 {value.bits} to i64")
        known = cx.let(f"select i1 {value.poison}, i64 0, i64 {1 << 32}")
        at = cx.let(f"inttoptr i64 {cx.let(f'add i64 {room}, {8 * index}')} to ptr")
        cx.line(f"store i64 {cx.let(f'or i64 {word}, {known}')}, ptr {at}, align 8")
    given = (_tensor_address(cx, place), str(shape), half)
    cx.call("i64", "rt_tensor_store", *_HERE, *(("i64", one) for one in given), site_of(cx))


@emits("tcgen05", where=lambda ins: ins.parts[1] in ("wait::ld", "wait::st"))
def emit_wait(cx: Emit, ins: Instruction) -> None:
    """Wait for the loads or the stores of this thread; loads have their registers now."""
    _refuse(cx)
    _together(cx, ins)
    if ins.parts[1] == "wait::ld":
        for site in _loads_before(cx, cx.site):
            _take(cx, site)
    writes = ("i64", str(int(ins.parts[1] == "wait::st")))
    cx.call("void", "rt_tensor_wait", *_HERE, writes)


def _take(cx: Emit, site: int) -> None:
    """Write the registers of a load if it has been started."""
    shape, items, _, half = _access(cx, cx.program.body[site])
    given = (str(shape), half, str(_number(cx, site)))
    room = cx.call("i64", "rt_tensor_take", *_HERE, *(("i64", one) for one in given))
    taken, done = cx.fresh("taken"), cx.fresh("done")
    cx.branch(cx.let(f"icmp ne i64 {room}, 0"), taken, done)
    cx.lines.append(f"{taken}:")
    for index, to in enumerate(items):
        at = cx.let(f"inttoptr i64 {cx.let(f'add i64 {room}, {8 * index}')} to ptr")
        word = cx.let(f"load i64, ptr {at}, align 8")
        poison = cx.let(f"icmp ult i64 {word}, {1 << 32}")
        cx.write(to, "b32", cx.let(f"trunc i64 {word} to i32"), poison=poison)
    cx.jump(done)
    cx.lines.append(f"{done}:")


def _is_read_early(cx: Emit, items: tuple[Operand, ...]) -> bool:
    """Whether an instruction may read a register of the load at hand before a wait for it."""
    body, blocks = cx.program.body, cx.program.blocks
    names = {one.name for one in items if isinstance(one, Register)}
    home = next(at for at, block in enumerate(blocks) if block.start <= cx.site < block.end)
    waiting, seen = [(home, cx.site + 1)], set[int]()
    while waiting:
        number, start = waiting.pop()
        for at in range(start, blocks[number].end):
            one = body[at]
            if isa.waits_for_tensor_loads(one) and one.predicate is None:
                break
            if at == cx.site:  # the load of the next turn
                break
            if names.intersection(uses(one)):
                return True
        else:
            for successor in blocks[number].successors:
                if successor not in seen:
                    seen.add(successor)
                    waiting.append((successor, blocks[successor].start))
    return False


def _loads_before(cx: Emit, site: int) -> Iterator[int]:
    """Yield the loads that may have been started and not waited for at a wait."""
    body, blocks = cx.program.body, cx.program.blocks
    found: set[int] = set()
    before: dict[int, list[int]] = {index: [] for index in range(len(blocks))}
    for index, block in enumerate(blocks):
        for successor in block.successors:
            before[successor].append(index)
    home = next(at for at, block in enumerate(blocks) if block.start <= site < block.end)
    waiting, seen = [(home, site)], set[int]()
    while waiting:
        number, end = waiting.pop()
        for at in reversed(range(blocks[number].start, end)):
            one = body[at]
            if isa.loads_tensor_memory(one):
                found.add(at)
            elif isa.waits_for_tensor_loads(one) and one.predicate is None:
                break
        else:
            for previous in before[number]:
                if previous not in seen:
                    seen.add(previous)
                    waiting.append((previous, blocks[previous].end))
    yield from sorted(found)


@emits("tcgen05", where=lambda ins: ins.parts[1].startswith("fence::"))
def emit_fence(cx: Emit, ins: Instruction) -> None:
    """Order operations of the tensor core before, or behind, a synchronization of threads."""
    after = ("i64", str(int(ins.parts[1] == "fence::after_thread_sync")))
    cx.call("void", "rt_tensor_fence", ("i64", "%thread.i"), after)


@emits("tcgen05", where=lambda ins: ins.parts[1] == "commit")
def emit_commit(cx: Emit, ins: Instruction) -> None:
    """Let an mbarrier wait for all that this thread has started."""
    _refuse(cx)
    # An address without a space is one of shared memory too: PTX ISA, tcgen05.commit.
    text, poison = cells.address(cx, ins.operands[0], "shared")
    if poison != "false":
        cells.report_if(cx, poison, layout.K_POISON_ADDRESS, text)
    low = cx.let(f"and i64 {text}, {0xFFFFFFFF}")
    barrier = cx.let(f"or i64 {low}, {SHARED_WINDOW}")
    several = "multicast::cluster" in ins.parts
    mask = blocks_of(cx, ins.operands[1], 0) if several else "0"
    given = (("i64", barrier), ("i64", str(int(several))), ("i64", mask))
    cx.call("void", "rt_tensor_commit", *_HERE, *given, site_of(cx))


@emits("tcgen05", where=lambda ins: ins.parts[1] == "cp")
def emit_copy(cx: Emit, ins: Instruction) -> None:
    """Copy rows of shared memory to lanes of tensor memory."""
    _refuse(cx)
    rows = next((one for one in ins.parts if "x" in one and one.endswith("b")), "")
    to_warps = next((one for one in ins.parts if one.startswith("warpx")), "")
    if (rows, to_warps) not in _COPIES:
        cx.unsupported("has a shape that is not covered")
    shape, nbytes = _COPIES[rows, to_warps]
    unpacked = next((_UNPACKED[one] for one in ins.parts if one in _UNPACKED), AS_THEY_ARE)
    how = shape | nbytes << 8 | (_group(ins) - 1) << 16 | unpacked << 17
    to, source = _tensor_address(cx, ins.operands[0]), _whole(cx, ins.operands[1])
    given = (("i64", to), ("i64", source), ("i64", str(how)))
    cx.call("void", "rt_tensor_copy", *_HERE, *given, site_of(cx))


def _form_of(cx: Emit, ins: Instruction, kind: str, inside: bool) -> int:
    """Return the bits of `how` that the name of a product decides."""
    if kind not in _KINDS:
        cx.unsupported("has a kind that is not covered")
    stationary, pair = "ws" in ins.parts, _group(ins) == 2
    if stationary and ("sp" in ins.parts or pair or kind.startswith("mx")):
        cx.unsupported("is no weight-stationary product that is covered")
    if "ashift" in ins.parts and (stationary or not inside):
        cx.unsupported("shifts an A that is not in tensor memory, or stationary weights")
    how = _KINDS.index(kind) | (PAIR if pair else 0) | (A_INSIDE if inside else 0)
    how |= SPARSE if "sp" in ins.parts else 0
    how |= SHIFTED if "ashift" in ins.parts else 0
    return how | (STATIONARY if stationary else 0)


@emits("tcgen05", where=lambda ins: ins.parts[1] == "mma")
def emit_multiply(cx: Emit, ins: Instruction) -> None:
    """D = A B + D, or A B, of matrices that descriptors and addresses name."""
    _refuse(cx)
    kind = next((one[6:] for one in ins.parts if one.startswith("kind::")), "")
    to, a, b, *rest = ins.operands
    inside = isinstance(a, Address)
    how = _form_of(cx, ins, kind, inside)
    extra = "0"
    if how & SPARSE:
        extra = _tensor_address(cx, rest[0])
        rest = rest[1:]
    described, *rest = rest
    scales = ["0", "0"]
    if kind.startswith("mx"):
        if "block_scale" not in ins.parts or len(rest) < 3:
            cx.unsupported("has no scales")
        scales = [_tensor_address(cx, one) for one in rest[:2]]
        rest = rest[2:]
        # So many scales a row has in one instruction.
        count = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[kind]
        if "block32" in ins.parts and kind == "mxf4nvf4":
            count = 2
        count = next((_SCALES[one] for one in ins.parts if one in _SCALES), count)
        how |= count << SCALES | (DEEP if cx.options.arch == _DEEP_ARCH else 0)
    if isinstance(rest[0], Vector):
        how |= DISABLED
        for index, one in enumerate(rest[0].items):
            value = cx.read(one, "b32")
            cx.store_field("%thread", layout.TILE_AT + 4 * index, value.bits)
        rest = rest[1:]
    if len(rest) > 1 and how & STATIONARY:
        extra = _whole(cx, rest[1])
    elif len(rest) > 1:
        if not isinstance(rest[1], Immediate):
            cx.unsupported("needs a constant where it scales its accumulator")
        how |= (rest[1].bits & 255) << HALVED
    first = _tensor_address(cx, a) if inside else _whole(cx, a)
    enabled = cx.read(rest[0], "pred")
    if enabled.poison != "false":
        cells.report_if(cx, enabled.poison, layout.K_POISON_BRANCH)
    both = cx.let(f"select i1 {enabled.bits}, i64 {how | ACCUMULATE}, i64 {how}")
    given = (
        _tensor_address(cx, to), first, _whole(cx, b), wide(cx, described), both, *scales, extra,
    )  # fmt: skip
    cx.call("void", "rt_tensor_multiply", *_HERE, *(("i64", one) for one in given), site_of(cx))


@emits("tcgen05", where=lambda ins: ins.parts[1] == "shift")
def emit_shift(cx: Emit, ins: Instruction) -> None:
    """Shift rows of 32 bytes in the lanes of a warp."""
    _refuse(cx)
    given = (("i64", _tensor_address(cx, ins.operands[0])), ("i64", str(_group(ins))))
    cx.call("void", "rt_tensor_shift", *_HERE, *given, site_of(cx))
