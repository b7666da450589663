"""Whole programs that others wrote, run unchanged by `ptxsan run`: found, missed, alarms, seconds.

Fetches nothing: each suite is a folder or repository that the caller has. Needs g++ and NVRTC, no
GPU. A row is written to the journal as it comes; what the journal has is not run again.

    python benchmarks/suites_programs.py --sanitizer-samples compute-sanitizer-samples \\
        --cuda-samples cuda-samples --hecbench HeCBench/.git --journal build/programs.jsonl

- compute-sanitizer-samples: programs with one planted fault each.
- NVIDIA/cuda-samples: correct programs at their own sizes; a wrong finding is an alarm.
- HeCBench: programs before and after the commits that fixed races in them, at small sizes.

LABELS says of which programs the label contradicts the PTX ISA or this kind of tool, and why.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import save

from ptxsan.errors import PtxsanError
from ptxsan.findings import Severity
from ptxsan.host.program import run_program

_RACES = ("race",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of a suite; `faults` are the kinds of finding that its authors planted or fixed."""

    suite: str
    name: str
    sources: tuple[Path, ...]
    folders: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came out of a program: `result` is found, missed, clean, alarm or not covered."""

    suite: str
    name: str
    faults: tuple[str, ...]
    result: str
    status: int = 0
    launches: int = 0
    wrong: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    why: str = ""
    seconds: float = 0.0
    label: str = ""


SANITIZER = {
    "Memcheck/memcheck_demo": ("misaligned", "out-of-bounds"),
    "Racecheck/block_error": ("race",),
    "Racecheck/warp_error": ("race",),
    "Synccheck/divergent_threads": ("divergent-barrier",),
    "Synccheck/illegal_syncwarp": ("divergent-collective",),
    "Initcheck/memset_error": ("uninitialised",),
    "Suppressions/suppressions_initcheck_demo": ("uninitialised",),
}
CUDA = (
    *(f"0_Introduction/{name}" for name in (
        "vectorAdd", "clock", "simplePrintf", "simpleTemplates", "simpleVoteIntrinsics",
        "simpleAWBarrier", "simpleCooperativeGroups", "fp16ScalarProduct", "simpleOccupancy",
        "asyncAPI", "simpleStreams", "matrixMul", "simpleAssert", "simpleZeroCopy",
        "simpleTexture", "simpleSurfaceWrite", "simplePitchLinearTexture", "simpleLayeredTexture",
        "systemWideAtomics", "simpleAttributes")),
    *(f"2_Concepts_and_Techniques/{name}" for name in (
        "inlinePTX", "interval", "reductionMultiBlockCG", "shfl_scan", "streamOrderedAllocation",
        "threadFenceReduction")),
    *(f"3_CUDA_Features/{name}" for name in (
        "bf16TensorCoreGemm", "binaryPartitionCG", "newdelete", "globalToShmemAsyncCopy",
        "warpAggregatedAtomicsCG", "simpleCudaGraphs", "immaTensorCoreGemm")),
    *(f"6_Performance/{name}" for name in ("LargeKernelParameter", "alignedTypes", "transpose")),
)  # fmt: skip
PLANTED = {"simpleAssert": ("assert",)}
# HeCBench: program, commit that fixes races in it, arguments
FIXES = (
    ("adv", "e183435b0", "7 15 2 1"), ("aidw", "072420d21", "1 1 1"),
    ("aop", "53a5a4393", "-runs 1 -paths 1 -timesteps 4"), ("asta", "a57980e7b", ""),
    ("atomicCAS", "a3c11f79d", "2"), ("bh", "40e3c96b4", "300 2"),
    ("expdist", "3583b2c4d", "256 1"), ("fsm", "75d70c1f2", "64"), ("fsm", "3b04c0ec0", "64"),
    ("hausdorff", "cb4f542f2", "300 300 1"), ("lebesgue", "74b4a2c83", "301 2"),
    ("linearprobing", "87816885f", "1 8"), ("merge", "c9378baa3", "300 1"),
    ("michalewicz", "6ff5df9bc", "1000 1"), ("p4", "69787e266", "1"),
    ("scatter", "b7fbb0109", "200 1"),
)  # fmt: skip
_GUESS = (
    "the fix makes a plain load strong that only guesses what the atomicCAS behind it finds: the "
    "CUDA C++ Programming Guide's own loop, which the machine accepts"
)
LABELS = {
    "atomicCAS-a3c11f79d before": _GUESS,
    "hausdorff-cb4f542f2 before": _GUESS,
    "lebesgue-74b4a2c83 before": _GUESS,
    "michalewicz-6ff5df9bc before": _GUESS,
}


def sanitizer_samples(folder: Path) -> Iterator[Program]:
    """Yield the programs of compute-sanitizer-samples."""
    for name, faults in SANITIZER.items():
        file = folder / f"{name}.cu"
        yield Program(suite="compute-sanitizer-samples", name=name, sources=(file,), faults=faults)


def cuda_samples(folder: Path) -> Iterator[Program]:
    """Yield programs of NVIDIA's CUDA samples that are one file."""
    for path in CUDA:
        name = path.rpartition("/")[2]
        file = folder / "Samples" / path / f"{name}.cu"
        yield Program(
            suite="cuda-samples", name=name, sources=(file,),
            folders=(file.parent, folder / "Common"), faults=PLANTED.get(name, ()),
        )  # fmt: skip


