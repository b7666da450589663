"""Rank consistency for data-parallel training: equal inputs must give equal results everywhere.

At every so-manyth step one rank's inputs (the sampled call that its guard saw last) go to all
ranks; each runs the kernel on them twice and the digests are compared. A device that computes
otherwise, a kernel with uninitialised memory and a race all show here without any tolerance.

Ranks talk over a gloo group of their own, on the CPU: no message waits behind the training's
collectives, and a rank that died or hangs costs the others at most `timeout_s`, once.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cuassay.errors import UsageError
from cuassay.oracle.bits import raw_bytes
from cuassay_guard.calls.breaker import State
from cuassay_guard.calls.signature import described, first_dtype, key_of
from cuassay_guard.calls.snapshot import detached_copies
from cuassay_guard.calls.structure import Template, flatten, portable, rebuild
from cuassay_guard.events import Violation
from cuassay_guard.watch import unix_s
from cuassay_guard.wrap import Guarded


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What one comparison showed. `digests`, `repeats` and `errors` are by rank.

    `agree` is False where ranks differ although each repeats itself; a kernel that does not
    repeat itself on one rank is `nondeterministic` and decides nothing about ranks. `errors`
    are the largest differences from the trusted operator, found only where ranks differ.
    """

    source: int
    digests: tuple[str, ...]
    repeats: tuple[bool, ...]
    errors: tuple[float, ...] = ()

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
        """The ranks that differ from most others; where no majority is, from the nearest to truth.

        All ranks where neither tells: two ranks, equally far from the trusted operator.
        """
        ranking = {digest: self._standing(digest) for digest in self.digests}
        best = max(ranking.values())
        usual = [digest for digest, standing in ranking.items() if standing == best]
        if len(ranking) > 1 and len(usual) > 1:
            return tuple(range(len(self.digests)))
        return tuple(rank for rank, digest in enumerate(self.digests) if digest != usual[0])

    def _standing(self, digest: str) -> tuple[int, float]:
        """Return how many ranks gave an answer, and minus its distance from the trusted one."""
        own = [
            error for error, one in zip(self.errors, self.digests, strict=False) if one == digest
        ]
        return Counter(self.digests)[digest], -max(own, default=0.0)


