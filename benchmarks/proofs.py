"""Proofs for all sizes on sets of kernels: proved, refuted, unknown by cause, and seconds.

    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py record PAIRS FOLDER
    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py prove FOLDER ROWS --jobs 16
    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py equal PAIRS ROWS --jobs 16
    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py decide PAIRS ROWS
    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py planted ROWS
    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py corpus ROWS
    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py table ROWS...
    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py equal-table ROWS...

`record` reads PAIRS, one JSON object a line with `set`, `name`, `problem` and `path` of a
candidate, records its launches at many sizes without running a kernel, and writes one request
a kernel into FOLDER. `prove` answers each in a process of its own and appends a row; kernels
that have one are passed over. `equal` asks `cuassay prove --only equal` of every pair. `decide`
asks `cuassay prove` for memory and races (benchmarks/model2kernel.py makes such pairs). `planted`
proves the planted faults and their twins, and runs what was proved in the PTX machine at random
sizes, until `--checks` accesses of each proved kernel were looked at again. `corpus` proves the
PTX machine's own kernels and faults, each at its one launch, for all data. `table` writes
benchmarks/results/proofs-cpu.json (`--name` has another name; of a kernel's rows the last counts),
`equal-table` proofs-equal-cpu.json.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import itertools
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import ROOT, save

sys.path += [str(ROOT / "packages" / "ptxsan" / part) for part in ("src", "tests")]

_RECORD_S, _LAUNCH_S, _KERNELS_LAUNCHES = 240.0, 30.0, 5
_DECIDE_S = 480.0  # a pair with its compilation
_RUNS = 6  # of each proved kernel at least
_HERE = Path(__file__).resolve()


def record(pairs: Path, folder: Path, *, jobs: int, until: float) -> None:
    """Record the launches of every pair; one request a file."""
    folder.mkdir(parents=True, exist_ok=True)

    def one(line: str) -> None:
        pair = json.loads(line)
        target = folder / f"{pair['set']}--{pair['name']}.json"
        left_s = until - time.monotonic()
        if target.exists() or target.with_suffix(".refused").exists() or left_s < 5:
            return
        command = [sys.executable, str(_HERE), "record-one", line, str(target)]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False,
                timeout=min(_RECORD_S, left_s),
            )  # fmt: skip
            said = ran.stderr.strip().splitlines()[-1:] if ran.returncode else []
        except subprocess.TimeoutExpired:
            said = [f"not recorded in {min(_RECORD_S, left_s):.0f} s"]
        if not target.exists():
            target.with_suffix(".refused").write_text("".join(said), encoding="utf-8")
        print(pair["name"], "recorded" if target.exists() else said, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, pairs.read_text(encoding="utf-8").splitlines()))


def record_one(line: str, target: Path) -> None:
    """Record one pair in this process."""
    from cuassay import build
    from cuassay.formats import load_candidate, load_problem
    from cuassay.formats.execute import load_reference
    from cuassay.judge.proofs.request import request_of
    from cuassay.judge.proofs.sampling import sampled
    from cuassay.judge.run.machine import HostNursery
    from cuassay.judge.trial import open_trial
    from cuassay.model.device import CPU
    from cuassay.model.verdict import Profile

    pair = json.loads(line)
    problem = load_problem(pair["problem"], strict=False, notes=[])
    candidate = load_candidate(pair["path"], problem, strict=False, notes=[])
    build.prepare(candidate, device=CPU, notify=lambda text: None)
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.STANDARD, device=CPU, root_seed=0
    )
    host = HostNursery(None)
    try:
        samples = sampled(trial, candidate, trial.cases("small")[0], host, lambda event: None)
    finally:
        host.close()
    target.write_bytes(request_of(trial.problem, samples, limit_s=_LAUNCH_S))


def prove(
    folder: Path, rows: Path, *, jobs: int, until: float, match: str, launch_s: float
) -> None:
    """Answer requests until the time is over; rows are appended as they come."""
    known = {row["name"] for row in _rows([rows])} if rows.exists() else set()
    files = [one for one in folder.glob("*.json") if one.stem not in known and match in one.name]
    most_s = _KERNELS_LAUNCHES * launch_s

    def one(file: Path) -> None:
        left_s = until - time.monotonic()
        if left_s < 5:
            return
        started = time.monotonic()
        try:
            ran = subprocess.run(
                [sys.executable, str(_HERE), "prove-one", str(file), "--launch-s", str(launch_s)],
                capture_output=True, text=True, timeout=min(most_s, left_s), check=False,
            )  # fmt: skip
            row = json.loads(ran.stdout) if ran.stdout else {"refused": ran.stderr[-300:]}
        except subprocess.TimeoutExpired:
            if left_s < most_s:
                return  # no answer of this kernel: the whole time was over
            row = {"refused": f"no answer in {most_s:g} s"}
        name = file.stem
        row |= {"name": name, "set": name.partition("--")[0], "s": time.monotonic() - started}
        with rows.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        print(name, f"{row['s']:.1f} s", row.get("memory"), row.get("races"), flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, sorted(files, key=lambda one: _shuffled(one.stem))))


def _shuffled(name: str) -> float:
    """Order kernels by chance, always alike: a part of a set is a sample of it."""
    return random.Random(name).random()


def prove_one(file: Path, launch_s: float) -> None:
    """Print the answers to one request as JSON."""
    from cuassay.build.machine.prove import prove as answer
    from cuassay.model import serial
    from cuassay.model.proofs import ProofEvidence, Property, proofs_of

    if importlib.util.find_spec("numba") is None:
        from ptxsan.prove import memory, replay

        # Without the machine nothing is refuted: what the solver names stays a suspect.
        memory.replay = lambda law, sizes, *_, **__: replay.Replayed(sizes=sizes, why="no machine")
    asked = {"listed": []} | json.loads(file.read_bytes()) | {"limit_s": launch_s}
    evidence: ProofEvidence = serial.loads(
        ProofEvidence, answer(memoryview(json.dumps(asked).encode())).decode()
    )
    row: dict[str, Any] = {"calls": len(asked["calls"]), "axes": len(asked["axes"])}
    for one in proofs_of(evidence):
        row[str(one.what)] = str(one.answer)
        row[f"{one.what}_reason"] = one.reason
    launches = [launch for call in evidence.calls for launch in call.launches]
    row["classes"], row["launches"] = len(evidence.calls), len(launches)
    for what in Property:
        claims = [one for launch in launches for one in launch.claims if one.what is what]
        row[f"{what}_launches"] = collections.Counter(str(one.answer) for one in claims)
    row["refused"] = evidence.refused
    used = resource.getrusage(resource.RUSAGE_SELF)
    row["cpu_s"] = used.ru_utime + used.ru_stime
    print(json.dumps(row))


def _each(
    pairs: Path,
    rows: Path,
    ask: Callable[[dict[str, Any], float], dict[str, Any]],
    *,
    jobs: int,
    until: float,
    match: str,
    most_s: float,
    said: str,
) -> None:
    """Append a row for every pair that has none: what `ask` returns, given a pair and seconds.

    A pair that the end of the time cuts short, before `most_s`, gets none. `said` is what a
    property is called in the rows.
    """
    known = {row["name"] for row in _rows([rows])} if rows.exists() else set()

    def one(line: str) -> None:
        pair = json.loads(line)
        name, left_s = f"{pair['set']}--{pair['name']}", until - time.monotonic()
        if name in known or match not in name or left_s < 5:
            return
        started = time.monotonic()
        try:
            row = ask(pair, min(most_s, left_s))
        except subprocess.TimeoutExpired:
            if left_s < most_s:
                return
            row = {"refused": f"no answer in {most_s:g} s"}
        row |= {"name": name, "set": pair["set"], "s": time.monotonic() - started}
        with rows.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        why = row.get(f"{said}_reason") or row.get("refused", "")
        print(name, f"{row['s']:.1f} s", row.get(said), row.get("sizes"), why[:400], flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, pairs.read_text(encoding="utf-8").splitlines()))


def equal(pairs: Path, rows: Path, *, jobs: int, until: float, match: str) -> None:
    """Ask of every pair whether it is the reference's expression; rows are appended."""

    def ask(pair: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        command = [
            sys.executable, "-m", "cuassay", "prove", pair["path"], "--problem", pair["problem"],
            "--only", "equal", "--json",
        ]  # fmt: skip
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_s
        )
        found = json.loads(ran.stdout)["proof"]["equality"] if ran.stdout[:1] == "{" else None
        if found is None:
            return {"refused": ran.stderr.strip()[-400:]}
        return {
            "equal": found["answer"], "equal_reason": found["reason"],
            "elements": found["elements"], "sizes": found["sizes"],
        }  # fmt: skip

    _each(
        pairs, rows, ask, jobs=jobs, until=until, match=match, most_s=_RECORD_S, said="equal"
    )  # fmt: skip


