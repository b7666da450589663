"""Many trials of zoo candidates through the real gate: over processes, resumable.

Each finished trial is a line of a journal; `--resume` takes the lines that are there and runs
the rest. A line names the candidate, the profile, the secret seed, the verdict and the time.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuassay.model.problem import Problem

ROOT = Path(__file__).resolve().parents[1]
for _place in (ROOT, ROOT / "src"):
    if str(_place) not in sys.path:
        sys.path.insert(0, str(_place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate to judge: `kind` is bug, twin or honest; `number` counts the seeds.

    `require` names conditions of use that are binding, `only` the checks that judge (none: all),
    `precision` the policy (empty: the problem's), `budget_s` what the trial may take where that is
    not the profile's (0.0), `limits` the largest sizes that the kernel documents, by axis.
    """

    kind: str
    name: str
    path: str
    problem: str
    dtype: str = ""
    profile: str = "quick"
    number: int = 0
    require: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    precision: str = ""
    budget_s: float = 0.0
    limits: tuple[tuple[str, int], ...] = ()

    @property
    def key(self) -> str:
        """What identifies a trial in a journal."""
        parts = (self.profile, self.kind, self.name, self.dtype, str(self.number), self.precision)
        return "/".join(parts[:5] if not self.precision else parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How a trial ended. `share` is the largest part of the numeric budget that was used."""

    key: str
    kind: str
    name: str
    problem: str
    dtype: str
    profile: str
    seed: int
    decision: str
    codes: list[str]
    reason: str
    share: float
    seconds: float
    checks_s: dict[str, float] = field(default_factory=dict)
    precision: str = ""
    conditions: list[str] = field(default_factory=list)


def run_trials(
    trials: Sequence[Trial],
    *,
    device: str,
    processes: int,
    journal: Path,
    resume: bool,
    say: Callable[[Row], None],
    isolated: bool = True,
    limit_s: float = 0.0,
    beside: int = 0,
) -> list[Row]:
    """Judge every trial, each under a fresh secret seed; return the rows in order of trials.

    After `limit_s` (0: no limit) none is begun, and those that did not end have no row. Kernels
    that are not `isolated` run in the judge's own process: for trusted ones alone. `beside` sides
    of checks run beside the first one.
    """
    deadline = time.monotonic() + (limit_s or math.inf)
    journal.parent.mkdir(parents=True, exist_ok=True)
    if not resume:
        journal.unlink(missing_ok=True)
    rows = {row.key: row for row in _read(journal)}
    left = [trial for trial in trials if trial.key not in rows]
    context = multiprocessing.get_context("spawn")
    with (
        open(journal, "a", encoding="utf-8") as out,
        ProcessPoolExecutor(processes, context, _open_gate, (device, isolated, beside)) as pool,
    ):
        batches = [pool.submit(_judge_all, batch) for batch in _batches(left, isolated)]
        for done in as_completed(batches):
            for row in done.result():
                rows[row.key] = row
                out.write(json.dumps(asdict(row)) + "\n")
                out.flush()
                say(row)
            if time.monotonic() > deadline:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    return [rows[trial.key] for trial in trials if trial.key in rows]


def _batches(trials: Sequence[Trial], isolated: bool) -> list[list[Trial]]:
    """Return trials that share a seed, and so their truths: one each where isolated."""
    if isolated:
        return [[trial] for trial in trials]
    found: dict[tuple[object, ...], list[Trial]] = {}
    for trial in trials:
        key = (trial.profile, trial.number, trial.problem, trial.dtype)
        found.setdefault(key, []).append(trial)
    return list(found.values())


def _read(journal: Path) -> Iterator[Row]:
    if journal.is_file():
        for text in journal.read_text(encoding="utf-8").splitlines():
            yield Row(**json.loads(text))


_gate = None


def _open_gate(device: str, isolated: bool, beside: int) -> None:
    """Start this process's gate; it lives as long as the process."""
    global _gate
    import atexit

    import torch
    from tests.zoo.judging import Gate
    from tests.zoo.local_gate import LocalGate

    torch.set_num_threads(1)
    # On a CPU Triton and CUDA C++ run in the machine: load it once, not in every worker.
    _gate = Gate(device, machine=device == "cpu", beside=beside) if isolated else LocalGate(device)
    atexit.register(_gate.close)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when the one that started it was killed; the zygote notices that too."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _judge_all(trials: Sequence[Trial]) -> list[Row]:
    seed = secrets.randbits(62)
    return [_judge(trial, seed) for trial in trials]


def load_problem(name: str, dtype: str) -> Problem:
    """Return a problem of the zoo, the catalogue or, after `world:`, of `world_problems`."""
    if name.startswith("world:"):
        import world_problems

        return world_problems.get(name.removeprefix("world:"), dtype)
    from tests.zoo.manifest import load

    return load(name, dtype=dtype or None)


def trial_problem(trial: Trial) -> Problem:
    """Return what a trial is judged by: its problem under its policy, in sizes it documents."""
    from cuassay.model.precision import precision_named
    from cuassay.model.problem import VarAxis

    problem, limits = load_problem(trial.problem, trial.dtype), dict(trial.limits)
    if trial.precision:
        problem = replace(problem, precision=precision_named(trial.precision))
    if not limits:
        return problem
    return replace(
        problem,
        axes=tuple(
            replace(axis, maximum=limits.get(axis.name, axis.maximum))
            if isinstance(axis, VarAxis)
            else axis
            for axis in problem.axes
        ),
        workloads=tuple(
            one
            for one in problem.workloads
            if all(one.axes[name] <= most for name, most in limits.items())
        ),
    )


def _judge(trial: Trial, seed: int) -> Row:
    import torch

    from cuassay.errors import CuassayError
    from cuassay.model.verdict import Profile

    assert _gate is not None
    started = time.perf_counter()
    decision, codes, reason, share, checks_s = "ERROR", [], "", 0.0, {}
    conditions: list[str] = []
    try:
        found = _gate.judge(
            trial_problem(trial),
            Path(trial.path),
            profile=Profile(trial.profile),
            seed=seed,
            require=trial.require,
            only=trial.only,
            budget_s=trial.budget_s or None,
        )
        verdict = found.verdict
        decision, codes = verdict.decision.value, list(found.codes)
        reason, share = verdict.reason, found.share
        conditions = list(verdict.conditions)
        checks_s = {report.code: round(report.duration_s, 3) for report in verdict.checks}
    except (CuassayError, torch.OutOfMemoryError) as error:
        reason = f"{type(error).__name__}: {error}"
    return Row(
        key=trial.key,
        kind=trial.kind,
        name=trial.name,
        problem=trial.problem,
        dtype=trial.dtype,
        profile=trial.profile,
        seed=seed,
        decision=decision,
        codes=codes,
        reason=reason[:2000],
        share=share if share < 1e30 else 1e30,
        seconds=round(time.perf_counter() - started, 3),
        checks_s=checks_s,
        precision=trial.precision,
        conditions=conditions,
    )


def say(row: Row) -> None:
    """Print one finished trial."""
    name = f"{row.name}{'@' + row.dtype if row.dtype else ''}"
    said = f"{row.profile:9s}{row.kind:8s}{name:46s}{row.decision:13s}{row.seconds:6.1f} s"
    print(f"{said}  {' '.join(row.codes)}", flush=True)


def seconds_of(rows: Iterable[Row]) -> float:
    """Return the seconds that trials took, added up over processes."""
    return sum(row.seconds for row in rows)


def cuda_or_cpu() -> str:
    """Return the device that trials run on unless told otherwise."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def gpus(device: str) -> int:
    """Return how many GPUs trials on a device may use."""
    import torch

    return torch.cuda.device_count() if device.startswith("cuda") else 0
