"""How many broken versions of each catalogue operator its inputs tell apart.

For each operator: killed by plain N(0, 1) inputs at the listed shape under cuassay's own
judgement, by the benchmark's own inputs and rule, by the planned cases of a profile, and how
few of these cases do as much. Survivors are listed with what would show them.

    python benchmarks/power_catalog.py [--profile standard] [--seconds 120] [operator ...]

Results are saved after every operator; those already there are kept when others are named.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from common import result_path, save
from power_explained import explain

from cuassay.catalog import registry
from cuassay.errors import CuassayError
from cuassay.formats.execute import load_reference
from cuassay.inputs.geometry import elements
from cuassay.judge.decide.benchmark_rule import affordable
from cuassay.judge.measure import selection
from cuassay.judge.measure.choose import choose
from cuassay.judge.measure.kills import all_mutants, try_case
from cuassay.judge.measure.power import Measured, benchmark_judge, killed_by_them, measured, planned
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.axes import resolve
from cuassay.model.case import Case, Fill
from cuassay.model.device import Device
from cuassay.model.domain import Opaque
from cuassay.model.problem import TensorSpec
from cuassay.model.verdict import Profile
from cuassay.oracle.mutants.detect import Mutant

_ELEMENTS = 1 << 18  # every mutant that the first case leaves alive runs on every such case
_THEIRS = 1 << 23  # of the benchmark's own workload: one case, once a mutant


def plain_case(trial: JudgeTrial) -> Case:
    """Return N(0, 1) in every real input, usual scalars, at the largest affordable listed shape."""
    problem = trial.problem
    sized = [(elements(problem, resolve(problem.axes, w.axes)), w) for w in affordable(trial)]
    fitting = [w for size, w in sized if size <= 1 << 21] or [min(sized, key=lambda p: p[0])[1]]
    fills = {
        spec.name: Fill(kind="normal")
        for spec in problem.inputs
        if isinstance(spec, TensorSpec)
        and type(spec.domain).__name__ == "Real"
        and not isinstance(spec.domain, Opaque)
    }
    return Case(
        label="plain",
        axes=resolve(problem.axes, fitting[0].axes),
        fills=fills,
        seed=200,
        generator=problem.reference.generator is not None,
    )


def row(name: str, *, profile: Profile, search_s: float) -> dict[str, Any]:
    """Measure one operator."""
    started = time.process_time()
    problem = registry.get(name)
    device = Device("cuda" if torch.cuda.is_available() else "cpu")
    trial = open_trial(
        problem, load_reference(problem), profile=profile, device=device, root_seed=200
    )
    chosen = choose(trial)
    selection.store(problem, chosen)  # as any trial but the first of a problem has it
    cases = planned(trial, limit=_ELEMENTS)
    mutants = all_mutants(trial, cases)
    found = measured(trial, cases, mutants, search_s=search_s, all_pairs=True)
    told = {n: m for n, m in found.mutants.items() if n not in found.equivalent}
    theirs = benchmark_judge(trial, limit=_THEIRS)
    kills = {
        "ours": found.killed,
        "plain": frozenset(try_case(trial, plain_case(trial), told).killed),
        "theirs": None if theirs is None else killed_by_them(theirs, told),
    }
    cover = selection.covering(found.tried, lambda i: elements(problem, found.tried[i].case.axes))
    return {
        "operator": name,
        "mutants": len(found.mutants),
        "equivalent": len(found.equivalent),
        **{f"killed_{who}": None if of is None else len(of) for who, of in kills.items()},
        "by_class": by_class(told, kills),
        "cases": len(cases),
        "covering": len(cover),
        "regimes": list(chosen.regimes),
        "covering_labels": [found.tried[i].case.label for i in cover],
        "survivors": _survivors(found),
        "equivalents": [f"{found.mutants[n].words}: {why}" for n, why in found.equivalent.items()],
        "cpu_s": round(time.process_time() - started, 1),
        "date": time.strftime("%Y-%m-%d"),
    }


def by_class(
    told: Mapping[int, Mutant], kills: Mapping[str, frozenset[int] | None]
) -> dict[str, dict[str, int]]:
    """Return the counts of each failure class; a mutant counts for each class of its kind."""
    found: dict[str, dict[str, int]] = {}
    for number, mutant in told.items():
        for code in mutant.classes:
            cell = found.setdefault(code, {"mutants": 0, **dict.fromkeys(kills, 0)})
            cell["mutants"] += 1
            for who, of in kills.items():
                cell[who] += of is not None and number in of
    return found


def _survivors(found: Measured) -> list[dict[str, str]]:
    return [
        {
            "words": found.mutants[s.number].words,
            "kind": found.mutants[s.number].kind,
            "killed_by": s.killed_by,
            "why": s.why,
            "shown_by": found.mutants[s.number].shown_by,
        }
        for s in found.survivors
    ]


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over the operators that were measured."""
    done = [r for r in rows if "error" not in r]
    keys = ("mutants", "equivalent", "killed_ours", "killed_plain", "cases", "covering")
    found: dict[str, Any] = {key: sum(r[key] for r in done) for key in keys}
    both = [r for r in done if r["killed_theirs"] is not None]
    found["killed_theirs"] = sum(r["killed_theirs"] for r in both)
    found["operators"], found["operators_with_theirs"] = len(done), len(both)
    told = found["mutants"] - found["equivalent"]
    found["ours_share"] = round(found["killed_ours"] / max(told, 1), 4)
    found["plain_share"] = round(found["killed_plain"] / max(told, 1), 4)
    found["by_class"] = _classes(done)
    found["worst_covering_share"] = max(
        (round(r["covering"] / r["cases"], 3) for r in done), default=None
    )
    return found