class RankCheck:
    """Compares ranks every `every` steps. All ranks must call `step()` alike: it communicates.

    `group` is the ranks to compare, all of them by default. A comparison that a rank does not
    join within `timeout_s` is given up, and so are all later ones: training goes on, the guard
    counts an error and logs it once.
    """

    def __init__(
        self, guarded: Guarded, *, every: int = 1000, group: Any = None, timeout_s: float = 60.0
    ) -> None:
        if not isinstance(every, int) or every < 1:
            raise UsageError(f"every is {every!r}, expected a whole number of at least 1")
        if not (isinstance(timeout_s, int | float) and 0 < timeout_s < math.inf):
            raise UsageError(f"timeout_s is {timeout_s!r}, expected a number of seconds above 0")
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            raise UsageError(
                "ranks are compared through torch.distributed: call init_process_group first"
            )
        self._guarded, self._every = guarded, every
        self._group, self._timeout_s = group, float(timeout_s)
        self._channel: Any = None  # made when ranks meet anyway, not where this object is made
        self._steps = self._turn = 0
        self._given_up = False
        guarded.watch.keep_latest = True

    def step(self) -> RankReport | None:
        """Count a training step; at a due one compare the ranks. Never raises.

        Returns None where nothing was due, the rank whose turn it is has no call to share, or
        a rank did not answer.
        """
        self._steps += 1
        if self._steps % self._every or self._given_up:
            return None
        try:
            return self._compared()
        except (
            Exception
        ) as failure:  # a rank that died closes its sockets; one that hangs times out
            self._given_up = True
            self._guarded.watch.trouble("the comparison of ranks, given up,", failure)
            return None

    def _compared(self) -> RankReport | None:
        if self._channel is None:
            self._channel = _channel(self._group, self._timeout_s)
        count = torch.distributed.get_world_size(self._channel)
        source, self._turn = self._turn % count, self._turn + 1
        rank = torch.distributed.get_rank(self._channel)
        latest = self._guarded.watch.latest
        parcel: list[Any] = [None]
        if rank == source and latest is not None and portable(latest[1]):
            parcel = [(latest[1], [tensor.cpu() for tensor in latest[0]])]
        torch.distributed.broadcast_object_list(parcel, group=self._channel, group_src=source)
        if parcel[0] is None:
            shared = None
        else:
            device = (
                latest[0][0].device if latest is not None and latest[0] else torch.device("cpu")
            )
            template, tensors = parcel[0]
            shared = template, [tensor.to(device) for tensor in tensors]
        if shared is None:
            return None
        template, tensors = shared
        first, second = (self._digest(tensors, template) for _ in range(2))
        gathered = self._gathered((first, first == second))
        report = RankReport(
            source=source,
            digests=tuple(digest for digest, _ in gathered),
            repeats=tuple(same for _, same in gathered),
        )
        self._guarded.watch.tally.add("rank checks")
        if report.agree:
            return report
        errors = self._gathered(self._error(tensors, template))
        report = dataclasses.replace(report, errors=tuple(errors))
        self._report(report, *rebuild(template, tensors))
        return report

    def _gathered(self, mine: Any) -> list[Any]:
        """Return every rank's object, in the order of ranks."""
        found: list[Any] = [None] * torch.distributed.get_world_size(self._channel)
        torch.distributed.all_gather_object(found, mine, self._channel)
        return found

    def _digest(self, tensors: Sequence[Tensor], template: Template) -> str:
        """Return what the kernel's answer hashes to; a kernel that raises has an answer too."""
        try:
            outputs = self._outputs(self._guarded.kernel, tensors, template)
        except Exception as failure:
            return f"raised {type(failure).__name__}"
        found = hashlib.sha256()
        for tensor in outputs:
            found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            found.update(raw_bytes(tensor.cpu()).numpy().tobytes())
        return found.hexdigest()

    def _error(self, tensors: Sequence[Tensor], template: Template) -> float:
        """Return the largest difference from the trusted operator; inf where there is none."""
        try:
            pairs = zip(
                self._outputs(self._guarded.kernel, tensors, template),
                self._outputs(self._guarded.watch.trusted.call, tensors, template),
                strict=True,
            )
            worst = max((_distance(one, other) for one, other in pairs), default=0.0)
        except Exception:
            return math.inf
        return worst

    @staticmethod
    def _outputs(
        operator: Callable[..., Any], tensors: Sequence[Tensor], template: Template
    ) -> list[Tensor]:
        """Return what an operator gives for copies of a call, and what it wrote in them."""
        given = detached_copies(tensors)
        arguments, keywords = rebuild(template, given)
        with torch.no_grad():
            outputs, _ = flatten(operator(*arguments, **keywords))
        return [*outputs, *given]

    def _report(
        self, report: RankReport, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> None:
        watch = self._guarded.watch
        entry, _ = watch.entry(key_of(arguments, keywords), arguments, keywords)
        odd = ", ".join(map(str, report.odd))
        far = f"{max(report.errors, default=math.inf):.3g}"
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
                    f"of {len(report.digests)}, each time the same; up to {far} from the trusted "
                    f"operator [{text}]"
                ),
                call=watch.gate.calls,
                unix_s=unix_s(),
                dtype=first_dtype([*arguments, *keywords.values()]),
            ),
        )

    @property
    def trusted(self) -> bool:
        """Whether the guard's breakers are all closed."""
        return self._guarded.watch.state is State.CLOSED


def _channel(group: Any, timeout_s: float) -> Any:
    """Return a process group of the same ranks for these messages alone."""
    ranks = torch.distributed.get_process_group_ranks(group or torch.distributed.group.WORLD)
    return torch.distributed.new_group(
        ranks,
        timeout=datetime.timedelta(seconds=timeout_s),
        backend="gloo" if torch.distributed.is_gloo_available() else None,
        use_local_synchronization=True,  # of all ranks, only those of the group come here
        group_desc="cuassay ranks",
    )


def _distance(one: Tensor, other: Tensor) -> float:
    """Return max |one - other| in float64; inf for other shapes, NaN and infinities."""
    if one.shape != other.shape:
        return math.inf
    if not one.numel():
        return 0.0
    found = float((one.to(torch.float64) - other.to(torch.float64)).abs().max())
    return found if math.isfinite(found) else math.inf
