"""Candidates per minute of an audit at `quick`: the zoo as SOL-ExecBench directories.

On local lanes and through Ray, on one GPU and on more. Every run has the same seed and must end
with the same table. `--modes` chooses: local or ray with the number of trials side by side
(local1, ray4), `local` alone for the number that an audit chooses by itself, and
`warm`, which runs locally on every GPU and counts for nothing, so that builds are there for all;
`--candidates` their number (60 on a GPU, 4 on a CPU); `--limit-s` starts no further mode after
that time; `--mode-limit-s` interrupts each mode after that time and counts what had ended. Each
mode is saved as soon as it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from audit_tree import write_tree
from common import ROOT, save

from cuassay.engine.executors import audit_lanes, local_lanes, visible_gpus
from cuassay.errors import CuassayError
from cuassay.report import audit_json
from cuassay.store import audits

_SEED = 20261121


def audit(
    tree: Path, run: Path, home: Path, *, mode: str, gpus: int, limit_s: float
) -> dict[str, Any]:
    """Run one audit in a process of its own and return what it took.

    One that has not ended after `limit_s` is interrupted, and what ended until then counts.
    """
    given = "".join(filter(str.isdigit, mode))
    device = "cuda" if gpus else "cpu"
    default = audit_lanes(device, None) if mode == "local" else local_lanes(device, None)
    lanes = int(given or len(default))
    command = [sys.executable, "-m", "cuassay", "audit", str(tree), "--run", str(run)]
    command += ["--profile", "quick", "--seed", str(_SEED), "--json"]
    command += [] if mode == "local" else ["--lanes", str(lanes)]
    command += ["--executor", "ray"] if mode.startswith("ray") else []
    command += [] if gpus else ["--device", "cpu"]
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "CUASSAY_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    started = time.perf_counter()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environment, **pipes)
    try:
        out, said = process.communicate(timeout=limit_s)
        wall_s, ended = time.perf_counter() - started, True
    except subprocess.TimeoutExpired:
        wall_s, ended = limit_s, False
        process.send_signal(signal.SIGINT)
        out, said = process.communicate()
    try:
        document = json.loads(out) if ended else of_the_folder(run)
        assert document["candidates"], document
    except (CuassayError, ValueError, LookupError, AssertionError) as error:
        text = f"{error!r} {said[-4000:]}"
        return {"mode": mode, "error": text, "ended": ended, "wall_s": round(wall_s, 1)}
    return _summary(document, mode=mode, lanes=lanes, wall_s=wall_s) | {"ended": ended}


def of_the_folder(run: Path) -> dict[str, Any]:
    """Return the report of the candidates that ended in an interrupted audit."""
    document = audit_json.document(audits.read_audit(run))
    document["candidates"] = [c for c in document["candidates"] if c["verdict"]]
    return document


def _summary(document: dict[str, Any], *, mode: str, lanes: int, wall_s: float) -> dict[str, Any]:
    candidates = document["candidates"]
    each = sorted(entry["duration_s"] for entry in candidates)
    per_minute = 60.0 * len(candidates) / wall_s
    bugs = [c for c in candidates if c["author"] == "bug"]
    twins = [c for c in candidates if c["author"] == "twin"]
    return {
        "mode": mode,
        "lanes": lanes,
        "candidates": len(candidates),
        "wall_s": round(wall_s, 1),
        "audit_s": round(document["wall_s"], 1),
        "candidates_per_minute": round(per_minute, 2),
        "seconds_each": {
            "median": round(statistics.median(each), 2),
            "p90": round(each[int(0.9 * (len(each) - 1))], 2),
            "slowest": [
                [c["problem"], c["candidate"], round(c["duration_s"], 1)]
                for c in sorted(candidates, key=lambda c: -c["duration_s"])[:5]
            ],
        },
        "bugs_rejected": [sum(c["verdict"] == "REJECTED" for c in bugs), len(bugs)],
        "twins_accepted": [sum(c["verdict"] == "ACCEPTED" for c in twins), len(twins)],
        "not_as_planted": [
            [c["problem"], c["candidate"], c["author"], c["verdict"], c["reason"][:160]]
            for c in candidates
            if c["verdict"] != {"bug": "REJECTED", "twin": "ACCEPTED"}[c["author"]]
        ],
        "table": sorted(
            [c["problem"], c["author"], c["candidate"], c["verdict"]] for c in candidates
        ),
        "attempts": max((c["attempts"] for c in candidates), default=0),
        "each_s": {
            f"{c['problem']}/{c['candidate']}": round(c["duration_s"], 2) for c in candidates
        },
    }


def compared(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the modes say of each other: overhead of Ray, scaling, equal tables."""
    by_mode = {r["mode"]: r for r in results if "error" not in r}
    tables = {mode: r["table"] for mode, r in by_mode.items()}
    first = next(iter(tables.values()), [])
    found: dict[str, Any] = {
        "differing": {
            mode: [row for row in table if row not in first] for mode, table in tables.items()
        }
    }

    def speed(mode: str) -> float:
        return float(by_mode[mode]["candidates_per_minute"])

    for mode, result in by_mode.items():
        kind, lanes = mode.rstrip("0123456789"), result["lanes"]
        if kind == "ray" and f"local{lanes}" in by_mode:
            found[f"ray_overhead_{lanes}"] = round(speed(f"local{lanes}") / speed(mode) - 1.0, 3)
        if kind != "warm" and lanes > 1 and f"{kind}1" in by_mode:
            share = speed(mode) / speed(f"{kind}1") / lanes
            found[f"{mode}_share_of_linear"] = round(share, 3)
            found[f"{mode}_slower_each"] = slower(result, by_mode[f"{kind}1"])
    return found


