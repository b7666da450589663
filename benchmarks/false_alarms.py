"""False alarms: every correct kernel of the zoo through the gate, over many secret seeds.

Correct are the twins of planted bugs, honest rewrites of the catalogued operators in bfloat16,
float16 and float32, kernels that stand for causes of false alarms met, and, with `--kinds
trusted` on a GPU, those of torch.compile, SDPA and Liger-Kernel (saved as a result of their
own). Each run draws its own seed. Prints every kernel that was not ACCEPTED and the largest
shares of the numeric budget that any used; exit code 1 where there was an alarm.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from common import ROOT, save
from gate_trials import Row, Trial, cuda_or_cpu, gpus, run_trials, say, seconds_of
from tests.zoo.manifest import ALARMS, HONEST, PAIRS, Honest
from tests.zoo.manifest_trusted import TRUSTED

from cuassay.catalog.registry import DTYPES, dtypes

SHOWN = 10  # of the largest shares


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="secret seeds of each kernel")
    parser.add_argument("--profile", nargs="*", default=["quick"])
    parser.add_argument(
        "--kernels", nargs="*", help="only kernels whose name contains one of these"
    )
    parser.add_argument("--kinds", nargs="*", default=["honest", "alarm", "twin"])
    parser.add_argument("--dtypes", nargs="*", help="only these working dtypes")
    parser.add_argument("--device", default=cuda_or_cpu())
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--in-process", action="store_true", help="without workers: the oracle and checks alone"
    )
    parser.add_argument("--resume", action="store_true", help="keep what the last run finished")
    return parser.parse_args(arguments)


def honest_kernels() -> tuple[Honest, ...]:
    """Return the honest rewrites, those of the grown catalogue among them."""
    if importlib.util.find_spec("tests.zoo.manifest_catalog") is None:
        return HONEST
    from tests.zoo.manifest_catalog import HONEST_CATALOG

    later = (
        Honest(name=f"{problem}_{style}", problem=problem)
        for problem, styles in HONEST_CATALOG.items()
        for style in styles.split()
    )
    return (*HONEST, *(honest for honest in later if honest not in HONEST))


def trusted_kernels() -> Iterator[Trial]:
    """Yield the kernels that everybody runs, of the libraries that are installed."""
    for one in TRUSTED:
        if one.installed:
            yield Trial(
                kind="trusted",
                name=one.name,
                path=str(one.path),
                problem=one.problem,
                dtype=one.variant or "",
            )


def kernels(device: str) -> Iterator[Trial]:
    """Yield each correct kernel once, as a trial to be repeated."""
    for honest in honest_kernels():
        name, path, problem = honest.name, str(honest.path), honest.problem
        for dtype in DTYPES:
            if "@" not in problem and dtype in dtypes(problem):
                yield Trial(kind="honest", name=name, path=path, problem=problem, dtype=dtype.value)
        if "@" in problem:
            yield Trial(kind="honest", name=name, path=path, problem=problem)
    for alarm in ALARMS:
        yield Trial(kind="alarm", name=alarm.name, path=str(alarm.path), problem=alarm.problem)
    for pair in PAIRS:
        if pair.gpus <= gpus(device):
            yield Trial(
                kind="twin",
                name=pair.name,
                path=str(pair.twin),
                problem=pair.problem,
                require=pair.require,
            )
    yield from trusted_kernels()


def trials(given: argparse.Namespace) -> list[Trial]:
    """Return every run: all kernels under the first seed, then all under the second."""
    wanted = [
        trial
        for trial in kernels(given.device)
        if trial.kind in given.kinds
        and (not given.kernels or any(part in trial.name for part in given.kernels))
        and (not given.dtypes or trial.dtype in given.dtypes)
    ]
    return [
        replace(trial, profile=profile, number=number)
        for profile in given.profile
        for number in range(given.seeds)
        for trial in wanted
    ]


def report(rows: Sequence[Row], profile: str) -> int:
    """Print what a profile showed; return the number of alarms."""
    of = [row for row in rows if row.profile == profile]
    alarms = [row for row in of if row.decision != "ACCEPTED"]
    kinds = Counter(row.kind for row in of)
    said = ", ".join(f"{count} of {kind}s" for kind, count in sorted(kinds.items()))
    print(f"\n{profile}: {len(of)} runs ({said}), {len(alarms)} alarms, {seconds_of(of):.0f} s")
    for row in alarms:
        print(f"  {row.decision} {row.name} {row.problem} {row.dtype} seed {row.seed}")
        print(f"    {' '.join(row.codes)} {row.reason}")
    print("  largest shares of the numeric budget:")
    accepted = (row for row in of if row.decision == "ACCEPTED")
    for row in sorted(accepted, key=lambda row: -row.share)[:SHOWN]:
        print(f"    {row.share:.3f}  {row.name} {row.dtype} seed {row.seed}")
    return len(alarms)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every kernel, print alarms and shares, save the rows; 1 for an alarm."""
    given = options(sys.argv[1:] if arguments is None else arguments)
    rows = run_trials(
        trials(given),
        device=given.device,
        processes=given.processes,
        journal=ROOT / "build" / "zoo" / f"false-alarms-{given.device}.ndjson",
        resume=given.resume,
        say=say,
        isolated=not given.in_process,
    )
    alarms = sum(report(rows, profile) for profile in given.profile)
    if given.kernels is None:
        kept = {"seeds": given.seeds, "alarms": alarms, "rows": [asdict(row) for row in rows]}
        name = "trusted" if given.kinds == ["trusted"] else "false-alarms"
        print(f"results: {save(name, kept)}")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
