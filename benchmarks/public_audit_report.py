"""Tables, pictures and the data file of the public audit, from rows alone."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common import ROOT
from kernel_sets import PUBLISHED, Kernel, read_index
from public_audit_figures import Bar, Stack, bars, stacks
from public_audit_rows import DECIDED, Row, dumps, latest, read_rows

from cuassay.checks.gpu.chances import wilson
from cuassay.model.failure_classes import class_name

DOCUMENT = ROOT / "benchmarks" / "reports" / "audit-2026-12.md"
PAGE = ROOT / "docs" / "audit-2026.md"
PICTURES = ROOT / "docs" / "pictures"
RESULTS = ROOT / "benchmarks" / "results" / "public-audit.json"
ADJUDICATION = ROOT / "benchmarks" / "public_audit_adjudication.json"
_DRAWN = "kernelbench-filtered"  # judged in the order of its digests alone
_FEWEST = 3  # kernels in a group that gets a line of its own
# Conditions of production, each with the check of it that rejects on a GPU; nothing else looks
# for a fault that load alone shows, and threads are a condition only.
_PRODUCTION = {
    "streams": "STREAM001",
    "threads": "",
    "graphs": "GRAPH001",
    "layouts": "LAYOUT001",
    "load": "RACE001",
}
_STATUSES = ("confirmed", "refuted", "open")
_ROUTES = ("read", "script")
# What it takes to see the fault, and what that means in the document.
_NEEDS = {
    "benchmark": "the benchmark's own sizes, values and tolerance",
    "tolerance": "a tolerance below the benchmark's",
    "memory": "a look at memory and order",
    "sizes": "other sizes",
    "values": "other values",
    "calls": "other calls before or after",
    "streams": "another stream than the default one",
    "state": "another state or mode of the module",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a person found for one rejection: `confirmed`, `refuted` or `open`.

    `route` says how: `read` in source, or `script`, a script without cuassay that shows the same.
    `needs` says what it takes to see the fault, by the names of `_NEEDS`. `rejected_by` is the
    diagnosis, `reading` one sentence with the cause. A kernel that was rejected again for another
    reason has a ruling for each, and the last is about its latest row.
    """

    key: str
    rejected_by: str
    status: str
    route: str
    needs: str
    reading: str

    def __post_init__(self) -> None:
        legal = {"status": _STATUSES, "route": _ROUTES, "needs": tuple(_NEEDS)}
        for name, values in legal.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{self.key}: {name} {getattr(self, name)!r} is none of {values}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the report to the audit's command line."""
    parser.add_argument("--adjudication", type=Path, default=ADJUDICATION)
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    parser.add_argument("--results", type=Path, default=RESULTS)


def write(given: argparse.Namespace) -> int:
    """Write tables into the document, pictures and the data file; 2 without rows."""
    # In the order of the data file: rows that come from it count alike then.
    rows = read_rows(given.runs, published=given.results)
    rows.sort(key=lambda row: (row.key, row.judged_at, row.again))
    if not rows:
        print(f"{given.runs} holds no rows: judge kernels first, or give --runs with their folders")
        return 2
    kernels = read_index(given.runs)
    rulings = read_rulings(given.adjudication)
    digests = folder_digests(given.runs, given.results)
    blocks = {
        "counts": counts(rows, kernels, rulings),
        "sets": by_set(rows, kernels),
        "families": by_group(rows, "operator family", lambda row: [row.family]),
        "languages": by_group(rows, "language", lambda row: [row.language]),
        "models": by_group(rows, "model, as published", lambda row: [row.model]),
        "classes": of_rejected(rows, "failure class", lambda row: map(_class_words, row.classes)),
        "causes": of_rejected(rows, "diagnosis", lambda row: [cause_of(row, rulings)]),
        "rules": rules(rows),
        "labels": labels(rows),
        "power": power(rows),
        "conditions": conditions(rows),
        "production": production(rows),
        "references": references(rows),
        "libraries": libraries(rows),
        "undecided": undecided(rows),
        "machines": machines(rows),
        "agreement": agreement(rows),
        "adjudication": adjudicated(rulings, rows),
        "rulings": listed(rulings),
        "folders": table(
            ("run folder", "SHA-256 of its files"),
            [(name, f"`{digest}`") for name, digest in digests.items()],
        ),
    }
    replace_blocks(given.document, blocks)
    replace_blocks(given.page, {"summary": summary(rows, kernels, rulings)})
    for name, drawn in pictures(rows, rulings).items():
        (given.pictures / f"audit-2026-{name}.svg").write_text(drawn, encoding="utf-8")
    data = {
        "schema": "cuassay/public-audit/1",
        "rows": dumps(rows),
        "adjudication": [ruling_data(ruling) for ruling in rulings],
        "folders": digests,
    }
    given.results.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(blocks["counts"])
    print(blocks["sets"])
    return 0


