"""Whole programs that others wrote, run unchanged by `ptxsan run`: found, missed, alarms, seconds.

Fetches nothing: each suite is a folder or repository that the caller has. Needs g++ and NVRTC, no
GPU. A row is written to the journal as it comes; what the journal has is not run again.

    python benchmarks/suites_programs.py --sanitizer-samples compute-sanitizer-samples \\
        --cuda-samples cuda-samples --hecbench HeCBench/.git --journal build/programs.jsonl

- compute-sanitizer-samples: programs with one planted fault each.
- NVIDIA/cuda-samples: correct programs at their own sizes; a wrong finding is an alarm.
- HeCBench: programs before and after the commits that fixed races in them, at small sizes.

FAULTY says which of NVIDIA's samples are at fault themselves, and by which rule: a finding of
another kind there is an alarm. LABELS says of which programs the label contradicts the PTX ISA or
this kind of tool, and why.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
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
    host_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came out of a program: `result` is found, missed, clean, alarm or not covered.

    `passed` says that the program ended by itself with the status 0 and printed of no failure;
    `printed` is the end of what it printed otherwise.
    """

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
    passed: bool = False
    printed: str = ""


SANITIZER = {
    "Memcheck/memcheck_demo": ("misaligned", "out-of-bounds"),
    "Racecheck/block_error": ("race",),
    "Racecheck/warp_error": ("race",),
    "Synccheck/divergent_threads": ("divergent-barrier",),
    "Synccheck/illegal_syncwarp": ("divergent-collective",),
    "Initcheck/memset_error": ("uninitialised",),
    "Suppressions/suppressions_initcheck_demo": ("uninitialised",),
}
# Arguments of samples whose own sizes take a GPU; all others run as they are.
SIZES = {
    "matrixMul": "-wA=64 -hA=64 -wB=64 -hB=64", "reduction": "-n=65536",
    "reductionMultiBlockCG": "-n=65536", "threadFenceReduction": "-n=65536",
    "eigenvalues": "--matrix-size=256 --iters-timing=1",
    "globalToShmemAsyncCopy": "-wA=128 -hA=128 -wB=128 -hB=128",
    "FDTD3d": "--dimx=64 --dimy=64 --dimz=64 --timesteps=2",
    "SobolQRNG": "--vectors=1024 --dimensions=32", "transpose": "-dimX=256 -dimY=256",
    "UnifiedMemoryPerf": "-kernel-iterations=1", "p2pBandwidthLatencyTest": "--numElems=10000",
}  # fmt: skip
# Programs that have their size in a constant alone run with a smaller one, in a copy.
CONSTANTS = {
    "fsm": "POPCNT=4", "linearprobing": "kHashTableCapacity=524288", "mergeSort": "N=65536",
    "histogram": "byteCount=262144",
    "fastWalshTransform": "log2Data=14", "binomialOptions": "MAX_OPTIONS=4",
    "sortingNetworks": "N=16384", "alignedTypes": "MEM_SIZE=500000", "scan": "N=262144",
    "BlackScholes": "OPT_N=40000", "convolutionSeparable": "imageW=256 imageH=256",
    "convolutionTexture": "imageW=256 imageH=128", "simpleMultiCopy": "N=65536",
    "cudaTensorCoreGemm": "M_TILES=16 N_TILES=16 K_TILES=16",
    "immaTensorCoreGemm": "M_TILES=16 N_TILES=16 K_TILES=16",
    "dmmaTensorCoreGemm": "M_TILES=32 N_TILES=32 K_TILES=32",
    "bf16TensorCoreGemm": "M_TILES=16 N_TILES=16 K_TILES=16",
    "tf32TensorCoreGemm": "M_TILES=16 N_TILES=16 K_TILES=16",
    "quasirandomGenerator": "N=65536", "UnifiedMemoryPerf": "maxSampleSizeInMb=1",
    "HSOpticalFlow": "nLevels=2 nSolverIters=5 nWarpIters=1", "simpleStreams": "n=65536",
}  # fmt: skip
# Samples that need what no program here has: a second GPU, another process's memory.
ELSEWHERE = frozenset({
    "simpleP2P", "simpleIPC", "streamOrderedAllocationIPC", "streamOrderedAllocationP2P",
    "simpleMPI", "memMapIPCDrv", "cudaNvSci",
})  # fmt: skip
_LIBRARIES = re.compile(r"GLUT|OpenGL|EGL|Vulkan|D3D1|NVSCI|FreeImage|CUDA::(?!cudart\b)")
PLANTED = {"simpleAssert": ("assert",)}
# Samples that are at fault without meaning to be: the kinds of finding, the rule that they break.
FAULTY = {
    "dxtc": (
        ("race",),
        "CudaMath.h:63-69: a lane reads sums[idx ^ 8] while that lane writes it; only a "
        "warp in lockstep orders them. PTX ISA, Memory Consistency Model, Conflict and "
        "Data-races; Volta tuning guide, Independent Thread Scheduling",
    ),
    "newdelete": (
        ("race",),
        "container.hpp:92: pop() tests m_top by a plain load while other threads update it "
        "by atomicAdd. PTX ISA, Memory Consistency Model: a weak operation is morally "
        "strong with none, so the two race",
    ),
    "simpleAttributes": (
        ("race",),
        "simpleAttributes.cu:81-91: all threads of the grid add to data[] and trash[] at "
        "random places by plain loads and stores, and test hit by a plain load while others "
        "add to it by atomicAdd",
    ),
    "NV12toBGRandResize": (
        ("uninitialised", "uninitialised-copy"),
        "nv12_resize.cu:53-72: no offset of p depends on blockIdx.z, so with gridDim.z = "
        "batch all frames are written into the first one; the others of memory that "
        "cudaMalloc left uninitialized are converted and copied to the host",
    ),
    "p2pBandwidthLatencyTest": (
        ("stream-race",),
        "lines 169, 173: cudaMemset runs in the legacy default stream and does not keep the "
        "host (CUDA Runtime API, API synchronization behavior); copies of non-blocking "
        "streams follow, which that stream does not order (Programming Guide)",
    ),
}
# HeCBench: program, commit that fixes races in it, arguments
FIXES = (
    ("adv", "e183435b0", "7 15 2 1"), ("aidw", "072420d21", "1 1 1"),
    ("aop", "53a5a4393", "-runs 1 -paths 1 -timesteps 4"),
    ("asta", "a57980e7b", "-w 0 -r 1 -m 64 -n 64 -g 4"),
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
    "fsm-3b04c0ec0 before": _GUESS,
    "hausdorff-cb4f542f2 before": _GUESS,
    "lebesgue-74b4a2c83 before": _GUESS,
    "michalewicz-6ff5df9bc before": _GUESS,
    "scatter-b7fbb0109 before": _GUESS,
    "bh-40e3c96b4 after": "the fix leaves __syncthreads() in loops that threads of a warp leave at "
    "different times (lines 311, 532), and reads of a cell that no fence parts from its flag",
    "merge-c9378baa3 after": "each block merges on past its end into the next block's part of C, "
    "which the fix leaves: weak writes of two blocks, of equal values where the merge is right",
}


