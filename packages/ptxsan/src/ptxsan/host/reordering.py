"""Launches that nothing orders, executed again with the later one first.

Where one of two such launches writes plainly what the other one touches, their footprints say so
(`journal`). Where they meet in atomics and strong accesses alone, they do not race, and all the
same the later one may find what the earlier one has not done yet. So it is executed on the memory
that the earlier one found: what goes wrong there goes wrong on a GPU some day, and what both leave
behind is compared with what they left in the order of the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineFinding, Severity
from ptxsan.footprints import Accesses, Touched, first_common
from ptxsan.globals import module_memory
from ptxsan.host.journal import Deed
from ptxsan.launch import Launch
from ptxsan.options import Options
from ptxsan.program import build
from ptxsan.run import run
from ptxsan.syntax import Module
from ptxsan.watching import Snapshot, snapshot

_MOST_BEFORE = 4  # launches that a later one may overtake
_MOST_BYTES = 1 << 28  # of a snapshot
_MOST_SHARE = 4  # a launch that takes more than this part of its limit is not executed again
_FLOATS = ("f16", "f32", "f64", "bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """A launch that was executed, and all that executing it again takes.

    `before` is memory as it was before the launch, `findings` what it showed, `run_s` its time.
    """

    deed: Deed
    module: Module
    launch: Launch
    touched: Sequence[Touched]
    before: Snapshot
    findings: Sequence[MachineFinding]
    run_s: float


class Reordering:
    """The last launches of a program, with nothing between them that changes memory."""

    def __init__(self, options: Options) -> None:
        self._limit_s = options.limit_s
        self._options = replace(options, races=False, footprints=False, predict=False)
        self._past: list[Executed] = []
        self._compared: set[tuple[str, str]] = set()

    def forget(self) -> None:
        """Learn that memory was changed in another way than by a launch."""
        self._past.clear()

    def snapshot(self, module: Module, launch: Launch) -> Snapshot | None:
        """Return memory before a launch; None where there is too much of it."""
        if sum(one.data.nbytes for one in launch.buffers) > _MOST_BYTES:
            self.forget()
            return None
        return snapshot(module, launch)

    def enter(self, later: Executed) -> Iterator[MachineFinding]:
        """Learn of a launch; yield what it shows when it comes before those it may overtake."""
        first = len(self._past)
        while first and not later.deed.operation.is_after(
            self._past[first - 1].deed.operation.timeline,
            self._past[first - 1].deed.operation.time,
        ):
            first -= 1
        overtaken = self._past[first:]
        pair = (later.launch.kernel, " ".join(one.launch.kernel for one in overtaken))
        one_module = all(one.module is later.module for one in overtaken)
        if one_module and pair not in self._compared and _meet(later, overtaken):
            self._compared.add(pair)
            if all(_MOST_SHARE * one.run_s < self._limit_s for one in (*overtaken, later)):
                yield from self._other_order(later, overtaken)
        self._past = [*self._past, later][-_MOST_BEFORE:]

    def _other_order(
        self, later: Executed, overtaken: Sequence[Executed]
    ) -> Iterator[MachineFinding]:
        after = snapshot(later.module, later.launch)
        known = {one.place for each in (later, *overtaken) for one in each.findings}
        variables = module_memory(later.module, build(later.module, later.launch.kernel))
        theirs = {_key(one) for each in (later, *overtaken) for one in each.touched}
        memory = [(one.name, one.data) for one in later.launch.buffers if id(one) in theirs]
        memory += [(f"variable '{name}'", data) for name, data in variables.items()]
        left = [(name, data, data.copy()) for name, data in memory]
        overtaken[0].before.restore()
        try:
            for one in (later, *overtaken):
                report = run(one.module, one.launch, options=self._options)
                for found in report.findings:
                    if found.place not in known and found.severity is Severity.WRONG:
                        # A finding that another order showed. That one waits for the other
                        # is a note: CUDA does not promise that both run at once, and a GPU
                        # that is free enough lets them.
                        severity = Severity.NOTE if found.kind is Kind.DEADLOCK else Severity.WRONG
                        order = _order(later, overtaken)
                        text = (
                            f"{found.text} (when {order}, which no stream order or event rules out)"
                        )
                        yield replace(found, text=text, severity=severity)
                waits = any(found.kind is Kind.DEADLOCK for found in report.findings)
                if waits or report.inconclusive is not None:
                    return  # what it was to leave is not known
            yield from _differences(left, later, overtaken)
        except MachineError:
            return  # what the machine cannot do was said of the launch itself
        finally:
            after.restore()


def _meet(later: Executed, overtaken: Sequence[Executed]) -> bool:
    """Whether launches share bytes that one of them changes, and do not race for any."""
    mine = {_key(one): one.accesses for one in later.touched}
    pairs = [
        (mine[_key(one)], one.accesses)
        for each in overtaken
        for one in each.touched
        if _key(one) in mine
    ]
    raced = any(a.conflict(b) is not None for a, b in pairs)
    return not raced and any(_shares(a, b) or _shares(b, a) for a, b in pairs)


def _key(one: Touched) -> object:
    return one.name if one.buffer is None else id(one.buffer)


def _shares(changing: Accesses, other: Accesses) -> bool:
    return any(
        first_common(changing.updates, theirs) is not None
        for theirs in (other.updates, other.glances)
    )


def _order(later: Executed, overtaken: Sequence[Executed]) -> str:
    return f"{later.deed.what} begins before {overtaken[0].deed.what}"


def _differences(
    left: Sequence[tuple[str, NDArray[np.uint8], NDArray[np.uint8]]],
    later: Executed,
    overtaken: Sequence[Executed],
) -> Iterator[MachineFinding]:
    """Yield a note on memory that holds something else than in the order of the program."""
    sums = any(
        step.base in ("atom", "red")
        and "add" in step.parts
        and any(part.startswith(_FLOATS) for part in step.parts)
        for one in (later, *overtaken)
        for step in build(one.module, one.launch.kernel).body
    )
    for name, now, before in left:
        places = np.flatnonzero(before != now)
        if not places.size:
            continue
        text = (
            f"{places.size:,} bytes of {name}, the first of them byte {int(places[0])}, hold "
            f"something else when {_order(later, overtaken)}: no stream order or event rules it out"
        )
        if sums:
            text += "; sums of floating-point numbers may be rounded in another order"
        yield MachineFinding(
            kind=Kind.UNORDERED, severity=Severity.NOTE, text=text, space="global",
            allocation=name, offset=int(places[0]), bytes=int(places.size),
        )  # fmt: skip