def read_rulings(file: Path) -> list[Ruling]:
    """Return the rulings of a file; none where it is not there."""
    if not file.is_file():
        return []
    return [Ruling(**one) for one in json.loads(file.read_text(encoding="utf-8"))]


def ruling_data(ruling: Ruling) -> dict[str, str]:
    """Return a ruling as JSON data."""
    return {name: getattr(ruling, name) for name in Ruling.__slots__}


def replace_blocks(document: Path, blocks: Mapping[str, str]) -> None:
    """Replace what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`.

    Raises ValueError for a mark in the document that no block belongs to.
    """
    text = document.read_text(encoding="utf-8")
    unknown = set(re.findall(r"<!-- begin (\S+) -->", text)) - set(blocks)
    if unknown:
        raise ValueError(f"{document}: no table is called {', '.join(sorted(unknown))}")
    for name, block in blocks.items():
        marks = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        text = marks.sub(lambda found, block=block: f"{found[1]}\n{block}\n\n{found[2]}", text)
    document.write_text(text, encoding="utf-8")


def share(hits: int, total: int) -> str:
    """Return a share with its 95 % Wilson interval in words."""
    if not total:
        return "none"
    low, high = wilson(hits, total)
    return f"{hits} of {total}: {hits / total:.0%} ({low:.0%} to {high:.0%})"


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; a bar in a cell is escaped."""
    rows = [head, ["---"] * len(head), *lines]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def generated(rows: Iterable[Row]) -> list[Row]:
    """Return the latest row of every kernel that a model wrote and that has a verdict or not."""
    return [row for row in latest(rows) if row.kind == "generated"]


def accepted_by_publisher(rows: Iterable[Row]) -> list[Row]:
    """Return the decided rows of generated kernels that their publisher's test accepts."""
    return [row for row in generated(rows) if row.published and row.verdict in DECIDED]


def _rejected(rows: Iterable[Row]) -> int:
    return sum(row.verdict == "REJECTED" for row in rows)


def counts(rows: Sequence[Row], kernels: Sequence[Kernel], rulings: Sequence[Ruling]) -> str:
    """Return the sums in words."""
    last = latest(rows)
    shipped = accepted_by_publisher(rows)
    drawn = [row for row in shipped if row.set == _DRAWN]
    others = sum(bool(row.verdict) for row in last if row.kind != "generated")
    trusted = [row for row in last if row.label == "correct" and row.verdict in DECIDED]
    gpu_s = sum(row.seconds for row in rows if row.device == "cuda")
    cpu_s = sum(row.seconds for row in rows if row.device != "cuda")
    return (
        f"- Generated kernels: {_tried(rows, kernels)}. "
        f"{others} references, examples and library kernels have a verdict beside them.\n"
        f"- REJECTED among decided kernels that have to be ACCEPTED: "
        f"{_with_rulings(trusted, rulings)}.\n"
        f"- REJECTED among decided kernels that their publisher accepts: "
        f"{share(_rejected(shipped), len(shipped))}.\n"
        f"- Of these {_rejected(shipped)}, by adjudication: {_settled(shipped, rulings)}.\n"
        f"- The same in `{_DRAWN}`, whose kernels were judged in random order: "
        f"{share(_rejected(drawn), len(drawn))}; {_settled(drawn, rulings)}.\n"
        f"- Trials took {gpu_s / 60:.0f} minutes on GPUs and {cpu_s / 60:.0f} minutes on CPUs."
    )


def summary(rows: Sequence[Row], kernels: Sequence[Kernel], rulings: Sequence[Ruling]) -> str:
    """Return the sums as the table of the documentation's page."""
    trusted = [row for row in latest(rows) if row.label == "correct" and row.verdict in DECIDED]
    shipped = accepted_by_publisher(rows)
    settled = [ruling.status for ruling in rulings if ruling.status != "open"]
    seeds = list(pairs(rows))
    same = sum(before.verdict == after.verdict for before, after in seeds)
    lines = [
        ("generated kernels", _tried(rows, kernels)),
        ("REJECTED of decided kernels that have to be ACCEPTED",
         _with_rulings(trusted, rulings)),
        ("REJECTED of decided kernels that their publisher accepts",
         share(_rejected(shipped), len(shipped))),
        (f"of these {_rejected(shipped)}", _settled(shipped, rulings, needs=False)),
        ("refuted of all rejections that were read", share(settled.count("refuted"), len(settled))),
        ("same verdict under another seed", share(same, len(seeds))),
    ]  # fmt: skip
    return table(("", "with Wilson's 95 % interval"), lines)