def hecbench(repository: Path, scratch: Path) -> Iterator[Program]:
    """Yield HeCBench's programs before and after the commits that fixed races in them."""
    for name, commit, arguments in FIXES:
        for when, revision in (("before", f"{commit}^"), ("after", commit)):
            place = scratch / f"{name}-{commit}-{when}"
            place.mkdir()
            packed = subprocess.run(
                ["git", "-C", str(repository), "archive", revision, f"src/{name}-cuda"],
                capture_output=True, check=True,
            ).stdout  # fmt: skip
            subprocess.run(["tar", "x", "-C", str(place)], input=packed, check=True)
            folder = place / "src" / f"{name}-cuda"
            files = sorted(one for one in folder.iterdir() if one.suffix in (".cu", ".cpp"))
            text = "".join(one.read_text(errors="replace") for one in folder.rglob("*.*[uhp]"))
            included = set(re.findall(r'#\s*include\s*"([^"]+)"', text))
            sources = [one for one in files if one.name not in included]
            sources.sort(key=lambda one: not one.name.startswith("main"))
            make = (folder / "Makefile").read_text(errors="replace")
            defines = re.findall(r"(?<=\s)-D(\w+=\w+)", make)
            yield Program(
                suite="hecbench", name=f"{name}-{commit} {when}", sources=tuple(sources),
                folders=(folder,), defines=tuple(defines), arguments=tuple(arguments.split()),
                faults=_RACES if when == "before" else (),
            )  # fmt: skip


def examine(program: Program, *, launch_limit_s: float, limit_s: float) -> Row:
    """Run a program and judge what was said."""
    started = time.perf_counter()
    common: dict[str, Any] = {
        "suite": program.suite, "name": program.name, "faults": program.faults,
        "label": LABELS.get(program.name, ""),
    }  # fmt: skip
    try:
        report = run_program(
            program.sources, program.arguments, defines=program.defines, folders=program.folders,
            launch_limit_s=launch_limit_s, timeout_s=limit_s,
        )  # fmt: skip
    except PtxsanError as error:
        log = str(getattr(error, "log", "") or error).splitlines()
        why = next((line for line in log if "rror" in line), str(error))[:300]
        seconds = round(time.perf_counter() - started, 1)
        return Row(**common, result="not covered", why=why, seconds=seconds)
    said: dict[Severity, dict[str, None]] = {one: {} for one in Severity}
    for launch in report.launches:
        for one in launch.findings:
            first = one.accesses[0] if one.accesses else None
            file = (first.source_file or "").rpartition("/")[2] if first else ""
            line = first.source_line or 0 if first else 0
            said[one.severity][f"{one.kind} at {file}:{line}: {one.text}"[:300]] = None
    found = any(text.startswith(program.faults) for text in said[Severity.WRONG]) and bool(
        program.faults
    )
    why = "; ".join(sorted(set(report.not_covered)))[:300]
    why = why or ("the time limit of the program" if report.timed_out else "")
    if program.faults:
        result = "found" if found else "not covered" if why else "missed"
    else:
        result = "alarm" if said[Severity.WRONG] else "not covered" if why else "clean"
    return Row(
        **common, result=result, status=report.status, launches=len(report.launches), why=why,
        wrong=tuple(said[Severity.WRONG])[:8], notes=tuple(said[Severity.NOTE])[:4],
        seconds=round(time.perf_counter() - started, 1),
    )  # fmt: skip


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each suite."""
    lines = []
    for suite in dict.fromkeys(row["suite"] for row in rows):
        those = [row for row in rows if row["suite"] == suite]
        odd = [row for row in those if row["label"] and row["result"] not in ("found", "clean")]
        rest = [row for row in those if row not in odd]
        count = Counter(row["result"] for row in rest)
        said = ", ".join(f"{result} {number}" for result, number in sorted(count.items()))
        launches = sum(row["launches"] for row in those)
        lines.append(f"{suite}: {len(those)} programs, {launches} launches: {said}; label "
                     f"problems {len(odd)}")  # fmt: skip
    return lines


def main() -> None:
    """Run the suites whose folders are given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sanitizer-samples", type=Path)
    parser.add_argument("--cuda-samples", type=Path)
    parser.add_argument("--hecbench", type=Path, help="a git repository, bare or not")
    parser.add_argument("--journal", type=Path, default=Path("build/programs.jsonl"))
    parser.add_argument("--only", nargs="*", default=[], help="names that contain one of these")
    parser.add_argument("--launch-limit", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--limit", type=float, default=200.0, metavar="SECONDS")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results")
    chosen = parser.parse_args()
    chosen.journal.parent.mkdir(parents=True, exist_ok=True)
    lines = chosen.journal.read_text().splitlines() if chosen.journal.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {(row["suite"], row["name"]) for row in rows}
    with tempfile.TemporaryDirectory(prefix="programs-") as scratch:
        programs: list[Program] = []
        if chosen.sanitizer_samples:
            programs += sanitizer_samples(chosen.sanitizer_samples)
        if chosen.hecbench:
            programs += hecbench(chosen.hecbench, Path(scratch))
        if chosen.cuda_samples:
            programs += cuda_samples(chosen.cuda_samples)
        for program in programs:
            wanted = not chosen.only or any(word in program.name for word in chosen.only)
            if (program.suite, program.name) in done or not wanted:
                continue
            row = asdict(examine(program, launch_limit_s=chosen.launch_limit, limit_s=chosen.limit))
            rows.append(row)
            with chosen.journal.open("a") as journal:
                journal.write(json.dumps(row) + "\n")
            print(row["result"], row["suite"], row["name"], f"{row['seconds']} s", row["why"],
                  *row["wrong"], sep=" | ", flush=True)  # fmt: skip
    print("\n".join(table(rows)))
    if chosen.save:
        save("suites-programs", {"rows": rows, "table": table(rows)})


if __name__ == "__main__":
    main()
