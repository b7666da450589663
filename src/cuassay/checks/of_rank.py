"""Of which rank an element of an output is, where several ranks share a call."""

from __future__ import annotations

from dataclasses import replace

from cuassay.model.axes import shape_of
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem
from cuassay.model.ranks import AXIS, Lies, parts


def with_rank(finding: Finding, problem: Problem) -> Finding:
    """Return a finding that says which rank returned the worst element, where it names one."""
    where = finding.where
    spec = next((one for one in problem.outputs if one.name == where.output), None)
    if problem.ranks is None or spec is None or not where.index or AXIS not in where.axes:
        return finding
    rank = where.index[0]
    if problem.ranks.lies(spec.name) is Lies.SPLIT:
        rows = shape_of(spec.shape, where.axes)[0]
        cuts = parts(rows, where.axes[AXIS])
        rank = next(place for place, (start, end) in enumerate(cuts) if start <= rank < end)
    return replace(finding, details=(("returned by", f"rank {rank}"), *finding.details))
