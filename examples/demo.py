"""The known story, with real kernels and no acting: `make demo`.

A fused embedding-gradient + RMSNorm-backward kernel accumulates in bfloat16. A benchmark that
draws token ids uniformly and asks that 99 % of the elements be close accepts it. cuassay
rejects it and shows why; the correct twin, which differs in the accumulator, is accepted. The
last one is the same fault in CUDA C++. On a machine without a GPU Triton runs in its interpreter
and CUDA C++ in the PTX machine, whose trace stands in the HTML report; with one, natively.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from cuassay.engine.run import check
from cuassay.errors import CuassayError
from cuassay.model.events import EngineFinished, EngineStopped, Event
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision, Profile, Verdict
from cuassay.report.html import verdict as html
from cuassay.report.terminal.trial import TerminalReport

FOLDER = Path(__file__).resolve().parent / "embedding_rmsnorm_backward"
REPORTS = Path("demo-report")
_SAYS_EACH_S = 9.0
EXPECTED = {
    "kernel_bf16_triton.py": Decision.REJECTED,
    "kernel_fp32_triton.py": Decision.ACCEPTED,
    "kernel_bf16.cu": Decision.REJECTED,
}


class Judged:
    """A trial that runs beside the others, as many at a time as there are `places`."""

    def __init__(self, kernel: str, places: threading.Semaphore) -> None:
        self._job = TrialJob(
            problem=str(FOLDER / "problem"),
            candidate=str(FOLDER / kernel),
            profile=Profile.QUICK,
        )
        self._said: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        # A daemon: where the demo is interrupted the judge sees that nobody listens, and ends.
        threading.Thread(target=self._run, args=(places,), daemon=True).start()

    def _run(self, places: threading.Semaphore) -> None:
        end: BaseException | None = None
        with places:
            try:
                for event in check(self._job):
                    self._said.put(event)
            except BaseException as error:  # raised where the events are read
                end = error
        self._said.put(end)

    def events(self) -> Iterator[Event]:
        """Yield what the judge says, as it says it or later."""
        while (said := self._said.get()) is not None:
            if isinstance(said, BaseException):
                raise said
            yield said


def judge(console: Console, kernel: str, judged: Judged) -> tuple[Verdict, Path]:
    """Show the trial of one kernel on the terminal; write its HTML page."""
    report = TerminalReport(console, progress=Console(stderr=True), each_s=_SAYS_EACH_S)
    report.begin(profile=Profile.QUICK.value)
    verdict: Verdict | None = None
    for event in judged.events():
        report.consume(event)
        if isinstance(event, EngineFinished):
            verdict = event.verdict
        if isinstance(event, EngineStopped):
            report.close()
            raise CuassayError(event.message)
    if verdict is None:
        raise CuassayError(f"{kernel}: the trial ended without a verdict")
    REPORTS.mkdir(exist_ok=True)
    page = REPORTS / f"{Path(kernel).stem}.html"
    page.write_text(html.render(verdict))
    return verdict, page


def told(console: Console, verdict: Verdict, page: Path) -> None:
    """Print what the benchmark says, what cuassay says, and where the report is."""
    rule = verdict.benchmark_rule
    if rule is not None and rule.matched_ratio is not None:
        theirs = "accepts" if rule.accepted else "rejects"
        console.print(
            f"  the benchmark's rule {theirs} it: {rule.matched_ratio:.4%} of the elements match "
            f"(atol {rule.atol:g}, rtol {rule.rtol:g}, {rule.required_ratio:.0%} needed, "
            "uniform ids, fixed seed)"
        )
    console.print(f"  cuassay: {verdict.decision.value}. Report: {page.absolute()}", soft_wrap=True)


def blamed(console: Console, verdict: Verdict) -> None:
    """Print the lines that the PTX machine blames, where it executed the kernel."""
    for view in verdict.sources:
        for line, _, code, text in view.marks:
            if code == "PREC101":
                console.print(f"  {view.file}:{line}: {text}", soft_wrap=True)


def main() -> int:
    """Judge the faulty kernel and its twin; 0 if the story comes out as told."""
    console = Console(highlight=False)
    started = time.perf_counter()
    console.print(
        "An embedding gradient adds up the gradients of every occurrence of a token. Text repeats\n"
        "its tokens: the five most frequent are 40 % of it. The first kernel adds in bfloat16,\n"
        "where a sum stops growing at 256 equal terms; the second adds in float32.\n"
    )
    right, places = True, threading.Semaphore(min(os.cpu_count() or 1, len(EXPECTED)))
    trials = {kernel: Judged(kernel, places) for kernel in EXPECTED}
    for kernel, expected in EXPECTED.items():
        console.rule(kernel)
        verdict, page = judge(console, kernel, trials[kernel])
        told(console, verdict, page)
        blamed(console, verdict)
        right = right and verdict.decision is expected
    console.print(f"\n{time.perf_counter() - started:.0f} s in all")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