def _tried(rows: Iterable[Row], kernels: Iterable[Kernel]) -> str:
    """Return in words how the generated kernels ended, and how many are left."""
    ends = Counter(row.verdict for row in generated(rows))
    total = sum(kernel.kind == "generated" and kernel.set in PUBLISHED for kernel in kernels)
    return (
        f"{ends.total()} of {total} tried: {ends['ACCEPTED']} ACCEPTED, "
        f"{ends['REJECTED']} REJECTED, {ends['INCONCLUSIVE']} INCONCLUSIVE, {ends['']} without "
        "a verdict"
    )


def _with_rulings(trusted: Sequence[Row], rulings: Sequence[Ruling]) -> str:
    """Return the share that is REJECTED and, where there is any, what adjudication says of it."""
    text = share(_rejected(trusted), len(trusted))
    return f"{text}; {_settled(trusted, rulings, needs=False)}" if _rejected(trusted) else text


def _settled(rows: Iterable[Row], rulings: Sequence[Ruling], *, needs: bool = True) -> str:
    """Return in words what adjudication says of the rejections among `rows`.

    With `needs` it says what it takes to see the faults at the benchmark's own sizes.
    """
    ruled = {ruling.key: ruling for ruling in rulings}
    own: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for row in rows:
        ruling = ruled.get(row.key)
        if row.verdict != "REJECTED":
            continue
        if ruling is None or ruling.status == "open":
            others["not settled"] += 1
        elif ruling.status == "refuted":
            others["refuted"] += 1
        elif ruling.needs == "sizes":
            others["wrong only at sizes that the benchmark does not list"] += 1
        else:
            own[_NEEDS[ruling.needs]] += 1
    why = "; ".join(f"{count} with {name}" for name, count in own.most_common())
    words = f"{sum(own.values())} wrong at the benchmark's own sizes"
    found = [f"{words} ({why})" if needs else words] if own else []
    found += [f"{count} {name}" for name, count in others.most_common()]
    return ", ".join(found) or "none"


def by_set(rows: Sequence[Row], kernels: Sequence[Kernel]) -> str:
    """Return a line a set: how many kernels it has, references left out, and how they ended."""
    sizes = Counter(kernel.set for kernel in kernels if kernel.kind != "reference")
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in latest(rows):
        if row.kind in ("generated", "example"):
            groups[row.set].append(row)
    lines = []
    for name in PUBLISHED:
        of = groups.get(name, [])
        ends = Counter(row.verdict for row in of)
        bare = sum(row.verdict == "ACCEPTED" and not row.own_conditions for row in of)
        decided = [row for row in of if row.verdict in DECIDED]
        lines.append(
            (name, sizes[name], len(of), bare, ends["ACCEPTED"] - bare,
             ends["REJECTED"], ends["INCONCLUSIVE"], ends[""],
             share(_rejected(decided), len(decided)))
        )  # fmt: skip
    head = ("set", "kernels", "tried", "ACCEPTED", "under conditions", "REJECTED", "INCONCLUSIVE",
            "no verdict", "rejected of decided (95 % interval)")  # fmt: skip
    return table(head, lines)


