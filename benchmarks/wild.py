"""Kernels from the wild, with labels: caught by class, missed, correct ones rejected, not judged.

    python benchmarks/wild.py --pack FOLDER --labels labels.json   # copies to build/wild
    python benchmarks/wild.py --profile quick --jobs 12 --time-limit 540  # runs what was packed

Each kernel is judged by `cuassay check` in a process of its own, several side by side, over the
GPUs that there are. Rows are written as they come; `--resume` runs what is left. A kernel that was
running when the time was up has no row. Result files hold names and verdicts, no foreign code.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from common import ROOT, save
from kernel_sets import SETS, Kernel, pack, read_index, write_index
from trials import (
    Ended,
    Journal,
    Judged,
    Place,
    SideBySide,
    check_command,
    read_journal,
    read_verdict,
)

PACKED = ROOT / "build" / "wild"
_USUAL = ("cuda-l1", "cudabeaver", "sol")
_MACHINE = ("MEM101", "INIT101", "RACE101", "SYNC101", "PREC101")
_JUDGED = ("ACCEPTED", "REJECTED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Judged):
    """How cuassay judged one kernel (see `Judged`), and how each check on the PTX machine ended."""

    set: str
    profile: str
    label: str
    codes: tuple[str, ...]
    machine: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What identifies the row in a journal."""
        return f"{self.device}/{self.profile}/{self.set}/{self.name}"


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--pack", type=Path, metavar="FOREIGN", help="copy the sets and stop")
    parser.add_argument("--labels", type=Path, help="labels.json of the SOL-ExecBench set")
    parser.add_argument("--sets", nargs="*", default=_USUAL, choices=tuple(SETS))
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--profile", nargs="*", default=["quick"])
    parser.add_argument("--label", nargs="*", help="only kernels of these labels")
    parser.add_argument(
        "--only", nargs="*", help="only kernels whose name begins like one of these"
    )
    parser.add_argument("--device", default="", help="cpu or cuda; cuda where there is one")
    parser.add_argument("--gpu-memory", default="", help="given to each trial, such as 8GiB")
    SideBySide.add_options(parser, "kernel", jobs=2, each_s=240.0)
    parser.add_argument("--journal", type=Path, help="where rows go as they come")
    parser.add_argument("--home", type=Path, help="build caches kept between runs; else none are")
    parser.add_argument(
        "--fail-fast", action="store_true", help="stop a trial at its first wrong result"
    )
    parser.add_argument("--report", action="store_true", help="print the journal's table and stop")
    return parser.parse_args(arguments)


def is_wanted(kernel: Kernel) -> bool:
    """Whether a kernel has a label, or is one that shows how much can be judged."""
    return bool(kernel.label) or (kernel.set != "sol" and kernel.language != "torch")


class Bench:
    """Judges kernels side by side until all are done or the time is up."""

    def __init__(self, given: argparse.Namespace, device: str, gpus: int) -> None:
        self._given, self._device = given, device
        self._journal = Journal(
            journal_path(given, device), Row, lambda row: row.key, resume=given.resume
        )
        self._trials = SideBySide.asked_for(given, device=device, gpus=gpus)

    @property
    def rows(self) -> list[Row]:
        """The rows so far, those of the journal that is resumed first."""
        return list(self._journal.rows.values())

    def run(self, kernels: Sequence[Kernel], profiles: Sequence[str]) -> None:
        """Judge every kernel that has no row yet."""
        left = [
            (kernel, profile)
            for profile in profiles
            for kernel in kernels
            if f"{self._device}/{profile}/{kernel.key}" not in self._journal.rows
        ]
        self._trials.all(left, lambda pair, place: self._judge(*pair, place))

    def _judge(self, kernel: Kernel, profile: str, place: Place) -> None:
        given = self._given
        command = check_command(
            kernel,
            given.packed,
            *(("--fail-fast",) if given.fail_fast else ()),
            profile=profile,
            device=self._device,
            gpu_memory=given.gpu_memory,
        )
        ended = self._trials.end(command, place)
        if ended is None:
            return
        row = self._row(kernel, profile, ended)
        wrong = " ".join(f"{code} x{count}" for code, count in row.checks.items())
        label = f"{row.label} {' '.join(row.codes)}"
        self._journal.keep(
            row,
            f"{row.profile:9s}{row.name:20s}{row.decision:13s}{row.seconds:6.1f} s  "
            f"{label:44s} {wrong or row.reason[:90]}",
        )

    def _row(self, kernel: Kernel, profile: str, ended: Ended) -> Row:
        document, judged = read_verdict(kernel, ended, self._device)
        return Row(
            **{one.name: getattr(judged, one.name) for one in fields(judged)},
            set=kernel.set,
            profile=profile,
            label=kernel.label,
            codes=kernel.codes,
            machine={
                one["code"]: f"{one['outcome']}: {one['reason'][:240]}"
                for one in document.get("checks", ())
                if one["code"] in _MACHINE
            },
        )


def journal_path(given: argparse.Namespace, device: str) -> Path:
    """Return the journal of this device."""
    place: Path = given.journal or ROOT / "build" / f"wild-{device}.ndjson"
    return place


