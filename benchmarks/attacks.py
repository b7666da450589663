"""Kernels that try to be accepted though they are wrong: the share that gets through, by class.

    python benchmarks/attacks.py --by gate --profile quick           # tests/hostile/attacks
    python benchmarks/attacks.py --profile standard --resume --survivors

An attack is a file `NAME.py`, or a block of a set `sets/ATTACKER.txt` that a line `==== NAME.py`
begins. Its head names its problem, its class, what is wrong where, and under which conditions an
acceptance would name that fault:

    # problem: rmsnorm
    # class: sizes
    # wrong: hidden that no workload lists
    # named: shapes sizes
    # fault: if hidden % 7 == 3

`fault` is text of a line of the kernel that is wrong: the condition `unreached` names the fault
where its lines hold that one. It may stand more than once.

A block of Python may use the honest kernel of its problem (`honest/PROBLEM.py`) as `right`. Where
it consists of lines `-| old` and `+| new` it is that kernel with these lines changed.

Each is judged by `cuassay check` in a process of its own, or with `--by gate` by the same checks in
this process, without what decides nothing: counterexamples, causes, power, times. It gets through
where it is ACCEPTED without a condition that names its fault. Rows are written as they come;
`--resume` runs the rest. Half of all attacks, drawn by a seed among those that were new
(`split.json`), is judged with `--side unread`, after the other half was studied.

Before and after each, what is left of it is counted: processes, System V objects, shared memory,
memory without a name, locks, folders of the judge, temporary files.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common import ROOT, save
from trials import Journal, Place, SideBySide

ATTACKS = ROOT / "tests" / "hostile" / "attacks"
CLASSES = (
    "stale answers", "sizes", "values", "precision", "detection", "protocol", "timing",
    "ghost kernels",
)  # fmt: skip
_HEAD = re.compile(r"^(?:#|//) (problem|class|wrong|named|begins): (.+)$", re.MULTILINE)
_FAULT = re.compile(r"^(?:#|//) fault: (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^==== (\S+)\n", re.MULTILINE)
_FATES = ("rejected", "named", "undecided", "through", "not run")
_FIRST = "first"  # attacks that are files of their own, which were judged before
_ALONE = "ATTACKS_ALONE"  # set where this program was started in its own namespaces
_SHOWN = 3  # of what was left of a kind
_SETTLE_S = 20.0  # that what a killed process held may take to go on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack. `named` are the keys of conditions that name its fault.

    `name` has no suffix, `file` has one. `attacker` is the set that it is of, `side` the half.
    `begins` is the smallest size of an axis with the fault, None where small sizes have it.
    `faults` are the numbers of lines of `text` that are wrong, as far as its head says.
    """

    name: str
    file: str
    text: str
    problem: str
    kind: str
    wrong: str
    named: frozenset[str] = frozenset()
    begins: tuple[str, int] | None = None
    faults: tuple[int, ...] = ()
    attacker: str = _FIRST
    side: str = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How cuassay judged one attack; `decision` is TIMEOUT or ERROR where there is no verdict.

    `fate` is rejected, named (accepted under a condition that names the fault), undecided, through,
    or not run, which has no part in the shares. `reach` is the largest size of each axis that was
    judged by its values, as `rows=128`; `unreached` are lines that no judged call ran, as `12-14`.
    `left` is what was there after it and not before; None: nobody looked.
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
    attacker: str = _FIRST
    side: str = "read"
    left: tuple[str, ...] | None = None
    reach: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What identifies the row in a journal."""
        return f"{self.device}/{self.profile}/{self.name}"


def read_attack(file: str, text: str, *, attacker: str = _FIRST, honest: str = "") -> Attack:
    """Return what a text of an attack says. Raises SystemExit where its head says too little."""
    said = dict(_HEAD.findall(text))
    missing = [name for name in ("problem", "class", "wrong") if name not in said]
    if missing or said["class"] not in CLASSES:
        raise SystemExit(
            f"{file}: its head lacks {', '.join(missing) or 'a known class'}; expected lines "
            f"'# problem: ...', '# class: ...' (one of {', '.join(CLASSES)}), '# wrong: ...'"
        )
    axis, _, size = said.get("begins", "").partition("=")
    whole = _whole(file, text, honest) if honest else text
    return Attack(
        name=file.rpartition(".")[0],
        file=file,
        text=whole,
        problem=said["problem"],
        kind=said["class"],
        wrong=said["wrong"],
        named=frozenset(said.get("named", "").split()),
        begins=(axis, int(size)) if size else None,
        faults=tuple(_line_of(fault, whole, file) for fault in _FAULT.findall(text)),
        attacker=attacker,
    )


def _line_of(fault: str, text: str, file: str) -> int:
    """Return the number of the line that a fault is on; raises SystemExit where none is."""
    for number, line in enumerate(text.splitlines(), 1):
        if fault in line and not line.startswith(("#", "//")):
            return number
    raise SystemExit(f"{file}: no line of it holds {fault!r}, which its head calls a fault")


def _whole(file: str, text: str, honest: str) -> str:
    """Return an attack with the honest kernel that it uses, or with its lines changed."""
    lines = text.splitlines()
    head = [line for line in lines if line.startswith("#")]
    if not any(line.startswith("-|") for line in lines):
        body = [line for line in lines if not line.startswith("#")]
        return "\n".join([*head, honest, *body, ""])
    kernel = honest.replace("def right(", "def run(")
    pairs = re.findall(r"((?:^-\|.*\n)+)((?:^\+\|.*\n?)+)", text, re.MULTILINE)
    for gone, come in pairs:
        old, new = (
            re.sub(r"^[-+]\| ?", "", part.rstrip("\n"), flags=re.M) for part in (gone, come)
        )
        if kernel.count(old) != 1:
            raise SystemExit(f"{file}: its honest kernel holds {old!r} {kernel.count(old)} times")
        kernel = kernel.replace(old, new)
    return "\n".join([*head, kernel])


def read_attacks(folder: Path) -> list[Attack]:
    """Return the attacks of a folder, each with its side."""
    found = [read_attack(p.name, p.read_text("utf-8")) for p in sorted(folder.glob("*.py"))]
    for path in sorted(folder.glob("sets/*.txt")):
        _, *parts = _BLOCK.split(path.read_text("utf-8"))
        for file, text in zip(parts[::2], parts[1::2], strict=True):
            named = dict(_HEAD.findall(text)).get("problem", "")
            kernel = folder / "honest" / f"{named}.py"
            honest = kernel.read_text("utf-8") if file.endswith(".py") and kernel.exists() else ""
            whole = "import triton" in text or "# whole" in text
            found.append(
                read_attack(file, text, attacker=path.stem, honest="" if whole else honest)
            )
    names = Counter(one.name for one in found)
    if twice := [name for name, count in names.items() if count > 1]:
        raise SystemExit(f"names of attacks that occur twice: {', '.join(twice)}")
    split = folder / "split.json"
    unread = set(json.loads(split.read_text("utf-8"))["unread"]) if split.exists() else set()
    return [replace(one, side="unread") if one.name in unread else one for one in found]


def fate(
    decision: str,
    conditions: Sequence[str],
    reach: Sequence[str],
    attack: Attack,
    *,
    unreached: Sequence[str] = (),
) -> str:
    """Return what became of an attack: of its verdict, its conditions' keys, sizes and lines."""
    if decision == "ERROR":
        return "not run"
    if decision == "REJECTED":
        return "rejected"
    if decision != "ACCEPTED":
        return "undecided"
    naming = set(attack.named)
    if attack.begins is not None:
        axis, begin = attack.begins
        judged = dict(one.split("=") for one in reach)
        if int(judged.get(axis, 0)) >= begin:
            naming.discard("sizes")
    named = bool(naming.intersection(conditions))
    for lines in unreached:
        first, last = map(int, lines.split("-"))
        named = named or any(first <= fault <= last for fault in attack.faults)
    return "named" if named else "through"


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return counts of one profile: by class what became of the attacks, and the share through."""
    return _shares(rows) | {
        "sides": {side: _shares([r for r in rows if r.side == side]) for side in _of(rows, "side")},
        "attackers": {
            one: _shares([r for r in rows if r.attacker == one]) for one in _of(rows, "attacker")
        },
        "classes": {
            kind: _shares([r for r in rows if r.kind == kind])
            for kind in CLASSES
            if any(r.kind == kind for r in rows)
        },
        "wrong_of_those_through": {row.name: row.wrong for row in rows if row.fate == "through"},
        "reason_of_undecided": {
            row.name: row.reason[:200] for row in rows if row.fate == "undecided"
        },
        "fates": {r.name: f"{r.attacker}, {r.side}, {r.kind}: {r.fate}" for r in rows},
        "looked_for_what_is_left": sum(row.left is not None for row in rows),
        "left": {row.name: row.left for row in rows if row.left},
        "seconds": round(sum(row.seconds for row in rows), 1),
    }


def _of(rows: Sequence[Row], name: str) -> list[str]:
    return sorted({str(getattr(row, name)) for row in rows})


def _shares(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how many met which fate, and the share through with Wilson's interval (95 %)."""
    from cuassay.checks.gpu.chances import wilson

    counts = Counter(row.fate for row in rows)
    judged = len(rows) - counts["not run"]
    through = counts["through"]
    interval = [round(end, 4) for end in wilson(through, judged)] if judged else None
    return {name: counts[name] for name in _FATES} | {
        "attacks": judged,
        "share_through": round(through / judged, 4) if judged else None,
        "interval": interval,
    }


