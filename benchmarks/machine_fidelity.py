"""How close the PTX machine is to a GPU: every word of random programs, instructions and probes.

    python benchmarks/machine_fidelity.py keep DIR...      digests of dumps -> tests/data of ptxsan
    python benchmarks/machine_fidelity.py compare          all digests against the machine
    python benchmarks/machine_fidelity.py leaves DIR       approximate results of a dump: intervals

Dumps are made on a GPU by `benchmarks/machine_dump.py`. `compare` and `leaves` need no GPU and
write benchmarks/results/machine-fidelity.json.

The random programs lie in `packages/ptxsan/tests`, which belongs on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from machine_explain import ASSEMBLED, Edit, applied, exact_words
from machine_probes import Probe, inputs, probes

from ptxsan.numerics.approx import WIDTHS
from ptxsan_fuzz.execute import run_program, run_text, run_unit, unit_inputs
from ptxsan_fuzz.programs import EXACT_WORDS, LEAVES, generate, program_digest
from ptxsan_fuzz.table import ROWS

_ROOT = Path(__file__).resolve().parents[1]
DIGESTS = _ROOT / "packages" / "ptxsan" / "tests" / "data" / "h200.npz"
RESULT = _ROOT / "benchmarks" / "results" / "machine-fidelity.json"
# Probes whose results are defined bit for bit; those of functions are intervals.
EXACT_PROBES = ("matrix", "group", "layout")


def is_exact(probe: Probe) -> bool:
    """Whether a probe's results must be equal bit for bit."""
    return probe.kind in EXACT_PROBES or probe.name.startswith("atom.")


def keep(folders: list[Path]) -> None:
    """Write the digests of dumps; later folders take precedence."""
    kept: dict[str, Any] = dict(np.load(DIGESTS)) if DIGESTS.exists() else {}
    for folder in folders:
        if (folder / "digests.npz").exists():
            kept |= dict(np.load(folder / "digests.npz"))
        if (folder / "units.npy").exists():
            units = np.load(folder / "units.npy")
            kept["units"] = np.array([zlib.crc32(one.tobytes()) for one in units], np.uint32)
        if (folder / "probes.npz").exists():
            dumped = np.load(folder / "probes.npz")
            for probe in probes():
                if probe.name in dumped and is_exact(probe):
                    kept[f"probe.{probe.name}"] = np.uint32(
                        zlib.crc32(dumped[probe.name].tobytes())
                    )
    DIGESTS.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(DIGESTS, **kept)
    print({name: value.size for name, value in kept.items() if value.size > 1}, len(kept))


def _program(job: tuple[int, int, int]) -> tuple[str, str]:
    seed, optimised, plain = job
    try:
        found = program_digest(run_program(seed))
    except Exception as error:
        return f"program {seed}", f"{type(error).__name__}: {error}"[:200]
    if optimised != plain:  # the assembler's two programs differ: one of them has to be right
        return f"program {seed}", "" if found in (optimised, plain) else "differs from both"
    return f"program {seed}", "" if found == optimised else "differs"


def _careless(job: tuple[int, int, list[Edit]]) -> tuple[str, str]:
    """Compare a program of the first dump; `job` has the edits that stand for what ptxas did."""
    seed, digest, edits = job
    try:
        if program_digest(run_program(seed, careful=False)) == digest:
            return f"program {seed}", "needs no edit" if edits else ""
        if not edits:
            return f"program {seed}", "differs"
        lines = generate(seed, careful=False).text.split("\n")
        found = exact_words(seed, applied(lines, {edit[0]: edit for edit in edits}))
    except Exception as error:
        return f"program {seed}", f"{type(error).__name__}: {error}"[:200]
    return f"program {seed}", "" if program_digest(found) == digest else "differs with its edits"


def careless(kept: Any, seeds: range, pool: Any) -> dict[str, Any]:
    """Return counts of the first dump's programs: equal, and equal to what ptxas made of them."""
    assembled = {int(seed): edits for seed, edits in json.loads(ASSEMBLED.read_text()).items()}
    digests = kept["careless"]
    jobs = [(seed, int(digests[seed]), assembled.get(seed, [])) for seed in seeds]
    result = _count("careless programs", _careless, jobs, pool)
    edited = [edits for seed, edits in assembled.items() if seed in seeds]
    reasons = Counter(reason for edits in edited for reason in {edit[1] for edit in edits})
    result["equal_as_written"] = result["equal"] - len(edited)
    result["equal_as_assembled"] = len(edited)
    result["assembled"] = dict(reasons.most_common())
    return result


def _unit(job: tuple[int, int]) -> tuple[str, str]:
    index, digest = job
    row = ROWS[index]
    try:
        equal = zlib.crc32(run_unit(row, unit_inputs(row)).tobytes()) == digest
    except Exception as error:
        return row.opcode, f"{type(error).__name__}: {error}"[:200]
    return row.opcode, "" if equal or row.leaf else "differs"


