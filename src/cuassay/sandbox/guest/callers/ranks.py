"""Calls on ranks that do not wait for one another in between."""

from __future__ import annotations

from cuassay.model.reports import Grouped
from cuassay.model.scenario import Poison
from cuassay.model.steps import CallRanks
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.ranks.ranked import Ranked
from cuassay.sandbox.guest.ranks.world import Timing


def call_ranks(host: Host, step: CallRanks) -> Made:
    """Execute a CallRanks; a function of all ranks, as a reference is, is called in turn."""
    called = host.candidate
    if not isinstance(called, Ranked):
        for slots, results in zip(step.slots, step.results, strict=True):
            for slot, result in zip(slots, results, strict=True):
                host.hold(result, slot, host.invoke(slot, host.destinations(slot, Poison.NAN)))
        return Made(report=Grouped(together=True))
    timing = Timing(
        late=step.late,
        delay_s=step.delay_ms / 1e3,
        moments=step.moments,
        refill=step.refill,
        busy_ms=step.busy_ms,
        issued=step.issued,
    )
    answers = called.run(
        [[host.slot(slot).values for slot in slots] for slots in step.slots], timing
    )
    names = [spec.name for spec in host.problem.outputs]
    for slots, results, made in zip(step.slots, step.results, answers, strict=True):
        for slot, result, outputs in zip(slots, results, made, strict=True):
            host.hold(result, slot, list(zip(names, outputs, strict=True)))
    return Made(report=Grouped(together=called.takes_group))
