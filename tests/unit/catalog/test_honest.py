"""Every operator: truth is float64 and decides, and the rewrites lie within its error budget."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from cuassay.catalog import registry
from cuassay.checks.numeric.relation_guess import relations
from cuassay.formats.execute import load_reference
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.judge.trial import open_trial
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.problem import Problem
from cuassay.model.verdict import Profile
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import make_truth
from tests.zoo import manifest_catalog
from tests.zoo.probes import import_candidate, outputs_of

HONEST = Path(manifest_catalog.__file__).parent / "honest"
OF_RANKS = HONEST.parent / "ranks" / "twins"
STYLES = manifest_catalog.HONEST_CATALOG


def _case(problem: Problem) -> Case:
    """Return a cheap case with every axis at least 2."""
    cases = plan_cases(problem, "small", profile=Profile.QUICK, root_seed=11)
    return min(cases, key=lambda case: sum(case.axes.values()))


@pytest.mark.parametrize("name", sorted(STYLES))
def test_rewrites_are_within_the_error_budget(name: str) -> None:
    problem = registry.get(name)
    reference, case = load_reference(problem).call, _case(problem)

    def inputs() -> list[object]:
        return list(materialise(problem, case, device=CPU).values())

    truth = make_truth(reference, inputs(), problem.outputs, seed=3)  # type: ignore[arg-type]
    assert truth.kind == "float64", truth.reason
    assert "plain relative noise" not in truth.reason
    assert truth.ill_conditioned == ""
    rewrites = {style: HONEST / f"{name}_{style}.py" for style in STYLES[name].split()}
    calls = {style: import_candidate(path).run for style, path in rewrites.items()}
    for style, call in {"reference": reference, **calls}.items():
        outputs = outputs_of(call(*inputs()))
        for out, known in zip(outputs, truth.outputs, strict=True):
            found = compare(out, known)
            assert found.passed, (style, known.name, found.share, found.statistics)


DECLARING = [name for name in registry.names() if registry.get(name).relations]


@pytest.mark.parametrize("name", DECLARING)
def test_declared_relations_hold_on_the_reference(name: str) -> None:
    problem = registry.get(name)
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=3
    )
    declared = tuple(islice(relations(trial), len(problem.relations)))
    assert declared == problem.relations


def test_every_operator_has_a_rewrite_on_file() -> None:
    files = {path.stem for folder in (HONEST, OF_RANKS) for path in folder.glob("*.py")}
    for name in registry.names():
        styles = STYLES.get(name, "").split()
        listed = {f"{name}_{style}" for style in styles}
        assert listed <= files
        assert listed or any(stem.startswith(name) for stem in files) or name.endswith("_64k")


def test_workloads_and_growth_targets_are_legal() -> None:
    for name in registry.names():
        problem = registry.get(name)
        # RANK002 takes every number of ranks, listed or not.
        assert len(problem.workloads) >= (3 if problem.ranks is None else 2), name
        assert problem.description, name
        axes = {axis.name: axis for axis in problem.var_axes()}
        for axis, size in problem.growth_target.items():
            assert size <= (axes[axis].maximum or size), (name, axis)
