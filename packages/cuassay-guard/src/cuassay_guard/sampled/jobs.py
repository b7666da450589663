"""Check one sampled call: screen it, ask the oracle where that is called for, report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cuassay.oracle.gradients import differentiated
from cuassay_guard.calls import device
from cuassay_guard.calls.snapshot import Snapshot
from cuassay_guard.calls.structure import flatten, rebuild
from cuassay_guard.capsules import evidence
from cuassay_guard.events import Violation
from cuassay_guard.sampled import arbiter, screen
from cuassay_guard.sampled.judging import Judgement, worst_of
from cuassay_guard.watch import Entry, Watch, unix_s

_CALM = 4  # with more jobs waiting, only suspicious calls go to the oracle


@dataclass(slots=True, kw_only=True, eq=False)
class CheckJob:
    """One sampled call on its way through the checks.

    `written` are places of inputs that the operator writes to. For the gradient of a call,
    `gradient_of` are the places of inputs whose gradients are the outputs, and the last
    `upstream` tensors of the snapshot the gradients that came in.
    """

    watch: Watch
    entry: Entry
    snapshot: Snapshot
    call: int
    written: tuple[int, ...] = ()
    gradient_of: tuple[int, ...] = ()
    upstream: int = 0
    trace_id: str = ""
    kernel: Any = None
    wanted: list[Tensor] = field(default_factory=list)
    violation: Violation | None = None
    compared: bool = False
    started: bool = False

    @property
    def kind(self) -> str:
        """forward or gradient."""
        return "gradient" if self.gradient_of else "forward"

    def run(self) -> None:
        """Check the call; whatever happens is counted, nothing is raised."""
        started = time.perf_counter()
        try:
            assert self.snapshot.moment is not None
            with device.aside(self.snapshot.moment):
                self.check()
        except torch.OutOfMemoryError as failure:
            self.watch.tally.add("out of memory")
            self.watch.trouble("the shadow's memory", failure)
        except Exception as failure:
            self.watch.trouble("a check", failure)
        self.finish(time.perf_counter() - started)

    def finish(self, spent_s: float) -> None:
        """Give back what the job holds and account for its time."""
        self.wanted = []
        self.snapshot.release()
        self.watch.budget.spend(spent_s)
        self.watch.shadow_s += spent_s
        self.watch.tally.settle(self, "checked" if self.compared else "failed")

    def lost(self) -> None:
        """Give up: the checker's thread died, or the interpreter is going down."""
        self.snapshot.release()
        self.watch.tally.settle(self, "lost")

    def check(self) -> None:
        """Compare the call with the trusted operator; `violation` says what was found."""
        watch, snapshot = self.watch, self.snapshot
        try:
            self.wanted = self.trusted(snapshot.tensors)
        except torch.OutOfMemoryError:
            raise
        except Exception as failure:
            watch.trouble("the trusted operator", failure)
            return
        names = self.names()
        wrong = screen.contract(snapshot.outputs, self.wanted, names)
        self.compared = True
        self.entry.checked += 1
        if wrong:
            self._report(
                _draft(
                    kind="contract",
                    statistic="contract",
                    measured=1.0,
                    allowed=0.0,
                    judge="contract",
                    message=wrong,
                )
            )
            return
        snapshot = self.snapshot
        pairs = zip(snapshot.outputs, self.wanted, strict=True)
        vectors = [screen.screened(got, want) for got, want in pairs]
        home = device.device_of(snapshot.tensors)
        found = torch.cat([screen.input_sketch(snapshot.tensors), *[v.to(home) for v in vectors]])
        flat: list[float] = found.tolist()  # waits, in this thread, for this stream
        count, first = len(screen.STATISTICS), len(screen.SKETCH) + len(snapshot.tensors)
        sketch = flat[:first]
        numbers = [flat[i : i + count] for i in range(first, len(flat), count)]
        if not self.gradient_of and self.entry.range.leaves(sketch):
            watch.sampler.heed()
        if self._asks_oracle(numbers):
            self._judge(numbers, names)

    def trusted(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return every output of the trusted operator, in the caller's autocast state."""
        with self.snapshot.autocast.again(), torch.inference_mode(False):
            if self.gradient_of:
                count = len(tensors) - self.upstream
                run = differentiated(self._forward, self.gradient_of, count=count)
                return list(run(*tensors))
            with torch.no_grad():
                return self._forward(*tensors)

    def _forward(self, *tensors: Tensor) -> list[Tensor]:
        given = list(tensors)
        for place in self.written:
            given[place] = given[place].clone()
        arguments, keywords = rebuild(self.snapshot.template, given)
        outputs, _ = flatten(self.watch.trusted.call(*arguments, **keywords))
        return [*outputs, *[given[place] for place in self.written]]

    def names(self) -> list[str]:
        """Return the names of the outputs."""
        if self.gradient_of:
            return [f"grad_input{place}" for place in self.gradient_of]
        count = len(self.wanted) - len(self.written)
        return self.watch.trusted.names(count) + [f"written{place}" for place in self.written]

    def _asks_oracle(self, numbers: list[list[float]]) -> bool:
        entry = self.entry
        allowance = entry.gradients if self.gradient_of else entry.allowance
        if allowance.beyond(numbers):
            entry.pause -= 1
            if entry.pause < 0:
                return True
            self.watch.tally.add("undecided")
            return False
        calm = self.watch.tally["submitted"] - self.watch.tally["done"] <= _CALM
        if entry.checked == 1 or (calm and entry.checked % self.watch.config.deep_every == 0):
            return True
        entry.breaker.clean()
        return False

    def _judge(self, numbers: list[list[float]], names: list[str]) -> None:
        watch, entry = self.watch, self.entry
        started = time.perf_counter()
        judgement = arbiter.judged_call(self, names)
        if judgement is not None and judgement.judge == "oracle":  # waiting takes no time away
            watch.budget.spend(started - time.perf_counter())
        if judgement is None:
            self._undecided()
            return
        watch.tally.add("judged")
        watch.share(max((one.share for one in judgement.outputs), default=0.0))
        failed = judgement.failed
        if failed is not None:
            worst = worst_of(failed)
            self._report(
                _draft(
                    kind="forward",
                    output=failed.output,
                    statistic=worst.name,
                    measured=worst.value,
                    allowed=worst.limit,
                    group=worst.group,
                    judge=judgement.judge,
                    message=(
                        f"output '{failed.output}', {worst.group}: {worst.name} is "
                        f"{worst.value:.3g}, allowed {worst.limit:.3g}; relative error "
                        f"{failed.relative_error:.2g}"
                    ),
                )
            )
        elif judgement.undecided:
            self._undecided()
        else:
            entry.undecided = 0
            allowance = entry.gradients if self.gradient_of else entry.allowance
            allowance.accept(numbers)
            self._drift(judgement)

    def _undecided(self) -> None:
        """Count a call that nobody could judge, and leave the next ones alone for a while."""
        self.watch.tally.add("undecided")
        self.entry.undecided += 1
        self.entry.pause = min(2**self.entry.undecided, 1024)

    def _drift(self, judgement: Judgement) -> None:
        drift = self.entry.drift
        kind = self.kind
        if judgement.judge != "oracle" or not drift.new(arbiter.call_fingerprint(self)):
            self.entry.breaker.clean()
            return
        for one in judgement.outputs:
            found = drift.add(f"{kind} {one.output}", one.bias)
            if found is not None:
                drift.reset()
                self._report(
                    _draft(
                        kind="drift",
                        output=one.output,
                        statistic=f"drift of the {found.kind}",
                        measured=found.score,
                        allowed=found.limit,
                        group=f"{found.calls} calls",
                        judge="oracle",
                        message=(
                            f"output '{one.output}': over {found.calls} distinct calls the error "
                            f"keeps one sign ({found.kind}): {found.score:.3g} standard errors, "
                            f"allowed {found.limit:.3g}"
                        ),
                    )
                )
                return
        self.entry.breaker.clean()

    def _report(self, draft: Violation) -> None:
        """Fill in a violation, keep its evidence and tell the guard."""
        watch = self.watch
        kind = self.kind if draft.kind == "forward" else draft.kind
        head = f"guarded kernel {watch.name} violates its contract ({kind}): "
        made = dataclasses.replace(
            draft,
            kernel=watch.name,
            kind=kind,
            signature=self.entry.text,
            dtype=self.entry.dtype,
            call=self.call,
            unix_s=unix_s(),
            trace_id=self.trace_id,
            message=f"{head}{draft.message} [{self.entry.text}]",
        )
        self.violation = evidence.kept(self, made)
        watch.violated(self.entry, self.violation)


def _draft(**fields: Any) -> Violation:
    blank = {"kernel": "", "signature": "", "call": 0, "unix_s": 0.0, "group": "", "output": ""}
    return Violation(**{**blank, **fields})
