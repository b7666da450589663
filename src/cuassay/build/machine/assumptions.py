"""What a Triton kernel assumes (`tl.assume`), and where that is false.

The compiler takes an assumption for granted and leaves nothing of it in the PTX: where it is false
the kernel may do anything. Triton's own intermediate language (TTIR) still has it. What is kept of
a launch are the lines that an assumption is made of; they are evaluated for every program of the
grid, with the launch's own arguments. That needs assumptions on integers that stand outside of
branches and loops, and that read no memory: others are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cuassay.model.machine import MachineFault, Touch
from cuassay.model.recording import RecordedLaunch

_ASSUME = "llvm.intr.assume"
_FUNCTION = re.compile(r"^\s*tt\.func public @(\S+?)\((.*)\)(?:\s*->.*)?\s*(?:attributes.*)?\{")
_PARAMETER = re.compile(r"(%[\w.$-]+): ")
_RESULT = re.compile(r"^\s*(%[\w.$-]+) = (.*)$")
_NAME = re.compile(r"%[\w.$-]+")
_PLACE = re.compile(r"loc\((#loc\w*)\)\s*$")
_PLACE_IN = re.compile(r"\((#loc\w*)\)")
_TYPE = re.compile(r": i(\d+)\b")
_CAST = re.compile(r": (\S+) to i(\d+)")
_LOCATION = re.compile(r"^(#loc\w*) = loc\((.*)\)$")
_POSITION = re.compile(r'"([^"]+)":(\d+):\d+')
_LINES, _TEXT, _PROGRAMS = 400, 300, 1 << 20

_Values = np.ndarray[Any, np.dtype[np.int64]]


def assumed(ttir: str) -> str:
    """Return the lines of TTIR that assumptions are made of; empty where there are none."""
    if _ASSUME not in ttir:
        return ""
    lines = ttir.splitlines()
    head = next((number for number, one in enumerate(lines) if _FUNCTION.match(one)), None)
    if head is None:
        return ""
    made = {match[1]: line for line in lines if (match := _RESULT.match(line))}
    kept: dict[str, None] = {}
    depth, found = 0, []
    for line in lines[head:]:
        if depth == 1 and line.lstrip().startswith(_ASSUME):
            found.append(line)
            waiting = [line]  # what gives it its operands is kept, and what gives them theirs
            while waiting and len(kept) < _LINES:
                one = waiting.pop()
                matched = _RESULT.match(one)
                for name in _NAME.findall(matched[2] if matched else one):
                    source = made.get(name)
                    if source is not None and source not in kept:
                        kept[source] = None
                        waiting.append(source)
        depth += line.count("{") - line.count("}")
    places = {match[1]: line for line in lines if (match := _LOCATION.match(line))}
    wanted = [line for line in lines if line in kept]
    more = _places([*wanted, *found], places)
    return "\n".join([lines[head], *wanted, *found, *more][:_LINES])


def _places(lines: list[str], places: Mapping[str, str]) -> list[str]:
    names = [match[1] for line in lines if (match := _PLACE.search(line))]
    found: dict[str, None] = {}
    while names:
        text = places.get(names.pop())
        if text is not None and text not in found:
            found[text] = None
            names += re.findall(r"#loc\w*", text.partition("=")[2])
    return list(found)


def false_assumptions(launch: RecordedLaunch) -> Iterator[MachineFault]:
    """Yield the assumptions of a launch that are false for one of its programs at least."""
    lines = launch.assumes.splitlines()
    head = _FUNCTION.match(lines[0]) if lines else None
    if head is None:
        return
    names = _PARAMETER.findall(head[2])
    if len(names) > len(launch.arguments) or np.prod(launch.grid, dtype=np.int64) > _PROGRAMS:
        return
    known: dict[str, _Values | None] = {}
    for name, data in zip(names, launch.arguments, strict=False):
        small = len(data) <= 8
        number = int.from_bytes(data, "little", signed=True) if small else 0
        known[name] = np.full(1, number, np.int64) if small else None
    places = {match[1]: match[2] for line in lines if (match := _LOCATION.match(line))}
    for line in lines[1:]:
        if match := _RESULT.match(line):
            known[match[1]] = _value(match[2], known, launch)
        elif line.lstrip().startswith(_ASSUME):
            operands = _NAME.findall(line)
            value = known.get(operands[0]) if operands else None
            if value is not None and not value.all():
                yield _fault(line, int(np.flatnonzero(value == 0)[0]), launch, places)


def _fault(
    line: str, first: int, launch: RecordedLaunch, places: Mapping[str, str]
) -> MachineFault:
    width, height, _ = launch.grid
    program = first % width, first // width % height, first // (width * height)
    found, place = None, _PLACE.search(line)
    for _ in places if place else ():  # a named location is that of another one
        text = places.get(place[1], "") if place else ""
        found, place = _POSITION.search(text), _PLACE_IN.search(text)
        if found or not place:
            break
    return MachineFault(
        kind="false-assumption",
        severity="wrong",
        text=(
            f"what tl.assume takes for granted is false in program {program}: the compiler may "
            "have left out what this program needs"
        ),
        touches=(
            Touch(
                what="assume",
                ptx_line=0,
                file=found[1].rpartition("/")[2][:_TEXT] if found else "",
                line=int(found[2]) if found else 0,
                block=program,
                thread=(),
            ),
        ),
    )


def _value(text: str, known: Mapping[str, _Values | None], launch: RecordedLaunch) -> Any:
    """Return what an operation gives, one for all programs or one each; None where unknown."""
    operation = text.split(None, 1)[0].rstrip(",")
    width = next((int(bits) for bits in _TYPE.findall(text)), 64)
    if operation in ("tt.get_program_id", "tt.get_num_programs"):
        axis = "xyz".index(text.split()[1])
        if operation == "tt.get_num_programs":
            return np.full(1, launch.grid[axis], np.int64)
        linear = np.arange(np.prod(launch.grid, dtype=np.int64), dtype=np.int64)
        x, y, _ = launch.grid
        return (linear % x, linear // x % y, linear // (x * y))[axis]
    if operation == "arith.constant":
        word = text.split()[1]
        if word in ("true", "false"):
            return np.full(1, word == "true", np.int64)
        return np.full(1, int(word), np.int64) if re.fullmatch(r"-?\d+", word) else None
    operands = [known.get(name) for name in _NAME.findall(text.partition(" : ")[0])]
    if not operands or any(one is None for one in operands):
        return None
    values: list[_Values] = [one for one in operands if one is not None]
    return _computed(operation, text, width, values)


def _computed(operation: str, text: str, width: int, values: list[_Values]) -> Any:
    cast = _CAST.search(text)
    match operation.removeprefix("arith."):
        case "extsi" | "index_cast" | "tt.ptr_to_int":
            return values[0]
        case "extui" if cast:
            return _unsigned(values[0], int(cast[1].lstrip("i")))
        case "trunci" if cast:
            return _signed(values[0], int(cast[2]))
        case "select" if len(values) == 3:
            return np.where(values[0] != 0, values[1], values[2])
        case "cmpi" if len(values) == 2:
            predicate = text.split()[1].rstrip(",")
            if predicate[0] == "u":
                values = [_unsigned(one, width) for one in values]
            compare = _COMPARISONS.get(predicate[-2:])
            return None if compare is None else compare(*values).astype(np.int64)
        case "divui" | "remui" | "shrui" | "minui" | "maxui" as name:
            values = [_unsigned(one, width) for one in values]
            return _binary(name.replace("ui", "si"), width, values)
        case name:
            return _binary(name, width, values)


def _binary(name: str, width: int, values: list[_Values]) -> Any:
    compute = _OPERATIONS.get(name)
    if compute is None or len(values) != 2:
        return None
    divides = name in ("divsi", "remsi", "floordivsi", "ceildivsi")
    if divides and not values[1].all():
        return None
    if name in ("shli", "shrsi") and not ((values[1] >= 0) & (values[1] < width)).all():
        return None
    return _signed(compute(*values), width)


def _unsigned(value: _Values, width: int) -> _Values:
    cut: _Values = value if width >= 64 else value & np.int64((1 << width) - 1)
    return cut


def _signed(value: _Values, width: int) -> _Values:
    if width >= 64:
        return value
    half = np.int64(1 << (width - 1))
    found: _Values = (_unsigned(value, width) ^ half) - half if width > 1 else value & 1
    return found


def _truncated(a: _Values, b: _Values) -> _Values:
    """Divide toward zero, as the hardware does."""
    found: _Values = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return found


_COMPARISONS: dict[str, Callable[[_Values, _Values], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_OPERATIONS: dict[str, Callable[[_Values, _Values], _Values]] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "divsi": _truncated,
    "remsi": lambda a, b: a - b * _truncated(a, b),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "shli": np.left_shift,
    "shrsi": np.right_shift,
    "minsi": np.minimum,
    "maxsi": np.maximum,
}