def decide(pairs: Path, rows: Path, *, jobs: int, until: float, match: str) -> None:
    """Ask `cuassay prove` of every pair whether it stays within its memory; rows are appended."""

    def ask(pair: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        if "refused" in pair:
            return {"refused": pair["refused"]}
        path, problem = Path(pair["path"]).resolve(), Path(pair["problem"])
        command = [
            sys.executable, "-m", "cuassay", "prove", str(path), "--problem",
            str(problem.resolve()) if problem.exists() else pair["problem"],
            "--only", "memory", "--only", "races", "--only", "initialized", "--json",
            *(("--elements", str(pair["elements"])) if "elements" in pair else ()),
        ]  # fmt: skip
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=timeout_s,
            cwd=path.parent,
        )  # fmt: skip
        return _decided(ran.stdout, ran.stderr)

    _each(
        pairs, rows, ask, jobs=jobs, until=until, match=match, most_s=_DECIDE_S, said="memory"
    )  # fmt: skip


def _decided(out: str, log: str) -> dict[str, Any]:
    """Return a row of what `cuassay prove --json` printed."""
    if out[:1] != "{":
        return {"refused": log.strip()[-600:]}
    document = json.loads(out)
    if "proved" not in document:
        return {"refused": str(document.get("message", document))[:600]}
    row: dict[str, Any] = {}
    for one in document["proved"]:
        row[one["what"]], row[f"{one['what']}_reason"] = one["answer"], one["reason"]
    claims = [
        claim
        for call in document["proof"]["calls"]
        for launch in call["launches"]
        for claim in launch["claims"]
    ]
    refuted = [claim for claim in claims if claim["answer"] == "refuted"]
    row["sizes"] = [claim["sizes"] for claim in refuted]
    row["lines"] = [[claim["file"], claim["line"], claim["reason"][:200]] for claim in refuted]
    return row


