"""What the machine says of suites that others wrote: found, missed, alarms, not covered, seconds.

Fetches nothing: each suite is a folder that the caller has, a checkout of its repository. Sources
are compiled as they are, but for functions of the host, which are cut out, and headers of the
host, which are empty. Needs no GPU. Prints a line for each suite and writes
benchmarks/results/suites-cpu.json, which keeps what was said of every case; suites whose folders
are not given keep their rows.

    PYTHONPATH=packages/ptxsan/tests python benchmarks/suites.py \\
        --indigo HiRace-Artifact-SC24/indigo --scor ScoR --gpuverify gpuverify \\
        --litmus Dat3M --matrix MMA-Sim

Whole programs are the business of suites_programs.py.

A fault counts as found where the machine reports it with severity wrong, as noted where it reports
it as a visible note. An alarm is a finding of severity wrong in a case that its authors call
clean; such cases with a note are counted apart. A case of Indigo is a kernel at one launch, on all
the graphs that were chosen. LABELS names the cases whose label contradicts the PTX ISA, or what a
compiler may do, with the reason.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import suites_matrix
from common import result_path, save
from suites_litmus import verdict_of

from ptxsan.emit.values import width_of
from ptxsan.errors import PtxsanError
from ptxsan.findings import Kind, MachineFinding, MachineReport, Severity
from ptxsan.launch import Argument, Buffer, Launch, Pointer
from ptxsan.nvrtc import compile_ptx
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run

RACES = frozenset({Kind.RACE, Kind.UNORDERED, Kind.ACQUIRE_FENCE, Kind.SAME_VALUE_RACE})
ORDER = RACES | {
    Kind.DIVERGENT_BARRIER,
    Kind.DIVERGENT_COLLECTIVE,
    Kind.DEADLOCK,
    Kind.EXITED_SHARED,
}
FAULTS = ORDER | {
    Kind.OUT_OF_BOUNDS,
    Kind.ADDRESS_OVERFLOW,
    Kind.MISALIGNED,
    Kind.READ_ONLY,
    Kind.ASSERT,
    Kind.TRAP,
}
"""What GPUVerify proves the absence of: races, divergence, failing assertions, bad pointers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program of a suite with the verdict of its authors.

    `kinds` are what may be found in it; `launches` are (grid, block) as its authors launch it.
    """

    suite: str
    name: str
    faulty: bool
    source: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    kinds: frozenset[Kind]
    kernel: str = ""
    arguments: tuple[tuple[Any, ...] | None, ...] = (None,)
    flags: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came out of one case: `result` is found, noted, missed, clean, alarm or not covered."""

    suite: str
    name: str
    faulty: bool
    result: str
    seconds: float
    said: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()
    label: str = ""


# ---- sources


_KEPT = re.compile(
    r"\b(__device__|__global__|__constant__|__shared__|struct|class|union|enum|namespace|typedef)\b"
    r"|\b(using|template)\b|\bextern\s*\"C\"|=\s*$"
)


