"""The plan of an audit: keys that follow from contents, names told apart, wanted pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.audit.found import CandidatePair, FoundCandidate, FoundProblem, Tree
from cuassay.audit.plan import Plan, WantedCandidates, make_plan, problem_key, wanted_problems
from cuassay.errors import UnknownNameError


def _tree(root: Path, *kernels: str) -> Tree:
    """Write problems `softmax` and `rms_norm` and kernels such as `softmax/a/k.py`."""
    problems = {}
    for name in ("softmax", "rms_norm"):
        file = root / name / "problem.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        problems[name] = FoundProblem(
            where=str(file), name=name, folder=file.parent, format="native", files=(file,)
        )
    pairs = []
    for kernel in kernels:
        file = root / kernel
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"kernel {file.name}")
        candidate = FoundCandidate(
            where=str(file), name=file.stem, folder=file.parent, files=(file,),
            author=file.parent.name,
        )  # fmt: skip
        pairs.append(CandidatePair(problem=problems[kernel.split("/")[0]], candidate=candidate))
    return Tree(problems=tuple(problems.values()), pairs=tuple(pairs), oddities=())


_ALL = WantedCandidates()


def _plan(
    root: Path, tree: Tree, choice: WantedCandidates = _ALL, *, profile: str = "quick"
) -> Plan:
    return make_plan(tree, choice, root=str(root), judged_as={"profile": profile})


def test_a_key_follows_from_what_is_read_and_how_it_is_judged(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "softmax/a/k.py", "softmax/b/other.py")
    first, second = _plan(tmp_path, tree).planned
    assert first.problem_key == second.problem_key
    assert first.item.key != second.item.key
    assert _plan(tmp_path, tree).planned == (first, second)
    deeper = _plan(tmp_path, tree, profile="deep").planned[0]
    assert (deeper.item.id, deeper.item.key == first.item.key) == (first.item.id, False)
    (tmp_path / "softmax/a/k.py").write_text("changed")
    changed, same = _plan(tmp_path, tree).planned
    assert changed.item.key != first.item.key
    assert changed.problem_key == first.problem_key
    assert same == second


def test_a_tree_that_was_moved_keeps_its_keys(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    first = _plan(here, _tree(here, "softmax/a/k.py")).planned[0]
    second = _plan(there, _tree(there, "softmax/a/k.py")).planned[0]
    assert (first.item.id, first.item.key) == (second.item.id, second.item.key)


def test_candidates_of_one_name_are_told_apart_and_a_pair_is_judged_once(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "softmax/a/k.py", "softmax/b/k.py", "rms_norm/a/k.py", "rms_norm/a/k.py")
    plan = _plan(tmp_path, tree)
    assert [item.candidate_name for item in plan.items] == ["k (a/k.py)", "k (b/k.py)", "k"]
    assert "1 pairs stand twice" in plan.oddities[0].message
    assert len(plan.oddities) == 3


def test_a_choice_keeps_what_it_names_and_counts_the_rest(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "softmax/a/one.py", "softmax/b/two.py", "rms_norm/a/three.py")

    def names(**choice: object) -> list[str]:
        plan = _plan(tmp_path, tree, WantedCandidates(**choice))  # type: ignore[arg-type]
        assert len(plan.items) + plan.left_out == 3
        return [item.candidate_name for item in plan.items]

    assert names(families=("softmax",)) == ["one", "two"]
    assert names(authors=("a",)) == ["one", "three"]
    assert names(only=("t*",)) == ["two", "three"]
    assert names(only=("*/softmax/*",), authors=("b",)) == ["two"]
    assert names(limit=1) == ["one"]
    for choice in ({"families": ("moe",)}, {"authors": ("nobody",)}):
        with pytest.raises(UnknownNameError, match="in this tree"):
            names(**choice)


def test_a_choice_in_words_is_that_of_the_command_line() -> None:
    choice = WantedCandidates(only=("k*",), families=("norm",), authors=("x",), limit=0)
    assert choice.words() == ("--only k*", "--family norm", "--author x", "--limit 0")
    assert WantedCandidates().words() == ()


def test_problems_are_wanted_by_name_and_family_each_once(tmp_path: Path) -> None:
    tree = _tree(tmp_path)
    twice = Tree(problems=tree.problems * 2, pairs=(), oddities=())
    everything = wanted_problems(twice, WantedCandidates())
    assert [one.name for one in everything] == ["softmax", "rms_norm"]
    (norm,) = wanted_problems(tree, WantedCandidates(families=("norm",)))
    assert norm.name == "rms_norm"
    assert wanted_problems(tree, WantedCandidates(only=("soft*",), limit=0)) == ()
    softmax = everything[0]
    keys = {
        problem_key(softmax, root=str(tmp_path), salt="a"),
        problem_key(softmax, root=str(tmp_path), salt="b"),
        problem_key(norm, root=str(tmp_path), salt="a"),
    }
    assert len(keys) == 3


def test_a_file_that_cannot_be_read_still_has_a_key(tmp_path: Path) -> None:
    tree = _tree(tmp_path, "softmax/a/k.py")
    (tmp_path / "softmax/a/k.py").unlink()
    assert _plan(tmp_path, tree).items[0].key