def planted(rows: Path, *, jobs: int, until: float, checks: int) -> None:
    """Prove planted faults and their twins; run what was proved at random sizes."""
    from ptxsan_support.planted_proofs import PLANTED

    known = {row["name"] for row in _rows([rows])} if rows.exists() else set()

    def one(name: str) -> None:
        left_s = until - time.monotonic()
        if left_s < 5:
            return
        command = [
            sys.executable, str(_HERE), "planted-one", name, "--checks", str(checks),
            "--minutes", str(left_s / 60),
        ]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            print(name, ran.stderr[-400:], flush=True)
            return
        row = json.loads(ran.stdout)
        with rows.open("a", encoding="utf-8") as out:
            out.write(ran.stdout)
        said = "FALSE" if row["contradicted"] else ""
        print(
            name, row["expected"], row["memory"], row["races"], row["initialized"],
            f"{row['s']:.1f} s",
            row["sizes_checked"], row["accesses_checked"], said, flush=True,
        )  # fmt: skip

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, [name for name, _, _ in PLANTED if name not in known]))


def corpus(rows: Path, *, jobs: int, until: float) -> None:
    """Prove the machine's corpus, a row a kernel; a fault that is proved absent is FALSE."""
    from ptxsan_corpus.corpus import FAULTS, KERNELS

    known = {row["name"] for row in _rows([rows])} if rows.exists() else set()

    def one(name: str) -> None:
        left_s = until - time.monotonic()
        if left_s < 5:
            return
        command = [sys.executable, str(_HERE), "corpus-one", name]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            print(name, ran.stderr[-400:], flush=True)
            return
        row = json.loads(ran.stdout)
        with rows.open("a", encoding="utf-8") as out:
            out.write(ran.stdout)
        said = [row[what] for what in ("memory", "races", "initialized")]
        print(name, row["expected"], *said, f"{row['s']:.1f} s", row["false"], flush=True)

    names = [*KERNELS, *(fault.name for fault in FAULTS)]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, [name for name in names if name not in known]))


