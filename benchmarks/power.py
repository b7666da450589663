"""`make power`: every pair of the zoo through the gate; which fault classes are caught.

A pair is a planted bug and its correct twin (tests/zoo). Per failure class and profile: bugs
caught, bugs missed, twins rejected (false alarms), and the time that took. Exit code 1 where a
twin is not accepted, or where `standard` misses a bug that this device can express.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common import ROOT, save
from gate_trials import Row, Trial, cuda_or_cpu, gpus, run_trials, say, seconds_of
from tests.zoo.manifest import PAIRS, Pair

from cuassay.build.machine.candidates import missing
from cuassay.model.verdict import Profile

QUICK_SHARE = 0.9  # of the pairs, that `quick` has to catch


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", nargs="*", help="only these pairs")
    parser.add_argument("--profile", nargs="*", default=["quick", "standard"])
    parser.add_argument("--seeds", type=int, default=1, help="secret seeds of each candidate")
    parser.add_argument("--device", default=cuda_or_cpu())
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--beside", type=int, default=0, help="sides of checks beside the first")
    parser.add_argument("--resume", action="store_true", help="keep what the last run finished")
    parser.add_argument("--journal", type=Path, help="where rows go as they come")
    parser.add_argument(
        "--time-limit", type=float, default=0.0, help="seconds until no trial begins; 0: none"
    )
    return parser.parse_args(arguments)


def chosen(names: Sequence[str] | None, device: str) -> list[Pair]:
    """Return the pairs that this device can express, or those of them that were named."""
    known = {pair.name for pair in PAIRS}
    unknown = sorted(set(names or ()) - known)
    if unknown:
        raise SystemExit(f"no such pair: {', '.join(unknown)}; the pairs are in tests/zoo/bugs")
    able = [pair for pair in PAIRS if pair.gpus <= gpus(device)]
    return [pair for pair in able if not names or pair.name in names]


def trials(pairs: Iterable[Pair], profiles: Iterable[str], seeds: int) -> list[Trial]:
    """Return every trial, twin after bug."""
    return [
        Trial(
            kind=kind,
            name=pair.name,
            path=str(getattr(pair, kind)),
            problem=pair.problem,
            profile=profile,
            number=number,
            require=pair.require,
        )
        for profile in profiles
        for number in range(seeds)
        for pair in pairs
        for kind in ("bug", "twin")
    ]


def caught(pair: Pair, row: Row) -> bool:
    """Whether a bug was rejected, and by a check that its fault belongs to."""
    return row.decision == "REJECTED" and bool(set(row.codes) & set(pair.codes))


def summary(pairs: Sequence[Pair], rows: Sequence[Row], name: str) -> dict[str, Any]:
    """Return a profile's counts by failure class and by check, its misses and false alarms.

    `beyond` names the pairs that only a later profile's inputs can show.
    """
    of = [row for row in rows if row.profile == name]
    by_name = {pair.name: pair for pair in pairs}
    bugs = [row for row in of if row.kind == "bug"]
    twins = [row for row in of if row.kind == "twin"]
    missed = [row for row in bugs if not caught(by_name[row.name], row)]
    alarms = [row for row in twins if row.decision != "ACCEPTED"]
    classes: dict[str, dict[str, float]] = {}
    for row in of:
        for row_class in by_name[row.name].classes:
            cell = classes.setdefault(row_class, dict.fromkeys(_COLUMNS, 0))
            cell["caught"] += row.kind == "bug" and row not in missed
            cell["missed"] += row in missed
            cell["false_alarms"] += row in alarms
            cell["seconds"] = round(cell["seconds"] + row.seconds, 1)
    codes: dict[str, dict[str, float]] = {}
    for row in of:
        for code in {*row.codes, *row.checks_s}:
            cell = codes.setdefault(code, dict.fromkeys(_COLUMNS, 0))
            cell["caught"] += row.kind == "bug" and code in row.codes
            cell["missed"] += row in missed and code in by_name[row.name].codes
            cell["false_alarms"] += row.kind == "twin" and code in row.codes
            cell["seconds"] = round(cell["seconds"] + row.checks_s.get(code, 0.0), 1)
    order, here = list(Profile), Profile(name)
    beyond = [pair.name for pair in pairs if order.index(pair.since) > order.index(here)]
    return {
        "bugs": len(bugs),
        "beyond": beyond,
        "caught": len(bugs) - len(missed),
        "missed": [asdict(row) for row in missed],
        "false_alarms": [asdict(row) for row in alarms],
        "seconds": round(seconds_of(of), 1),
        "classes": classes,
        "checks": codes,
    }


_COLUMNS = ("caught", "missed", "false_alarms", "seconds")


def table(title: str, results: dict[str, dict[str, Any]], key: str) -> None:
    """Print name x (caught, missed, false alarms, seconds) for every profile."""
    heads = "".join(f"  {profile + ': caught missed alarms  sec':>34s}" for profile in results)
    print(f"\n{title:10s}{heads}")
    names = sorted({name for found in results.values() for name in found[key]}, key=_natural)
    for name in names:
        cells = [found[key].get(name, dict.fromkeys(_COLUMNS, 0)) for found in results.values()]
        texts = [
            f"{c['caught']:>17d}{c['missed']:>7d}{c['false_alarms']:>7d}{c['seconds']:>5.0f}"
            for c in cells
        ]
        print(f"{name:10s}" + "".join(text[-36:].rjust(36) for text in texts))


def _natural(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the pairs, print the tables, save the rows; 1 for a false alarm or a miss."""
    given = options(sys.argv[1:] if arguments is None else arguments)
    pairs = chosen(given.pairs, given.device)
    wanted = trials(pairs, given.profile, given.seeds)
    absent = missing() if given.device == "cpu" else ""
    if absent:
        print(f"{absent}: Triton's interpreter executes the kernels, slower and with fewer checks")
    rows = run_trials(
        wanted,
        device=given.device,
        processes=given.processes,
        journal=given.journal or ROOT / "build" / "zoo" / f"power-{given.device}.ndjson",
        resume=given.resume,
        limit_s=given.time_limit,
        beside=given.beside,
        say=say,
    )
    results = {profile: summary(pairs, rows, profile) for profile in given.profile}
    table("class", results, "classes")
    table("check", results, "checks")
    if len(rows) < len(wanted):
        print(f"\n{len(wanted) - len(rows)} trials are left: run again with --resume")
    bad = 0
    for profile, found in results.items():
        print(
            f"\n{profile}: {found['caught']} of {found['bugs']} bugs caught, "
            f"{len(found['false_alarms'])} twins not accepted, {found['seconds']:.0f} s"
        )
        for row in (*found["missed"], *found["false_alarms"]):
            note = " (its inputs cannot show it)" if row["name"] in found["beyond"] else ""
            print(f"  {row['kind']} {row['name']} {row['decision']} seed {row['seed']}{note}")
            print(f"    {' '.join(row['codes'])} {row['reason']}")
        bad += len(found["false_alarms"])
        missed = [row["name"] for row in found["missed"] if row["name"] not in found["beyond"]]
        bad += len(missed) if profile != "quick" else 0
        bad += profile == "quick" and found["caught"] < QUICK_SHARE * found["bugs"]
    if given.pairs is None:
        kept = {
            "seeds": given.seeds,
            "interpreted": absent,
            "profiles": results,
            "rows": [asdict(row) for row in rows],
        }
        print(f"results: {save('power-zoo', kept)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
