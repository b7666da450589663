"""What findings about tensor memory say. They follow the PTX manual, and say so."""

from __future__ import annotations

from ptxsan.findings import Access, Kind, Severity
from ptxsan.record import Record
from ptxsan.runtime import layout as L
from ptxsan.runtime import tensor_memory as M
from ptxsan.runtime import tensor_products as P

_KINDS = {
    L.K_TENSOR_LANES: (Kind.TENSOR_MEMORY, Severity.WRONG),
    L.K_TENSOR_OUTSIDE: (Kind.TENSOR_MEMORY, Severity.WRONG),
    L.K_TENSOR_RACE: (Kind.RACE, Severity.WRONG),
    L.K_TENSOR_LEFT: (Kind.TENSOR_MEMORY, Severity.WRONG),
    L.K_TENSOR_ALLOC: (Kind.TENSOR_MEMORY, Severity.WRONG),
    L.K_TENSOR_FENCE: (Kind.TENSOR_FENCE, Severity.NOTE),
    L.K_TENSOR_WAIT: (Kind.TENSOR_WAIT, Severity.NOTE),
    L.K_TENSOR_SHAPE: (Kind.TENSOR_MEMORY, Severity.WRONG),
}
KINDS = frozenset(_KINDS)
_MANUAL = "(by the PTX manual; no GPU has confirmed it)"
_ALLOCATIONS = {
    M.BAD_COUNT: "names {number} columns: a power of two from 32 to 512 is allowed",
    M.NO_ROOM: "asks for {number} columns, more than are free: it waits for ever",
    M.NO_PERMIT: "allocates {number} columns after relinquish_alloc_permit",
    M.NOT_ALLOCATED: "releases columns from {number} on, which no tcgen05.alloc of this size gave",
    M.OTHER_COUNT: "asks for {number} columns, and the other block of the pair for another number",
    M.ALONE: "is for a pair of blocks ({number} columns), one of which never allocates: the other "
    "waits for ever",
    M.NO_PAIR: "is for a pair of blocks (cta_group::2), and the launch has no clusters",
}
_SHAPES = {
    P.BAD_ROWS: "has an instruction descriptor with M = {number}, which this kind does not have",
    P.BAD_COLUMNS: "has an instruction descriptor with N = {number}, which this M does not have",
    P.BAD_FORMAT: "has an instruction descriptor ({number:#x}) with formats that its kind lacks",
    P.BAD_LANE: "has its accumulator, or A, at lane {number}: it begins at lane 0",
    P.BAD_COPIES: "reads A from tensor memory with 128 rows for a pair of blocks: lanes 0 to 63 "
    "and 64 to 127 have to hold the same, and lane {number} differs",
    P.BAD_METADATA: "reads the metadata code {number:#x} of a sparse A, to which PTX gives no "
    "meaning",
    P.BAD_SPARSITY: "has an instruction descriptor ({number:#x}) whose sparsity (bit 2) or "
    "selector (bits 0 and 1) is not that of the instruction",
    P.BAD_SHIFT: "has a zero-column mask that shifts by {number} columns, more than the "
    "instruction descriptor (bits 30 and 31) allows",
    P.BAD_QUARTER: "shifts rows from lane {number} on: a warp's lanes begin at 0, 32, 64 or 96",
    P.BAD_PAIR: "is for a pair of blocks (cta_group::2), and the block has no other one",
}


def describe(one: Record, accesses: tuple[Access, ...]) -> tuple[Kind, Severity, str]:
    """Return the kind, the severity and the text of a finding."""
    kind, severity = _KINDS[one.kind]
    match one.kind:
        case L.K_TENSOR_LANES:
            own = 32 * (one.extra & 3)
            text = (
                f"addresses lane {one.address} of tensor memory: its warp may access lanes "
                f"{own} to {own + 31}"
            )
            if one.extra & M.OWN_LANES:
                severity = Severity.NOTE
                text += ", which a B200 took: add the warp's first lane to the address"
        case L.K_TENSOR_OUTSIDE:
            which = "were released" if one.extra == M.RELEASED else "nobody has allocated"
            text = f"uses columns of tensor memory from {one.address} on, which {which}"
        case L.K_TENSOR_RACE:
            how = "overwrites" if one.extra & 1 else "reads"
            place = f"lane {one.address >> 16}, column {one.address & 0xFFFF} of tensor memory"
            wait = "tcgen05.wait::st" if one.extra & 2 else "tcgen05.wait::ld"
            late = f": its warp has not waited ({wait})" if one.extra & 4 else ""
            text = f"{how} {place}, and nothing orders it after {_other(accesses[-1])}{late}"
        case L.K_TENSOR_LEFT:
            text = (
                f"allocates {one.address} columns of tensor memory that the block never releases: "
                "add tcgen05.dealloc"
            )
        case L.K_TENSOR_FENCE:
            other = _other(accesses[-1])
            text = (
                f"touches lane {one.address >> 16}, column {one.address & 0xFFFF} of tensor memory "
                f"after {other}: add tcgen05.fence::after_thread_sync behind the wait"
            )
        case L.K_TENSOR_WAIT:
            text = "has its registers read before a wait: add tcgen05.wait::ld"
        case L.K_TENSOR_ALLOC:
            text = _ALLOCATIONS[one.extra].format(number=one.address)
        case _:
            text = _SHAPES[one.extra].format(number=one.address)
    first = accesses[0]
    who = f"{first.what} by thread {first.thread} of block {first.block}"
    return kind, severity, f"{who} {text} {_MANUAL}"


def _other(partner: Access) -> str:
    return (
        f"{partner.what} by thread {partner.thread} of block {partner.block} on PTX line "
        f"{partner.ptx_line}"
    )
