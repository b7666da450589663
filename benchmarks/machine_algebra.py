"""Kernels that are equal apart from rounding, and faults in them, in the machine's algebra.

    PYTHONPATH=.:packages/ptxsan/tests python benchmarks/machine_algebra.py [--only NAME...]

Every form of every family of tests/machine/algebra_forms.py is compared with the family's first
one, and has to be found equal; every planted fault has to be found unequal. Triton's kernels of
the same operators are compared with CUDA C++ where Triton is installed. Needs no GPU. Writes
benchmarks/results/machine-algebra-cpu.json. Exit code 1 where an answer is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from common import save
from tests.machine.triton_algebra import compared_triton

from cuassay.errors import CuassayError
from ptxsan.equivalence import Equivalence
from ptxsan_corpus.algebra_forms import FAMILIES, LAYERNORM, MATMUL, SOFTMAX, Family
from ptxsan_corpus.algebra_running import compared

TRITON: tuple[tuple[Family, str, tuple[str, ...]], ...] = (
    (SOFTMAX, "softmax", ("x",)),
    (LAYERNORM, "layer_norm", ("x", "w", "b")),
    (MATMUL, "matmul", ("a", "b")),
)


def main(arguments: Sequence[str]) -> int:
    """Compare everything and save what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="families with one of these names")
    chosen = parser.parse_args(arguments)
    os.environ.pop("TRITON_INTERPRET", None)
    families = [one for one in FAMILIES if not chosen.only or one.name in chosen.only]
    rows = [row for family in families for row in rows_of(family)]
    if importlib.util.find_spec("triton") is not None:
        for family, name, given in TRITON:
            if family in families:
                compare = partial(compared_triton, family, name, given)
                rows.append(row_of("equal", family.name, f"triton {name}", compare))
    good = [row for row in rows if row["right"]]
    for row in rows:
        print(
            f"{'' if row['right'] else 'WRONG '}{row['kind']:6} {row['family']:10} "
            f"{row['name']:34} {row['equal']:5} of {row['elements']:5}, {row['seeds']} seeds, "
            f"{row['seconds']:.2f} s {row['error']}"
        )
    counts = {
        kind: [sum(r["kind"] == kind for r in good), sum(r["kind"] == kind for r in rows)]
        for kind in ("equal", "fault")
    }
    print(", ".join(f"{kind}: {right} of {total} right" for kind, (right, total) in counts.items()))
    if not chosen.only:
        save("machine-algebra", {"right_of_all": counts, "rows": rows})
    return 0 if len(good) == len(rows) else 1


def rows_of(family: Family) -> list[dict[str, Any]]:
    """Compare every form and every fault of a family."""
    rows = [
        row_of("equal", family.name, form.name, partial(compared, family, form.name))
        for form in family.forms[1:]
    ]
    rows += [
        row_of("fault", family.name, f"{s.form}: {s.name}", partial(compared, family, s.form, s))
        for s in family.faults
    ]
    return rows


def row_of(kind: str, family: str, name: str, compare: Callable[[], Equivalence]) -> dict[str, Any]:
    """Compare one pair: what was found, whether that is right, how long it took."""
    started = time.perf_counter()
    row: dict[str, Any] = {"kind": kind, "family": family, "name": name, "error": ""}
    try:
        found = compare()
        right = (found.equal == found.elements) == (kind == "equal")
        row |= {"elements": found.elements, "equal": found.equal, "seeds": found.seeds}
    except CuassayError as error:
        right = False
        row |= {"elements": 0, "equal": 0, "seeds": 0, "error": f"{error}"[:300]}
    return row | {"right": right, "seconds": round(time.perf_counter() - started, 3)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
