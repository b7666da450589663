"""tcgen05.mma, cp and commit: what a tensor core does, in order, for the thread that starts it.

PTX ISA, "TensorCore 5th Generation Family Instructions". What one thread starts is a pipe: an agent
of its own in vector clocks, whose operations end in the order in which they were started. They are
done where they are started and recorded as done by the pipe, so that whoever has not waited for an
mbarrier behind a commit does not know of them. Operands in shared memory are checked and recorded
in chunks of 16 bytes. The sum is that of MMA-Sim (Microsoft, 2025) for Blackwell: all products of
an instruction and the accumulator in one step, 25 bits below the largest exponent; with scales
numerics/scaled.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics.dot import code32, read_factors
from ptxsan.numerics.native import float32, native
from ptxsan.numerics.panels import add_block16, add_block32
from ptxsan.numerics.rounding import decode, encode, power_of_two
from ptxsan.numerics.scaled import add_groups, scale_both
from ptxsan.runtime import layout as L
from ptxsan.runtime.bulk_issue import in_block, serves
from ptxsan.runtime.descriptors import in_canonical_layout
from ptxsan.runtime.inflight import scratch_of
from ptxsan.runtime.mbarriers import commit
from ptxsan.runtime.memory import access_shared_of, shared_variable
from ptxsan.runtime.native import export
from ptxsan.runtime.operands import spread
from ptxsan.runtime.order import NOT, knows
from ptxsan.runtime.proxies import check_fenced
from ptxsan.runtime.races import MANY, PLAIN_READS, clock_of, gid_of, merged, record_of
from ptxsan.runtime.raw import (
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    store_u8,
    store_u32,
    store_u64,
)
from ptxsan.runtime.sparse import (
    FOUR_OF_EIGHT,
    ONE_OF_TWO,
    TWO_OF_FOUR,
    gather_met,
    read_tensor_metadata,
)
from ptxsan.runtime.tensor_memory import check_cell, complain, peer_of, usable
from ptxsan.runtime.watch import keep_access

F16, TF32, F8F6F4, I8, MXF8F6F4, MXF4, MXF4NVF4 = 0, 1, 2, 3, 4, 5, 6  # kinds
# Bits of `how`: kind (4), A in tensor memory, accumulate, pair of blocks, lanes disabled, log2 of
# how often D is halved (8), scales for each row (8), weights stationary, A sparse,
# A shifted afterwards, an architecture that multiplies 96 elements of 4 bits at once.
A_INSIDE, ACCUMULATE, PAIR, DISABLED, HALVED, SCALES = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 8, 16
STATIONARY, SPARSE, SHIFTED, DEEP = 1 << 24, 1 << 25, 1 << 26, 1 << 27
# How a copy unpacks 16 elements, of 16 bytes each time, to a byte each (PTX ISA: .b8x16).
AS_THEY_ARE, FROM_6_BITS, FROM_4_BITS = 0, 1, 2
# What a descriptor has that no hardware takes.
BAD_ROWS, BAD_COLUMNS, BAD_FORMAT, BAD_LANE, BAD_PAIR, BAD_COPIES = 0, 1, 2, 3, 4, 5
BAD_METADATA, BAD_SPARSITY, BAD_SHIFT, BAD_QUARTER = 6, 7, 8, 9
# What is not modelled, from L.BAD_DESCRIPTOR on.
_SWIZZLE, _SPARSE, _SMALL_A, _MASK, _DEPTH = 0, 1, 2, 3, 4
_E4M3, _E5M2, _E2M1, _E3M2, _E2M3 = 4, 5, 7, 8, 9  # FloatFormat.index
_FRACTION = 25
_HIDDEN = 2  # in the poison of B's columns: a mask makes it zero, and nobody reads it


@native
def pipe_of(thread: int, block: int, launch: int) -> int:
    """Return the place of the pipe of a thread: u32 thread + 1, u32 operations; 0: no more fit."""
    pipes, gid = load_u64(block + L.TENSOR) + L.TM_PIPES, load_u32(thread + L.GID)
    for place in range(pipes, pipes + 8 * L.MOST_PIPES, 8):
        if load_u32(place) == 0 or load_u32(place) == 1 + gid:
            store_u32(place, 1 + gid)
            return int(place)
    store_u32(launch + L.OVERFLOW, L.TOO_MANY_STARTED)
    return 0


@native
def agent_of(block: int, launch: int, pipe: int) -> int:
    """Return the agent that a pipe is in vector clocks."""
    index = (pipe - load_u64(block + L.TENSOR) - L.TM_PIPES) // 8
    total, linear = load_u32(launch + L.TOTAL_THREADS), load_u32(block + L.BLOCK_LINEAR)
    return int(total + linear * L.MOST_AGENTS + L.MOST_MBARRIERS + index)


@native
def _next(pipe: int) -> int:
    """Count one more operation of a pipe; return its number."""
    store_u32(pipe + 4, load_u32(pipe + 4) + 1)
    return load_u32(pipe + 4)


@native
def _refuse(thread: int, launch: int, site: int, place: int, what: int) -> bool:
    """Report what no hardware takes; return False."""
    complain(thread, launch, L.K_TENSOR_SHAPE, site, place, what)
    return False


@native
def _unmodelled(launch: int, what: int) -> bool:
    """Leave the launch without a verdict; return False."""
    store_u32(launch + L.OVERFLOW, L.BAD_DESCRIPTOR + what)
    return False


# ---- operands


@native
def _place(descriptor: int, outer: int, inner: int, how: int) -> int:
    """Return the shared address of 16 bytes of an operand, as descriptors.in_canonical_layout.

    Where the leading dimension is absolute, a row goes on at that address behind its span (PTX
    ISA, "Shared memory descriptor"; CUTLASS 4.7, mma_traits_sm100.hpp, SM103::mma_unpack).
    """
    mode = (descriptor >> 61) & 7
    span = 128 if mode == 2 else (64 if mode == 4 else (32 if mode == 6 else 16))
    start = (descriptor & 0x3FFF) << 4
    leading, stride = ((descriptor >> 16) & 0x3FFF) << 4, ((descriptor >> 32) & 0x3FFF) << 4
    if descriptor >> 52 & 1 and start % span + inner >= span:
        inner += start % span - span
        start = leading
    return int(in_canonical_layout(start, leading, stride, span, outer, inner, how))


@native
def _is_modelled(descriptor: int, deep: bool) -> bool:
    """Whether a descriptor has no base offset and a usual swizzle.

    `deep`: of a product of 96 elements, whose leading dimension may be absolute.
    """
    mode, absolute = (descriptor >> 61) & 7, (descriptor >> 52) & 1
    if absolute and not (deep and mode == 2):
        return False
    return (descriptor >> 49) & 7 == 0 and mode in (0, 2, 4, 6)


@native
def _chunk(
    thread: int, block: int, launch: int, owner: int, place: int, pipe: int, site: int
) -> int:  # fmt: skip
    """Return where 16 bytes of shared memory are, read by an operation of a pipe; 0: nowhere."""
    out, shift = scratch_of(block), load_u32(launch + L.SHARED_SHIFT)
    meta, cells = load_u64(owner + L.SHARED_META), 0
    offset, old = 0, np.zeros(16, np.int64)
    info = 16 | L.READ << 16 | L.SCOPE_CLUSTER << 20 | site << 24
    first = _meta_of(launch, owner, place)
    if first:
        cells = 16 >> shift
        for index in range(cells):
            old[index] = load_u64(first + 16 * index + 8)
    access_shared_of(thread, block, launch, owner, place, info, out)
    if load_u64(out) == load_u64(launch + L.SCRATCH):
        return 0
    check_fenced(thread, block, launch, owner, place, site)
    offset = load_u64(out) - load_u64(owner + L.SHARED_DATA)
    if meta and first == meta + 16 * (offset >> shift):
        agent, time = agent_of(block, launch, pipe), load_u32(pipe + 4)
        me = record_of(agent, time, site >> load_u32(launch + L.SITE_SHIFT), PLAIN_READS)
        for index in range(cells):
            before = old[index]
            known = before == 0 or (
                before & MANY == 0
                and (
                    gid_of(before) == agent
                    or knows(thread, block, launch, gid_of(before), clock_of(before)) != NOT
                )
            )
            at = first + 16 * index
            store_u64(at + 8, me if known else merged(before, me, owner))
            if load_u64(launch + L.WATCH):
                keep_access(launch, at, agent, time, info)
    return load_u64(out)


@native
def _meta_of(launch: int, owner: int, place: int) -> int:
    """Return the address of the race record of a place in a block's shared memory, or 0."""
    meta, best = load_u64(owner + L.SHARED_META), shared_variable(launch, place)
    if meta == 0 or best == 0:
        return 0
    if place + 16 > load_u32(best + L.V_ADDRESS) + load_u32(best + L.V_BYTES):
        return 0
    offset = load_u32(best + L.V_DATA) + place - load_u32(best + L.V_ADDRESS)
    return int(meta + 16 * (offset >> load_u32(launch + L.SHARED_SHIFT)))