def slower(result: dict[str, Any], alone: dict[str, Any]) -> float:
    """Return how many times longer the candidates of both runs took beside others than alone."""
    both = result["each_s"].keys() & alone["each_s"].keys()
    return round(
        sum(result["each_s"][name] for name in both)
        / max(sum(alone["each_s"][name] for name in both), 1e-9),
        3,
    )


def main() -> int:
    """Run the modes and save after each; 1 where one failed or tables differ."""
    gpus = len(visible_gpus())
    parser = argparse.ArgumentParser()
    counts = [count for count in (1, 2, 4, 8) if count <= max(gpus, 1)]
    modes = ["warm", "local", *(f"{kind}{count}" for count in counts for kind in ("local", "ray"))]
    parser.add_argument("--modes", default=",".join(modes))
    parser.add_argument("--candidates", type=int, default=60 if gpus else 4)
    parser.add_argument("--limit-s", type=float, default=1e9)
    parser.add_argument("--mode-limit-s", type=float, default=1e6, help="interrupt a mode then")
    parser.add_argument("--name", default="audit-throughput")
    parser.add_argument("--home", help="keep build caches here between calls")
    asked = parser.parse_args()
    started = time.perf_counter()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = Path(asked.home) if asked.home else folder / "home"
        write_tree(folder / "tree", asked.candidates // 2)
        for mode in asked.modes.split(","):
            if time.perf_counter() - started > asked.limit_s:
                print(f"{mode}: not started, {asked.limit_s:g} s are over")
                continue
            run = folder / f"run-{len(results)}-{mode}"
            found = audit(
                folder / "tree", run, home, mode=mode, gpus=gpus, limit_s=asked.mode_limit_s
            )
            results.append(found)
            kept = [{k: v for k, v in r.items() if k != "table"} for r in results]
            path = save(asked.name, {"runs": kept, "compared": compared(results)})
            print({k: v for k, v in found.items() if k not in ("table", "not_as_planted")})
    comparison = compared(results)
    print(comparison, path)
    failed = any("error" in r for r in results) or any(comparison["differing"].values())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
