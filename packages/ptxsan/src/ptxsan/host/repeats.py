"""A launch that comes again on the very memory that it was executed on before: executed once.

Programs launch a kernel a hundred times to time it. The machine gives the same bytes and the same
findings for the same memory, so it need not do the work again. Whether memory is the same is looked
at, byte by byte.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ptxsan.findings import MachineReport
from ptxsan.launch import Launch
from ptxsan.options import Options
from ptxsan.run import Meanwhile
from ptxsan.schedules import every
from ptxsan.syntax import Module
from ptxsan.watching import Snapshot, snapshot

_CLOCKS = ("%clock", "%globaltimer")
_MOST_BYTES = 1 << 30  # of all snapshots
_MOST_MISSES = 4  # of one launch, after which its memory is taken to change each time
_MOST_KEYS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    before: Snapshot
    after: Snapshot
    reports: Sequence[MachineReport]

    @property
    def nbytes(self) -> int:
        return self.before.nbytes + self.after.nbytes


class Repeats:
    """Executes the launches of one program, those that come again on the same memory once."""

    def __init__(self) -> None:
        self._misses: dict[Hashable, int] = {}
        self._outcomes: OrderedDict[Hashable, _Outcome] = OrderedDict()

    def every(
        self,
        module: Module,
        launch: Launch,
        *,
        options: Options,
        schedules: Sequence[tuple[str, int]],
        given: Hashable,
        meanwhile: Meanwhile | None = None,
    ) -> Sequence[MachineReport]:
        """Return the reports of a launch under each schedule; memory is as the first leaves it.

        `given` are the launch's arguments as bytes. Raises MachineError as `run` does.
        """
        key = (
            id(module), launch.kernel, launch.grid, launch.block, launch.cluster,
            launch.dynamic_shared_bytes, given, tuple(map(id, launch.buffers)),
            tuple(one.handle for one in launch.textures),
        )  # fmt: skip
        known = self._outcomes.get(key)
        if known is not None and known.before.is_now():
            known.after.restore()
            self._outcomes.move_to_end(key)
            return known.reports
        misses = self._misses.get(key)
        self._misses[key] = 0 if misses is None else misses + 1
        if len(self._misses) > _MOST_KEYS:
            self._misses.clear()
        if misses is None or misses >= _MOST_MISSES or any(one in module.text for one in _CLOCKS):
            return every(module, launch, options=options, schedules=schedules, meanwhile=meanwhile)
        before = snapshot(module, launch)
        reports = every(module, launch, options=options, schedules=schedules, meanwhile=meanwhile)
        waited = meanwhile is not None and (meanwhile.waited or meanwhile.beside)
        if not waited and not any(one.inconclusive for one in reports):
            outcome = _Outcome(before=before, after=snapshot(module, launch), reports=reports)
            self._outcomes.pop(key, None)
            self._outcomes[key] = outcome
            while sum(one.nbytes for one in self._outcomes.values()) > _MOST_BYTES:
                self._outcomes.popitem(last=False)
        return reports