def corpus_one(name: str) -> None:
    """Print what is proved of one kernel of the machine's corpus, at its one launch."""
    from ptxsan.launch import Pointer
    from ptxsan.prove.law import Launched, Observation, laws
    from ptxsan.prove.machine import Domain
    from ptxsan.prove.memory import Proved, Refuted, prove_call
    from ptxsan.prove.replay import MEMORY_FAULTS, ORDER_FAULTS, UNWRITTEN_FAULTS
    from ptxsan_corpus.corpus import FAULTS, KERNELS, planted, prepare, ptx
    from ptxsan_corpus.running import expected_kinds

    fault = next((one for one in FAULTS if one.name == name), None)
    kernel = KERNELS[name] if fault is None else planted(fault)
    prepared = prepare(kernel)
    places = {buffer: 1 << 30 + number for number, buffer in enumerate(prepared.buffers)}
    arguments = []
    for one in prepared.launch.arguments:
        match one:
            case Pointer(buffer=buffer, offset=offset):
                arguments.append((places[buffer.name] + offset).to_bytes(8, "little"))
            case bytes():
                arguments.append(one)
            case _:
                arguments.append(bytes(128))  # a map of a tensor: nothing follows it
    launched = Launched(
        module=ptx(kernel.text(), kernel.arch), kernel=kernel.entry, grid=kernel.grid,
        block=kernel.block, cluster=prepared.launch.cluster, shared_bytes=kernel.shared_bytes,
        arguments=tuple(arguments),
        regions=tuple((places[one], each.data.nbytes) for one, each in prepared.buffers.items()),
        names=tuple(prepared.buffers),
        unwritten=tuple(one.initialised is not None for one in prepared.buffers.values()),
    )  # fmt: skip
    started = time.monotonic()
    (law,) = laws([Observation(sizes={}, launches=(launched,))])
    (found,) = prove_call(law, Domain(axes={}), limit_s=_LAUNCH_S)
    answers = {"memory": found.answer, "races": found.races, "initialized": found.initialized}
    kinds = expected_kinds(fault) if fault is not None else frozenset()
    # A fault of several kinds shows as one of them: all of them proved absent would be false.
    within = {"memory": MEMORY_FAULTS, "races": ORDER_FAULTS, "initialized": UNWRITTEN_FAULTS}
    meant = [what for what, some in within.items() if kinds & some]
    outside = kinds - MEMORY_FAULTS - ORDER_FAULTS - UNWRITTEN_FAULTS
    if fault is None:
        false = [what for what, one in answers.items() if isinstance(one, Refuted)]
    else:
        absent = [what for what in meant if isinstance(answers[what], Proved)]
        false = absent if meant and absent == meant and not outside else []
    row = {
        "set": "corpus" if fault is None else "corpus-faults", "name": name,
        "expected": sorted(map(str, kinds)), "false": false,
        **{what: type(one).__name__.lower() for what, one in answers.items()},
        **{f"{what}_reason": getattr(one, "reason", "") for what, one in answers.items()},
        "s": time.monotonic() - started,
    }  # fmt: skip
    print(json.dumps(row))