def by_group(rows: Sequence[Row], what: str, names: Callable[[Row], Iterable[str]]) -> str:
    """Return a line a group of kernels that their publisher accepts, those that fail most first."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in accepted_by_publisher(rows):
        for name in names(row):
            groups[name].append(row)
    large = {name: of for name, of in groups.items() if len(of) >= _FEWEST}
    order = sorted(large, key=lambda name: (-_rejected(large[name]) / len(large[name]), name))
    lines = [(name, share(_rejected(large[name]), len(large[name]))) for name in order]
    small = [row for name, of in groups.items() if len(of) < _FEWEST for row in of]
    if small:
        title = f"{len(groups) - len(large)} groups of fewer than {_FEWEST}"
        lines.append((title, share(_rejected(small), len(small))))
    return table((what, "REJECTED of decided kernels that their publisher accepts"), lines)


def cause_of(row: Row, rulings: Sequence[Ruling]) -> str:
    """Return what a rejection is grouped by: its first diagnosis, else that of its ruling."""
    if row.causes:
        return row.causes[0]
    ruled = {ruling.key: ruling.rejected_by for ruling in rulings}
    return ruled.get(row.key, "not kept in the row")


def of_rejected(rows: Sequence[Row], what: str, names: Callable[[Row], Iterable[str]]) -> str:
    """Return a line a class or cause: rejected kernels, and those that their publisher accepts."""
    found: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for row in generated(rows):
        if row.verdict == "REJECTED":
            unique = set(names(row))
            found.update(unique)
            passed.update(unique if row.published else ())
    order = sorted(found, key=lambda name: (-found[name], name))
    lines = [(name, found[name], passed[name]) for name in order]
    return table((what, "REJECTED kernels", "of them accepted by their publisher"), lines)


def _class_words(code: str) -> str:
    return f"{code} {class_name(code)}"


def rules(rows: Sequence[Row]) -> str:
    """Return how other verdicts on a kernel agree with cuassay's."""
    last = [row for row in generated(rows) if row.verdict in DECIDED]

    def line(title: str, theirs: Callable[[Row], bool | None], wanted: bool) -> tuple[object, ...]:
        of = [row for row in last if theirs(row) is wanted]
        return title, len(of), len(of) - _rejected(of), share(_rejected(of), len(of))

    def published(row: Row) -> bool | None:
        return row.published

    def rule(row: Row) -> bool | None:
        return row.rule

    lines = [
        line("publisher accepts", published, True),
        line("publisher rejects", published, False),
        line("benchmark's rule and inputs accept, evaluated here", rule, True),
        line("benchmark's rule and inputs reject, evaluated here", rule, False),
    ]
    return table(("verdict of others", "kernels", "ACCEPTED", "REJECTED (95 % interval)"), lines)


def labels(rows: Sequence[Row]) -> str:
    """Return how published kernels ended that somebody labeled, and which wrong ones passed."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in latest(rows):
        if row.label and row.set in PUBLISHED:
            groups[row.set, row.label].append(row)
    lines = []
    for (name, label), of in sorted(groups.items()):
        ends = Counter(row.verdict for row in of)
        others = len(of) - ends["ACCEPTED"] - ends["REJECTED"]
        lines.append((name, label, len(of), ends["ACCEPTED"], ends["REJECTED"], others))
    passed = [
        f"`{row.key}` under {', '.join(sorted(row.own_conditions)) or 'no condition of its own'}"
        for (_, label), of in sorted(groups.items())
        for row in of
        if label == "wrong" and row.verdict == "ACCEPTED"
    ]
    head = ("set", "label", "kernels", "ACCEPTED", "REJECTED", "not decided")
    return f"{table(head, lines)}\n\nLabeled wrong and ACCEPTED: {'; '.join(passed) or 'none'}."


def power(rows: Sequence[Row]) -> str:
    """Return what share of broken references the inputs tell from the right one, by set."""
    groups: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in latest(rows):
        if row.mutants and row.rule_killed is not None:
            groups[row.set].setdefault(row.operator, row)
    lines = []
    for name, problems in sorted(groups.items()):
        of = list(problems.values())
        mutants = sum(row.mutants or 0 for row in of)
        lines.append(
            (name, len(of), mutants, share(sum(row.rule_killed or 0 for row in of), mutants),
             share(sum(row.killed or 0 for row in of), mutants))
        )  # fmt: skip
    return table(
        ("set", "problems", "broken references", "the benchmark's rule and inputs reject",
         "cuassay's inputs and bounds reject"),
        lines,
    )  # fmt: skip


def conditions(rows: Sequence[Row]) -> str:
    """Return under which conditions kernels are accepted, by device."""
    accepted = [row for row in generated(rows) if row.verdict == "ACCEPTED"]
    devices = sorted({row.device for row in accepted})
    totals = {device: sum(row.device == device for row in accepted) for device in devices}
    found = Counter((name, row.device) for row in accepted for name in row.own_conditions)
    names = sorted({name for name, _ in found})
    lines = [
        (name, *(share(found[name, device], totals[device]) for device in devices))
        for name in names
    ]
    head = ("condition", *(f"ACCEPTED kernels on {_device(device)}" for device in devices))
    return table(head, lines)


def _device(device: str) -> str:
    return {"cuda": "a GPU", "cpu": "a CPU"}.get(device, device)


def production(rows: Sequence[Row]) -> str:
    """Return which kernels a GPU showed to be right alone and wrong as production calls them.

    A kernel counts where the condition was stated of it or the check rejected it.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in generated(rows):
        if row.device == "cuda" and row.verdict in DECIDED:
            groups[row.family].append(row)
    order = sorted(groups, key=lambda name: (-len(groups[name]), name))
    lines = [
        (
            name,
            len(groups[name]),
            *(
                sum(key in row.conditions or code in row.checks for row in groups[name])
                for key, code in _PRODUCTION.items()
            ),
        )
        for name in order
    ]
    every = [row for of in groups.values() for row in of]
    total = (sum(k in r.conditions or c in r.checks for r in every) for k, c in _PRODUCTION.items())
    lines.append(("all", len(every), *(share(count, len(every)) for count in total)))
    return table(("operator family", "decided on a GPU", *_PRODUCTION), lines)


