"""What the gate says of kernels that several ranks share: planted faults and their twins.

    python benchmarks/ranks.py [--profile quick] [--only NAME ...] [--share 0/2] [--checks ...]

Each fault of tests/zoo/ranks is to be rejected (on GPUs those of streams and, with two GPUs, of
graphs, too), each twin accepted. `--share 1/2` judges every second one. With GPUs the ranks have
NCCL, else cuassay's own process group. A row is written as soon as it is known, to
benchmarks/results/ranks-<device>.json. Exit code 1 for a miss or an alarm.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from common import save  # noqa: E402
from tests.zoo.judging import Gate  # noqa: E402
from tests.zoo.ranks.faults import (  # noqa: E402
    FAULTS,
    FAULTS_OF_GRAPHS,
    FAULTS_OF_LATE_KERNELS,
    FAULTS_OF_STREAMS,
    FAULTS_OF_TRITON,
    OPERATORS,
    TWINS,
    TWINS_OF_GRAPHS,
)

from cuassay.catalog import registry  # noqa: E402
from cuassay.model.verdict import Profile  # noqa: E402


def main() -> int:
    """Judge twins and faults and save what was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="quick", choices=[one.value for one in Profile])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--first", action="store_true", help="a trial ends with what is wrong")
    parser.add_argument("--checks", nargs="*", default=[], help="these checks alone")
    asked = parser.parse_args()
    part, of = map(int, asked.share.split("/"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    twins = [(path.stem, path.stem, path.read_text()) for path in sorted(TWINS.glob("*.py"))]
    with_graphs = device == "cuda" and torch.cuda.device_count() > 1  # a GPU for each rank
    planted = (
        *FAULTS,
        *FAULTS_OF_TRITON,
        *FAULTS_OF_LATE_KERNELS,
        *(FAULTS_OF_STREAMS if device == "cuda" else ()),
        *(FAULTS_OF_GRAPHS if with_graphs else ()),
    )
    of_graphs = {*TWINS_OF_GRAPHS, *(one.name for one in FAULTS_OF_GRAPHS)} if with_graphs else ()
    faults = [(one.name, one.twin, one.text) for one in planted]
    rows: list[dict[str, Any]] = []
    with Gate(device) as gate, tempfile.TemporaryDirectory() as folder:
        for name, twin, text in [*twins, *faults][part::of]:
            if asked.only and name not in asked.only:
                continue
            path = Path(folder, f"{name}.py")
            path.write_text(text)
            problem = registry.get(OPERATORS.get(twin, twin))
            started = time.perf_counter()
            said = gate.judge(
                problem,
                path,
                profile=Profile(asked.profile),
                require=("graphs",) if name in of_graphs else (),
                only=asked.checks,
                fail_fast=asked.first,
            )
            wanted = said.accepted if name == twin else said.rejected
            rows.append(
                {
                    "name": name,
                    "twin": twin,
                    "as wanted": wanted,
                    "decision": said.verdict.decision.value,
                    "codes": list(said.codes),
                    "reason": said.verdict.reason[:300],
                    "conditions": list(said.verdict.conditions),
                    "seed": said.verdict.seed,
                    "gpus": torch.cuda.device_count(),
                    "seconds": round(time.perf_counter() - started, 1),
                }
            )
            row = rows[-1]
            print(f"{'  ' if wanted else '! '}{row['decision']:12s} {row['seconds']:6.1f} s  {name}"
                  f"  {' '.join(said.codes)}  {row['reason'][:120]}", flush=True)  # fmt: skip
            save("ranks", {"profile": asked.profile, "share": asked.share, "rows": rows})
    return int(not all(row["as wanted"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