def read_rows(journal: Path) -> list[Row]:
    """Return the rows of a journal; none where there is no journal."""
    return read_journal(journal, Row)


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the counts of one profile: by label, by class of fault, and the machine's."""
    wrong = [row for row in rows if row.label == "wrong"]
    correct = [row for row in rows if row.label == "correct"]
    conditions = [row for row in rows if row.label == "conditions"]
    classes: dict[str, dict[str, int]] = {}
    for row in wrong:
        for code in row.codes:
            cell = classes.setdefault(code, {"caught": 0, "missed": 0, "not judged": 0})
            cell[_fate(row)] += 1
    machine = Counter(outcome.split(":", 1)[0] for row in rows for outcome in row.machine.values())
    return {
        "kernels": len(rows),
        "wrong": dict(Counter(_fate(row) for row in wrong)),
        "correct": dict(Counter(row.decision for row in correct)),
        "conditions": dict(Counter(_condition(row) for row in conditions)),
        "classes": classes,
        "missed": [row.name for row in wrong if _fate(row) == "missed"],
        "correct rejected": [row.name for row in correct if row.decision == "REJECTED"],
        "not judged": [row.name for row in rows if row.decision not in _JUDGED],
        "machine": dict(machine),
        "launches": {
            language: _launches([row for row in rows if row.language == language])
            for language in sorted({row.language for row in rows if row.made})
        },
        "kernels with recorded launches": sum(bool(row.made) for row in rows),
        "machine gave no launch": _unseen(rows),
        "machine judged nothing": sum(
            bool(row.machine) and not any(_machine_judged(text) for text in row.machine.values())
            for row in rows
        ),
        "seconds": round(sum(row.seconds for row in rows), 1),
        "median_s": sorted(row.seconds for row in rows)[len(rows) // 2] if rows else 0.0,
    }


def _launches(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how many launches of some kernels were judged, and why others were not."""
    made, judged = sum(row.made for row in rows), sum(row.judged for row in rows)
    causes: Counter[str] = Counter()
    for row in rows:
        causes.update(row.causes)
    share = round(judged / made, 4) if made else None
    return {"made": made, "judged": judged, "share": share, "causes": dict(causes.most_common(12))}


def _unseen(rows: Sequence[Row]) -> dict[str, int]:
    """Count kernels none of whose launches were recorded, by what MEM101 says of it."""
    return dict(
        Counter(
            row.machine["MEM101"][:160] for row in rows if "MEM101" in row.machine and not row.made
        )
    )


def _fate(row: Row) -> str:
    if row.decision not in _JUDGED:
        return "not judged"
    return "caught" if row.decision == "REJECTED" else "missed"


def _condition(row: Row) -> str:
    if row.decision != "ACCEPTED":
        return row.decision
    return "ACCEPTED with conditions" if row.conditions else "ACCEPTED without a condition"


def _machine_judged(text: str) -> bool:
    return text.startswith(("passed", "failed"))


def show(rows: Sequence[Row]) -> dict[str, Any]:
    """Print the table of every profile and return the summaries."""
    found = {}
    for profile in dict.fromkeys(row.profile for row in rows):
        of = [row for row in rows if row.profile == profile]
        found[profile] = counted = summary(of)
        print(f"\n{profile}: {counted['kernels']} kernels, median {counted['median_s']} s")
        for name in (
            "wrong", "correct", "conditions", "machine", "machine judged nothing", "launches",
            "kernels with recorded launches", "machine gave no launch",
        ):  # fmt: skip
            print(f"  {name:24s}{counted[name]}")
        for code, cell in sorted(counted["classes"].items()):
            print(f"  class {code:28s}{cell}")
        for name in ("missed", "correct rejected", "not judged"):
            print(f"  {name}: {' '.join(counted[name]) or 'none'}")
        for row in of:
            if row.label == "correct" and row.decision == "REJECTED":
                print(f"    {row.name}: {row.messages[0] if row.messages else row.reason}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack, run or report; 1 where a wrong kernel is missed or a correct one is rejected."""
    given = options(sys.argv[1:] if arguments is None else arguments)
    if given.pack:
        kernels = pack(given.pack, given.labels, given.packed, given.sets)
        kernels = [kernel for kernel in kernels if is_wanted(kernel)]
        write_index(kernels, given.packed)
        print(f"{len(kernels)} kernels packed in {given.packed}")
        return 0
    import torch

    gpus = torch.cuda.device_count()
    device = given.device or ("cuda" if gpus else "cpu")
    if given.report:
        show(read_rows(journal_path(given, device)))
        return 0
    kernels = [kernel for kernel in read_index(given.packed) if kernel.set in given.sets]
    if given.label:
        kernels = [kernel for kernel in kernels if kernel.label in given.label]
    if given.only:
        kernels = [kernel for kernel in kernels if kernel.name.startswith(tuple(given.only))]
    # What is to be caught first: a run that is cut short has then seen it.
    order = ("wrong", "correct", "conditions")
    kernels.sort(key=lambda kernel: order.index(kernel.label) if kernel.label in order else 9)
    bench = Bench(given, device, max(gpus, 1))
    bench.run(kernels, given.profile)
    rows = bench.rows
    found = show(rows)
    left = len(kernels) * len(given.profile) - len(rows)
    if left > 0:
        print(f"\n{left} trials are left: run again with --resume")
    names = ("set", "name", "profile", "label", "codes", "decision", "checks", "conditions")
    kept = [{name: getattr(row, name) for name in (*names, "seconds")} for row in rows]
    print(f"results: {save('wild', {'profiles': found, 'rows': kept})}")
    bad = any(one["missed"] or one["correct rejected"] for one in found.values())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