def without_comments(text: str) -> str:
    """Return a C++ source with comments blanked, lines kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    return pattern.sub(blank, text)


def device_code(text: str) -> str:
    """Return a CUDA source without functions of the host; lines keep their numbers."""
    text = without_comments(text)
    out, place, begin, depth = list(text), 0, 0, 0
    while place < len(text):
        letter = text[place]
        if letter == "#" and depth == 0 and not text[begin:place].strip():
            while (end := text.find("\n", place)) > 0 and text[end - 1] == "\\":
                place = end + 1
            place = begin = len(text) if end < 0 else end + 1
            continue
        if letter == "{":
            if depth == 0:
                head = text[begin:place]
                inside = re.search(r"\b(namespace|extern)\b", head) and "(" not in head
                keep, start = bool(inside) or bool(_KEPT.search(head)) or "(" not in head, begin
                if inside:
                    place = begin = place + 1
                    continue
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                if not keep:
                    for index in range(start, place + 1):
                        out[index] = "\n" if text[index] == "\n" else " "
                begin = place + 1
            depth = max(depth, 0)
        elif letter == ";" and depth == 0:
            if "(" in text[begin:place] and not _KEPT.search(text[begin:place]):
                for index in range(begin, place + 1):
                    out[index] = "\n" if text[index] == "\n" else " "
            begin = place + 1
        place += 1
    return "".join(out)


_STUBS = (
    *("stdio.h", "stdlib.h", "string.h", "assert.h", "time.h", "cuda.h", "cuda_runtime.h"),
    *("iostream", "cstdio", "cstdlib", "cstring", "cassert", "string", "vector"),
    *("sm_20_atomic_functions.h", "cuda_device_runtime_api.h", "call_kernel.h", "indigo_cuda.h"),
)
_SPECIFICATION = """
#define __invariant(...) ((void)0)
#define __requires(...) ((void)0)
#define __requires_fresh_array(...) ((void)0)
#define __ensures(...) ((void)0)
#define __global_invariant(...) ((void)0)
#define __function_wide_invariant(...) ((void)0)
#define __function_wide_candidate_invariant(...) ((void)0)
#define __candidate_invariant(...) ((void)0)
#define __array_snapshot(...) ((void)0)
#define __axiom(...)
#define __non_temporal(x) x
#define __assert(...) assert(__VA_ARGS__)
#define __global_assert(...) assert(__VA_ARGS__)
#define __assume(x) do { if (!(x)) return; } while (0)
typedef unsigned int uint;
#include <cooperative_groups.h>
namespace cooperative_groups {
template <class G> __device__ void synchronize(const G& g) { g.sync(); }
}
static __device__ __forceinline__ void* __builtin_memcpy(void* to, const void* from, size_t n) {
  for (size_t i = 0; i < n; i++) ((char*)to)[i] = ((const char*)from)[i];
  return to;
}
static __device__ __forceinline__ void* __builtin_memset(void* to, int value, size_t n) {
  for (size_t i = 0; i < n; i++) ((char*)to)[i] = value;
  return to;
}
"""
"""What GPUVerify's own headers declare; its specifications are dropped, but for assertions."""


def with_bodies(text: str) -> str:
    """Return a source with an empty body for each device function that it declares alone.

    GPUVerify takes such a function for one that does anything; here it does nothing.
    """
    added = []
    for match in re.finditer(
        r"^\s*__device__\s+([\w ]+?)\s*\b(\w+)\(([^;{}()]*)\);", text, re.MULTILINE
    ):
        result, name = match[1].strip(), match[2]
        if not re.search(rf"\b{name}\([^;{{}}()]*\)\s*{{", text):
            body = "" if result == "void" else "return 0;"
            added.append(f"__device__ {result} {name}({match[3]}) {{ {body} }}")
    return text + "\n" + "\n".join(added) + "\n"


def compiled(case: Case, folder: Path, *, debug: bool = False) -> str:
    """Return the PTX of a case. Raises CompileError with the compiler's log."""
    for name in _STUBS:
        (folder / name).touch()
    own = _SPECIFICATION if case.suite == "gpuverify" else ""
    own += "#include <curand_kernel.h>\n" if "curand" in case.source else ""
    source = f"{own}#line 1\n{case.source}"
    flags = [f"-I{folder}", *case.flags, *(["-G"] if debug else [])]
    return compile_ptx(source, arch="sm_80", flags=flags, name=Path(case.name).name)


# ---- suites


def indigo(folder: Path, chosen: argparse.Namespace) -> Iterator[Case]:
    """Yield the kernels of Indigo (HiRace's selection: those without a bug in bounds alone)."""
    sources = sorted(one for one in (folder / "indigo_sources").iterdir() if one.is_dir())
    graphs = sorted((folder / "input").glob("*.egr"))
    graphs = [one for one in graphs if not chosen.graphs or one.stem in chosen.graphs]
    arguments = tuple(on_graph(one) for one in graphs)
    for algorithm in half(sources, chosen):
        for file in sorted(algorithm.glob("*.cu")):
            bugs = set(re.findall(r"[a-z]+Bug", file.stem))
            if bugs == {"boundsBug"}:
                continue
            for blocks, threads in chosen.launches:
                yield Case(
                    suite=f"indigo {blocks}x{threads}",
                    name=file.stem,
                    faulty=bool(bugs),
                    source=device_code(file.read_text(errors="replace")),
                    grid=(blocks, 1, 1),
                    block=(threads, 1, 1),
                    kinds=RACES,
                    kernel="test_kernel",
                    arguments=arguments,
                    label=LABELS.get(file.stem, ""),
                )