def libraries(rows: Sequence[Row]) -> str:
    """Return a line a library: how its kernels ended, which all have to be ACCEPTED."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in latest(rows):
        if row.kind == "library":
            groups[row.model, row.device].append(row)
    lines = []
    for (name, device), of in sorted(groups.items()):
        ends = Counter(row.verdict or row.ending for row in of)
        others = sum(count for end, count in ends.items() if end not in DECIDED)
        lines.append((name, _device(device), len(of), ends["ACCEPTED"], ends["REJECTED"], others))
    head = ("library", "on", "tried", "ACCEPTED", "REJECTED", "no verdict or INCONCLUSIVE")
    return table(head, lines)


def references(rows: Sequence[Row]) -> str:
    """Return how references, examples labeled correct and library kernels ended."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in latest(rows):
        if row.kind != "generated" and row.label == "correct":
            groups[row.set, row.device].append(row)
    lines = []
    for (name, device), of in sorted(groups.items()):
        ends = Counter(row.verdict or row.ending for row in of)
        decided = [row for row in of if row.verdict in DECIDED]
        others = ", ".join(f"{n} {end}" for end, n in sorted(ends.items()) if end not in DECIDED)
        lines.append((name, _device(device), len(of), ends["ACCEPTED"],
                      share(_rejected(decided), len(decided)), others or "none"))  # fmt: skip
    head = ("kernels that have to be ACCEPTED", "on", "tried", "ACCEPTED",
            "REJECTED of decided (95 % interval)", "other ends")  # fmt: skip
    return table(head, lines)


def undecided(rows: Sequence[Row]) -> str:
    """Return why kernels have no verdict, the most frequent reason first."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in generated(rows):
        if row.verdict not in DECIDED:
            groups[_reason(row)].append(row)
    order = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    lines = [
        (why, len(of), ", ".join(sorted({row.set for row in of})), of[0].name) for why, of in order
    ]
    return table(("why not decided", "kernels", "sets", "for example"), lines)


def _reason(row: Row) -> str:
    """Return the reason without numbers, so that like reasons stand together."""
    if not row.verdict:
        return "not ended in its time" if row.ending in ("timeout", "stopped") else row.ending
    text = re.sub(r"\d+(\.\d+)?", "N", row.reason.strip().rpartition("\n")[2])
    return text[:110] or "no reason kept"


def machines(rows: Sequence[Row]) -> str:
    """Return who judged: machine, versions, profile, time of each group of rows."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        versions = f"cuassay {row.version}, {row.versions}"
        groups[row.machine, versions, row.profile, row.source].append(row)
    lines = [
        (*who, min(row.judged_at for row in of), len(of), f"{sum(r.seconds for r in of) / 60:.0f}")
        for who, of in sorted(groups.items())
    ]
    head = ("machine", "versions", "profile", "rows of", "judged from (UTC)", "trials", "minutes")
    return table(head, lines)


