"""Whether a change of the code changes a verdict: documents of zoo pairs under one seed.

`verdict_documents.py --write BEFORE.json` on one commit and `--write AFTER.json` on another, then
`--compare BEFORE.json AFTER.json`: what differs is printed, a line a place, and the exit code is 1.
Times are left out, since they differ between two runs of one commit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gate_trials import cuda_or_cpu
from tests.zoo.judging import Gate
from tests.zoo.manifest import PAIRS, load

from cuassay.report.json_report import document

SEED = 20_261_129
PAIRS_COMPARED = (  # a pair each of the ways in which a kernel runs and fails
    "memo_by_identity",
    "memo_by_places",
    "codes_cut_off",
    "tile_border",
    "one_pass_variance",
    "grad_recompute_half",
    "input_mutated",
    "never_written",
    "tf32_products",
    "op_write_undeclared",
    "triton_chunk_tail",
    "triton_padded_maximum",
)
_CLOCKS = ("timing", "timeline", "speed")


def without_times(value: Any) -> Any:
    """Return a document without the fields that a clock or the machine fills."""
    match value:
        case dict():
            return {
                key: without_times(part)
                for key, part in value.items()
                if not key.endswith(("_s", "_ms", "_us")) and key not in _CLOCKS
            }
        case list():
            return [without_times(part) for part in value]
        case _:
            return value


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Yield a line for each place at which two documents differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from differences(before.get(key), after.get(key), f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif before != after:
        yield f"{place}: {json.dumps(before)[:200]} -> {json.dumps(after)[:200]}"


def documents(names: list[str], device: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and document of each bug and twin; every part of a trial is made."""
    pairs = {pair.name: pair for pair in PAIRS}
    unknown = set(names) - set(pairs)
    if unknown:
        raise SystemExit(f"no such pair: {', '.join(sorted(unknown))}")
    whole = {"smallest": True, "causes": True, "extras": True}
    with Gate(device, machine=device == "cpu", beside=0, **whole) as gate:
        for name in names:
            pair = pairs[name]
            for kind, path in (("bug", pair.bug), ("twin", pair.twin)):
                judged = gate.judge(load(pair.problem), path, seed=SEED, require=pair.require)
                print(f"{name}/{kind}: {judged} ({judged.seconds:.0f} s)", flush=True)
                yield (
                    f"{name}/{kind}",
                    without_times(json.loads(json.dumps(document(judged.verdict)))),
                )


def main() -> int:
    """Write documents, or compare those of two commits; 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", nargs="*", default=list(PAIRS_COMPARED))
    parser.add_argument("--device", default=cuda_or_cpu())
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE")
    what.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    given = parser.parse_args()
    if given.write:
        found = {}
        for name, here in documents(given.pairs, given.device):
            found[name] = here
            given.write.write_text(json.dumps(found, indent=1))
        return 0
    before, after = (json.loads(file.read_text()) for file in given.compare)
    different = 0
    for name in dict.fromkeys((*before, *after)):
        lines = list(differences(before.get(name), after.get(name)))
        different += bool(lines)
        for text in lines:
            print(f"{name}{text}")
    print(f"{len({**before, **after})} documents, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