def on_graph(graph: Path) -> tuple[Any, ...]:
    """Return the arguments of Indigo's kernels on a graph, as its own main() makes them."""
    words = np.frombuffer(graph.read_bytes(), np.int32)
    nodes, edges = int(words[0]), int(words[1])
    nindex, nlist = words[2 : 3 + nodes], words[3 + nodes : 3 + nodes + edges]
    size, generator = max(nodes, edges, 1), np.random.default_rng(1)
    first, second = generator.integers(0, nodes, size), generator.integers(0, max(edges, 1), size)
    first[0] = second[0] = 0
    return nindex, nlist, first.astype(np.int32), second.astype(np.int32), nodes


def scor(folder: Path, chosen: argparse.Namespace) -> Iterator[Case]:
    """Yield the microbenchmarks of ScoR at their own launches."""
    for file in sorted((folder / "microbenchmarks" / "src").glob("*.cu")):
        text = file.read_text()
        sizes = dict(re.findall(r"#define\s+(NBLOCKS|TPERBLK)\s+(\d+)", text))
        yield Case(
            suite="scor",
            name=file.stem,
            faulty=file.stem.startswith("race"),
            source=device_code(text),
            grid=(int(sizes["NBLOCKS"]), 1, 1),
            block=(int(sizes["TPERBLK"]), 1, 1),
            kinds=RACES,
            kernel="kmain",
            arguments=((np.zeros(1, np.uint32),),),
            label=LABELS.get(file.stem, ""),
        )


def gpuverify(folder: Path, chosen: argparse.Namespace) -> Iterator[Case]:
    """Yield the CUDA cases of GPUVerify's own test suite."""
    root = folder / "testsuite" / "CUDA"
    for file in half(sorted(root.rglob("*.cu")), chosen):
        text = file.read_text(errors="replace")
        lines = text.splitlines()
        name = str(file.parent.relative_to(root))
        options = " ".join(lines[1:2])
        verdict = lines[0].strip("/ ").lower()
        if "error" in verdict and "verified" not in verdict:
            continue  # their front end's refusals say nothing of the kernel
        yield Case(
            suite="gpuverify",
            name=name,
            faulty=verdict.startswith("xfail"),
            source=with_bodies(device_code(text)),
            grid=size_of(options, "gridDim"),
            block=size_of(options, "blockDim"),
            kinds=FAULTS,
            flags=tuple(re.findall(r"-D\S+", options)),
            arguments=tuple(required(text, faulty=verdict.startswith("xfail"))),
            label=LABELS.get(name, ""),
        )


def required(text: str, *, faulty: bool) -> Iterator[tuple[int | str, ...] | None]:
    """Yield scalars for a kernel, by parameter: as `__requires(name == number)` says, or 1.

    Those of a faulty kernel are 1 and 0 in all combinations, as any value may show the fault.
    Pointers are empty text. None where the parameters cannot be told apart.
    """
    values = dict(re.findall(r"__requires\([^;]*?\b(\w+)\s*==\s*(\d+)\b", text))
    sizes = re.findall(r"__requires\(\s*(\w+)\s*==\s*(blockDim|gridDim)\.x\s*\)", text)
    values |= {name: str(size_of(text, word)[0]) for name, word in sizes}
    found = re.search(r"__global__\s+void\s+\w+\s*\(([^)]*)\)", text)
    if found is None:
        yield None
        return
    whole = re.compile(
        r"\s*(?:(?:const|unsigned|signed|int|short|long|size_t|char|uint)\s+)+\w+\s*"
    )
    names = [
        one.split()[-1] if whole.fullmatch(one) else ""
        for one in found[1].split(",")
        if one.split()
    ]
    choices = [
        [values[name]]
        if name in values
        else ["1", "0"]
        if name and faulty
        else ["1"]
        if name
        else [""]
        for name in names
    ]
    for chosen in itertools.islice(itertools.product(*choices), 8):
        yield tuple(int(one) if one else "" for one in chosen)


