"""How often the first cause said of a fault is right, and how often a cause and its line are said.

    python benchmarks/causes.py --time-limit-s 1800 --out build/causes.json

`causes.json` lists faults that nobody wrote for the zoo: one line of a kernel in `causes_kernels/`
changed, so that cause and line are known by construction. A fault may have several names where a
person would accept each. Kernels are judged in this process (`--workers`: in workers of their own,
where limits of time are those of a user); each scenario that asks for a new process gets the module
anew. `--every-check` judges as `cuassay check` does; else those checks run that may find such
faults. Rows are kept as they come, and a run goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from common import ROOT, machine

sys.path.insert(0, str(ROOT))

from tests.zoo.judging import Gate
from tests.zoo.local_gate import InProcess

from cuassay import build
from cuassay.checks.base import Run
from cuassay.errors import CuassayError
from cuassay.formats import load_problem
from cuassay.home import cache_dir
from cuassay.judge.diagnose import alike, clues, instructions, minimise, repairs
from cuassay.judge.trial import JudgeTrial
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.diagnosis import Cause, Diagnosis
from cuassay.model.digest import candidate_digest
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Decision, Profile
from cuassay.sandbox.local import LocalRunner

FAULTS = ROOT / "benchmarks" / "causes.json"
KERNELS = ROOT / "benchmarks" / "causes_kernels"
RESULTS = ROOT / "benchmarks" / "results" / "causes-cpu.json"
# What finds wrong numbers, and beside it what looks for sums, state and memory where a kernel of
# the operator may have such a fault: each check costs seconds of a shared machine.
CHECKS = ("API001", "API002", "API003", "NUM001", "SHP001")
SUMS = ("row_mean", "embedding_gradient", "linear", "rms_norm")
STATE = ("linear_cached", "softmax_buffers")
MACHINE = ("MEM001", "MEM101", "INIT101", "PREC101")
NEAR = 2  # lines between the line said and the fault
_CALL_S = 20  # of this process's time: an edit of a line may make a loop that does not end
# What says no more than that the numbers are wrong.
_NOTHING_SAID = (Cause.WRONG_VALUES.value, "")


class SlowError(CuassayError):
    """A scenario did not end in time."""


class Reloaded(InProcess):
    """Runs scenarios in this process, a module of its own for each that asks for a new one."""

    def __init__(
        self, trial: JudgeTrial, candidate: Candidate, *, device: Device, **ignored: Any
    ) -> None:
        super().__init__(trial, candidate, device=device, **ignored)
        self.pool.nursery = None  # type: ignore[attr-defined]  # edited candidates need none either
        self._candidate, self._device = candidate, device
        self._folder = cache_dir() / candidate_digest(candidate, build.toolchain(device))

    def __call__(self, scenario: Scenario) -> Run:
        """Run one scenario, on the module as it is imported where it asks for a new process."""
        if scenario.fresh:
            problem = self._trial.problem
            built = build.load(self._candidate, problem, device=self._device, folder=self._folder)
            self._runner = LocalRunner(
                built.call, problem, device=self._device, convention=self._candidate.convention
            )
        with _limited(_CALL_S):
            return super().__call__(scenario)


@contextmanager
def _limited(limit_s: int) -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise SlowError(f"no end after {limit_s} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class InThisProcess(Gate):
    """A gate without workers."""

    start = Reloaded  # type: ignore[assignment]  # what a trial needs of a runner, not all
    isolated = False


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=Path, default=FAULTS, help="the list of faults")
    parser.add_argument("--folder", type=Path, default=KERNELS, help="their kernels")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every-check", action="store_true", help="as `cuassay check` does")
    parser.add_argument(
        "--compiled", choices=("only", "not"), help="kernels of Triton, Numba and CUDA C++"
    )
    parser.add_argument("--only", nargs="*", default=[], help="faults whose name contains one")
    parser.add_argument("--leave-out", nargs="*", default=[], help="faults whose name has one")
    parser.add_argument("--part", default="0/1", help="K/N: every Nth fault from the Kth on")
    parser.add_argument("--kernels", action="store_true", help="the kernels without any fault")
    parser.add_argument("--workers", action="store_true", help="in processes of their own")
    parser.add_argument("--smallest", action="store_true", help="counterexamples too")
    parser.add_argument("--profile", type=Profile, default=Profile.QUICK)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--time-limit-s", type=float, default=7200.0)
    return parser.parse_args(arguments)


def count_cpu_time() -> None:
    """Let what a diagnosis may take be time of this process: a shared machine gives no other."""
    clock = SimpleNamespace(monotonic=time.process_time, perf_counter=time.process_time)
    for module in (alike, clues, instructions, minimise, repairs):
        module.time = clock  # type: ignore[attr-defined]


def row_of(
    fault: Mapping[str, Any], source: Path, gate: Gate, chosen: argparse.Namespace
) -> dict[str, Any]:
    """Return what the first diagnosis says of a fault of `source`, beside what is true."""
    started = time.perf_counter()
    text = source.read_text()
    if text.count(fault["old"]) != 1:
        raise ValueError(f"{fault['name']}: the changed text must occur once in its kernel")
    checks = (
        *CHECKS,
        *(MACHINE if _is_compiled(source) else ()),
        *(("NUM002",) if fault["problem"] in SUMS else ()),
        *(("STATE001",) if fault["kernel"] in STATE else ()),
    )
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder) / f"kernel{source.suffix}"
        kernel.write_text(text.replace(fault["old"], fault["new"]))
        problem = load_problem(f"{chosen.folder / 'problems.py'}:{fault['problem']}")
        verdict = gate.judge(
            problem,
            kernel,
            profile=chosen.profile,
            seed=chosen.seed,
            only=() if chosen.every_check else checks,
        ).verdict
    first = verdict.diagnoses[0] if verdict.diagnoses else None
    line = first.line.line if first is not None and first.line is not None else 0
    cause = first.cause.value if first else ""
    return {
        "name": fault["name"],
        "rejected": verdict.decision is Decision.REJECTED,
        "decision": verdict.decision.value,
        "reason": verdict.reason[:200],
        "codes": sorted({f.code for report in verdict.checks for f in report.wrong}),
        "true": fault["causes"],
        "cause": cause,
        "said": cause not in _NOTHING_SAID,
        "right": cause in fault["causes"],
        "words": _words(first),
        "basis": first.basis.value if first else "",
        "line": line,
        "true_line": fault["line"],
        "what": first.line.what if first is not None and first.line is not None else "",
        "line_right": bool(line) and abs(line - fault["line"]) <= NEAR,
        "example": first.example if first else "",
        "causes": [one.cause.value for one in verdict.diagnoses],
        "seconds": round(time.perf_counter() - started, 1),
    }


def _is_compiled(source: Path) -> bool:
    """Whether a kernel is written in Triton, Numba or CUDA C++."""
    text = source.read_text()
    return source.suffix == ".cu" or any(
        word in text for word in ("import triton", "from numba import cuda", "load_inline")
    )


def _words(first: Diagnosis | None) -> str:
    return first.words[:300] if first is not None else ""


def summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the counts over rejected faults, and by cause how often it was said and right."""
    rejected = [row for row in rows if row.get("rejected")]
    said = [row for row in rejected if row["said"]]
    of_cause = Counter(row["cause"] for row in said)
    right = Counter(row["cause"] for row in said if row["right"])
    return {
        "rejected": len(rejected),
        "said": len(said),
        "right": sum(right.values()),
        "line_named": sum(bool(row["line"]) for row in rejected),
        "line_right": sum(row["line_right"] for row in rejected),
        "by_cause": {cause: [right[cause], count] for cause, count in sorted(of_cause.items())},
    }


