"""False alarms in the world: what people run, judged by the problems that it is used for.

    python benchmarks/world.py --in-process                         # kernels as models write them
    python benchmarks/world.py --sets transformers --packages DIR   # `pip install --target DIR ...`
    python benchmarks/world.py --sets trusted --device cuda         # torch.compile, SDPA, Liger

Sets: `models` (tests/zoo/models, faults planted in them too), `transformers` (modules of models and
activations, from a folder of packages outside the repository), `trusted` (torch.compile of
references, SDPA's back ends, Liger-Kernel, where installed). Every trial draws a seed of its own; a
journal keeps what is finished (`--resume`). `--in-process` judges by the checks of numbers alone,
without workers: many kernels over many seeds; without it the whole gate judges. Exit code 1 where
a right kernel was not accepted or a planted fault was.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from common import ROOT, save
from false_alarms import trusted_kernels
from gate_trials import Row, Trial, cuda_or_cpu, run_trials, say, seconds_of
from tests.zoo.manifest_models import CODES, MODELS
from world_compiled import ADAPTERS as COMPILED
from world_transformers import ADAPTERS as TRANSFORMERS
from world_triton import ADAPTERS as TRITON
from world_vision import ADAPTERS as VISION

ADAPTERS = {
    "transformers": TRANSFORMERS,
    "vision": VISION,
    "compiled": COMPILED,
    "triton": TRITON,
}
SETS = ("models", "trusted", *ADAPTERS)
_BUILD = ROOT / "build" / "world"
_RIGHT = "ACCEPTED"
_WRONG = ("fault", "rejected")  # planted in a model's kernel; a package's own


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=["models"], choices=SETS)
    parser.add_argument("--packages", type=Path, help="a folder of installed packages")
    parser.add_argument("--seeds", type=int, default=1, help="secret seeds of each kernel")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--device", default=cuda_or_cpu())
    parser.add_argument("--limit", type=int, default=0, help="so many kernels of a set, 0: all")
    parser.add_argument("--kernels", nargs="*", help="only names that contain one of these")
    parser.add_argument("--dtypes", nargs="*", help="only these working dtypes")
    parser.add_argument("--part", type=part, default=(1, 1), metavar="K/N", help="one share of N")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=0.0, help="of a trial, on busy cores")
    parser.add_argument("--within-s", type=float, default=0.0, help="begin none after so long")
    parser.add_argument(
        "--in-process", action="store_true", help="the checks of numbers alone, without workers"
    )
    parser.add_argument("--journal", type=Path, help="where finished trials are kept")
    parser.add_argument("--resume", action="store_true", help="keep what the last run finished")
    return parser.parse_args(arguments)


def part(text: str) -> tuple[int, int]:
    """Return which share of the trials a command line asks for, such as 1/4, and of how many."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part: expected K/N with 1 <= K <= N")
    return int(index), int(count)


def kernels(name: str, packages: Path | None, device: str = "cpu") -> Iterator[Trial]:
    """Yield each kernel of a set once. Raises SystemExit where its packages are not given."""
    _BUILD.mkdir(parents=True, exist_ok=True)
    if name == "models":
        for model in MODELS:
            yield Trial(kind="model", name=model.name, path=str(model.path), problem=model.problem)
            for fault in model.faults:
                path = str(model.planted(fault, _BUILD))
                title = f"{model.name}.{fault}"
                yield Trial(kind="fault", name=title, path=path, problem=model.problem)
    elif name == "trusted":
        yield from trusted_kernels()
    else:
        if packages is None and name != "compiled":
            raise SystemExit(f"the set '{name}' needs --packages FOLDER (pip install --target)")
        for adapter in ADAPTERS[name]:
            source = ROOT / "src" if packages is None or name == "compiled" else packages
            path = str(adapter.written(_BUILD, source))
            for dtype in adapter.dtypes:
                refused = adapter.rejected_in_16_bits and dtype != "float32"
                refused = refused or (adapter.overflow and device == "cpu")
                yield Trial(
                    kind="rejected" if refused else "world",
                    name=f"{adapter.package}/{adapter.name}",
                    path=path,
                    problem=adapter.problem,
                    dtype=dtype,
                    precision=adapter.precision,
                    limits=adapter.limits,
                )