def size_of(options: str, word: str) -> tuple[int, int, int]:
    """Return a dimension of a launch as GPUVerify's options have it."""
    found = re.search(rf"--{word}=\[?([\d,]+)\]?", options)
    sizes = [int(one) for one in found[1].split(",") if one] if found else [1]
    sizes += [1] * (3 - len(sizes))
    if word == "blockDim" and sizes[0] > 1024:
        sizes[0] = 1024  # they prove things of blocks that no GPU launches
    return sizes[0], sizes[1], sizes[2]


def half(items: Sequence[Path], chosen: argparse.Namespace) -> list[Path]:
    """Return the items of even or odd position, or all."""
    if chosen.half == "all":
        return list(items)
    return list(items[chosen.half == "odd" :: 2])


LABELS = {
    **dict.fromkeys(
        (
            "norace_interblock_fence_raw",
            "norace_interwarp-block_fence-atom_hrd-indirect",
            "norace_interwarp-block_fence_hrf-indirect",
            "norace_interwarp_blkfence_raw",
            "norace_interwarp_fence_raw",
        ),
        "the reading side has no fence behind the atomic that sees the flag: PTX orders nothing",
    ),
    "cooperative_groups/fail/divergence_grid_group": "the threads that leave grid.sync() out end, "
    "and threads that end release the barriers that wait for them (PTX ISA, exit)",
    "curand_tests/pass/curand_mtgp32": "the host makes the generator's tables, and no launch of it "
    "comes with the suite",
    "annotation_tests/test_axiom": "free of races only by an axiom on blockIdx that no launch has",
    "warpsync/shuffle": "free of races only if warps run in lockstep, which PTX does not say",
    "globalarray/fail": "the fault is that the host may have changed __constant__ data",
    "misc/fail/miscfail7": "the fault is that the argument may be null; a launch decides that",
    "param_values/value_in_assert": "fails for c == 48 alone; the launch passes 1 and 0",
    "argument_promotion": "texture references left CUDA with version 12",
    **dict.fromkeys(
        (
            "function_pointers/basic_argument_fail",
            "function_pointers/funcptr_to_ptr",
            "function_pointers/pass_struct/call",
            "function_pointers/pass_struct/requires_call",
        ),
        "takes a function's address from the host, and no launch of it comes with the suite",
    ),
}
"""Cases whose verdict a launch cannot show, or contradicts; they are counted apart."""


# ---- running


def launch_of(case: Case, module: Any, given: tuple[Any, ...] | None) -> Launch:
    """Return the launch of a case: its own arguments, or memory and numbers made up for it."""
    entries = [one for one in module.entries if case.kernel in one]
    if not entries:
        raise PtxsanError(f"no kernel '{case.kernel}' in the compiled source")
    entry = module.functions[entries[0]]
    arguments: list[Argument] = []
    inside: list[tuple[int, int, Pointer]] = []
    memory = 1 << 23 if math.prod(case.grid) * math.prod(case.block) > 1 << 12 else 1 << 16
    for index, parameter in enumerate(entry.params):
        size = parameter.count * width_of(parameter.type) // 8
        value = given[index] if given is not None and index < len(given) else ""
        name = f"argument {index}"
        if isinstance(value, np.ndarray):
            data = np.frombuffer(bytearray(value.tobytes()), np.uint8)
            arguments.append(Pointer(buffer=Buffer(name=name, data=data)))
        elif value != "":
            arguments.append(int(value).to_bytes(size, "little", signed=True))
        elif size == 8 and parameter.type in ("u64", "b64"):
            arguments.append(Pointer(buffer=Buffer(name=name, data=np.zeros(memory, np.uint8))))
        elif parameter.type == "b8":
            arguments.append(bytes(size))
            for offset in range(0, size - 7, 8) if parameter.align == 8 else ():
                made = Buffer(name=f"{name} + {offset}", data=np.zeros(memory, np.uint8))
                inside.append((index, offset, Pointer(buffer=made)))
        else:
            arguments.append((1).to_bytes(size, "little"))
    return Launch(
        kernel=entries[0],
        grid=case.grid,
        block=case.block,
        arguments=tuple(arguments),
        pointers_inside=tuple(inside),
    )


def counts(case: Case, finding: MachineFinding) -> bool:
    """Whether a finding speaks of the case, not of the memory that was made up for it."""
    made_up = finding.kind is Kind.OUT_OF_BOUNDS and finding.allocation.startswith(
        "buffer 'argument"
    )
    return finding.kind in case.kinds and finding.severity is not Severity.ADVICE and not made_up