def sanitizer_samples(folder: Path) -> Iterator[Program]:
    """Yield the programs of compute-sanitizer-samples."""
    for name, faults in SANITIZER.items():
        file = folder / f"{name}.cu"
        yield Program(suite="compute-sanitizer-samples", name=name, sources=(file,), faults=faults)


def smaller(folder: Path, constants: str, scratch: Path) -> Path:
    """Return a copy of a program's folder in which constants of its sources have other values."""
    copy = scratch / folder.name
    shutil.copytree(folder, copy)
    for name, _, value in (one.partition("=") for one in constants.split()):
        pattern = re.compile(
            rf"^(\s*#\s*define\s+{name}\s+|(?:.*\s)?{name}\s*=\s*)[\w* /<]+", re.MULTILINE
        )
        for file in sorted(copy.rglob("*.*")):
            text = file.read_text(errors="replace") if file.suffix in _TEXTS else ""
            changed = pattern.sub(rf"\g<1>{value}", text, count=1)
            if changed != text:
                file.write_text(changed)
                break
        else:
            raise ValueError(f"{folder} has no constant {name}")
    return copy


def cuda_samples(folder: Path, scratch: Path) -> Iterator[Program]:
    """Yield NVIDIA's samples that need no graphics, library, driver API or second GPU.

    Sources are what each sample's CMakeLists.txt lists.
    """
    for listed in sorted((folder / "Samples").glob("[0-6]*/*/CMakeLists.txt")):
        text, place = listed.read_text(), listed.parent
        target = re.search(r"add_executable\(\s*\w+\s+([^)]*)\)", text)
        wanted = re.findall(r"(?:target_link_libraries|find_package)\([^)]*\)", text)
        if target is None or place.name in ELSEWHERE or _LIBRARIES.search(" ".join(wanted)):
            continue
        if constants := CONSTANTS.get(place.name):
            place = smaller(place, constants, scratch)
        sources = [place / one for one in target[1].split() if one.endswith((".cu", ".cpp"))]
        sources.sort(key=lambda one: not re.search(r"\bmain\s*\(", one.read_text(errors="replace")))
        yield Program(
            suite="cuda-samples", name=place.name, sources=tuple(sources),
            folders=(place, place / "inc", folder / "Common"),
            arguments=tuple(SIZES.get(place.name, "").split()),
            faults=FAULTY[place.name][0] if place.name in FAULTY else PLANTED.get(place.name, ()),
            host_flags=("-fopenmp",) if "find_package(OpenMP" in text else (),
        )  # fmt: skip


