"""What findings about mbarriers, copies in flight and clusters say."""

from __future__ import annotations

from ptxsan.findings import Access, Kind, Severity
from ptxsan.record import Record
from ptxsan.runtime import layout as L

_WRONG, _NOTE = Severity.WRONG, Severity.NOTE
_KINDS: dict[int, tuple[Kind, Severity]] = {
    L.K_NO_OBJECT: (Kind.MBARRIER, _WRONG),
    L.K_TWO_OBJECTS: (Kind.MBARRIER, _WRONG),
    L.K_OBJECT_TOUCHED: (Kind.MBARRIER, _WRONG),
    L.K_ARRIVALS: (Kind.MBARRIER, _WRONG),
    L.K_TX_RANGE: (Kind.MBARRIER, _WRONG),
    L.K_OBJECT_BUSY: (Kind.MBARRIER, _WRONG),
    L.K_OBJECT_EARLY: (Kind.MBARRIER, _NOTE),
    L.K_NO_COMPLETE: (Kind.MBARRIER, _WRONG),
    L.K_OBJECT_WAIT: (Kind.DEADLOCK, _WRONG),
    L.K_CLUSTER_ORDER: (Kind.DIVERGENT_BARRIER, _WRONG),
    L.K_IN_FLIGHT: (Kind.RACE, _WRONG),
    L.K_SAME_VALUE: (Kind.SAME_VALUE_RACE, _NOTE),
    L.K_LEFT_BEHIND: (Kind.EXITED_SHARED, _WRONG),
    L.K_LEFT_READING: (Kind.EXITED_SHARED, _NOTE),
    L.K_OUTLIVED: (Kind.EXITED_SHARED, _WRONG),
    L.K_PROXY: (Kind.PROXY_FENCE, _WRONG),
    L.K_BULK_SHAPE: (Kind.BAD_COPY, _WRONG),
    L.K_TENSOR_MAP: (Kind.BAD_COPY, _WRONG),
    L.K_NONE_LEFT: (Kind.LAUNCH_CONTROL, _WRONG),
}
KINDS = frozenset(_KINDS)
_SHAPES = (
    "has a size or an address that is not a multiple of 16 bytes ({number} of them)",
    "names an mbarrier that is not in the block whose memory it writes",
    "has a tile that is not aligned to 128 bytes in shared memory (address {number:#x})",
    "names blocks that the cluster does not have (mask {number:#x})",
)


def said(one: Record, accesses: tuple[Access, ...], place: str) -> tuple[Kind, Severity, str]:
    """Return the kind, the severity and the text of a finding; `place` names shared memory."""
    kind, severity = _KINDS[one.kind]
    first = accesses[0]
    who = f"thread {first.thread} of block {first.block}"
    return kind, severity, _text(one, accesses, place, f"{first.what} by {who}")


def _text(one: Record, accesses: tuple[Access, ...], place: str, what: str) -> str:
    objects = f"the mbarrier at {place}"
    match one.kind:
        case L.K_NO_OBJECT:
            return f"{what} at {one.address & 0xFFFFFFFF:#x}, where no mbarrier is initialised"
        case L.K_TWO_OBJECTS:
            return f"{what}: {objects} is initialised again without mbarrier.inval before"
        case L.K_OBJECT_TOUCHED:
            return f"{what} touches the bytes of {objects} like ordinary memory"
        case L.K_ARRIVALS:
            left = f"{one.extra} are pending in its open phase"
            return f"{what}: {_signed(one.granule)} arrivals at {objects}, {left}"
        case L.K_TX_RANGE:
            return f"{what}: {objects} expects {_signed(one.granule)} bytes, beyond {L.MOST_TX}"
        case L.K_OBJECT_BUSY | L.K_OBJECT_EARLY:
            late = f"before {one.granule} arrivals that nobody waited for"
            busy = f"while {one.granule} copies still complete on it"
            return f"{what}: {objects} ends {busy if one.kind == L.K_OBJECT_BUSY else late}"
        case L.K_NO_COMPLETE:
            return f"{what} completes a phase of {objects}, which .noComplete rules out"
        case L.K_OBJECT_WAIT:
            return f"{what} waits for phase {one.bytes} of {objects}: {_missing(one)}"
        case L.K_CLUSTER_ORDER:
            return f"{what} waits at the cluster's barrier without having arrived at it"
        case L.K_PROXY:
            return (
                f"{what} reads shared memory ({place}) that {_who(accesses[-1])} wrote, with no "
                "fence.proxy.async after the write and before the copy: the copy may miss it"
            )
        case _:
            return _copy_text(one, accesses, place, what)


def _copy_text(one: Record, accesses: tuple[Access, ...], place: str, what: str) -> str:
    match one.kind:
        case L.K_IN_FLIGHT:
            partner = accesses[-1]
            how = "still writes" if one.extra & (L.LANDING | L.REDUCING) else "still reads"
            where = f" ({place})" if one.space == L.S_SHARED else ""
            started = "" if len(accesses) == 1 else f" that {_who(partner)} started"
            return f"{what} touches bytes{where} that an asynchronous copy{started} {how}"
        case L.K_SAME_VALUE:
            started = f"{_who(accesses[-1])} copies to one place ({place})"
            return f"{what} copies the bytes that {started}, and nothing orders the two"
        case L.K_LEFT_BEHIND:
            return f"{what}: the block ends while this copy still writes its shared memory"
        case L.K_LEFT_READING:
            return f"{what}: the block ends before this copy is known to have read its source"
        case L.K_OUTLIVED:
            return f"{what} uses shared memory of another block, which may have ended by then"
        case L.K_NONE_LEFT:
            return f"{what} asks for another cluster, and its block has seen that none was left"
        case L.K_TENSOR_MAP:
            return f"{what} {_tensor_text(one)}"
        case _:
            return f"{what} {_SHAPES[one.extra].format(number=_signed(one.address))}"


def _tensor_text(one: Record) -> str:
    if one.extra == 64:
        return f"has {one.address} coordinates, its tensor map another number of dimensions"
    if one.extra == 66:
        place, axis = _signed32(one.address), one.address >> 32
        return (
            f"stores to a tile at the negative coordinate {place} (dimension {axis}, the innermost "
            "is 0): hardware takes that for an illegal instruction"
        )
    if one.extra == 67:
        return f"has a tensor map of which nobody wrote byte {one.address}"
    if one.extra == 65:
        return "has a tensor map of the other mode (tile or im2col)"
    if one.extra:
        return "has a tensor map that is not aligned to 64 bytes"
    return "has a tensor map that no hardware takes, or that the machine cannot read"


def _missing(one: Record) -> str:
    """What the open phase of an mbarrier waits for: arrivals, bytes, or neither."""
    tx = _signed32(one.granule)
    missing = []
    if one.extra:
        missing.append(f"{one.extra} arrivals are missing")
    if tx > 0:
        missing.append(f"{tx} bytes are missing")
    elif tx < 0:
        missing.append(f"{-tx} bytes came that were not expected")
    return " and ".join(missing) or "it will not complete"


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _signed32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _who(access: Access) -> str:
    return f"thread {access.thread} of block {access.block} on PTX line {access.ptx_line}"