def judge(case: Case, report: MachineReport, seconds: float) -> Row:
    """Return what came out of a case."""
    said = [one for one in report.findings if counts(case, one)]
    wrong = [one for one in said if one.severity is Severity.WRONG]
    besides = tuple(
        f"{one.kind} ({one.severity}): {one.text}" for one in report.findings if one not in said
    )
    if report.inconclusive and not wrong:
        result, besides = "not covered", (report.inconclusive, *besides)
    elif case.faulty:
        result = "found" if wrong else "noted" if said else "missed"
    else:
        result = "alarm" if wrong else "clean with a note" if said else "clean"
    texts = tuple(f"{one.kind} ({one.severity}): {one.text}" for one in said)
    return Row(
        suite=case.suite,
        name=case.name,
        faulty=case.faulty,
        result=result,
        said=texts,
        besides=besides,
        seconds=round(seconds, 3),
        label=case.label,
    )


def examine(case: Case, folder: Path, texts: dict[str, str], *, debug: bool = False) -> Row:
    """Compile a case and run it on each of its arguments until a fault is found; keep its PTX."""
    key = case.source + " ".join(case.flags) + str(debug)
    rows: list[Row] = []
    started = time.perf_counter()
    try:
        if key not in texts:
            texts.clear()
            texts[key] = compiled(case, folder, debug=debug)
        module = parse(texts[key])
        for arguments in case.arguments:
            started = time.perf_counter()
            options = Options(shadow=False, optimise=False, limit_s=60.0)
            report = run(module, launch_of(case, module, arguments), options=options)
            rows.append(judge(case, report, time.perf_counter() - started))
            if rows[-1].result in ("found", "alarm"):
                break
    except PtxsanError as error:
        log = [line[:200] for line in getattr(error, "log", "").splitlines() if "error" in line]
        rows.append(
            Row(
                suite=case.suite,
                name=case.name,
                faulty=case.faulty,
                result="not covered",
                besides=(str(error).splitlines()[0], *log[:4]),
                seconds=time.perf_counter() - started,
                label=case.label,
            )
        )
    worst = ("found", "alarm", "not covered", "noted", "clean with a note", "missed", "clean")
    row = min(rows, key=lambda one: worst.index(one.result))
    return replace(row, seconds=round(sum(one.seconds for one in rows), 3))