class Bench:
    """Judges attacks, by the command side by side or by the gate in turn, until the time is up."""

    def __init__(self, given: argparse.Namespace, stack: ExitStack) -> None:
        from cuassay.sandbox import syscalls

        self._given = given
        place = given.journal or ROOT / "build" / f"attacks-{given.device}.ndjson"
        self._journal = Journal(place, Row, lambda row: row.key, resume=given.resume)
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # What a judge leaves where temporary files go, nobody else's are among them.
        self._temporary = self._folder / "temporary"
        self._temporary.mkdir()
        os.environ["TMPDIR"] = str(self._temporary)
        here = self._folder / "here"
        here.mkdir()
        os.chdir(here)
        tempfile.tempdir = None
        # Processes whose parents ended become children of this one, where they are counted.
        syscalls.adopt_orphans()
        if given.by == "gate":
            # Imported here: `cuassay check` needs neither torch nor the zoo in this process.
            sys.path.insert(0, str(ROOT))
            from tests.zoo.judging import Gate

            self._gate = stack.enter_context(Gate(given.device, machine=True))
            self._problems: dict[str, Any] = {}
            self._warm_up()
        else:
            # The trial ends itself; what does not is ended here.
            whole = argparse.Namespace(**vars(given) | {"each": 2.0 * given.each + 60.0})
            self._trials = SideBySide.asked_for(
                whole, device=given.device, gpus=given.gpus if given.device == "cuda" else 0
            )

    def _warm_up(self) -> None:
        """Judge an honest kernel: what a gate starts once and keeps is nothing that is left."""
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        from cuassay.formats import load_problem

        cache_dir()  # which torch makes in the judge, whatever is judged
        honest = self._folder / "honest.py"
        kernel = (self._given.folder / "honest" / "rmsnorm.py").read_text("utf-8")
        honest.write_text(kernel.replace("def right(", "def run("), encoding="utf-8")
        assert self._gate.judge(load_problem("rmsnorm"), honest, only=("NUM001", "API003")).accepted

    @property
    def rows(self) -> list[Row]:
        """The rows so far, those of a journal that is resumed among them."""
        return list(self._journal.rows.values())

    def run(self, attacks: Sequence[Attack]) -> None:
        """Judge every attack that has no row yet, at every profile."""
        for profile in self._given.profile:
            kept = self._journal.rows
            wished = [
                attack
                for attack in attacks
                if f"{self._given.device}/{profile}/{attack.name}" not in kept
                and not (self._given.survivors and self._was_rejected(attack))
            ]
            if self._given.by == "gate":
                end = time.monotonic() + (self._given.time_limit or float("inf"))
                for attack in wished:
                    if time.monotonic() > end:
                        return
                    self._keep(self._by_gate(attack, profile))
            else:
                self._trials.all(wished, functools.partial(self._by_command, profile))

    def _was_rejected(self, attack: Attack) -> bool:
        row = self._journal.rows.get(f"{self._given.device}/quick/{attack.name}")
        return row is not None and row.fate == "rejected"

    def _written(self, attack: Attack) -> Path:
        path = self._folder / "attacks" / attack.name / attack.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(attack.text, encoding="utf-8")
        return path

    def _problem_of(self, attack: Attack) -> str:
        beside = self._given.folder / "problems" / attack.problem
        return str(beside) if beside.exists() else attack.problem

    def _by_gate(self, attack: Attack, profile: str) -> Row:
        from cuassay.errors import CuassayError
        from cuassay.formats import load_problem
        from cuassay.model.verdict import Profile

        started, conditions, codes, reach, unreached = time.monotonic(), (), (), (), ()
        with self._looking() as left:
            try:
                named = self._problem_of(attack)
                if named not in self._problems:
                    self._problems[named] = load_problem(named)
                found = self._gate.judge(
                    self._problems[named],
                    self._written(attack),
                    profile=Profile(profile),
                    fail_fast=True,
                    budget_s=self._given.each,
                )
            except CuassayError as error:
                decision, reason = "ERROR", f"{type(error).__name__}: {error}"
            else:
                decision, reason = found.verdict.decision.value, found.verdict.reason
                conditions, codes = found.verdict.conditions, found.codes
                scope = found.verdict.scope
                reach = tuple(f"{one.axis}={one.values}" for one in scope.axes)
                unreached = tuple(f"{one.line}-{one.last}" for one in scope.unreached)
        keys = tuple(one.partition(":")[0] for one in conditions)
        return self._row(
            attack,
            profile,
            decision=decision,
            conditions=keys,
            reach=reach,
            unreached=unreached,
            codes=codes,
            reason=reason,
            seconds=round(time.monotonic() - started, 1),
            left=tuple(left),
        )

    @contextlib.contextmanager
    def _looking(self) -> Iterator[list[str]]:
        """Give a list that holds, after the block, what it left: kinds and names."""
        sys.path.insert(0, str(ROOT))
        from tests.support.left import look

        folder = self._gate.processes_folder if self._given.by == "gate" else None
        before, files = look(folder), set(self._temporary.iterdir())
        found: list[str] = []
        yield found
        end = time.monotonic() + _SETTLE_S
        gc.collect()  # tensors of a trial in circles, which a judge that goes on frees like this
        while True:
            beyond = look(folder).beyond(before)
            new = sorted(one.name for one in set(self._temporary.iterdir()) - files)
            beyond |= {"temporary": list(new)} if new else {}
            if not beyond or time.monotonic() > end:
                break
            time.sleep(0.1)
        found += [
            f"{kind}: {len(names)}, of them {', '.join(map(str, names[:_SHOWN]))}"
            for kind, names in beyond.items()
        ]

    def _by_command(self, profile: str, attack: Attack, place: Place) -> None:
        command = [sys.executable, "-P", "-m", "cuassay", "check", str(self._written(attack))]
        command += ["--problem", self._problem_of(attack), "--profile", profile]
        command += ["--device", self._given.device, "--json", "--fail-fast"]
        command += ["--budget", f"{self._given.each:.0f}"]
        alone = self._given.jobs == 1  # else what others have is there too
        with self._looking() if alone else contextlib.nullcontext([]) as left:
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
        scope = document.get("scope") or {}
        axes = scope.get("axes", {})
        row = self._row(
            attack,
            profile,
            decision=decision,
            conditions=tuple(str(one).split(":", 1)[0] for one in document.get("conditions", ())),
            codes=tuple(dict.fromkeys(str(one["code"]) for one in found)),
            reason=str(document.get("reason") or ended.errors[-600:])[:600],
            reach=tuple(f"{axis}={sizes['values']}" for axis, sizes in axes.items()),
            unreached=tuple("-".join(map(str, one["lines"])) for one in scope.get("unreached", ())),
            seconds=ended.seconds,
            left=tuple(left) if alone else None,
        )
        self._keep(row)

    def _row(
        self,
        attack: Attack,
        profile: str,
        *,
        decision: str,
        conditions: tuple[str, ...],
        reach: tuple[str, ...],
        unreached: tuple[str, ...],
        **more: Any,
    ) -> Row:
        return Row(
            name=attack.name,
            problem=attack.problem,
            kind=attack.kind,
            wrong=attack.wrong,
            attacker=attack.attacker,
            side=attack.side,
            profile=profile,
            device=self._given.device,
            decision=decision,
            fate=fate(decision, conditions, reach, attack, unreached=unreached),
            reach=reach,
            unreached=unreached,
            conditions=conditions,
            **more,
        )

    def _keep(self, row: Row) -> None:
        self._journal.keep(
            row,
            f"{row.profile:9s}{row.kind:14s}{row.name:28s}{row.decision:13s}{row.fate:10s}"
            f"{row.seconds:6.1f} s  {' '.join(row.codes) or ' '.join(row.conditions)}"
            f"{'  LEFT ' + ' '.join(row.left) if row.left else ''}",
        )


