"""What a kernel printed, in words: C formats over the raw bytes of their arguments.

Formats, strings and counts are the kernel's, so everything is bounded: lines, characters, widths.
Conversions as in the CUDA C++ Programming Guide, "Formatted Output"; `%n` writes nothing.
"""

from __future__ import annotations

import re
import struct

from ptxsan.launch import Launch
from ptxsan.records import LaunchState
from ptxsan.runtime import layout as L

MOST_LINES, MOST_CHARACTERS = 200, 400
_STRING, _WIDTH = 256, 100
_SPEC = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|z|j|t|L)?(?P<kind>[diouxXcspfFeEgGaA%n])"
)
_LONG = frozenset(("l", "ll", "z", "j", "t"))
_BITS = {"hh": 8, "h": 16}


def lines(launch: Launch, state: LaunchState) -> tuple[str, ...]:
    """Return what was printed, a call a line, with thread and block; the last line may count."""
    calls = state.get32(L.PRINT_COUNT) if state.prints.size else 0
    kept = min(calls, state.prints.size // L.P_RECORD)
    found: list[str] = []
    for index in range(kept):
        gid, _, size, text = _record(state, index)
        if size != L.P_ASSERTED and len(found) < MOST_LINES:
            data = _payload(state, index)[:size]
            part, block, thread = launch.place(gid)
            device = f" on device {part.device}" if part else ""
            said = formatted(state, _string(state, text), data)
            found.append(f"thread {thread} of block {block}{device}: {said}")
    printed = calls - sum(_record(state, index)[2] == L.P_ASSERTED for index in range(kept))
    if printed > len(found):
        found.append(f"... and {printed - len(found)} calls more")
    return tuple(found)


def output(state: LaunchState) -> str:
    """Return what was printed as a terminal would get it: control characters and all.

    It is for programs that the caller runs anyway; `lines` is for reports.
    """
    calls = state.get32(L.PRINT_COUNT) if state.prints.size else 0
    found = []
    for index in range(min(calls, state.prints.size // L.P_RECORD)):
        _, _, size, text = _record(state, index)
        if size != L.P_ASSERTED:
            found.append(_whole(state, _string(state, text), _payload(state, index)[:size]))
    return "".join(found)


def assertion(state: LaunchState, index: int) -> str:
    """Return the words of a failed assertion: message, file, line and function."""
    if not 0 <= index < state.prints.size // L.P_RECORD:
        return "an assertion of the kernel does not hold"
    _, _, _, text = _record(state, index)
    file, line, function = struct.unpack_from("<QQQ", _payload(state, index))
    where = f"{_string(state, file).rpartition('/')[2]}:{line}"
    inside = _string(state, function)
    said = f"`{_string(state, text)}` at {where}"
    return _plain(said if inside in ("", "unknown") else f"{said} in {inside}")


def formatted(state: LaunchState, pattern: str, data: bytes) -> str:
    """Return a C format over the bytes of its arguments, on one line and bounded."""
    said = _plain(_whole(state, pattern, data).removesuffix("\n"))
    return said if len(said) <= MOST_CHARACTERS else said[: MOST_CHARACTERS - 1] + "…"


def _whole(state: LaunchState, pattern: str, data: bytes) -> str:
    """Return a C format over the bytes of its arguments; no more is formatted behind the limit."""
    pieces: list[str] = []
    arguments = _Arguments(state, data)
    end = 0
    for match in _SPEC.finditer(pattern):
        pieces += [pattern[end : match.start()], arguments.shown(match)]
        end = match.end()
        if sum(map(len, pieces)) > MOST_CHARACTERS:
            break
    else:
        pieces.append(pattern[end:])
    return "".join(pieces)


class _Arguments:
    """The arguments of one call, taken one after another: 4 bytes an int, else 8, aligned."""

    def __init__(self, state: LaunchState, data: bytes) -> None:
        self._state, self._data, self._place = state, data, 0

    def shown(self, match: re.Match[str]) -> str:
        """Return one conversion."""
        kind, length = match["kind"], match["length"] or ""
        if kind == "%":
            return "%"
        flags = "".join(sorted(set(match["flags"])))
        width = self._number(match["width"])
        precision = match["precision"]
        if precision is not None:
            precision = str(max(0, min(_WIDTH, int(self._number(precision) or "0"))))
        if width.startswith("-"):
            flags, width = flags + "-", width[1:]
        width = str(min(_WIDTH, int(width))) if width else ""
        spec = f"%{flags}{width}" + ("" if precision is None else f".{precision}")
        value = self._value(kind, length)
        if value is None:
            return "(missing)"
        if kind == "n":
            return ""
        if kind == "p":
            return f"0x{int(value):x}"
        if kind == "c":
            return (spec + "s") % chr(int(value) & 0xFF)
        if kind == "s":
            return (spec + "s") % (value if isinstance(value, str) else "(null)")
        if kind in "aA":
            shown = float(value).hex()
            return shown.upper() if kind == "A" else shown
        if kind == "o" and "#" in spec:
            return (spec.replace("#", "") + "s") % f"0{int(value):o}"
        return (spec + ("d" if kind == "u" else kind)) % value

    def _number(self, text: str | None) -> str:
        if text != "*":
            return text or ""
        value = self._take("<i")
        return str(value if value is not None else 0)

    def _value(self, kind: str, length: str) -> int | float | str | None:
        if kind in "fFeEgGaA":
            return self._take("<d")
        if kind in "spn":
            address = self._take("<Q")
            return _string(self._state, int(address)) if kind == "s" and address else address
        signed = kind in "dic"
        if length in _LONG:
            return self._take("<q" if signed else "<Q")
        value = self._take("<i" if signed else "<I")
        if value is None or length not in _BITS:
            return value
        bits = _BITS[length]
        cut = int(value) & ((1 << bits) - 1)
        return cut - (1 << bits) if signed and cut >> (bits - 1) else cut

    def _take(self, code: str) -> int | float | None:
        size = struct.calcsize(code)
        start = -(-self._place // size) * size
        if start + size > len(self._data):
            return None
        self._place = start + size
        found: int | float = struct.unpack_from(code, self._data, start)[0]
        return found


def _string(state: LaunchState, address: int) -> str:
    """Return the string at an address of global memory, up to its end or the limit."""
    held, start = state.at(address)
    if held is None or not 0 <= start < held.data.size:
        return ""
    data = held.data[start : start + _STRING].tobytes()
    return data.partition(b"\0")[0].decode("utf-8", errors="replace")


def _plain(text: str) -> str:
    """Return a text with everything that a terminal could obey spelt out."""
    return "".join(
        one
        if one.isprintable()
        else one.encode("unicode_escape", errors="backslashreplace").decode()
        for one in text
    )


def _record(state: LaunchState, index: int) -> tuple[int, int, int, int]:
    found = struct.unpack_from("<IIIxxxxQ", state.prints.data, index * L.P_RECORD)
    return found[0], found[1], found[2], found[3]


def _payload(state: LaunchState, index: int) -> bytes:
    start = index * L.P_RECORD + L.P_DATA
    return state.prints[start : start + L.P_MOST].tobytes()
