"""Rank consistency for data-parallel training: equal inputs must give equal results everywhere.

At every so-manyth step one rank's inputs (the sampled call that its guard saw last) go to all
ranks; each runs the kernel on them twice and the digests are compared. A device that computes
otherwise, a kernel with uninitialised memory and a race all show here without any tolerance.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cuassay.errors import UsageError
from cuassay.guard.breaker import State
from cuassay.guard.events import Violation
from cuassay.guard.signature import described, dtype_of, key_of
from cuassay.guard.snapshot import copies
from cuassay.guard.structure import Template, flatten, portable, rebuild
from cuassay.guard.watch import unix_s
from cuassay.guard.wrap import Guarded


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What one comparison showed. `digests` and `repeats` are by rank.

    `agree` is False where ranks differ although each repeats itself; a kernel that does not
    repeat itself on one rank is `nondeterministic` and decides nothing about ranks.
    """

    source: int
    digests: tuple[str, ...]
    repeats: tuple[bool, ...]

    @property
    def nondeterministic(self) -> bool:
        """Whether some rank gave two answers to one question."""
        return not all(self.repeats)

    @property
    def agree(self) -> bool:
        """Whether nothing speaks against the ranks' being equal."""
        return self.nondeterministic or len(set(self.digests)) == 1

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks that differ from most others."""
        counts = {digest: self.digests.count(digest) for digest in self.digests}
        usual = max(counts, key=lambda digest: counts[digest])
        return tuple(rank for rank, digest in enumerate(self.digests) if digest != usual)


class RankCheck:
    """Compares ranks every `every` steps. All ranks must call `step()` alike: it communicates."""

    def __init__(self, guarded: Guarded, *, every: int = 1000, group: Any = None) -> None:
        if not isinstance(every, int) or every < 1:
            raise UsageError(f"every is {every!r}, expected a whole number of at least 1")
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            raise UsageError(
                "ranks are compared through torch.distributed: call init_process_group first"
            )
        self._guarded, self._every, self._group = guarded, every, group
        self._steps = self._turn = 0
        guarded.watch.keep_latest = True

    def step(self) -> RankReport | None:
        """Count a training step; at a due one compare the ranks.

        Returns None where nothing was due or the rank whose turn it is has no call to share.
        """
        self._steps += 1
        if self._steps % self._every:
            return None
        count = torch.distributed.get_world_size(self._group)
        source, self._turn = self._turn % count, self._turn + 1
        shared = self._shared(source)
        if shared is None:
            return None
        template, tensors = shared
        arguments, keywords = rebuild(template, tensors)
        first, second = (self._digest(tensors, template) for _ in range(2))
        gathered: list[Any] = [None] * count
        torch.distributed.all_gather_object(gathered, (first, first == second), self._group)
        report = RankReport(
            source=source,
            digests=tuple(digest for digest, _ in gathered),
            repeats=tuple(same for _, same in gathered),
        )
        self._guarded.watch.tally.add("rank checks")
        if not report.agree:
            self._report(report, arguments, keywords)
        return report

    def _shared(self, source: int) -> tuple[Template, list[Tensor]] | None:
        """Return the call that rank `source` of the group shares, on this rank's device."""
        rank = torch.distributed.get_rank(self._group)
        latest = self._guarded.watch.latest if rank == source else None
        parcel: list[Any] = [None]
        device = torch.device("cpu")
        if latest is not None and portable(latest[1]):
            parcel = [(latest[1], [tensor.cpu() for tensor in latest[0]])]
        group: Any = self._group or torch.distributed.group.WORLD
        origin = torch.distributed.get_global_rank(group, source)
        torch.distributed.broadcast_object_list(parcel, src=origin, group=self._group)
        if parcel[0] is None:
            return None
        own = self._guarded.watch.latest
        if own is not None and own[0]:
            device = own[0][0].device
        template, tensors = parcel[0]
        return template, [tensor.to(device) for tensor in tensors]

    def _digest(self, tensors: Sequence[Tensor], template: Template) -> str:
        arguments, keywords = rebuild(template, copies(tensors))
        with torch.no_grad():
            outputs, _ = flatten(self._guarded.kernel(*arguments, **keywords))
        found = hashlib.sha256()
        for tensor in outputs:
            host = tensor.detach().cpu().contiguous().reshape(-1)
            found.update(host.view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    def _report(
        self, report: RankReport, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> None:
        watch = self._guarded.watch
        entry, _ = watch.entry(key_of(arguments, keywords), arguments, keywords)
        odd = ", ".join(map(str, report.odd))
        text = described(arguments, keywords)
        watch.violated(
            entry,
            Violation(
                kernel=watch.name,
                kind="rank",
                signature=text,
                output="",
                statistic="rank",
                measured=float(len(report.odd)),
                allowed=0.0,
                group=f"ranks {odd}",
                judge="ranks",
                message=(
                    f"guarded kernel {watch.name}: equal inputs gave other results on rank {odd} "
                    f"of {len(report.digests)}, each time the same [{text}]"
                ),
                call=watch.slots.totals().calls,
                unix_s=unix_s(),
                dtype=dtype_of([*arguments, *keywords.values()]),
            ),
        )

    @property
    def trusted(self) -> bool:
        """Whether the guard's breakers are all closed."""
        return self._guarded.watch.state is State.CLOSED