def planted_one(name: str, *, until: float, checks: int) -> None:
    """Print what is proved of one planted kernel, and what its runs at random sizes show."""
    from ptxsan.prove.memory import Proved, Refuted, prove_call
    from ptxsan.prove.replay import MEMORY_FAULTS, ORDER_FAULTS, UNWRITTEN_FAULTS, replay
    from ptxsan_support.planted_proofs import PLANTED
    from ptxsan_support.planting import Expected

    expected, subject = next((kind, one) for found, kind, one in PLANTED if found == name)
    started = time.monotonic()
    law = subject.law()
    (found,) = prove_call(law, subject.domain, values=subject.integers, limit_s=_LAUNCH_S)
    proved_s = time.monotonic() - started
    answers = {"memory": found.answer, "races": found.races, "initialized": found.initialized}
    faults, runs, accesses = 0, 0, 0
    kinds: frozenset[Any] = frozenset()
    kinds |= MEMORY_FAULTS if isinstance(found.answer, Proved) else frozenset()
    kinds |= ORDER_FAULTS if isinstance(found.races, Proved) else frozenset()
    kinds |= UNWRITTEN_FAULTS if isinstance(found.initialized, Proved) else frozenset()
    for sizes in _sizes(subject) if kinds else ():
        if (accesses >= checks and runs >= _RUNS) or time.monotonic() > until:
            break
        ran = replay(law.launches[0], sizes, kinds, limit_s=10)
        runs += not ran.why
        accesses += ran.accesses
        faults += bool(ran.faults)
    refuted = [one.sizes for one in answers.values() if isinstance(one, Refuted)]
    row = {
        "set": "planted" if expected is not Expected.SAFE else "twins", "name": name,
        "expected": str(expected),
        **{name: type(one).__name__.lower() for name, one in answers.items()},
        "sizes": [dict(one) for one in refuted], "contradicted": faults,
        "limit": getattr(found.answer, "limit", 0),
        "sizes_checked": runs, "accesses_checked": accesses, "s": proved_s,
        **{f"{name}_reason": getattr(one, "reason", "") for name, one in answers.items()},
    }  # fmt: skip
    print(json.dumps(row))


