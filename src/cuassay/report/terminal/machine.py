"""What the PTX machine saw in launches, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cuassay.model.machine import LaunchEvidence, LineTrace, MachineEvidence, Touch
from cuassay.report.clean import clean, one_line

_SOURCE_LINES = 400
_FEW, _ALL = 8, 201  # lines that a kernel printed
_UNCHANGED = (
    "neither the machine nor {} changed any memory: what the launch writes was there before (as "
    "after an autotuner's benchmark), or it writes nothing"
)
_NO = "not covered: weak memory, ptxas, code paths of other architectures"


def lines(evidence: MachineEvidence, sources: Mapping[str, str], *, trace: bool) -> Iterator[str]:
    """Yield the lines of a run: every launch, what was found in it, and with `trace` its lines."""
    for note in evidence.notes:
        yield f"not recorded: {_text(note)}"
    device = _text(evidence.device) or "the GPU"
    for number, launch in enumerate(evidence.launches, start=1):
        grid, block = (" x ".join(map(str, extent)) for extent in (launch.grid, launch.block))
        where = f"{grid} blocks of {block} threads, {launch.target}"
        yield f"launch {number}: {_text(launch.kernel)}, {where}"
        yield (
            f"  {launch.lane_instructions:,} lane-instructions in {launch.run_s:.3f} s, compiled "
            f"in {launch.compile_s:.3f} s"
        )
        if launch.inconclusive:
            yield f"  not executed to its end: {_text(launch.inconclusive)}"
        for fault in launch.faults:
            times = f" ({fault.count} times)" if fault.count > 1 else ""
            yield f"  {fault.severity}: {fault.kind}: {_text(fault.text)}{times}"
            for touch in fault.touches:
                yield f"    {_touch(touch)}"
            for name, value in fault.measures.items():
                yield f"    {_text(name)} {value:.4g}"
        if (
            not any(fault.severity == "wrong" for fault in launch.faults)
            and not launch.inconclusive
        ):
            held = "all data at this launch" if launch.oblivious else "this input"
            yield f"  no race, no access out of bounds, nothing unwritten used: holds for {held}"
        yield from _recorded(launch, device)
        most = _ALL if trace else _FEW
        for text in launch.printed[:most]:
            yield f"  printed: {_text(text)}"
        if len(launch.printed) > most:
            yield f"  printed: {len(launch.printed) - most} lines more (shown with --trace)"
        if trace:
            yield from _trace(launch, sources)
    for one in evidence.order:
        yield (
            f"order: {_text(one.allocation)} differs in {one.nbytes} bytes between the schedules "
            f"{one.first} and {one.second}"
        )
    yield _NO


def _recorded(launch: LaunchEvidence, device: str) -> Iterator[str]:
    """Yield what the GPU said of a recorded launch, and how far the machine agrees with it."""
    if launch.failure:
        yield f"  {device} reported: {_text(launch.failure)}"
    if launch.agreement is None:
        return
    changed = sum(one.nbytes for one in launch.agreement)
    equal = sum(one.equal for one in launch.agreement)
    if not changed:
        yield f"  {_UNCHANGED.format(device)}"
        return
    yield f"  the machine agrees with {device} in {equal:,} of {changed:,} bytes that were written"
    for one in launch.agreement:
        if one.equal < one.nbytes:
            name, apart = _text(one.allocation), one.nbytes - one.equal
            text = f"{name}: {apart:,} of {one.nbytes:,} bytes differ"
            if one.offset is not None:
                text += f", first byte {one.offset:,}"
            if one.scale > 0:
                text += (
                    f"; by {one.largest:.3g} at most, values reach {one.scale:.3g} ({one.dtype})"
                )
            yield f"    {text}"


def _touch(touch: Touch) -> str:
    place = f"{_text(touch.file)}:{touch.line}, " if touch.line else ""
    who = f", thread {list(touch.thread)} of block {list(touch.block)}" if touch.thread else ""
    return f"{_text(touch.what)} at {place}PTX line {touch.ptx_line}{who}"


def _trace(launch: LaunchEvidence, sources: Mapping[str, str]) -> Iterator[str]:
    """Yield the kernel's source lines with the share of their instructions that ran."""
    by_line: dict[tuple[str, int], LineTrace] = {(one.file, one.line): one for one in launch.lines}
    for file, text in sources.items():
        name = file.rpartition("/")[2]
        marked = {line for where, line in by_line if where == name}
        if not marked:
            continue
        yield f"  {_text(name)}: PTX instructions run / compiled, relative error, source"
        for number, content in enumerate(text.splitlines()[:_SOURCE_LINES], start=1):
            if not min(marked) <= number <= max(marked):
                continue
            one = by_line.get((name, number))
            count = f"{one.executed}/{one.instructions}" if one else ""
            error = f"{one.error:.1e}" if one and one.error > 0 else ""
            # What stands beside a line: `!` for a fault there, `~` for something to look at.
            here = [
                fault.severity
                for fault in launch.faults
                for touch in fault.touches
                if touch.line == number and touch.file.rpartition("/")[2] == name
            ]
            flag = "!" if "wrong" in here else "~" if here else ""
            yield f"  {count:>9} {error:>8} {flag:1} {number:4d}  {clean(content, cap_bytes=200)}"


def _text(text: str) -> str:
    return one_line(text, limit=400)
