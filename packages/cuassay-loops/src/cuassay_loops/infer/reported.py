"""How a report of `cuassay loop infer` begins, and what it decides in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cuassay.model.device import Device
from cuassay.model.loop import LoopSettings
from cuassay.model.verdict import Decision
from cuassay_loops.kernels import KernelFault
from cuassay_loops.results import InferReport, Preset
from cuassay_loops.sequential import ALPHA, Left
from cuassay_loops.sites import Site


def reported(
    make: Callable[[InferReport], InferReport],
    *,
    doing: str,
    wanted: LoopSettings,
    site: Site,
    preset: Preset,
    device: Device,
    digest: str,
    seed: int,
    lengths: tuple[int, ...],
) -> InferReport:
    """Return what `make` makes of a report's head; a kernel that fails while `doing` is rejected.

    `lengths` are those of the sequences, in tokens.
    """
    head = InferReport(
        decision=Decision.ACCEPTED,
        reason="",
        site=site.name,
        problem=site.problem,
        candidate="",
        digest=digest,
        device=device,
        preset=preset,
        precision=wanted.precisions[0],
        seed=seed,
        lengths=lengths,
        false_alarm_rate=ALPHA,
    )
    try:
        return make(head)
    except KernelFault as fault:
        return replace(
            head,
            decision=Decision.REJECTED,
            reason=f"the kernel failed while {doing}: {fault}",
            failure=str(fault),
        )


def decided(
    report: InferReport,
    worst: Left | None,
    wrong: Sequence[str],
    *,
    what: str,
    place: str,
    undecided: bool,
    held: str,
) -> InferReport:
    """Return a report with its decision: what left the band and what else is wrong reject.

    `what` was compared (logits, states) at each `place` (step, sentence); `undecided` says that
    the trusted run has no finite values; `held` is the reason of an acceptance.
    """
    reasons = list(wrong)
    if worst is not None:
        pair = worst.pair
        reasons.insert(
            0,
            f"{what} leave the band at {place} {worst.step} ({worst.group}): error "
            f"{pair.deviation:.2g} of float64 where trusted runs have {pair.noise_deviation:.2g}",
        )
        report = replace(
            report,
            step=worst.step,
            group=worst.group,
            deviation=pair.deviation,
            noise=pair.noise_deviation,
        )
    if reasons:
        return replace(report, decision=Decision.REJECTED, reason="; ".join(reasons))
    if undecided:
        why = f"the trusted run itself gives no finite {what}"
        return replace(report, decision=Decision.INCONCLUSIVE, reason=why)
    return replace(report, reason=held)