def hecbench(repository: Path, scratch: Path) -> Iterator[Program]:
    """Yield HeCBench's programs before and after the commits that fixed races in them."""
    for name, commit, arguments in FIXES:
        for when, revision in (("before", f"{commit}^"), ("after", commit)):
            label = f"{name}-{commit}-{when}"
            place = repository / label
            if not place.is_dir():
                place = scratch / label
                place.mkdir()
                packed = subprocess.run(
                    ["git", "-C", str(repository), "archive", revision, f"src/{name}-cuda"],
                    capture_output=True, check=True,
                ).stdout  # fmt: skip
                subprocess.run(["tar", "x", "-C", str(place)], input=packed, check=True)
            folder = place / "src" / f"{name}-cuda"
            if constants := CONSTANTS.get(name):
                folder = smaller(folder, constants, scratch / f"{label}-smaller")
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


_TEXTS = (".cu", ".cpp", ".h", ".cuh", ".hpp")
_CAUSE = re.compile(r"undefined reference|undefined symbol|error\b(?!: ld returned)", re.IGNORECASE)
_FAILED = re.compile(r"\bfail(?:ed|ure)?\b|\bmismatch", re.IGNORECASE)


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
            host_flags=program.host_flags,
            launch_limit_s=launch_limit_s, timeout_s=limit_s, folder=program.sources[0].parent,
        )  # fmt: skip
    except PtxsanError as error:
        log = str(getattr(error, "log", "") or error).splitlines()
        why = next((line for line in log if _CAUSE.search(line)), str(error))[:300]
        seconds = round(time.perf_counter() - started, 1)
        return Row(**common, result="not covered", why=why, seconds=seconds)
    said: dict[Severity, dict[str, None]] = {one: {} for one in Severity}
    launched = [one for launch in report.launches for one in launch.findings]
    for one in (*launched, *report.host):
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
        others = [one for one in said[Severity.WRONG] if not one.startswith(program.faults)]
        if program.name in FAULTY and others:
            result = "alarm"
    else:
        result = "alarm" if said[Severity.WRONG] else "not covered" if why else "clean"
    passed = report.status == 0 and not _FAILED.search(report.output)
    return Row(
        **common, result=result, status=report.status, launches=len(report.launches), why=why,
        passed=passed, printed="" if passed else report.output[-400:],
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
        passed = sum(row["passed"] for row in those)
        lines.append(f"{suite}: {len(those)} programs, {launches} launches: {said}; {passed} ended "
                     f"well by themselves; label problems {len(odd)}")  # fmt: skip
    return lines


def main() -> None:
    """Run the suites whose folders are given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sanitizer-samples", type=Path)
    parser.add_argument("--cuda-samples", type=Path)
    parser.add_argument(
        "--hecbench",
        type=Path,
        help="a git repository, bare or not, or "
        "a folder with NAME-COMMIT-before and NAME-COMMIT-after out of it",
    )
    parser.add_argument("--journal", type=Path, default=Path("build/programs.jsonl"))
    parser.add_argument("--only", nargs="*", default=[], help="names that contain one of these")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once")
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
            programs += cuda_samples(chosen.cuda_samples, Path(scratch))
        waiting = [
            one for one in programs
            if (one.suite, one.name) not in done
            and (not chosen.only or any(word in one.name for word in chosen.only))
        ]  # fmt: skip
        judge = partial(examine, launch_limit_s=chosen.launch_limit, limit_s=chosen.limit)
        with ThreadPoolExecutor(chosen.jobs) as pool:
            for found in as_completed([pool.submit(judge, one) for one in waiting]):
                row = asdict(found.result())
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
