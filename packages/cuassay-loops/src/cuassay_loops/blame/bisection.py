"""Which kernel makes a training run leave the band: bisection over sites, passes, outputs.

The first run has every kernel active. If it stays within the band the kernels are cleared, with the
smallest error that would have been seen. Else half of the sites are active, and so on: the
search takes at most ceil(log2(sites)) + 2 paired runs, the first and the confirmation included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from cuassay.errors import UsageError
from cuassay.model.verdict import Decision
from cuassay_loops.blame.subjects import Subject, UserSubject
from cuassay_loops.blame.switches import BACKWARD, FORWARD
from cuassay_loops.kernels import KernelFault
from cuassay_loops.results import BlameReport, PairedRun
from cuassay_loops.sequential import ALPHA, BAND, Monitor
from cuassay_loops.train.losses import LossBand

Say = Callable[[str], None]
_GAINS = tuple(2.0**-power for power in range(12, 0, -1))
_DIVERGED = 1.5  # of the first loss


class Blame:
    """The search. `steps` bounds every run; runs end as soon as they leave the band."""

    def __init__(self, subject: Subject, *, steps: int, config: str, say: Say) -> None:
        if not subject.sites:
            raise UsageError(f"{config} names no sites: there is nothing to blame or to clear")
        self._subject, self._steps, self._config, self._say = subject, steps, config, say
        self._runs: list[PairedRun] = []
        self._losses: list[float] = []
        self._whole = isinstance(subject, UserSubject) and subject.whole

    def run(self) -> BlameReport:
        """Search and report."""
        everything = self._paired(dict.fromkeys(self._subject.sites, "kernel"))
        if not everything.left:
            return self._cleared()
        suspects = list(self._subject.sites)
        while len(suspects) > 1:
            half = suspects[: len(suspects) // 2]
            guilty = self._paired(dict.fromkeys(half, "kernel")).left
            suspects = half if guilty else suspects[len(half) :]
        (culprit,) = suspects
        if len(self._subject.sites) == 1:
            alone = everything
        else:
            # A run with one site active, the one that was made if there is one.
            made = [run for run in self._runs if run.active == (culprit,)]
            alone = made[0] if made else self._paired({culprit: "kernel"})
        search = len(self._runs)
        if not alone.left:
            return self._report(
                Decision.INCONCLUSIVE,
                "the kernels leave the band together, and no single one does: "
                + ", ".join(self._subject.sites),
                search=search,
            )
        part = self._narrowed(culprit)
        if alone.failure:
            where = f" (step {alone.step}: {alone.failure})"
        else:
            at = f" at step {alone.step}, {alone.group}"
            size = f", deviation {alone.deviation:.2g}, noise {alone.noise:.2g}"
            where = at + size if alone.deviation else at
        return self._report(
            Decision.REJECTED,
            f"site '{culprit}' alone makes the run leave the band{where}; found in "
            f"{search} paired runs over {len(self._subject.sites)} sites"
            + (f"; its {part} is at fault" if part else ""),
            culprit=culprit,
            part=part,
            search=search,
        )

    def _narrowed(self, site: str) -> str:
        """Return which pass, and which output, of a site is at fault; empty where it is all."""
        parts = self._subject.parts(site)
        guilty = [part for part in parts if self._paired({site: part}, part=part).left]
        passes = [part for part in guilty if part in (FORWARD, BACKWARD)]
        outputs = [part for part in guilty if part not in (FORWARD, BACKWARD)]
        every = [part for part in parts if part.startswith("output ")]
        found = passes if len(passes) == 1 else []
        found += outputs if 0 < len(outputs) < len(every) else []
        return " and ".join(found)

    def _paired(self, active: Mapping[str, str], *, part: str = "") -> PairedRun:
        self._say(f"run {len(self._runs) + 1}: {', '.join(active)} {part}".rstrip())
        if not self._whole:
            found = self._by_gradients(active, part)
        else:
            subject = self._subject
            assert isinstance(subject, UserSubject)
            if not self._losses:
                self._losses = subject.losses(self._steps, {})
                self._twin = subject.losses(self._steps, dict.fromkeys(subject.sites, "noise"))
            band = LossBand()
            for step, loss in enumerate(subject.losses(self._steps, active)):
                band.update(step, self._losses[step], noise=self._twin[step], candidate=loss)
            found = PairedRun(
                active=tuple(active),
                left=band.step is not None,
                part=part,
                step=band.step,
                group="loss" if band.step is not None else "",
            )
        self._runs.append(found)
        return found

    def _by_gradients(self, active: Mapping[str, str], part: str) -> PairedRun:
        losses: list[float] = []
        with self._subject.begin() as experiment:
            monitor = Monitor(experiment.groups)
            for step in range(self._steps):
                try:
                    seen = experiment.advance(step, active)
                except KernelFault as fault:
                    return PairedRun(
                        active=tuple(active), left=True, part=part, step=step, failure=str(fault)
                    )
                losses.append(seen.loss)
                if monitor.update(step, seen.pairs) or not math.isfinite(seen.loss):
                    break
        if len(losses) > len(self._losses):
            self._losses = losses
        if not monitor.left:
            return PairedRun(active=tuple(active), left=False, part=part)
        worst = max(monitor.left, key=lambda left: left.pair.deviation)
        return PairedRun(
            active=tuple(active),
            left=True,
            part=part,
            step=worst.step,
            group=worst.group,
            deviation=worst.pair.deviation,
            noise=worst.pair.noise_deviation,
        )

    def _cleared(self) -> BlameReport:
        if self._whole:
            power = {}
        else:
            found: dict[str, float] = {}
            with self._subject.begin() as experiment:
                for site in self._subject.sites:
                    self._say(f"what would have been seen at {site}")
                    for gain in _GAINS:
                        pairs = experiment.planted(0, site, gain)
                        if any(
                            not pair.finite
                            or pair.deviation
                            > max(BAND * pair.noise_deviation, experiment.groups[name].floor)
                            for name, pair in pairs.items()
                        ):
                            found[site] = gain
                            break
            power = found
        # The step from which a run's losses are not finite or far above the first.
        diverged = None
        for step, loss in enumerate(self._losses):
            if not math.isfinite(loss) or (step > 3 and loss > _DIVERGED * self._losses[0]):
                diverged = step
                break
        seen = ", ".join(f"{site} {100 * gain:.2g} %" for site, gain in power.items())
        told = f"; an error of the gain would have been seen from: {seen}" if seen else ""
        story = (
            f"the run diverges with trusted kernels as well, at step {diverged}: data, learning "
            "rate or idea, not the kernels"
            if diverged is not None
            else "data or idea, not the kernels"
        )
        return self._report(
            Decision.ACCEPTED,
            f"no kernel leaves the band in {len(self._losses)} steps: {story}{told}",
            power=power,
            diverged=diverged,
        )

    def _report(
        self,
        decision: Decision,
        reason: str,
        *,
        culprit: str = "",
        part: str = "",
        search: int = 0,
        power: Mapping[str, float] | None = None,
        diverged: int | None = None,
    ) -> BlameReport:
        return BlameReport(
            decision=decision,
            reason=reason,
            config=self._config,
            sites=self._subject.sites,
            culprit=culprit,
            part=part,
            search=search or len(self._runs),
            runs=tuple(self._runs),
            steps=self._steps,
            witness="losses" if self._whole else "gradients",
            diverged=diverged,
            losses=tuple(self._losses),
            power=power or {},
            false_alarm_rate=0.0 if self._whole else ALPHA,
            isolated=self._subject.isolated,
        )
