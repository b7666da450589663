"""Judges every case of a development set and holds each verdict against what is right.

    python benchmarks/dev_set.py FOLDER --jobs 2                       # all parts, CPU, quick
    python benchmarks/dev_set.py FOLDER --parts world --profile standard --seeds 3 --resume
    python benchmarks/dev_set.py benchmarks/variants --jobs 2          # the same kinds, our own

FOLDER is the development set; it is copied first, so that links can be made and nothing in it
changes. What is right stands in dev_set_cases.py, or in the folder's own cases.json. A candidate is
judged by `cuassay check`, a source executed by `ptxsan run`, each in a process of its own. Rows are
written as they come; `--resume` runs the rest. Exit code 1 where something is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import ROOT, save
from dev_set_cases import SETS, Case, Checked, Executed, Traces
from trials import Ended, Journal, Place, SideBySide

_SEGMENTS = Path("/proc/sysvipc/shm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How one case came out. `wrong` says what is not as it must be, empty where all is.

    `outcome` is a verdict, the number of wrong findings, TIMEOUT or ERROR.
    """

    part: str
    name: str
    profile: str
    number: int
    outcome: str
    wrong: tuple[str, ...]
    seconds: float
    conditions: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    reason: str = ""
    seed: str = ""

    @property
    def key(self) -> str:
        """What identifies the row in a journal."""
        return row_key(self.name, self.profile, self.number)


def row_key(name: str, profile: str, number: int) -> str:
    """Return what identifies a row in a journal."""
    return f"{profile}/{number}/{name}"


