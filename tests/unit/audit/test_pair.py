"""Which problem a candidate is for: what it names, else where it stands, else nobody's."""

from __future__ import annotations

from pathlib import Path

from cuassay.audit.found import FoundCandidate, FoundProblem
from cuassay.audit.pair import Pairing
from cuassay.model.audit import Oddity

_TREE = Path("/tree")


def _problem(name: str, folder: str, *, aliases: tuple[str, ...] = ()) -> FoundProblem:
    place = _TREE / folder
    return FoundProblem(
        where=str(place / f"{name}.py"), name=name, folder=place, format="native",
        files=(place / f"{name}.py",), aliases=aliases,
    )  # fmt: skip


def _candidate(file: str, *, claims: str = "") -> FoundCandidate:
    path = _TREE / file
    return FoundCandidate(
        where=str(path), name=path.stem, folder=path.parent, files=(path,), claims=claims
    )


def _paired(
    problems: list[FoundProblem], candidate: FoundCandidate
) -> tuple[FoundProblem | None, str]:
    oddities: list[Oddity] = []
    pairs = Pairing(problems).pair([candidate], oddities)
    return (pairs[0].problem, "") if pairs else (None, oddities[0].message)


def test_a_candidate_belongs_to_the_nearest_problem_above_it() -> None:
    outer, inner = _problem("outer", "."), _problem("inner", "inner")
    problems = [outer, inner]
    assert _paired(problems, _candidate("inner/candidates/k.py")) == (inner, "")
    assert _paired(problems, _candidate("other/k.py")) == (outer, "")


def test_of_two_problems_in_a_folder_its_own_name_decides() -> None:
    scale, norm = _problem("scale", "set"), _problem("norm", "set")
    assert _paired([scale, norm], _candidate("set/norm.py")) == (norm, "")
    found, why = _paired([scale, norm], _candidate("set/kernel.py"))
    assert found is None
    assert why.startswith("names no problem and stands beside none")


def test_what_it_names_counts_more_than_where_it_stands() -> None:
    scale, norm = _problem("scale", "scale"), _problem("norm", "norm", aliases=("rms",))
    assert _paired([scale, norm], _candidate("scale/k.py", claims="rms")) == (norm, "")
    # A name that no problem of the tree has: where it stands tells.
    assert _paired([scale, norm], _candidate("scale/k.py", claims="scael")) == (scale, "")


def test_of_several_problems_of_a_name_the_nearest_is_meant() -> None:
    first, second = _problem("scale", "a/x"), _problem("scale", "b/x")
    problems = [first, second]
    assert _paired(problems, _candidate("b/kernels/k.py", claims="scale")) == (second, "")
    found, why = _paired(problems, _candidate("c/k.py", claims="scale"))
    assert found is None
    assert why == "is for 'scale', which 2 problems of the tree are called"


def test_a_name_that_nobody_has_is_told_with_the_nearest_one() -> None:
    found, why = _paired([_problem("scale", "set")], _candidate("else/k.py", claims="scael"))
    assert found is None
    assert why.startswith("is for 'scael', which the tree does not hold; did you mean 'scale'")
