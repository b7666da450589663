"""The candidates of a tree: told by where they stand, by what they hold, and by their names."""

from __future__ import annotations

import json
from pathlib import Path

from cuassay.audit.candidates import candidates_in
from cuassay.audit.found import FoundCandidate
from cuassay.audit.walk import walk
from cuassay.model.audit import Oddity

_NEW = "class ModelNew(nn.Module): ...\n"


def _found(root: Path, files: dict[str, str]) -> dict[str, FoundCandidate]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    oddities: list[Oddity] = []
    candidates = candidates_in(
        list(walk(root, oddities)),
        problem_folders={root / "p"},
        problem_files={root / "p" / "reference.py"},
        oddities=oddities,
    )
    assert oddities == []
    return {str(Path(one.where).relative_to(root)): one for one in candidates}


def test_sources_in_a_folder_of_candidates(tmp_path: Path) -> None:
    found = _found(
        tmp_path,
        {
            "p/reference.py": "x",
            "p/candidates/a.py": "x",
            "p/candidates/_private.py": "x",
            "p/candidates/utils.py": "x",
            "p/candidates/me/b.cu": "x",
            "p/candidates/me/b.launch.json": "{}",
            "p/candidates/me/deep/c.py": "x",
            "p/kernel_fast.py": "x",
            "p/notes.py": "x",
        },
    )
    assert set(found) == {"p/candidates/a.py", "p/candidates/me/b.cu", "p/kernel_fast.py"}
    assert found["p/candidates/me/b.cu"].author == "me"
    assert {file.name for file in found["p/candidates/me/b.cu"].files} == {"b.cu", "b.launch.json"}
    assert found["p/candidates/a.py"].author == ""


def test_a_folder_with_a_whole_kernel_is_one_candidate(tmp_path: Path) -> None:
    solution = json.dumps({"name": "fast", "definition": "norm", "author": "m1"})
    found = _found(
        tmp_path,
        {
            "p/reference.py": "x", "p/solutions/one/solution.json": solution,
            "p/solutions/one/k.cu": "x", "p/solutions/one/deep/k.py": "x",
            "p/solutions/one/notes.txt": "x", "p/solutions/two/kernel.py": "# author: m2\n",
        },
    )  # fmt: skip
    assert set(found) == {"p/solutions/one", "p/solutions/two"}
    one, two = found["p/solutions/one"], found["p/solutions/two"]
    assert (one.name, one.claims, one.author) == ("fast", "norm", "m1")
    assert {file.name for file in one.files} == {"solution.json", "k.cu", "k.py"}
    assert (two.name, two.author) == ("two", "m2")


def test_what_a_file_holds_makes_it_one_wherever_it_stands(tmp_path: Path) -> None:
    found = _found(
        tmp_path,
        {
            "level1/19_ReLU.py": _NEW,
            "runs/level_2_problem_7_sample_0.py": _NEW,
            "sub/main.py": "#!POPCORN leaderboard grayscale\n",
            "any/x.json": json.dumps({"spec": {}, "sources": [], "definition": "norm"}),
            "any/y.json": json.dumps({"name": "x"}),
            "any/plain.py": "x = 1\n",
        },
    )
    assert {name: one.claims for name, one in found.items()} == {
        "level1/19_ReLU.py": "level1/19_ReLU",
        "runs/level_2_problem_7_sample_0.py": "level_2_problem_7",
        "sub/main.py": "grayscale",
        "any/x.json": "norm",
    }
    assert found["sub/main.py"].name == "sub/main"  # `main` alone would tell nobody anything
