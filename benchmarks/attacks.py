"""Kernels that try to be accepted though they are wrong: the share that gets through, by class.

    python benchmarks/attacks.py --profile quick --jobs 2            # tests/hostile/attacks
    python benchmarks/attacks.py FOLDER --profile quick standard --resume

The head of each file names its problem, its class, what is wrong where, and under which conditions
an acceptance would name that fault:

    # problem: rmsnorm
    # class: sizes
    # wrong: hidden that no workload lists
    # named: shapes sizes

Each is judged by `cuassay check` in a process of its own. It gets through where it is ACCEPTED
without a condition that names its fault. Rows are written as they come; `--resume` runs the rest.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import ROOT, save
from trials import Journal, Place, SideBySide

ATTACKS = ROOT / "tests" / "hostile" / "attacks"
CLASSES = (
    "stale answers", "sizes", "values", "precision", "detection", "protocol", "timing",
    "ghost kernels",
)  # fmt: skip
_HEAD = re.compile(r"^# (problem|class|wrong|named): (.+)$", re.MULTILINE)
_FATES = ("rejected", "named", "undecided", "through", "not run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One file. `named` are the keys of conditions that name its fault."""

    path: Path
    problem: str
    kind: str
    wrong: str
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How cuassay judged one attack; `decision` is TIMEOUT or ERROR where there is no verdict.

    `fate` is rejected, named (accepted under a condition that names the fault), undecided, through,
    or not run, which has no part in the shares.
    """

    name: str
    problem: str
    kind: str
    wrong: str
    profile: str
    device: str
    decision: str
    fate: str
    seconds: float
    conditions: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def key(self) -> str:
        """What identifies the row in a journal."""
        return f"{self.device}/{self.profile}/{self.name}"


def read_attack(path: Path) -> Attack:
    """Return what the head of a file says. Raises SystemExit where it says too little."""
    said = dict(_HEAD.findall(path.read_text(encoding="utf-8")))
    missing = [name for name in ("problem", "class", "wrong") if name not in said]
    if missing or said["class"] not in CLASSES:
        raise SystemExit(
            f"{path}: its head lacks {', '.join(missing) or 'a known class'}; expected lines "
            f"'# problem: ...', '# class: ...' (one of {', '.join(CLASSES)}), '# wrong: ...'"
        )
    return Attack(
        path=path,
        problem=said["problem"],
        kind=said["class"],
        wrong=said["wrong"],
        named=frozenset(said.get("named", "").split()),
    )


def fate(decision: str, conditions: Sequence[str], named: frozenset[str]) -> str:
    """Return what became of an attack, from its verdict and the keys of its conditions."""
    if decision == "ERROR":
        return "not run"
    if decision == "REJECTED":
        return "rejected"
    if decision != "ACCEPTED":
        return "undecided"
    return "named" if named.intersection(conditions) else "through"


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return counts of one profile: by class what became of the attacks, and the share through."""
    classes = {}
    for kind in CLASSES:
        own = [row for row in rows if row.kind == kind]
        if own:
            counts = Counter(row.fate for row in own)
            classes[kind] = {name: counts[name] for name in _FATES} | {"attacks": len(own)}
    through = [row for row in rows if row.fate == "through"]
    judged = len(rows) - sum(row.fate == "not run" for row in rows)
    return {
        "attacks": judged,
        "share_through": round(len(through) / judged, 4) if judged else None,
        "classes": classes,
        "through": {row.name: row.wrong for row in through},
        "undecided": {row.name: row.reason[:200] for row in rows if row.fate == "undecided"},
        "seconds": round(sum(row.seconds for row in rows), 1),
    }


class Bench:
    """Judges attacks side by side until all are done or the time is up."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        place = given.journal or ROOT / "build" / f"attacks-{given.device}.ndjson"
        self._journal = Journal(place, Row, lambda row: row.key, resume=given.resume)
        self._trials = SideBySide.asked_for(
            given, device=given.device, gpus=given.gpus if given.device == "cuda" else 0
        )

    @property
    def rows(self) -> list[Row]:
        """The rows so far, those of a journal that is resumed among them."""
        return list(self._journal.rows.values())

    def run(self, attacks: Sequence[Attack]) -> None:
        """Judge every attack that has no row yet, at every profile."""
        wished = [(attack, profile) for profile in self._given.profile for attack in attacks]
        left = [
            (attack, profile)
            for attack, profile in wished
            if f"{self._given.device}/{profile}/{attack.path.stem}" not in self._journal.rows
        ]
        self._trials.all(left, lambda pair, place: self._judge(*pair, place))

    def _judge(self, attack: Attack, profile: str, place: Place) -> None:
        beside = attack.path.parent / attack.problem
        problem = str(beside) if beside.exists() else attack.problem
        command = [sys.executable, "-P", "-m", "cuassay", "check", str(attack.path)]
        command += ["--problem", problem, "--profile", profile]
        command += ["--device", self._given.device, "--json"]
        ended = self._trials.end(command, place)
        if ended is None:
            return
        document: dict[str, Any] = {}
        try:
            document = json.loads(ended.said)
            decision = str(document["verdict"] or "ERROR")
        except (json.JSONDecodeError, KeyError):
            decision = "TIMEOUT" if ended.timed_out else "ERROR"
        found = [one for one in document.get("findings", ()) if one["finding_class"] == "wrong"]
        conditions = [str(one).split(":", 1)[0] for one in document.get("conditions", ())]
        row = Row(
            name=attack.path.stem,
            problem=attack.problem,
            kind=attack.kind,
            wrong=attack.wrong,
            profile=profile,
            device=self._given.device,
            decision=decision,
            fate=fate(decision, conditions, attack.named),
            seconds=ended.seconds,
            conditions=tuple(conditions),
            codes=tuple(dict.fromkeys(str(one["code"]) for one in found)),
            reason=str(document.get("reason") or ended.errors[-600:])[:600],
        )
        self._journal.keep(
            row,
            f"{row.profile:9s}{row.kind:14s}{row.name:28s}{row.decision:13s}{row.fate:10s}"
            f"{row.seconds:6.1f} s  {' '.join(row.codes) or ' '.join(conditions)}",
        )


def main(arguments: Sequence[str] = ()) -> None:
    """Judge the attacks and save the shares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ATTACKS)
    parser.add_argument("--profile", nargs="*", default=["quick"], choices=("quick", "standard"))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="attacks whose name begins like one of these")
    parser.add_argument("--jobs", type=int, default=2, help="attacks side by side")
    parser.add_argument("--time-limit", type=float, default=0.0, help="seconds for all; 0: none")
    parser.add_argument("--each", type=float, default=600.0, help="seconds for one attack")
    parser.add_argument("--resume", action="store_true", help="keep what the last run finished")
    parser.add_argument("--journal", type=Path, help="where rows go as they come")
    parser.add_argument("--home", type=Path, help="build caches kept between runs; else none are")
    given = parser.parse_args(arguments or None)
    attacks = [read_attack(path) for path in sorted(given.folder.glob("*.py"))]
    if given.only:
        attacks = [one for one in attacks if one.path.stem.startswith(tuple(given.only))]
    bench = Bench(given)
    bench.run(attacks)
    found = {
        profile: summary([row for row in bench.rows if row.profile == profile])
        for profile in given.profile
    }
    print(json.dumps(found, indent=1))
    print(save("attacks", found))


if __name__ == "__main__":
    main()