def trials(given: argparse.Namespace) -> list[Trial]:
    """Return every trial: all kernels under the first seed, then all under the second."""
    wanted: list[Trial] = []
    for name in given.sets:
        found = [
            trial
            for trial in kernels(name, given.packages, given.device)
            if (not given.kernels or any(part in trial.name for part in given.kernels))
            and (not given.dtypes or trial.dtype in given.dtypes)
        ]
        index, count = given.part
        wanted += found[: given.limit or None][index - 1 :: count]
    only = CODES if given.in_process else ()
    return [
        replace(trial, profile=given.profile, number=number, only=only, budget_s=given.budget_s)
        for number in range(given.seeds)
        for trial in wanted
    ]


def is_alarm(row: Row) -> bool:
    """Whether a trial ended wrongly: a right kernel not accepted, or a wrong one not rejected."""
    return row.decision != ("REJECTED" if row.kind in _WRONG else _RIGHT)


def report(rows: Sequence[Row]) -> int:
    """Print counts by kind and every alarm; return the number of alarms."""
    for kind in sorted({row.kind for row in rows}):
        of = [row for row in rows if row.kind == kind]
        wrong = [row for row in of if is_alarm(row)]
        names = len({(row.name, row.dtype) for row in of})
        print(
            f"\n{kind}: {names} kernels, {len(of)} trials, {len(wrong)} judged wrongly, "
            f"{seconds_of(of):.0f} s"
        )
        for row in wrong:
            print(f"  {row.decision} {row.name} {row.problem} {row.dtype} seed {row.seed}")
            print(f"    {' '.join(row.codes)} {row.reason}")
    return sum(map(is_alarm, rows))


def conditions(rows: Sequence[Row]) -> dict[str, int]:
    """Return how many accepted kernels each condition was stated of, the most frequent first."""
    said = Counter(
        key
        for row in rows
        if row.decision == _RIGHT and row.kind not in _WRONG
        for key in {one.partition(":")[0] for one in row.conditions}
    )
    return dict(said.most_common())


def kept_of(row: Row) -> dict[str, object]:
    """Return what a results file keeps of a trial: no findings of right kernels, short reasons."""
    found: dict[str, object] = {
        "kernel": row.name,
        "problem": row.problem,
        "dtype": row.dtype,
        "kind": row.kind,
        "decision": row.decision,
        "conditions": sorted({one.partition(":")[0] for one in row.conditions}),
        "share": round(row.share, 3),
        "seed": row.seed,
        "seconds": row.seconds,
    }
    if row.precision:
        found["precision"] = row.precision
    if row.decision != _RIGHT:
        found |= {"codes": row.codes, "reason": row.reason[:300]}
    return found


def versions(folder: Path | None) -> dict[str, str]:
    """Return the versions of the packages in a folder."""
    if folder is None:
        return {}
    found = metadata.distributions(path=[str(folder)])
    return {one.metadata["Name"]: one.version for one in found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge every kernel, print alarms, save the rows; 1 for an alarm."""
    given = options(sys.argv[1:] if arguments is None else arguments)
    if given.packages is not None:  # candidates import them, and their walls leave them open
        known = [str(given.packages.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(known)
    rows = run_trials(
        trials(given),
        device=given.device,
        processes=given.processes,
        journal=given.journal or _BUILD / f"world-{given.device}.ndjson",
        resume=given.resume,
        say=say,
        isolated=not given.in_process,
        limit_s=given.within_s,
    )
    alarms = report(rows)
    kept = {
        "sets": given.sets,
        "profile": given.profile,
        "counts": dict(Counter(f"{row.kind} {row.decision}" for row in rows)),
        "conditions": conditions(rows),
        "in_process": given.in_process,
        "packages": versions(given.packages),
        "alarms": alarms,
        "rows": [kept_of(row) for row in rows],
    }
    if not given.kernels and not given.dtypes:
        print(f"results: {save('world', kept)}")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