def _probe(job: tuple[str, int]) -> tuple[str, str]:
    name, digest = job
    probe = next(one for one in probes() if one.name == name)
    try:
        words = run_text(
            probe.text, "probe", inputs(probe), probe.out_words, (probe.blocks, probe.threads)
        )
    except Exception as error:
        return name, f"{type(error).__name__}: {error}"[:200]
    return name, "" if zlib.crc32(words.tobytes()) == digest else "differs"


def _count(
    what: str, work: Callable[[Any], tuple[str, str]], jobs: list[Any], pool: Any
) -> dict[str, Any]:
    started, problems = time.monotonic(), {}
    for name, problem in pool.imap_unordered(work, jobs, chunksize=8):
        if problem:
            problems[name] = problem
    result = {
        "compared": len(jobs),
        "equal": len(jobs) - len(problems),
        "seconds": round(time.monotonic() - started, 1),
        "problems": dict(sorted(problems.items())[:40]),
    }
    print(what, json.dumps(result, indent=1), flush=True)
    return result


def compare(programs: int) -> dict[str, Any]:
    """Return counts of programs, instructions and probes that are equal in every word."""
    kept = np.load(DIGESTS)
    result: dict[str, Any] = {}
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        if "units" in kept:
            jobs: list[Any] = [
                (index, int(one)) for index, one in enumerate(kept["units"]) if not ROWS[index].leaf
            ]
            result["instructions"] = _count("instructions", _unit, jobs, pool)
        names = [name for name in kept if name.startswith("probe.")]
        jobs = [(name.removeprefix("probe."), int(kept[name])) for name in names]
        result["probes"] = _count("probes", _probe, jobs, pool)
        if programs:
            count = min(programs, len(kept["careless"]))
            result["careless programs"] = careless(kept, range(count), pool)
        if "programs" not in kept or programs == 0:
            return result
        both = kept["programs"][:programs], kept["programs_unoptimised"][:programs]
        jobs = [(seed, int(a), int(b)) for seed, (a, b) in enumerate(zip(*both, strict=True))]
        result["programs"] = _count("programs", _program, jobs, pool)
        differing = [seed for seed, a, b in jobs if a != b]
        result["programs"]["assembler_disagrees_with_itself"] = len(differing)
    return result


def leaves(folder: Path, programs: int) -> dict[str, Any]:
    """Return how many approximate results of a dump lie in the machine's intervals."""
    files = sorted(folder.glob("fuzz-*.npy"))
    words = np.concatenate([np.load(file) for file in files])[:programs]
    counts: dict[str, list[int]] = {}
    for seed, dumped in enumerate(words):
        for opcode, inside in _leaves_of(seed, dumped):
            entry = counts.setdefault(opcode, [0, 0])
            entry[0] += 1
            entry[1] += inside
    return {opcode: {"compared": n, "inside": k} for opcode, (n, k) in sorted(counts.items())}


def _leaves_of(seed: int, dumped: Any) -> Iterable[tuple[str, int]]:
    ours = run_program(seed)[:, EXACT_WORDS : EXACT_WORDS + LEAVES]
    theirs = dumped[:, EXACT_WORDS : EXACT_WORDS + LEAVES]
    for place, opcode in enumerate(generate(seed).leaves):
        key = opcode.replace(".ftz", "")
        if key.startswith(("sin", "cos")):
            continue  # the width needs the argument: the probes look at these
        for a, b in zip(ours[:, place], theirs[:, place], strict=True):
            yield opcode, int(_inside(int(a), int(b), key))


def _inside(ours: int, theirs: int, key: str) -> bool:
    x, y = (float(np.uint32(one).view(np.float32)) for one in (ours, theirs))
    if ours == theirs or (x != x and y != y):
        return True
    if not (np.isfinite(x) and np.isfinite(y)):
        return max(abs(x), abs(y)) == np.inf and min(abs(x), abs(y)) > 3e38
    return abs(x - y) <= WIDTHS[key].around(x) + 2.0**-126 * ("ftz" in key or abs(x) < 2.0**-125)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["keep", "compare", "leaves"])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--programs", type=int, default=12_000)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    if arguments.verb == "keep":
        keep(arguments.folders)
        return
    about = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if arguments.verb == "compare":
        about |= compare(arguments.programs)
    else:
        about["leaves"] = leaves(arguments.folders[0], arguments.programs)
        print(json.dumps(about["leaves"], indent=1))
    about |= {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "numba": numba.__version__,
        "against": "NVIDIA H200, CUDA 13.0, ptxas of Triton 3.6",
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