def at_profile(rows: Sequence[Row], profile: str) -> list[Row]:
    """Return a profile's rows; a rejection at quick stands at `standard` where none was judged."""
    own = {row.name: row for row in rows if row.profile == profile}
    if profile == "standard":
        kept = (r for r in rows if r.profile == "quick" and r.fate == "rejected")
        own = {row.name: row for row in kept} | own
    return list(own.values())


def _in_own_namespaces() -> None:
    """Start this program again where System V objects and /dev/shm are its own, if it may.

    Else what other programs make and leave meanwhile counts as left.
    """
    may = ("unshare", "--mount", "--ipc", "--propagation", "private", "mount", "-t", "tmpfs")
    if os.environ.get(_ALONE) or subprocess.run([*may, "none", "/dev/shm"], check=False).returncode:
        return
    os.environ[_ALONE] = "1"
    inner = 'mount -t tmpfs none /dev/shm && exec "$@"'
    program = [sys.executable, *sys.orig_argv[1:]]
    os.execvp("unshare", [*may[:5], "sh", "-c", inner, "sh", *program])


def _whole_path(text: str) -> Path:
    return Path(text).absolute()


def main(arguments: Sequence[str] = ()) -> None:
    """Judge the attacks and save the shares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=_whole_path, nargs="?", default=ATTACKS)
    parser.add_argument("--profile", nargs="*", default=["quick"], choices=("quick", "standard"))
    parser.add_argument("--by", default="command", choices=("command", "gate"))
    parser.add_argument("--side", default="all", choices=("all", "read", "unread"))
    parser.add_argument("--survivors", action="store_true", help="not those rejected at quick")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="attacks whose name begins like one of these")
    SideBySide.add_options(parser, "attack", jobs=1, each_s=120.0)
    parser.add_argument("--journal", type=_whole_path, help="where rows go as they come")
    parser.add_argument(
        "--home", type=_whole_path, help="build caches kept between runs; else none are"
    )
    given = parser.parse_args(arguments or None)
    attacks = [
        one
        for one in read_attacks(given.folder)
        if given.side in ("all", one.side)
        and (not given.only or one.name.startswith(tuple(given.only)))
    ]
    _in_own_namespaces()
    with ExitStack() as stack:
        bench = Bench(given, stack)
        bench.run(attacks)
    found = {profile: summary(at_profile(bench.rows, profile)) for profile in given.profile}
    print(json.dumps(found, indent=1))
    print(save("attacks", found))


if __name__ == "__main__":
    main()