def _classes(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the sums over operators of each failure class's counts, in order of the codes."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        for code, counts in row.get("by_class", {}).items():
            found.setdefault(code, Counter()).update(counts)
    ordered = sorted(found, key=lambda code: (code[0], int(code[1:])))
    return {code: dict(found[code]) for code in ordered}


def earlier(profile: Profile) -> dict[str, dict[str, Any]]:
    """Return the rows of an earlier run of the same profile on this kind of device."""
    try:
        results = json.loads(result_path("power-catalog").read_text())["results"]
    except (OSError, ValueError, KeyError):
        return {}
    if results.get("profile") != profile.value:
        return {}
    return {r["operator"]: r for r in results["operators"]}


def main() -> int:
    """Print a line an operator and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*", default=[])
    parser.add_argument("--profile", default="standard", choices=[p.value for p in Profile])
    parser.add_argument("--seconds", type=float, default=120.0, help="search, an operator")
    given = parser.parse_args()
    os.environ["CUASSAY_HOME"] = tempfile.mkdtemp(prefix="cuassay-power-")
    profile = Profile(given.profile)
    rows = earlier(profile) if given.operators else {}
    for name in given.operators or registry.names():
        try:
            rows[name] = row(name, profile=profile, search_s=given.seconds)
        except CuassayError as error:
            rows[name] = {"operator": name, "error": str(error)}
        print(line(rows[name]), flush=True)
        explain(rows)
        ordered = [rows[key] for key in sorted(rows)]
        results = {
            "profile": profile.value,
            "totals": totals(ordered),
            "not_measured": [n for n in registry.names() if n not in rows],
            "operators": ordered,
        }
        path = save("power-catalog", results)
    print(f"results: {path}; {totals(list(rows.values()))}")
    return 0


def line(found: dict[str, Any]) -> str:
    """Return one operator's figures."""
    if "error" in found:
        return f"{found['operator']:32s} {found['error'][:120]}"
    told = found["mutants"] - found["equivalent"]
    parts = [f"plain {found['killed_plain']}", f"theirs {found['killed_theirs']}"]
    parts += [f"ours {found['killed_ours']} of {told}", f"equivalent {found['equivalent']}"]
    parts += [f"cases {found['covering']} of {found['cases']}", f"{found['cpu_s']} s"]
    return f"{found['operator']:32s} " + ", ".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
