"""The corpus of tests/machine through SentryWard: what it says of every fault and correct kernel.

    python benchmarks/machine_sentryward.py --sentryward VENV/bin/sentryward

SentryWard (PyPI `sentryward`, Apache-2.0) verifies PTX statically: well-synchronised barriers and
mbarriers, races, lifetimes. It needs no GPU. It is asked in its documented way, `sentryward
KERNEL.ptx --input INPUT.json` (docs/input-json.md of 0.1.1), over the launches and the PTX that
our machine executes. What stays unanswered is asked again under its two opt-in assumptions for
branches and loops that depend on data, then (CUDA C++) with PTX for sm_100a, its own target; the
first answer counts. Equivalence with a torch reference is not asked for: it takes a binding of
memory by hand for every kernel and is over the reals, so that no precision fault can show.

A fault is found where the answer is an alarm (not_wellsynced, potential_race, invalid_lifecycle)
and its twin earns none. A refusal (`unsupported`) that speaks of the planted fault itself, the twin
being answered, is counted apart; every other refusal is no answer. Every call has a limit of
seconds and of memory. Not a dependency: install it anywhere. Runs that the result file holds are
kept; `--fresh` begins anew. Writes benchmarks/results/machine-sentryward-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PTXSAN = ROOT / "packages" / "ptxsan"
for place in map(str, (ROOT, ROOT / "src", PTXSAN / "src", PTXSAN / "tests")):
    if place not in sys.path:
        sys.path.insert(0, place)

from common import RESULTS, save  # noqa: E402
from sentryward_input import NotExpressible, kernel_input  # noqa: E402
from tests.machine.triton_corpus import CASES, TritonCase  # noqa: E402
from tests.machine.triton_running import triton_launches  # noqa: E402

from cuassay.errors import CuassayError  # noqa: E402
from ptxsan.launch import Launch  # noqa: E402
from ptxsan_corpus.case import Kernel  # noqa: E402
from ptxsan_corpus.corpus import FAULTS, KERNELS, PRECISION_FAULTS, planted, prepare, ptx  # noqa: E402
from ptxsan_corpus.running import parsed  # noqa: E402

ALARMS = frozenset({"not_wellsynced", "potential_race", "invalid_lifecycle"})
# What is said of the planted fault itself where the tool goes no further.
_NAMED = (
    "invalid_named_barrier", "invalid_bulk_transfer_size", "tma_rank_mismatch",
    "TMA shared base must be aligned", "includes absent CTA", "shuffle source has no matching",
    "st_async_owner",
)  # fmt: skip
_FOLLOWED = {"representative_branches": True, "bounded_computation_loops": True}
# Ways of asking: name, architecture (empty: the corpus's own), assumptions beside the defaults.
_WAYS: tuple[tuple[str, str, Mapping[str, bool]], ...] = (
    ("defaults", "", {}),
    ("control follows", "", _FOLLOWED),
    ("sm_100a", "sm_100a", {}),
    ("sm_100a, control follows", "sm_100a", _FOLLOWED),
)
NAME = "machine-sentryward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The program and what one call may take."""

    path: str
    limit_s: float
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A kernel of the corpus: a planted fault (with its twin's name) or a correct one."""

    name: str
    kind: str
    twin: str
    source: Kernel | TritonCase


def subjects() -> Iterator[Subject]:
    """Yield the correct kernels, then the planted faults."""
    for kernel in KERNELS.values():
        yield Subject(name=kernel.name, kind=kernel.family, twin="", source=kernel)
    for case in CASES:
        yield Subject(name=case.name, kind="triton", twin="", source=case)
    for fault in (*FAULTS, *PRECISION_FAULTS):
        yield Subject(name=fault.name, kind=fault.kind, twin=fault.twin, source=planted(fault))


def launched(source: Kernel | TritonCase, arch: str) -> list[tuple[str, Launch]]:
    """Return a kernel's launches with their PTX, none for an architecture that has no such PTX."""
    if isinstance(source, TritonCase):
        return [] if arch else triton_launches(source)
    try:
        return [(ptx(source.text(), arch or source.arch), prepare(source).launch)]
    except CuassayError:
        if arch:
            return []  # wgmma is Hopper's alone
        raise


def asked(tool: Tool, text: str, launch: Launch, assumptions: Mapping[str, bool]) -> dict[str, Any]:
    """Ask about one launch: the result, the first diagnostic, and processor seconds."""
    try:
        document = kernel_input(parsed(text), launch, assumptions)
    except NotExpressible as error:
        return {"result": "not expressible", "why": str(error), "seconds": 0.0}
    with tempfile.TemporaryDirectory(prefix="sentryward-") as folder:
        kernel, given = Path(folder) / "kernel.ptx", Path(folder) / "input.json"
        kernel.write_text(text)
        given.write_text(json.dumps(document))
        command = [tool.path, str(kernel), "--input", str(given), "--timeout", str(tool.limit_s)]
        command += ["--memory-limit-mib", str(tool.memory_mib)]
        before = processor_s()
        told = told_by(command, 2 * tool.limit_s)
    return {
        "result": str(told["result"]),
        "why": reason(told),
        "checks": told.get("checks", {}),
        "warnings": int(told.get("warning_count") or 0),
        "seconds": round(processor_s() - before, 3),
    }


def told_by(command: Sequence[str], limit_s: float) -> dict[str, Any]:
    """Run the tool, all of it ended at the limit, and return its answer."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            told: dict[str, Any] = json.loads(process.communicate(timeout=limit_s)[0])
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            told = {"result": "tool_failure", "diagnostics": [{"code": type(error).__name__}]}
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return told


def processor_s() -> float:
    """Return the processor seconds of the processes that this one has started and seen end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reason(told: Mapping[str, Any]) -> str:
    """Return the first diagnostic as one line."""
    for one in told.get("diagnostics", []):
        return re.sub(r"\s+", " ", f"{one.get('code')}: {one.get('message', '')}")[:240]
    return ""


def row(subject: Subject, tool: Tool) -> dict[str, Any]:
    """Ask about a kernel until there is an answer: by the defaults, then in the other ways."""
    answers: dict[str, dict[str, Any]] = {}
    spent = 0.0
    for way, arch, assumptions in _WAYS:
        given = launched(subject.source, arch)
        every = [asked(tool, text, launch, assumptions) for text, launch in given]
        spent += sum(one["seconds"] for one in every)
        if every:
            told = worst(every) | {"way": way}
            answers.setdefault("defaults", told)
            if answered(told) or "best" not in answers:
                answers["best"] = told
        if answered(answers["best"]):
            break
    return {
        "name": subject.name,
        "class": subject.kind,
        "twin": subject.twin,
        "answers": answers,
        "seconds": round(spent, 3),
    }


def answered(told: Mapping[str, Any]) -> bool:
    """Whether a result is one about the kernel."""
    return told["result"] in ALARMS | {"race_free"}


def worst(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answer that decides: an alarm, else what was not answered, else race_free."""
    order = {"race_free": 2} | dict.fromkeys(ALARMS, 0)
    return dict(min(answers, key=lambda one: order.get(one["result"], 1)))


def judged(one: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], way: str) -> str:
    """Return found, missed, false alarm..., of one row by one way of asking."""
    said = one["answers"][way]
    twin = rows[one["twin"]]["answers"][way]["result"] if one["twin"] else ""
    if not answered(said):
        named = twin == "race_free" and any(words in said["why"] for words in _NAMED)
        return "refused by name" if named else "no answer"
    clean = said["result"] == "race_free"
    if not twin:
        return "clean" if clean else "false alarm"
    if clean:
        return "missed"
    return "alarm, the twin's too" if twin in ALARMS else "found"


def tables(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the counts by class, for both ways of asking, and the reasons of no answer."""
    found: dict[str, Any] = {}
    for way in ("defaults", "best"):
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        reasons: dict[str, int] = defaultdict(int)
        for one in rows.values():
            kind = f"{'fault' if one['twin'] else 'correct'}: {one['class']}"
            result = judged(one, rows, way)
            counts[kind][result] += 1
            if result == "no answer":
                said = one["answers"][way]
                reasons[f"{said['result']}: {said['why'].split(':')[0]}"] += 1
        found[way] = {
            "classes": {name: dict(some) for name, some in sorted(counts.items())},
            "no_answer": dict(sorted(reasons.items(), key=lambda item: -item[1])),
        }
    return found


def total(classes: Mapping[str, Mapping[str, int]], side: str) -> dict[str, int]:
    """Return the counts over all classes of a side: 'fault' or 'correct'."""
    sums: dict[str, int] = defaultdict(int)
    for name, counts in classes.items():
        for result, number in counts.items() if name.startswith(side) else ():
            sums[result] += number
    return dict(sums)


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentryward", default=shutil.which("sentryward") or "")
    parser.add_argument("--limit-s", type=float, default=60.0, help="of one call")
    parser.add_argument("--memory-mib", type=int, default=6144)
    parser.add_argument("--total-s", type=float, default=7200.0, help="of the whole run")
    parser.add_argument("--only", nargs="*", default=[], help="names that contain one of these")
    parser.add_argument("--fresh", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run what is not there yet; write and print the table. 3 where the tool is not there."""
    chosen = options(arguments)
    if not chosen.sentryward or not Path(chosen.sentryward).is_file():
        print("sentryward was not found (PATH, --sentryward): nothing was run")
        return 3
    tool = Tool(path=chosen.sentryward, limit_s=chosen.limit_s, memory_mib=chosen.memory_mib)
    rows = {} if chosen.fresh else held()
    started = processor_s()
    for subject in subjects():
        if subject.name in rows or processor_s() - started > chosen.total_s:
            continue
        if chosen.only and not any(part in subject.name for part in chosen.only):
            continue
        rows[subject.name] = row(subject, tool)
        print(subject.name, rows[subject.name]["answers"]["best"], flush=True)
        write(rows, tool)
    print(json.dumps(write(rows, tool), indent=1))
    return 0


def held() -> dict[str, Any]:
    """Return the rows of the result file, by name."""
    path = RESULTS / f"{NAME}-cpu.json"
    if not path.is_file():
        return {}
    kept: list[dict[str, Any]] = json.loads(path.read_text())["results"]["rows"]
    return {one["name"]: one for one in kept}


def write(rows: Mapping[str, Mapping[str, Any]], tool: Tool) -> dict[str, Any]:
    """Write the result file once every twin is there; return the totals."""
    if any(one["twin"] and one["twin"] not in rows for one in rows.values()):
        return {"not written": "a fault's twin has not run"}
    by_way = tables(rows)
    totals = {
        f"{side}, {way}": total(by_way[way]["classes"], side)
        for way in by_way
        for side in ("fault", "correct")
    }
    document = {
        "sentryward": version(tool.path),
        "limit_s": tool.limit_s,
        "memory_mib": tool.memory_mib,
        "totals": totals,
        "seconds": round(sum(one["seconds"] for one in rows.values()), 1),
        "slowest_s": max((one["seconds"] for one in rows.values()), default=0.0),
        **by_way,
        "rows": list(rows.values()),
    }
    save(NAME, document)
    return totals


def version(path: str) -> str:
    """Return the release that a program belongs to, as its environment says."""
    code = "import importlib.metadata as m; print(m.version('sentryward'))"
    python = str(Path(path).with_name("python"))
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
