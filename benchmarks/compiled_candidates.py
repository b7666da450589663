"""What COMPILE001 and OPCHECK001 say of every correct candidate of the zoo, on a CPU at `standard`.

Honest rewrites and the twins of planted bugs, each called from a compiled function on two sets
of values and two shapes. Conditions are false alarms here; advice is counted apart.

    PYTHONPATH=src:. python benchmarks/compiled_candidates.py
"""

from __future__ import annotations

import dataclasses
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import ROOT, save

sys.path.insert(0, str(ROOT))

import torch
from tests.zoo.manifest import HONEST, PAIRS, load

from cuassay import build
from cuassay.checks.base import Check
from cuassay.checks.interface.compiled import Compile001
from cuassay.checks.interface.custom_ops import Opcheck001
from cuassay.errors import CuassayError, NothingToCheckError
from cuassay.formats import load_candidate
from cuassay.formats.execute import load_reference
from cuassay.judge.trial import open_trial
from cuassay.model.device import CPU
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner


@dataclasses.dataclass(slots=True)
class Count:
    """What one check said of all candidates."""

    judged: int = 0
    not_applicable: int = 0
    undecided: list[str] = dataclasses.field(default_factory=list)
    conditions: list[str] = dataclasses.field(default_factory=list)
    advice: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0


def candidates() -> Iterator[tuple[Path, str]]:
    """Yield every correct candidate that torch.compile can trace on a CPU, with its problem."""
    found = [(h.path, h.problem) for h in HONEST if not h.triton]
    found += [(p.twin, p.problem) for p in PAIRS if not p.needs_gpu and not p.triton]
    for path, problem in dict.fromkeys(found):
        text = path.read_text(encoding="utf-8")
        if "triton" not in text and "cuda" not in text:
            yield path, problem


def judge(check: Check, path: Path, name: str, count: Count, *, folder: Path, seed: int) -> None:
    """Run one check on one candidate in this process."""
    problem = load(name)
    trial = open_trial(
        problem,
        load_reference(problem),
        profile=Profile.STANDARD,
        device=CPU,
        root_seed=seed,
    )
    candidate = load_candidate(str(path), problem)
    built = build.load(candidate, problem, device=CPU, folder=folder)
    runner = LocalRunner(built.call, problem, convention=candidate.convention)
    started, label = time.perf_counter(), f"{path.parent.name}/{path.stem}"
    try:
        for scenario in check.propose(trial):
            run = runner.run(scenario, trial.inputs, None)
            found = check.judge(trial, scenario, run).findings
            count.judged += 1
            for finding in found:
                advice = finding.finding_class is FindingClass.ADVICE
                kept = count.advice if advice else count.conditions
                kept.append(f"{label}: {finding.message[:300]}")
    except NothingToCheckError:
        count.not_applicable += 1
    except CuassayError as error:
        count.undecided.append(f"{label}: {error}"[:300])
    count.seconds += time.perf_counter() - started
    torch._dynamo.reset()


def main() -> int:
    """Judge all of them; 1 where a correct candidate earned a condition."""
    logging.disable(logging.CRITICAL)
    counts = {check.code: Count() for check in (Compile001(), Opcheck001())}
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (path, name) in enumerate(candidates()):
            total += 1
            place = Path(folder) / f"{number}"
            for check in (Compile001(), Opcheck001()):
                judge(check, path, name, counts[check.code], folder=place, seed=number)
    rows = {code: dataclasses.asdict(count) for code, count in counts.items()}
    print(f"results: {save('compiled-candidates', {'candidates': total, **rows})}")
    alarms = sum(len(count.conditions) for count in counts.values())
    print(f"{total} correct candidates, {alarms} conditions")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
