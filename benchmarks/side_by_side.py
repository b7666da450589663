"""Kernels a minute, and seconds of a trial, of trials that ran side by side, from their journals.

    python benchmarks/side_by_side.py world.ndjson wild.ndjson --wall-s 480 --lanes 26

Each line of a journal is a trial with `seconds` and `decision`. Trials that were cut off as the
time ended are in no journal: what they had cost by then is in the time and not in the count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def rates(rows: list[dict[str, Any]], *, wall_s: float, lanes: int) -> dict[str, Any]:
    """Return what a run of `lanes` lanes for `wall_s` seconds did."""
    each = sorted(float(row["seconds"]) for row in rows)
    return {
        "trials": len(rows),
        "lanes": lanes,
        "wall_s": wall_s,
        "kernels_per_minute": round(60.0 * len(rows) / wall_s, 1),
        "seconds_each": {
            "median": round(statistics.median(each), 1),
            "p90": round(each[int(0.9 * (len(each) - 1))], 1),
        },
        "decisions": dict(Counter(row["decision"] for row in rows)),
    }


def main() -> int:
    """Print the rates of one run as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("journals", nargs="+", type=Path)
    parser.add_argument("--wall-s", type=float, required=True)
    parser.add_argument("--lanes", type=int, required=True)
    given = parser.parse_args()
    rows = [json.loads(line) for file in given.journals for line in file.read_text().splitlines()]
    print(json.dumps(rates(rows, wall_s=given.wall_s, lanes=given.lanes), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