def _sizes(subject: Any) -> Iterator[dict[str, int]]:
    """Yield sizes around what kernels care for, then random ones; none twice.

    Where most of what is drawn was seen, sizes are drawn from four times the range.
    """
    seen: set[tuple[int, ...]] = set()
    for sizes in subject.small_sizes(_RUNS):
        if tuple(sizes.values()) not in seen:
            seen.add(tuple(sizes.values()))
            yield sizes
    draw = random.Random(11)
    ranges, again = [8, 40, 300], [0, 0, 0]
    for place in itertools.cycle(range(3)):
        most = ranges[place]
        sizes = {
            name: one.multiple
            * draw.randint(
                -(-one.low // one.multiple),
                max(-(-one.low // one.multiple), min(most, (one.high or most) // one.multiple)),
            )
            for name, one in subject.axes.items()
        }
        if tuple(sizes.values()) not in seen:
            seen.add(tuple(sizes.values()))
            yield sizes
            continue
        again[place] += 1
        if again[place] == most:
            again[place], ranges[place] = 0, 4 * most
        if most > 1 << 20:
            return  # there are no others


def _rows(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def cause(reason: str) -> str:
    """Return the class that a reason is counted in."""
    for words, name in (
        ("was not proved to stay", "memory not proved"),
        ("no thread has written", "a write that is not found"),
        ("nothing before writes", "a write that is not found"),
        ("too few calls", "too few sizes for a law"),
        ("no law was found", "no law"),
        ("is not followed", "instruction not followed"),
        ("some threads only", "barrier of some threads"),
        ("before a barrier", "barriers not uniform"),
        ("did not settle", "solver"),
        ("time for this kernel", "time"),
        ("no answer in", "time"),
        ("invariant", "loop invariant"),
        ("says z3", "suspect that no run confirms"),
        ("without order", "suspect that no run confirms"),
        ("no allocation", "address of no allocation"),
    ):
        if words in reason:
            return name
    return reason[:60] or "no launch"


def table(files: list[Path], name: str) -> None:
    """Write the counts of every set, with the rows they are made of."""
    rows = list({(row["set"], row["name"]): row for row in _rows(files)}.values())
    sets: dict[str, Any] = {}
    for kind in dict.fromkeys(row["set"] for row in rows):
        inside = [row for row in rows if row["set"] == kind]
        seconds = [row["s"] for row in inside]
        found: dict[str, Any] = {
            "kernels": len(inside),
            "seconds": {
                "median": statistics.median(seconds), "mean": statistics.fmean(seconds),
                "worst": max(seconds),
            },
        }  # fmt: skip
        for what in ("memory", "races", "initialized"):
            found[what] = dict(collections.Counter(row.get(what, "unknown") for row in inside))
            found[f"{what}_unknown_by_cause"] = dict(
                collections.Counter(
                    cause(row.get(f"{what}_reason", "") or row.get("refused", ""))
                    for row in inside
                    if row.get(what, "unknown") == "unknown"
                ).most_common()
            )
        sets[kind] = found
    print(json.dumps(sets, indent=1))
    save(name, {"sets": sets, "rows": rows})


def equal_table(files: list[Path]) -> None:
    """Write the counts of equality of every set, with the rows that they are made of."""
    rows = list({row["name"]: row for row in _rows(files)}.values())
    sets: dict[str, Any] = {}
    for name in dict.fromkeys(row["set"] for row in rows):
        inside = [row for row in rows if row["set"] == name]
        seconds = [row["s"] for row in inside]
        sets[name] = {
            "kernels": len(inside),
            "equal": dict(collections.Counter(row.get("equal", "unknown") for row in inside)),
            "seconds": {
                "median": statistics.median(seconds), "mean": statistics.fmean(seconds),
                "worst": max(seconds),
            },
        }  # fmt: skip
    print(json.dumps(sets, indent=1))
    save("proofs-equal", {"sets": sets, "rows": rows})


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command")
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--minutes", type=float, default=20.0, help="for everything")
    parser.add_argument("--launch-s", type=float, default=_LAUNCH_S, help="for one launch")
    parser.add_argument("--checks", type=int, default=0, help="accesses run again for each proof")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--match", default="", help="only kernels with this text in their names")
    parser.add_argument(
        "--name", default="proofs", help="of the results that a table is written to"
    )
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes
    paths = [Path(one) for one in asked.arguments]
    match asked.command:
        case "record":
            record(paths[0], paths[1], jobs=asked.jobs, until=until)
        case "record-one":
            record_one(asked.arguments[0], paths[1])
        case "prove":
            prove(
                paths[0], paths[1], jobs=asked.jobs, until=until, match=asked.match,
                launch_s=asked.launch_s,
            )  # fmt: skip
        case "prove-one":
            prove_one(paths[0], asked.launch_s)
        case "equal":
            equal(paths[0], paths[1], jobs=asked.jobs, until=until, match=asked.match)
        case "decide":
            decide(paths[0], paths[1], jobs=asked.jobs, until=until, match=asked.match)
        case "equal-table":
            equal_table(paths)
        case "planted":
            planted(paths[0], jobs=asked.jobs, until=until, checks=asked.checks)
        case "corpus":
            corpus(paths[0], jobs=asked.jobs, until=until)
        case "corpus-one":
            corpus_one(asked.arguments[0])
        case "planted-one":
            planted_one(asked.arguments[0], until=until, checks=asked.checks)
        case _:
            table(paths, asked.name)


if __name__ == "__main__":
    main()