def pairs(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield a kernel's newest decided row and that of another seed, for one device and profile."""
    first: dict[tuple[str, str, str], Row] = {}
    again = []
    for row in sorted(rows, key=lambda row: row.judged_at):
        if row.verdict not in DECIDED:
            continue
        if row.again:
            again.append(row)
        else:
            first[row.key, row.device, row.profile] = row
    for row in again:
        before = first.get((row.key, row.device, row.profile))
        if before is not None:
            yield before, row


def agreement(rows: Sequence[Row]) -> str:
    """Return how often a second trial with another secret seed ends alike."""
    found = list(pairs(rows))
    same = sum(before.verdict == after.verdict for before, after in found)
    differ = [
        f"`{b.key}` {b.verdict}, then {a.verdict}" for b, a in found if b.verdict != a.verdict
    ]
    text = f"Same verdict under another secret seed: {share(same, len(found))}."
    return text + (f" Different: {'; '.join(differ)}." if differ else "")


def adjudicated(rulings: Sequence[Ruling], rows: Sequence[Row]) -> str:
    """Return the shares of confirmed and refuted rejections, by what rejected, and what is left."""
    groups: dict[str, list[Ruling]] = defaultdict(list)
    for ruling in rulings:
        groups[ruling.rejected_by].append(ruling)
    lines = [
        (name, len(of), *(sum(one.status == status for one in of) for status in _STATUSES))
        for name, of in sorted(groups.items())
    ]
    settled = [one for one in rulings if one.status != "open"]
    refuted = sum(one.status == "refuted" for one in settled)
    needs = Counter(one.needs for one in settled if one.status == "confirmed")
    total = sum(needs.values())
    ruled = {one.key: one.status for one in rulings}  # of several rejections, the last
    left = [
        f"`{row.key}`"
        for row in latest(rows)
        if row.verdict == "REJECTED" and ruled.get(row.key) == "refuted"
    ]
    return (
        table(("rejected by", "read", *_STATUSES), lines)
        + f"\n\nRefuted of the settled: {share(refuted, len(settled))}. Of the refuted, still "
        f"REJECTED in the latest rows: {', '.join(left) or 'none'}. How the "
        "confirmed ones show:\n\n"
        + table(
            ("the fault shows with", "confirmed rejections"),
            [(_NEEDS[name], share(count, total)) for name, count in needs.most_common()],
        )
    )


def listed(rulings: Sequence[Ruling]) -> str:
    """Return every ruling with its reading."""
    lines = [
        (f"`{one.key}`", one.rejected_by, one.status, one.route, one.needs, one.reading)
        for one in sorted(rulings, key=lambda one: (one.status, one.key))
    ]
    return table(
        ("kernel", "rejected by", "finding is", "by", "needs", "what the source shows"),
        lines,
    )


def folder_digests(runs: Path, published: Path) -> dict[str, str]:
    """Return the SHA-256 of each run folder: of the paths and contents of its files, in order.

    Folders that `runs` does not hold keep the digest that the data file `published` has.
    """
    found: dict[str, str] = {}
    if published.is_file():
        found = json.loads(published.read_text(encoding="utf-8"))["folders"]
    for folder in sorted(path for path in runs.iterdir() if path.is_dir() and path.name != "home"):
        whole = hashlib.sha256()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                whole.update(f"{path.relative_to(folder)}\0{content}\0".encode())
        found[folder.name] = whole.hexdigest()
    return dict(sorted(found.items()))


def pictures(rows: Sequence[Row], rulings: Sequence[Ruling]) -> dict[str, str]:
    """Return the drawings by name."""
    shipped = accepted_by_publisher(rows)
    families: dict[str, list[Row]] = defaultdict(list)
    for row in shipped:
        families[row.family].append(row)
    large = [
        Bar(name=name, hits=_rejected(of), total=len(of))
        for name, of in families.items()
        if len(of) >= _FEWEST
    ]
    large.sort(key=lambda bar: (-bar.hits / bar.total, bar.name))
    sets: dict[str, list[Row]] = defaultdict(list)
    for row in generated(rows):
        sets[row.set].append(row)
    causes = Counter(cause_of(row, rulings) for row in generated(rows) if row.verdict == "REJECTED")
    rejected = sum(causes.values())
    return {
        "sets": stacks("How trials ended, by set", [_stack(n, of) for n, of in sets.items()]),
        "families": bars("REJECTED share of kernels that their publisher accepts", large),
        "causes": bars(
            "Diagnoses of REJECTED kernels",
            [Bar(name=name, hits=n, total=rejected) for name, n in causes.most_common(12)],
        ),
    }


def _stack(name: str, rows: Sequence[Row]) -> Stack:
    ends = Counter(row.verdict for row in rows)
    bare = sum(row.verdict == "ACCEPTED" and not row.own_conditions for row in rows)
    return Stack(
        name=name,
        parts={
            "accepted": bare,
            "accepted under conditions": ends["ACCEPTED"] - bare,
            "rejected": ends["REJECTED"],
            "not decided": ends["INCONCLUSIVE"] + ends[""],
        },
    )
