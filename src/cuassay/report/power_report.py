"""The document of `cuassay problem power`, as it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuassay.report.clean import one_line, plain_data

_NAME, _LINE = 20, 200
_SHOWN = 24  # survivors that are listed; --json has them all


def document(found: Mapping[str, Any], *, inputs: str) -> dict[str, Any]:
    """Return the document with the survivors of `inputs` (ours or theirs), all text cleaned."""
    whose = found["survivors" if inputs == "ours" else "survivors_theirs"]
    kept = {key: value for key, value in found.items() if key != "survivors_theirs"}
    cleaned: dict[str, Any] = plain_data({**kept, "inputs": inputs, "survivors": whose})
    return cleaned


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a terminal shows: the sum, killed by kind and class, every survivor."""
    told = found["mutants"] - found["equivalent"]
    yield f"{one_line(found['problem'])}: power of the {found['profile']} inputs"
    yield f"  {_share('told apart by cuassay', found['killed_ours'], told)}"
    if found["killed_theirs"] is None:
        yield "  the benchmark's own inputs and rule: not measured (its workloads are too large)"
    else:
        yield f"  {_share('by the benchmark', found['killed_theirs'], told)}"
    if found["equivalent"]:
        yield (
            f"  {found['equivalent']} more are equivalent: no legal input tells them from the "
            "reference"
        )
    yield ""
    yield from _table(
        "kind of fault", [(f"{r['kind']} ({'/'.join(r['classes'])})", r) for r in found["by_kind"]]
    )
    yield ""
    yield from _table("failure class", [(str(r["class"]), r) for r in found["by_class"]])
    yield ""
    survivors = found["survivors"]
    whose = (
        "cuassay's inputs" if str(found["inputs"]) == "ours" else "the benchmark's inputs and rule"
    )
    if not survivors:
        yield f"No broken version survives {whose}."
    else:
        yield f"Survivors of {whose} ({len(survivors)}):"
        for one in survivors[:_SHOWN]:
            yield f"  {'/'.join(one['classes'])}  {one_line(one['words'], limit=_LINE)}"
            if one["killed_by"]:
                why = f" ({one['why']})" if one["why"] else ""
                shown = f"told apart by: {one_line(one['killed_by'] + why, limit=_LINE)}"
            else:
                shown = one_line(
                    f"inputs that would show it: {one['shown_by']} ({one['why']})", limit=_LINE
                )
            yield f"      {shown}"
        if len(survivors) > _SHOWN:
            yield f"  and {len(survivors) - _SHOWN} more (--json lists them)"
    yield ""
    cases, regimes = found["cases"], found["regimes"]
    yield f"Fewest cases at equal power: {cases['covering']} of {cases['full']}"
    for label in cases["labels"]:
        yield f"  {one_line(label, limit=_LINE)}"
    chosen = one_line(", ".join(regimes["chosen"]), limit=400)
    yield f"Regimes that later trials run first: {chosen}"


def _share(what: str, killed: int, total: int) -> str:
    percent = f" ({100 * killed / total:.0f} %)" if total else ""
    return f"{what + ':':<22} {killed} of {total} broken versions of the reference{percent}"


def _table(title: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    width = max((len(name) for name, _ in rows), default=_NAME)
    yield f"  {title:<{width}}  killed  alive  benchmark  equivalent"
    for name, row in rows:
        told = row["mutants"] - row["equivalent"]
        theirs = "-" if row["killed_theirs"] is None else str(row["killed_theirs"])
        yield (
            f"  {name:<{width}}  {row['killed_ours']:>6}  {told - row['killed_ours']:>5}  "
            f"{theirs:>9}  {row['equivalent']:>10}"
        )