def litmus(folder: Path, chosen: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each litmus test that has an expected verdict (1: its condition holds)."""
    for version in ("v6_0", "v7_5"):
        table = folder / "dartagnan" / "src" / "test" / "resources" / f"PTX{version}-expected.csv"
        for line in table.read_text().splitlines():
            name, _, wanted = line.partition(",")
            if wanted.strip() not in ("0", "1") or (
                chosen.only and not any(one in name for one in chosen.only)
            ):
                continue
            started = time.perf_counter()
            try:
                found = verdict_of((folder / name).read_text())
                result = "right" if found == (wanted.strip() == "1") else "wrong"
                besides: tuple[str, ...] = (f"expected {wanted.strip()}, found {int(found)}",)
            except (NotImplementedError, TimeoutError) as why:
                result, besides = "not covered", (str(why),)
            yield Row(
                suite=f"litmus {version}",
                name=name,
                faulty=False,
                result=result,
                besides=besides,
                seconds=round(time.perf_counter() - started, 3),
            )


def matrix(folder: Path, chosen: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each matrix instruction of MMA-Sim: are all cases equal, bit by bit?"""
    for one in suites_matrix.compare(folder, chosen.cases, chosen.only):
        result = "equal" if one.cases and one.equal == one.cases else "different"
        said = one.left_out or f"{one.equal} of {one.cases} equal; {one.first}".rstrip("; ")
        yield Row(
            suite="mma-sim",
            name=one.name,
            faulty=False,
            result="not covered" if one.left_out else result,
            besides=(said,),
            seconds=one.seconds,
        )


def table(rows: Sequence[Row]) -> list[str]:
    """Return a line for each suite."""
    lines = []
    odd = [row for row in rows if row.label and row.result not in ("found", "clean")]
    for suite in dict.fromkeys(row.suite for row in rows):
        apart = sum(row.suite == suite for row in odd)
        those = [row for row in rows if row.suite == suite and row not in odd]
        if not suite.startswith(GPU_SUITES):
            results = Counter(row.result for row in those)
            counts = ", ".join(f"{name} {number}" for name, number in sorted(results.items()))
            seconds = sum(row.seconds for row in those)
            lines.append(f"{suite:18s} {len(those)}: {counts}; seconds {seconds:.1f}")
            continue
        count = Counter((row.faulty, row.result) for row in those)
        faulty, clean = sum(row.faulty for row in those), sum(not row.faulty for row in those)
        uncovered = sum(row.result == "not covered" for row in those)
        seconds = sorted(row.seconds for row in those)
        lines.append(
            f"{suite:18s} faults {faulty}: found {count[True, 'found']}, "
            f"noted {count[True, 'noted']}, missed {count[True, 'missed']}; clean {clean}: "
            f"alarms {count[False, 'alarm']}, notes {count[False, 'clean with a note']}; "
            f"not covered {uncovered}; seconds {sum(seconds):.1f}, "
            f"median {seconds[len(seconds) // 2]:.2f}; label problems {apart}"
        )
    return lines


def kept(suites: Collection[str]) -> list[Row]:
    """Return the rows of the last run of other suites than these."""
    file = result_path("suites")
    rows = json.loads(file.read_text())["results"]["rows"] if file.exists() else []
    return [Row(**row) for row in rows if row["suite"] not in suites]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in (*SUITES, "litmus", "matrix"):
        parser.add_argument(f"--{name}", type=Path, help=f"folder of the suite {name}")
    parser.add_argument("--half", choices=("even", "odd", "all"), default="even")
    parser.add_argument("--graphs", nargs="*", default=[], help="of Indigo; none: all")
    parser.add_argument("--launches", nargs="*", default=["2x64", "1024x256"], help="of Indigo")
    parser.add_argument("--only", nargs="*", default=[], help="names that contain one of these")
    parser.add_argument("--cases", type=int, default=100_000, help="of each matrix instruction")
    parser.add_argument("--verbose", action="store_true", help="print what was said of every case")
    parser.add_argument("--no-save", action="store_true")
    chosen = parser.parse_args(arguments)
    chosen.launches = [tuple(map(int, one.split("x"))) for one in chosen.launches]
    return chosen


GPU_SUITES = ("indigo", "scor", "gpuverify")
SUITES = {"indigo": indigo, "scor": scor, "gpuverify": gpuverify}


def main(arguments: Sequence[str]) -> int:
    """Run the suites whose folders are given."""
    chosen = options_of(arguments)
    rows: list[Row] = []
    texts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, cases in SUITES.items():
            given = getattr(chosen, name)
            for case in cases(given, chosen) if given else ():
                if chosen.only and not any(word in case.name for word in chosen.only):
                    continue
                row = examine(case, Path(folder), texts)
                if row.faulty and row.result == "missed" and case.suite == "gpuverify":
                    row = examine(case, Path(folder), {}, debug=True)
                rows.append(row)
                odd = row.result in ("missed", "alarm", "not covered", "clean with a note")
                if chosen.verbose or odd:
                    print(f"{row.result:18s} {row.suite} {row.name} {row.seconds:.2f}s {row.label}")
                    for text in (
                        *row.said,
                        *(row.besides if chosen.verbose or not row.said else ()),
                    ):
                        print(f"      {text[:240]}")
    judged = litmus(chosen.litmus, chosen) if chosen.litmus else ()
    compared = matrix(chosen.matrix, chosen) if chosen.matrix else ()
    for row in itertools.chain(judged, compared):
        rows.append(row)
        if row.result not in ("right", "equal") or chosen.verbose:
            print(f"{row.result:18s} {row.suite} {row.name} {row.seconds:.2f}s", *row.besides)
    if not chosen.no_save and not chosen.only:
        rows = [*kept({row.suite for row in rows}), *rows]
    print("\n".join(table(rows)))
    if not chosen.no_save and not chosen.only:
        save(
            "suites",
            {"half": chosen.half, "rows": [asdict(row) for row in rows], "table": table(rows)},
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