@native
def _code(data: int, index: int, bits: int) -> int:
    """Return element `index` of packed elements of 4, 6, 8, 16 or 32 bits."""
    if bits == 16:
        return load_u16(data + 2 * index)
    if bits == 8:
        return load_u8(data + index)
    if bits == 32:
        return load_u32(data + 4 * index)
    if bits == 4:
        return (load_u8(data + index // 2) >> 4 * (index & 1)) & 15
    return (load_u16(data + 6 * index // 8) >> 6 * index % 8) & 63


@native
def _operand(
    thread: int, block: int, launch: int, owner: int, descriptor: int, rows: int, first: int,
    shape: tuple[int, int, int, int], codes: NDArray[np.int64], poison: NDArray[np.int64],
    pipe: int, site: int, skip: int,
) -> None:  # fmt: skip
    """Read `rows` rows of an operand in a block's shared memory, as rows from `first` on.

    `shape`: elements along K, bits of one, elements in 16 bytes, whether chunks run along the rows.
    codes: [rows of all, K], flat. `skip`: rows of the operand before the first one; rows that
    `poison` calls hidden are not read.
    """
    depth, bits, each, transposed = shape
    if transposed:
        _turned(
            thread, block, launch, owner, descriptor, rows, first, shape, codes, poison, pipe,
            site, skip,
        )  # fmt: skip
        return
    for row in range(rows):
        if poison[first + row] & _HIDDEN:
            continue
        for turn in range(depth // each):
            place = _place(descriptor, skip + row, 16 * turn, 0)
            data = _chunk(thread, block, launch, owner, place, pipe, site)
            if data == 0:
                continue
            init = data - load_u64(owner + L.SHARED_DATA) + load_u64(owner + L.SHARED_INIT)
            for index in range(each):
                codes[(first + row) * depth + turn * each + index] = _code(data, index, bits)
            for byte in range((bits * each + 7) // 8):
                poison[first + row] |= 1 - (load_u8(init + byte) & 1)


@native
def _turned(
    thread: int, block: int, launch: int, owner: int, descriptor: int, rows: int, first: int,
    shape: tuple[int, int, int, int], codes: NDArray[np.int64], poison: NDArray[np.int64],
    pipe: int, site: int, skip: int,
) -> None:  # fmt: skip
    """Do what `_operand` does where chunks run along the rows."""
    depth, bits, each, _ = shape
    for row in range(0, rows, each):
        seen = 0
        for at in range(first + row, first + min(row + each, rows)):
            seen |= 1 - (poison[at] >> 1)
        for k in range(depth if seen else 0):
            place = _place(descriptor, skip + row, k, 1 | 16 // each << 1)
            data = _chunk(thread, block, launch, owner, place, pipe, site)
            init = data - load_u64(owner + L.SHARED_DATA) + load_u64(owner + L.SHARED_INIT)
            for index in range(min(each, rows - row) if data else 0):
                at = first + row + index
                if poison[at] & _HIDDEN == 0:
                    codes[at * depth + k] = _code(data, index, bits)
                    for byte in range(bits * index // 8, (bits * (index + 1) + 7) // 8):
                        poison[at] |= 1 - (load_u8(init + byte) & 1)


@native
def _inside(
    thread: int, block: int, launch: int, owner: int, address: int, rows: int, first: int,
    shape: tuple[int, int, int, int], codes: NDArray[np.int64], poison: NDArray[np.int64],
    pipe: int, site: int, pair: bool,
) -> None:  # fmt: skip
    """Read rows of A in tensor memory: a lane a row, elements packed in its columns.

    Elements of 4 and 6 bits of kinds that take 8 as well lie in the middle of a byte: bits 2 to 5,
    and 1 to 6 (CUTLASS, cp_narrow_a_to_tmem_mma.py).

    64 rows of one block lie as those of D do. Each block of a pair with 128 rows has its 64 rows
    twice, in lanes 0 to 63 and 64 to 127: one for each half of D's columns (CUTLASS, tmem_frg).
    """
    depth, bits = shape[0], shape[1]
    stored = 8 if bits < 8 and depth == 32 else bits
    column, columns, base = address & 0xFFFF, depth * stored // 32, address >> 16
    if not usable(thread, launch, owner, column, columns, site):
        return
    tensor, apart = load_u64(owner + L.TENSOR), rows == 64 and not pair
    if load_u32(launch + L.RACES):
        agent, time = agent_of(block, launch, pipe), load_u32(pipe + 4)
        for at in range(column, column + columns):
            for lane in range(base if apart else 0, 128, 32 if apart else 16):
                check_cell(thread, block, launch, owner, lane, at, 0, agent, time, site)
    for row in range(rows):
        lane = base + 32 * (row >> 4) + (row & 15) if apart else row
        place = lane * L.TM_COLUMNS + column
        for index in range(depth):
            code = _code(tensor + L.TM_DATA + 4 * place, index, stored)
            code = code >> (stored - bits) // 2 & (1 << bits) - 1
            codes[(first + row) * depth + index] = code
        for at in range(columns):
            known = load_u8(tensor + L.TM_INIT + place + at) & 1
            if pair and rows == 64:
                twin = place + 64 * L.TM_COLUMNS + at
                known &= load_u8(tensor + L.TM_INIT + twin)
                own = load_u32(tensor + L.TM_DATA + 4 * (place + at))
                if known and load_u32(tensor + L.TM_DATA + 4 * twin) != own:
                    complain(thread, launch, L.K_TENSOR_SHAPE, site, lane, BAD_COPIES)
            poison[first + row] |= 1 - known


# ---- products


@native
def _format_of(kind: int, field: int) -> int:
    """Return FloatFormat.index of a format field of an instruction descriptor; -1: there is none.

    For integers 0 and 1: unsigned and signed.
    """
    if kind == F16:
        return field if field < 2 else -1
    if kind == TF32:
        return 3 if field == 2 else -1
    if kind == I8:
        return field if field < 2 else -1
    if kind in (MXF4, MXF4NVF4):
        return _E2M1 if field == 1 else -1
    if field == 0:
        return _E4M3
    if field == 1:
        return _E5M2
    if field == 3:
        return _E2M3
    if field == 4:
        return _E3M2
    return _E2M1 if field == 5 else -1


@native
def _bits_of(kind: int, form: int) -> int:
    if kind == F16:
        return 16
    if kind == TF32:
        return 32
    if form == _E2M1 and kind != I8:
        return 4
    return 6 if form in (_E3M2, _E2M3) and kind != I8 else 8


@native
def _negate(codes: NDArray[np.int64], bits: int) -> None:
    for at in range(codes.size):
        codes[at] ^= 1 << (bits - 1)


@native
def _scale_code(owner: int, address: int, row: int, byte: int) -> int:
    """Return a scale of a row: of lane row % 32 and column row / 32; 256 more: nobody wrote it."""
    tensor = load_u64(owner + L.TENSOR)
    place = (row % 32) * L.TM_COLUMNS + (address & 0xFFFF) + row // 32
    code = load_u8(tensor + L.TM_DATA + 4 * place + byte)
    return code if load_u8(tensor + L.TM_INIT + place) & 1 else code + 256


@native
def _integers(
    a: NDArray[np.int64], b: NDArray[np.int64], signs: tuple[int, int], saturate: int,
    result: NDArray[np.int64],
) -> None:  # fmt: skip
    """Add A B to result in integers: they wrap, or clamp."""
    for row in range(a.shape[0]):
        for column in range(result.shape[1] * 8):
            total = result[row, column >> 3, column & 7]
            total = total - (1 << 32) if total >> 31 else total
            for k in range(a.shape[1]):
                x, y = a[row, k], b[column >> 3, k, column & 7]
                x = x - 256 if signs[0] and x > 127 else x
                y = y - 256 if signs[1] and y > 127 else y
                total += x * y
            if saturate:
                total = min(max(total, -2147483648), 2147483647)
            result[row, column >> 3, column & 7] = total & 0xFFFFFFFF


# ---- the accumulator


@native
def _lane_of(rows: int, how: int, row: int, column: int, columns: int) -> int:
    """Return lane << 16 | column of an element of D, in the block that has its row.

    Where weights are stationary, M = 64 and M = 32 leave lanes for further columns (PTX ISA,
    layouts E and G).
    """
    pair = how & PAIR != 0
    if how & STATIONARY:
        mine = columns * rows // 128
        return (row + rows * (column // mine)) << 16 | column % mine
    if pair:
        if rows == 256:
            return (row & 127) << 16 | column
        half = columns // 2
        return ((row & 63) + 64 * (column // half)) << 16 | column % half
    if rows == 128:
        return row << 16 | column
    return (32 * (row >> 4) + (row & 15)) << 16 | column


@native
def _check_sums(
    thread: int, block: int, launch: int, owner: int, at: int, lanes: int, columns: int,
    pipe: int, site: int,
) -> None:  # fmt: skip
    """Check and record that a pipe updates an accumulator; `lanes`: a bit for 16 of them."""
    if load_u32(launch + L.RACES) == 0:
        return
    agent, time, first = agent_of(block, launch, pipe), load_u32(pipe + 4), at & 0xFFFF
    for column in range(first, first + columns):
        for group in range(8):
            if lanes >> group & 1:
                check_cell(thread, block, launch, owner, 16 * group, column, 1, agent, time, site)


@native
def _sums(
    thread: int, block: int, launch: int, other: int, at: int, how: int,
    result: NDArray[np.int64], poison: NDArray[np.int64], half: bool, writes: bool,
) -> None:  # fmt: skip
    """Read (or write) the accumulator: result [M, N / 8, 8]."""
    rows, columns, pair = result.shape[0], result.shape[1] * 8, how & PAIR != 0
    for row in range(rows):
        owner = other if pair and row >= rows // 2 else block
        tensor = load_u64(owner + L.TENSOR)
        for column in range(columns):
            place = _lane_of(rows, how, row, column, columns)
            lane = (place >> 16) + (at >> 16)
            if writes and how & DISABLED:
                word = lane // 32 + (4 if pair and owner == other else 0)
                if load_u32(thread + L.TILE_AT + 4 * word) >> lane % 32 & 1:
                    continue
            cell = lane * L.TM_COLUMNS + (at & 0xFFFF) + (place & 0xFFFF)
            if writes:
                store_u32(tensor + L.TM_DATA + 4 * cell, result[row, column >> 3, column & 7])
                store_u8(tensor + L.TM_INIT + cell, 1 - poison[row, column])
            else:
                word = load_u32(tensor + L.TM_DATA + 4 * cell)
                result[row, column >> 3, column & 7] = word & 0xFFFF if half else word
                poison[row, column] = 1 - (load_u8(tensor + L.TM_INIT + cell) & 1)


@native
def _halve(result: NDArray[np.int64], times: int, half: bool) -> None:
    """Multiply an accumulator by 2**-times."""
    flat, factor = result.reshape(-1), power_of_two(-times)
    for at in range(flat.size):
        if half:
            flat[at] = encode(decode(flat[at], 0) * factor, 0, 0, 0)
        else:
            flat[at] = code32(float32(flat[at]) * factor)


@native
def _sizes(kind: int, described: int) -> tuple[int, int, int]:
    """Return the rows and columns of D in an instruction descriptor, and the depth of a kind."""
    columns, rows = 8 * ((described >> 17) & 63), 16 * ((described >> 24) & 31)
    if kind >= MXF8F6F4:
        rows = 128 * ((described >> 27) & 3)
    if kind == F16:
        return rows, columns, 16
    if kind == TF32:
        return rows, columns, 8
    if kind >= MXF4:
        return rows, columns, 96 if described >> 31 & 1 else 64
    return rows, columns, 32


@native
def _formats(kind: int, described: int) -> tuple[int, int, int]:
    """Return the formats of A and B as `_format_of`, and of D: 0 f16, 1 f32, 2 s32, -1 none.

    Of elements of 4 bits that of B has two bits. The third, which PTX reserves, is a version of
    sparsity that sm_100 does not read (CuTe DSL 4.8, Tcgen05MxOmmaInstrDesc, which sets it).
    """
    a = _format_of(kind, described >> 7 & 7)
    b = _format_of(kind, described >> 10 & (3 if kind >= MXF4 else 7))
    d = 1 if kind >= MXF8F6F4 else (described >> 4) & 3
    if kind == I8:
        return a, b, d if d == 2 else -1
    return a, b, d if d == 1 or (d == 0 and kind in (F16, F8F6F4)) else -1


@native
def _column_step(kind: int, described: int, how: int, columns: int) -> int:
    """Return what D's columns are a multiple of: PTX ISA, tcgen05, "Matrix Shape".

    Where it gives f8f6f4 two steps, CUTLASS 4.7 takes the wider one for a transposed B.
    """
    pair = how & PAIR != 0
    if kind == I8 and pair:
        return 32
    if pair or (kind == I8 and columns > 32):
        return 16
    return 16 if kind == F8F6F4 and described >> 16 & 1 != 0 else 8


@native
def _is_legal(
    thread: int, launch: int, to: int, a_at: int, kind: int, described: int, how: int, site: int
) -> bool:  # fmt: skip
    """Whether hardware takes an instruction descriptor with an accumulator there."""
    rows, columns, _ = _sizes(kind, described)
    a, b, d = _formats(kind, described)
    stationary = how & STATIONARY != 0
    step = _column_step(kind, described, how, columns)
    least = 32 if stationary else (128 if how & PAIR or kind >= MXF8F6F4 else 64)
    most = 256 if how & PAIR else 128
    least = 128 if how & SHIFTED else least
    if rows not in (least, 64, 128, 256) or not least <= rows <= most:
        return _refuse(thread, launch, site, rows, BAD_ROWS)
    if not step <= columns <= 256 or columns % step:
        return _refuse(thread, launch, site, columns, BAD_COLUMNS)
    if stationary and columns not in (64, 128, 128 if how & SPARSE else 256):
        return _refuse(thread, launch, site, columns, BAD_COLUMNS)
    if a < 0 or b < 0 or d < 0:
        return _refuse(thread, launch, site, described & 0xFFFFFFFF, BAD_FORMAT)
    if kind >= MXF4 and described >> 31 & 1 and (how & DEEP == 0 or how & SPARSE):
        return _refuse(thread, launch, site, described & 0xFFFFFFFF, BAD_FORMAT)
    half = 16 if rows == 64 and not stationary else 0
    if to >> 16 not in (0, half):
        return _refuse(thread, launch, site, to >> 16, BAD_LANE)
    if how & A_INSIDE and a_at >> 16 not in (0, half):
        return _refuse(thread, launch, site, a_at >> 16, BAD_LANE)
    sparse = how & SPARSE != 0
    if (described >> 2 & 1 == 1) != sparse:
        return _refuse(thread, launch, site, described & 0xFFFFFFFF, BAD_SPARSITY)
    if sparse and kind in (F8F6F4, I8) and described & 3:
        return _refuse(thread, launch, site, described & 0xFFFFFFFF, BAD_SPARSITY)
    return True


@native
def _is_covered(
    launch: int, kind: int, described: int, how: int, a_at: int, b_at: int, extra: int
) -> bool:  # fmt: skip
    """Whether the machine models what descriptors ask for; else the launch has no verdict."""
    rows, _, _ = _sizes(kind, described)
    b = _formats(kind, described)[1]
    if how & SPARSE:
        # Rows of fewer lanes, small elements of B with scales, B's rows beyond what is swizzled.
        short = rows != (256 if how & PAIR else 128)
        small = kind == MXF8F6F4 and _bits_of(kind, b) < 8
        narrow = described >> 16 & 1 == 0 and b_at >> 61 & 7 == 6
        chosen = kind in (F16, TF32) and described & 3 > 1
        if short or small or narrow or chosen or extra & 1:
            return _unmodelled(launch, _SPARSE)
    deep, inside = kind >= MXF4 and described >> 31 & 1 == 1, how & A_INSIDE != 0
    turned = described >> 15 & 3 != 0
    if kind >= MXF4 and (described >> 3 & 1 or (deep and (inside or turned))):
        return _unmodelled(launch, _DEPTH)
    if not _is_modelled(b_at, deep) or not (inside or _is_modelled(a_at, deep)):
        return _unmodelled(launch, _SWIZZLE)
    few = rows < 64 or (how & STATIONARY != 0 and rows < 128)
    if inside and few:
        return _unmodelled(launch, _SMALL_A)
    return True


@native
def _shape_of(kind: int, form: int, depth: int, transposed: int) -> tuple[int, int, int, int]:
    """Return the shape of an operand, as `_operand` takes it."""
    bits = _bits_of(kind, form)
    each = 128 // bits if bits >= 8 else (32 if kind >= MXF4 else 16)
    return depth, bits, each, transposed


@native
def add_products(
    kind: int, described: int, a: NDArray[np.int64], b: NDArray[np.int64],
    a_scales: NDArray[np.int64], b_scales: NDArray[np.int64], result: NDArray[np.int64],
) -> None:  # fmt: skip
    """Add A B to result [M, N / 8, 8]; a: [M, K], b: [N / 8, K, 8], scales: [M], [N] by block."""
    a_form, b_form, d_form = _formats(kind, described)
    if kind == I8:
        _integers(a, b, (a_form, b_form), described >> 3 & 1, result)
        return
    if described >> 13 & 1:
        _negate(a.reshape(-1), _bits_of(kind, a_form))
    if described >> 14 & 1:
        _negate(b.reshape(-1), _bits_of(kind, b_form))
    values, sizes = np.empty(a.shape), np.empty(a.shape)
    b_values, b_sizes = np.empty(b.shape), np.empty(b.shape)
    read_factors(a.reshape(-1), a_form, values.reshape(-1), sizes.reshape(-1))
    read_factors(b.reshape(-1), b_form, b_values.reshape(-1), b_sizes.reshape(-1))
    depth = a.shape[1]
    if kind >= MXF4:
        exponent_only = kind == MXF4 or described >> 23 & 1 == 1
        add_groups(values, b_values, a_scales, b_scales, exponent_only, result)
        return
    if kind == MXF8F6F4:
        scale_both(values, sizes, b_values, b_sizes, a_scales, b_scales)
    if d_form == 0:
        add_block16(values, sizes, b_values, b_sizes, result, 0, depth, _FRACTION)
    else:
        add_block32(values, sizes, b_values, b_sizes, result, 0, depth, _FRACTION)


@native
def _in_panels(rows: NDArray[np.int64], columns: int, depth: int) -> NDArray[np.int64]:
    """Return B [N, K], flat, as panels [N / 8, K, 8]."""
    panels = np.empty((columns // 8, depth, 8), np.int64)
    for column in range(columns):
        for k in range(depth):
            panels[column >> 3, k, column & 7] = rows[column * depth + k]
    return panels


@native
def _read_part(
    thread: int, block: int, launch: int, owner: int, places: tuple[int, int, int, int],
    described: int, how: int, first: tuple[int, int], a: NDArray[np.int64],
    b: NDArray[np.int64], met: NDArray[np.int64], pa: NDArray[np.int64], pb: NDArray[np.int64],
    pipe: int, site: int,
) -> bool:  # fmt: skip
    """Check the accumulator of a block and read its part of A and B; False: there is none.

    `places`: D, A, B and `extra` as in `rt_tensor_multiply`; `first`: row of A, row of B. a, met:
    [rows of all, K]; b: [columns of all, K of B].
    """
    to, a_at, b_at, extra = places
    kind, pair, parts = how & 15, how & PAIR != 0, 2 if how & PAIR else 1
    rows, columns, depth = _sizes(kind, described)
    a_form, b_form, _ = _formats(kind, described)
    wide = columns // 2 if pair and rows == 128 else columns
    lanes = 0x55 << ((to >> 16) // 16) if rows == 64 else 0xFF
    if how & STATIONARY:
        wide, lanes = columns * rows // 128, 0xFF
    if not usable(thread, launch, owner, to & 0xFFFF, wide, site):
        return False
    _check_sums(thread, block, launch, owner, to, lanes, wide, pipe, site)
    mine, row = rows // parts, first[0]
    shape = _shape_of(kind, a_form, depth, (described >> 15) & 1)
    if how & A_INSIDE:
        _inside(
            thread, block, launch, owner, a_at, mine, row, shape, a.reshape(-1), pa, pipe, site,
            pair,
        )  # fmt: skip
    else:
        _operand(
            thread, block, launch, owner, a_at, mine, row, shape, a.reshape(-1), pa, pipe, site, 0
        )
    if how & SPARSE and not _read_metadata(
        thread, block, launch, owner, described, kind, extra, pipe, site, a[row : row + mine],
        met[row : row + mine], pa[row : row + mine],
    ):  # fmt: skip
        return False
    skip = extra >> 56 & 63 if how & STATIONARY else 0
    _operand(
        thread, block, launch, owner, b_at, columns // parts, first[1],
        _shape_of(kind, b_form, b.shape[1], (described >> 16) & 1), b.reshape(-1), pb, pipe, site,
        skip,
    )  # fmt: skip
    return True


@native
def _add_sparse(
    kind: int, described: int, a: NDArray[np.int64], b: NDArray[np.int64], met: NDArray[np.int64],
    a_scales: NDArray[np.int64], b_scales: NDArray[np.int64], result: NDArray[np.int64],
) -> None:  # fmt: skip
    """Do what `add_products` does for a sparse A: each row meets other elements of b [N / 8, K, 8].

    a, met: [M, K / 2].
    """
    compact = np.empty((b.shape[0], a.shape[1], 8), np.int64)
    for row in range(a.shape[0]):
        gather_met(b, met[row], compact)
        add_products(
            kind, described, a[row : row + 1], compact, a_scales[row : row + 1], b_scales,
            result[row : row + 1],
        )  # fmt: skip


@export("void(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def rt_tensor_multiply(
    thread: int, block: int, launch: int, to: int, a_at: int, b_at: int, described: int, how: int,
    a_scales: int, b_scales: int, extra: int, site: int,
) -> None:  # fmt: skip
    """D = A B + D, or A B: `described` is the instruction descriptor, `how` as above.

    `extra`: where metadata lie in tensor memory; where weights are stationary, which columns of B
    are zero.
    """
    kind, pair = how & 15, how & PAIR != 0
    pipe, first, other = pipe_of(thread, block, launch), block, block
    if pair:
        first, other = peer_of(block, launch, 0), peer_of(block, launch, 1)
        if first == 0 or other == 0:
            _refuse(thread, launch, site, 0, BAD_PAIR)
            return
    if pipe == 0 or not _is_legal(thread, launch, to, a_at, kind, described, how, site):
        return
    if not _is_covered(launch, kind, described, how, a_at, b_at, extra):
        return
    rows, columns, depth = _sizes(kind, described)
    d_form = _formats(kind, described)[2]
    pa, pb = np.zeros(rows, np.int64), np.zeros(columns, np.int64)
    if how & STATIONARY and not _hide(thread, launch, site, extra, described, rows, pb):
        return
    _next(pipe)
    a, met = np.zeros((rows, depth), np.int64), np.zeros((rows, depth), np.int64)
    b_rows = np.zeros((columns, 2 * depth if how & SPARSE else depth), np.int64)
    parts, places = 2 if pair else 1, (to, a_at, b_at, extra)
    for part in range(parts):
        begin = part * (rows // parts), part * (columns // parts)
        if not _read_part(
            thread, block, launch, other if part else first, places, described, how, begin, a,
            b_rows, met, pa, pb, pipe, site,
        ):  # fmt: skip
            return
    count = max(how >> SCALES & 255, 1) * depth // 64 if kind >= MXF4 else 1
    a_codes, b_codes = np.zeros((rows, count), np.int64), np.zeros((columns, count), np.int64)
    if kind >= MXF8F6F4 and not _read_scales(
        thread, block, launch, first, other, described, a_scales, b_scales, pipe, site,
        a_codes, b_codes, pa, pb, parts,
    ):  # fmt: skip
        return
    b = _in_panels(b_rows.reshape(-1), columns, b_rows.shape[1])
    result, half = np.zeros((rows, columns // 8, 8), np.int64), d_form == 0
    poison = np.zeros((rows, columns), np.int64)
    if how & ACCUMULATE:
        _sums(thread, first, launch, other, to, how, result, poison, half, False)
        if how >> HALVED & 255:
            _halve(result, how >> HALVED & 255, half)
    if how & SPARSE:
        _add_sparse(kind, described, a, b, met, a_codes, b_codes, result)
    else:
        add_products(kind, described, a, b, a_codes, b_codes, result)
    pb &= 1  # a hidden column is written
    spread(pa, pb, poison)
    _sums(thread, first, launch, other, to, how, result, poison, half, True)
    for part in range(parts if how & SHIFTED else 0):
        _shift(thread, block, launch, other if part else first, a_at & 0xFFFF, 128, pipe, site)


@native
def _shift(
    thread: int, block: int, launch: int, owner: int, address: int, lanes: int, pipe: int, site: int
) -> None:  # fmt: skip
    """Give each lane from an address on the 32 bytes of the next one.

    Of 32 lanes the last keeps its own. The manual says "down by one row, except the last". That
    row r takes row r + 1, and that each 32 lanes are shifted by themselves, NVIDIA's example of
    .ashift saw on a B200 (CUTLASS, 1cta_mma_a_from_tmem.py).
    """
    column, first = address & 0xFFFF, address >> 16
    if not usable(thread, launch, owner, column, 8, site):
        return
    if load_u32(launch + L.RACES):
        agent, time = agent_of(block, launch, pipe), load_u32(pipe + 4)
        for at in range(column, column + 8):
            for lane in range(first, first + lanes, 16):
                check_cell(thread, block, launch, owner, lane, at, 1, agent, time, site)
    tensor = load_u64(owner + L.TENSOR)
    for lane in range(first, first + lanes):
        for at in range(column, column + 8 if lane % 32 < 31 else column):
            cell = lane * L.TM_COLUMNS + at
            word = load_u32(tensor + L.TM_DATA + 4 * (cell + L.TM_COLUMNS))
            store_u32(tensor + L.TM_DATA + 4 * cell, word)
            known = load_u8(tensor + L.TM_INIT + cell + L.TM_COLUMNS)
            store_u8(tensor + L.TM_INIT + cell, known)


@export("void(int64, int64, int64, int64, int64, int64)")
def rt_tensor_shift(
    thread: int, block: int, launch: int, address: int, group: int, site: int
) -> None:
    """Shift the rows of 32 bytes of a warp's lanes, in both blocks of a pair where `group` is 2."""
    pipe = pipe_of(thread, block, launch)
    if pipe == 0:
        return
    if (address >> 16) % 32 or address >> 16 >= L.TM_LANES:
        _refuse(thread, launch, site, address >> 16, BAD_QUARTER)
        return
    _next(pipe)
    for part in range(group):
        owner = peer_of(block, launch, part) if group == 2 else block
        if owner == 0:
            _refuse(thread, launch, site, 0, BAD_PAIR)
            return
        _shift(thread, block, launch, owner, address, 32, pipe, site)


@native
def _hide(
    thread: int, launch: int, site: int, mask: int, described: int, rows: int,
    poison: NDArray[np.int64],
) -> bool:  # fmt: skip
    """Mark the columns of B that a zero-column mask makes zero; False: hardware does not take it.

    PTX ISA, "Zero-Column Mask Descriptor"; its examples, by which the use span counts columns that
    are used: the table's words say the opposite.
    """
    skip, most = mask >> 56 & 63, described >> 30 & 3
    if skip > (4 << most if most else 0) or (rows == 32 and skip > 16):
        return _refuse(thread, launch, site, skip, BAD_SHIFT)
    if described >> 16 & 1 and skip % 16:  # chunks of 16 bytes run along B's columns
        return _unmodelled(launch, _MASK)
    if mask >> 39 & 1 == 0:
        return True
    wide = poison.size * rows // 128  # of one part of the mask
    zeros, used = (mask >> 40 & 255) + 1, (mask >> 48 & 255) + 1
    for column in range(poison.size):
        part = column // wide
        begin, zeros_first = mask >> 8 * part & 255, mask >> 32 + part & 1
        if begin >= (zeros if zeros_first else used):
            return _unmodelled(launch, _MASK)
        place = (column % wide + begin) % (zeros + used)
        if place < zeros if zeros_first else place >= used:
            poison[column] = _HIDDEN
    return True


@native
def _read_metadata(
    thread: int, block: int, launch: int, owner: int, described: int, kind: int, at: int,
    pipe: int, site: int, a: NDArray[np.int64], met: NDArray[np.int64],
    poison: NDArray[np.int64],
) -> bool:  # fmt: skip
    """Read which elements of A a block's rows store; False: they are not there, or mean nothing."""
    form = ONE_OF_TWO if kind == TF32 else (FOUR_OF_EIGHT if kind >= MXF4 else TWO_OF_FOUR)
    wide = 1 if kind in (F16, TF32) else 2
    column = (at & 0xFFFF) + (described & 3 if wide == 1 else 0)
    if at >> 16:
        return _refuse(thread, launch, site, at >> 16, BAD_LANE)
    if not usable(thread, launch, owner, column, wide, site):
        return False
    if load_u32(launch + L.RACES):
        agent, time = agent_of(block, launch, pipe), load_u32(pipe + 4)
        for one in range(column, column + wide):
            for lane in range(0, 128, 16):
                check_cell(thread, block, launch, owner, lane, one, 0, agent, time, site)
    tensor = load_u64(owner + L.TENSOR)
    code = read_tensor_metadata(tensor, column, wide, form, a, met, poison)
    return code < 0 or _refuse(thread, launch, site, code, BAD_METADATA)


@native
def _scale_columns(
    thread: int, block: int, launch: int, owner: int, at: int, extent: int, pipe: int, site: int
) -> bool:  # fmt: skip
    """Check and record that a pipe reads the scales of so many rows; False: nobody allocated."""
    first, wide = at & 0xFFFF, (extent + 31) // 32
    if not usable(thread, launch, owner, first, wide, site):
        return False
    if load_u32(launch + L.RACES):
        agent, time = agent_of(block, launch, pipe), load_u32(pipe + 4)
        for column in range(first, first + wide):
            for lane in (0, 16):
                check_cell(thread, block, launch, owner, lane, column, 0, agent, time, site)
    return True


@native
def _read_scales(
    thread: int, block: int, launch: int, first: int, other: int, described: int,
    a_scales: int, b_scales: int, pipe: int, site: int,
    a_codes: NDArray[np.int64], b_codes: NDArray[np.int64],
    pa: NDArray[np.int64], pb: NDArray[np.int64], parts: int,
) -> bool:  # fmt: skip
    """Read a scale for every block along K: [M, count], [N, count]. False: nobody allocated them.

    Each block of a pair has those of its rows of A, and all of B's. More than four lie on in the
    columns behind those of all rows, of which there are multiples of 128 (CUTLASS 4.7,
    mma_traits_sm100.hpp, MMA_ScaleFactor of SM103).
    """
    (rows, count), columns = a_codes.shape, b_codes.shape[0]
    behind_a, behind_b = 4 * ((rows // parts + 127) // 128), 4 * ((columns + 127) // 128)
    a_byte, b_byte = (described >> 29) & 3, (described >> 4) & 3
    mine = rows // parts
    for part in range(parts):
        owner = first if part == 0 else other
        for turn in range(max(a_byte, b_byte) + count + 3 >> 2):
            at = a_scales + turn * behind_a
            if a_byte + count > 4 * turn and not _scale_columns(
                thread, block, launch, owner, at, mine, pipe, site
            ):
                return False
            at = b_scales + turn * behind_b
            if b_byte + count > 4 * turn and not _scale_columns(
                thread, block, launch, owner, at, columns, pipe, site
            ):
                return False
        for row in range(mine):
            for index in range(count):
                at = a_byte + index
                code = _scale_code(owner, a_scales + (at >> 2) * behind_a, row, at & 3)
                a_codes[part * mine + row, index] = code & 255
                pa[part * mine + row] |= code >> 8
    for column in range(columns):
        for index in range(count):
            at = b_byte + index
            code = _scale_code(first, b_scales + (at >> 2) * behind_b, column, at & 3)
            b_codes[column, index] = code & 255
            pb[column] |= code >> 8
    return True


# ---- copies and commits


@native
def _rows_of(shape: int, row: int, copy: int) -> int:
    """Return the lane of copy number `copy` of a row; -1: there is none.

    `shape`: 0: 128 rows; 1 and 2: 64 rows to warps 0 and 2, 1 and 3 (or 0 and 1, 2 and 3); 3: 32
    rows to all four.
    """
    if shape == 0:
        return row if copy == 0 else -1
    if shape == 3:
        return row + 32 * copy
    if copy > 1:
        return -1
    if shape == 1:
        return row + 64 * copy
    return row % 32 + 32 * (2 * (row // 32) + copy)


@export("void(int64, int64, int64, int64, int64, int64, int64)")
def rt_tensor_copy(
    thread: int, block: int, launch: int, to: int, descriptor: int, how: int, site: int
) -> None:
    """Copy rows of 16 or 32 bytes from shared memory: bits 0 to 7 of `how` shape, 8 to 15 bytes.

    Bit 16: in both blocks of a pair. From bit 17 on: how elements are unpacked.
    """
    shape, nbytes = how & 255, how >> 8 & 255
    pipe = pipe_of(thread, block, launch)
    if pipe == 0:
        return
    if not _is_modelled(descriptor, False):
        _unmodelled(launch, _SWIZZLE)
        return
    rows = 128 if shape == 0 else (32 if shape == 3 else 64)
    _next(pipe)
    for part in range(2 if how >> 16 & 1 else 1):
        owner = peer_of(block, launch, part) if how >> 16 & 1 else block
        if owner == 0:
            _refuse(thread, launch, site, 0, BAD_PAIR)
            return
        if not usable(thread, launch, owner, to & 0xFFFF, nbytes // 4, site):
            return
        if load_u32(launch + L.RACES):
            agent, time = agent_of(block, launch, pipe), load_u32(pipe + 4)
            for column in range(to & 0xFFFF, (to & 0xFFFF) + nbytes // 4):
                for lane in range(0, 128, 16):
                    check_cell(thread, block, launch, owner, lane, column, 1, agent, time, site)
        _copy(thread, block, launch, owner, to, descriptor, how, rows, nbytes, pipe, site)


@native
def _unpack(data: int, init: int, how: int, word: int) -> tuple[int, int]:
    """Return four of the 16 elements of 16 bytes, a byte each, and whether they were written.

    They lie in the middle of their bytes: `_inside`. What pads the 16 bytes is not read.
    """
    if how == AS_THEY_ARE:
        known = 1
        for byte in range(4):
            known &= load_u8(init + 4 * word + byte)
        return load_u32(data + 4 * word), known
    bits, found, known = 6 if how == FROM_6_BITS else 4, 0, 1
    for index in range(4):
        at = 4 * word + index
        found |= _code(data, at, bits) << 8 * index + (8 - bits) // 2
        for byte in range(bits * at // 8, (bits * (at + 1) + 7) // 8):
            known &= load_u8(init + byte)
    return found, known


@native
def _copy(
    thread: int, block: int, launch: int, owner: int, to: int, descriptor: int, how: int,
    rows: int, nbytes: int, pipe: int, site: int,
) -> None:  # fmt: skip
    tensor, shape = load_u64(owner + L.TENSOR), how & 255
    for row in range(rows):
        for inner in range(0, nbytes, 16):
            place = _place(descriptor, row, inner, 0)
            data = _chunk(thread, block, launch, owner, place, pipe, site)
            if data == 0:
                continue
            init = data - load_u64(owner + L.SHARED_DATA) + load_u64(owner + L.SHARED_INIT)
            for copy in range(4):
                lane = _rows_of(shape, row, copy)
                if lane < 0:
                    break
                cell = lane * L.TM_COLUMNS + (to & 0xFFFF) + inner // 4
                for word in range(4):
                    bits, known = _unpack(data, init, how >> 17, word)
                    store_u32(tensor + L.TM_DATA + 4 * (cell + word), bits)
                    store_u8(tensor + L.TM_INIT + cell + word, known & 1)


@export("void(int64, int64, int64, int64, int64, int64, int64)")
def rt_tensor_commit(
    thread: int, block: int, launch: int, barrier: int, several: int, mask: int, site: int
) -> None:
    """Let an mbarrier, or (`several`) those of a mask of blocks, wait for what a thread started."""
    pipe = pipe_of(thread, block, launch)
    if pipe == 0:
        return
    agent, time = agent_of(block, launch, pipe), load_u32(pipe + 4)
    if several == 0:
        commit(thread, block, launch, barrier, agent, time, site)
        return
    for rank in range(16):
        if mask >> rank & 1 and serves(thread, launch, mask, rank, site):
            commit(thread, block, launch, in_block(barrier, rank), agent, time, site)