def verdict_faults(case: Checked, document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is not right in the document that `cuassay check --json` printed."""
    verdict = str(document.get("verdict") or "no verdict")
    conditions = {str(one).split(":", 1)[0] for one in document.get("conditions", ())}
    causes = {str(one["cause"]) for one in document.get("diagnoses", ())}
    words = " ".join(
        str(one[key])
        for one in document.get("diagnoses", ())
        for key in ("words", "smallest_input")
        if one.get(key)
    )
    faults = []
    named = verdict == "ACCEPTED" and bool(case.named & conditions)
    if case.verdict and verdict != case.verdict and not named:
        also = f", or ACCEPTED under {' or '.join(sorted(case.named))}" if case.named else ""
        faults.append(f"{verdict}; expected {case.verdict}{also}")
    if not case.verdict and verdict == "no verdict":
        faults.append("no verdict")
    if verdict == "ACCEPTED":
        faults += [f"condition {name} is missing" for name in sorted(case.needed - conditions)]
        faults += [f"condition {name} is not so" for name in sorted(case.spared & conditions)]
    if verdict == "REJECTED":
        if case.causes and not case.causes & causes:
            said = ", ".join(sorted(causes)) or "none"
            faults.append(f"cause {said}; expected {' or '.join(sorted(case.causes))}")
        faults += [f"cause {name} is not so" for name in sorted(case.other_causes & causes)]
        faults += [f"'{text}' is not so" for text in case.other_words if text in words]
    return tuple(faults)


def findings_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the findings on a kernel, or on a program and its launches, of any severity."""
    launches = document.get("launches", ())
    reports = [document, *(one for one in launches if isinstance(one, Mapping))]
    found = [one for report in reports for one in report.get("findings", ())]
    return [*document.get("host", ()), *found]


def execution_faults(case: Executed, document: Mapping[str, Any], code: int) -> tuple[str, ...]:
    """Return what is not right in the document and exit code of `ptxsan run --json`."""
    every = findings_of(document)
    found = [one for one in every if one["severity"] == "wrong"]
    kinds = {str(one["kind"]) for one in every}
    lines = {access["line"] for one in every for access in one["accesses"]}
    faults = []
    if not case.least <= len(found) <= case.most:
        most = case.most if case.most == case.least else "more"
        expected = case.least if case.most == case.least else f"{case.least} to {most}"
        faults.append(f"{len(found)} errors; expected {expected}")
    if (code == 0) != (case.least == 0):
        faults.append(f"exit code {code}")
    faults += [f"no finding of kind {kind}" for kind in case.kinds if kind not in kinds]
    if case.line is not None and case.line not in lines:
        faults.append(f"line {case.line} is named by no finding")
    return tuple(faults)


def left(traces: Traces, document: str) -> tuple[str, ...]:
    """Return which traces are there: files, segments of the System V table, text."""
    rows = _SEGMENTS.read_text(encoding="ascii").splitlines()[1:] if _SEGMENTS.exists() else []
    keys = {int(row.split()[0]) for row in rows}
    return (
        *(f"{path} exists" for path in traces.files if Path(path).exists()),
        *(f"segment {key:#x} is left" for key in traces.segments if key in keys),
        *(f"'{text}' stands in the document" for text in traces.texts if text in document),
    )


class Bench:
    """Judges cases side by side until all are done or the time is up."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given, self._folder = given, folder
        place = given.journal or ROOT / "build" / f"dev-set-{given.device}.ndjson"
        self._journal = Journal(place, Row, lambda row: row.key, resume=given.resume)
        self._trials = SideBySide.asked_for(given, device=given.device, gpus=given.gpus)

    @property
    def rows(self) -> list[Row]:
        """The rows so far, those of a journal that is resumed among them."""
        return list(self._journal.rows.values())

    def run(self, wanted: Sequence[tuple[str, Case, str, int]]) -> None:
        """Judge every part, case, profile and number that has no row yet."""
        kept = self._journal.rows
        todo = [one for one in wanted if row_key(one[1].name, one[2], one[3]) not in kept]
        self._trials.all(todo, lambda one, place: self._judge(*one, place))

    def _judge(self, part: str, case: Case, profile: str, number: int, place: Place) -> None:
        match case:
            case Checked():
                row = self._checked(part, case, profile, number, place)
            case Executed():
                row = self._executed(part, case, profile, number, place)
        if row is not None:
            said = "; ".join(row.wrong) or "right"
            self._journal.keep(
                row,
                f"{row.profile:9s}{row.name:52.52s}{row.outcome:13s}{row.seconds:6.1f} s  {said}",
            )

    def _checked(
        self, part: str, case: Checked, profile: str, number: int, place: Place
    ) -> Row | None:
        folder = self._folder / case.folder
        candidate = folder / case.candidate
        for source, link in case.links:
            to = candidate.parent / link
            if not to.is_symlink():
                to.symlink_to(source)
        for path in case.left.files:
            Path(path).unlink(missing_ok=True)
        command = [sys.executable, "-P", "-m", "cuassay", "check", str(candidate)]
        if case.problem:
            file, colon, function = case.problem.partition(":")
            own = self._folder / file
            named = f"{own}{colon}{function}" if own.exists() else case.problem
            command += ["--problem", named]
        command += ["--profile", profile, "--device", self._given.device, "--json", *case.options]
        if case.folder:
            command = _in_folder(folder, [*command[:5], case.candidate, *command[6:]])
        ended = self._trials.end(command, place)
        if ended is None:
            return None
        document = _document(ended)
        findings = [one for one in document.get("findings", ()) if one["finding_class"] == "wrong"]
        faults = verdict_faults(case, document)
        return Row(
            part=part,
            name=case.name,
            profile=profile,
            number=number,
            outcome=str(document.get("verdict") or ("TIMEOUT" if ended.timed_out else "ERROR")),
            wrong=(*faults, *left(case.left, ended.said + ended.errors)),
            seconds=ended.seconds,
            conditions=tuple(str(one).split(":", 1)[0] for one in document.get("conditions", ())),
            codes=tuple(dict.fromkeys(str(one["code"]) for one in findings)),
            causes=tuple(str(one["cause"]) for one in document.get("diagnoses", ())),
            reason=str(document.get("reason") or ended.errors[-600:])[:600],
            seed=str(document.get("seed", "")),
        )

    def _executed(
        self, part: str, case: Executed, profile: str, number: int, place: Place
    ) -> Row | None:
        source = self._folder / case.source
        command = [sys.executable, "-P", "-m", "ptxsan.cli", "run", source.name, "--json"]
        ended = self._trials.end(_in_folder(source.parent, [*command, *case.options]), place)
        if ended is None:
            return None
        document = _document(ended)
        found = [one for one in findings_of(document) if one["severity"] == "wrong"]
        faults = execution_faults(case, document, ended.code) if document else ("no report",)
        outcome = "TIMEOUT" if ended.timed_out else f"{len(found)} errors" if document else "ERROR"
        return Row(
            part=part,
            name=case.name,
            profile=profile,
            number=number,
            outcome=outcome,
            wrong=faults,
            seconds=ended.seconds,
            codes=tuple(dict.fromkeys(str(one["kind"]) for one in found)),
            reason=(str(found[0]["text"]) if found else ended.errors[-600:])[:600],
        )


def _in_folder(folder: Path, command: Sequence[str]) -> list[str]:
    return ["env", "-C", str(folder), *command]


def _document(ended: Ended) -> dict[str, Any]:
    try:
        found = json.loads(ended.said)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def sets_of(folder: Path) -> Mapping[str, Sequence[Case]]:
    """Return the cases of a folder by part: those of its cases.json, or of the development set."""
    listed = folder / "cases.json"
    if not listed.is_file():
        return SETS
    rows = json.loads(listed.read_text(encoding="utf-8"))
    cases = [Checked(**row | {"named": frozenset(row.get("named", ()))}) for row in rows]
    return {
        part: [one for one in cases if one.candidate.startswith(f"{part}/")]
        for part in sorted({Path(one.candidate).parts[0] for one in cases})
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return counts by part, and the rows that are not as they must be."""
    parts = {}
    for part in dict.fromkeys(row.part for row in rows):
        own = [row for row in rows if row.part == part]
        parts[part] = {"cases": len(own), "right": sum(not row.wrong for row in own)}
    return {
        "parts": parts,
        "not_right": {row.key: list(row.wrong) for row in rows if row.wrong},
        "seconds": round(sum(row.seconds for row in rows), 1),
        "rows": [asdict(row) for row in sorted(rows, key=lambda row: row.key)],
    }


def wanted(given: argparse.Namespace) -> list[tuple[str, Case, str, int]]:
    """Return part, case, profile and number of every trial that the options ask for."""
    sets = sets_of(given.folder)
    return [
        (part, case, profile, number)
        for number in range(given.seeds)
        for part in given.parts or sets
        for case in sets[part]
        if not given.only or any(text in case.name for text in given.only)
        for profile in given.profile or case.profiles
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the cases, save the rows; 1 where one is not as it must be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="the development set")
    parser.add_argument("--parts", nargs="*", help="none: all that the folder has")
    parser.add_argument("--only", nargs="*", help="cases whose name holds one of these")
    parser.add_argument("--profile", nargs="*", choices=("quick", "standard", "deep"))
    parser.add_argument("--seeds", type=int, default=1, help="secret seeds of each case")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--gpus", type=int, default=1)
    SideBySide.add_options(parser, "case", jobs=2, each_s=600.0)
    parser.add_argument("--journal", type=Path, help="where rows go as they come")
    parser.add_argument("--home", type=Path, help="build caches kept between runs; else none are")
    given = parser.parse_args(arguments)
    if not any((given.folder / name).exists() for name in ("world", "cases.json")):
        parser.error(f"{given.folder} has neither a folder 'world' nor a file cases.json")
    unknown = set(given.parts or ()) - set(sets_of(given.folder))
    if unknown:
        known = ", ".join(sets_of(given.folder))
        parser.error(f"--parts {' '.join(sorted(unknown))}: {given.folder} has {known}")
    todo = wanted(given)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "cases"
        shutil.copytree(given.folder, folder)
        bench = Bench(given, folder)
        bench.run(todo)
    found = summary(bench.rows)
    for part, counts in found["parts"].items():
        print(f"{part:12s}{counts['right']:4d} of {counts['cases']} right")
    for key, faults in found["not_right"].items():
        print(f"  {key}: {'; '.join(faults)}")
    judged = {row.key for row in bench.rows}
    missing = sum(row_key(case.name, profile, n) not in judged for _, case, profile, n in todo)
    if missing > 0:
        print(f"{missing} cases are left: run again with --resume")
    own = (given.folder / "cases.json").is_file()
    print(save(f"dev-set-{given.folder.resolve().name}" if own else "dev-set", found))
    return 1 if found["not_right"] or missing > 0 else 0


if __name__ == "__main__":
    sys.exit(main())