def main(arguments: Sequence[str]) -> int:
    """Judge every chosen fault and keep the rows."""
    chosen = options(arguments)
    part, parts = map(int, chosen.part.split("/"))
    listed = json.loads(chosen.faults.read_text())["kernels"]
    sources = {path.stem: path for path in chosen.folder.glob("*.*")}
    if chosen.compiled is not None:
        asked = chosen.compiled == "only"
        listed = [f for f in listed if _is_compiled(sources[f["kernel"]]) is asked]
    if chosen.kernels:
        whole = {fault["kernel"]: fault for fault in listed}
        listed = [
            {**fault, "name": name, "old": text, "new": text, "causes": [], "line": 0}
            for name, fault in whole.items()
            for text in [sources[name].read_text()]
        ]
    faults = [f for f in listed if not chosen.only or any(o in f["name"] for o in chosen.only)]
    faults = [f for f in faults if not any(o in f["name"] for o in chosen.leave_out)]
    # One fault a kernel in turn, those that compile nothing first: a run may be cut short.
    turn: Counter[str] = Counter()
    order = {}
    for fault in faults:
        order[fault["name"]] = _is_compiled(sources[fault["kernel"]]), turn[fault["kernel"]]
        turn[fault["kernel"]] += 1
    faults.sort(key=lambda fault: order[fault["name"]])
    rows: list[dict[str, Any]] = []
    if chosen.out.exists():
        rows = json.loads(chosen.out.read_text())["rows"]
    known = {row["name"] for row in rows}
    until = time.monotonic() + chosen.time_limit_s
    kind = Gate if chosen.workers else InThisProcess
    if not chosen.workers:
        count_cpu_time()
    with kind(chosen.device, machine=chosen.workers, smallest=chosen.smallest, causes=True) as gate:
        for fault in faults[part::parts]:
            if fault["name"] in known:
                continue
            if time.monotonic() > until:
                break
            try:
                row = row_of(fault, sources[fault["kernel"]], gate, chosen)
            except (CuassayError, ValueError, RuntimeError) as error:
                row = {"name": fault["name"], "rejected": False, "error": repr(error)[:300]}
            rows.append(row)
            told = [str(row.get(key)) for key in ("rejected", "right", "line_right", "cause")]
            print(
                f"{row['name']:48}",
                *told,
                row.get("true"),
                f"{row.get('line')}/{row.get('true_line')}",
                row.get("seconds"),
                row.get("error", ""),
                row.get("words", "")[:120],
                flush=True,
            )
            document = {"machine": machine(), "summary": summary(rows), "rows": rows}
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(summary(rows), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
