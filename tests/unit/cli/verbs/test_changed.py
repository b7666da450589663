"""`cuassay changed`: which kernels a change concerns, and one result for all of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.cli.manifest import read_manifest
from cuassay.cli.verbs.changed import worst
from cuassay.errors import UsageError
from tests.support import fake_judge

_TABLE = """
[tool.cuassay.kernels]
"kernels/good.py" = "rmsnorm"
"kernels/attention/*.py" = "attention"
"deep/**/k.py" = "problems/scale.py"
"folders/a/kernel.py" = "problems/folder"
"""


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    fake_judge.install(monkeypatch)
    root = tmp_path / "repository"
    for name in ("kernels/good.py", "kernels/attention/b.py", "kernels/attention/x/c.py",
                 "deep/k.py", "deep/down/k.py", "folders/a/kernel.py", "folders/a/part.cuh",
                 "problems/scale.py", "problems/folder/definition.json", "other.py"):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("# accept\n")
    (root / "pyproject.toml").write_text(_TABLE)
    monkeypatch.chdir(root)
    return root


def _touched(root: Path, *names: str) -> list[str]:
    found = read_manifest(None, root).touched(tuple(root / name for name in names))
    return [path.relative_to(root).as_posix() for path in found]


def test_what_a_change_concerns(repository: Path) -> None:
    assert _touched(repository, "other.py", "no/such.py") == []
    assert _touched(repository, "kernels/good.py") == ["kernels/good.py"]
    assert _touched(repository, "kernels/attention/b.py", "kernels/attention/x/c.py") == [
        "kernels/attention/b.py"
    ]
    assert _touched(repository, "problems/scale.py") == ["deep/down/k.py", "deep/k.py"]
    assert _touched(repository, "problems/folder/definition.json") == ["folders/a/kernel.py"]
    assert _touched(repository, "folders/a/part.cuh") == ["folders/a/kernel.py"]
    assert len(_touched(repository, "pyproject.toml")) == 5
    (repository / "kernels/good.py").unlink()
    assert _touched(repository, "kernels/good.py") == []


def test_problems_are_names_or_places(repository: Path) -> None:
    found = read_manifest(None, repository)
    assert found.problem_of(repository / "kernels/good.py") == "rmsnorm"
    assert found.problem_of(repository / "deep/k.py") == str(repository / "problems/scale.py")
    assert found.problem_of(repository / "other.py") is None
    assert found.problem_of(Path("/elsewhere/kernels/good.py")) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no kernels are listed"),
        ("[tool.cuassay.kernels]\n'a.py' = 3", "expected a path inside the repository"),
        ("[tool.cuassay.kernels]\n'../a.py' = 'p'", "expected a path inside the repository"),
        ("[tool.cuassay]\nkernels = 3", "kernels is a int, expected a table"),
        ("[tool", "cannot be read"),
    ],
)
def test_a_list_that_is_none(text: str, part: str, repository: Path) -> None:
    (repository / ".git").mkdir()
    (repository / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=part):
        read_manifest(None, repository)


def test_a_list_of_its_own_comes_first(repository: Path) -> None:
    own = repository / "cuassay-kernels.toml"
    own.write_text("[kernels]\n'other.py' = 'swiglu'\n")
    assert read_manifest(None, repository / "deep").kernels() == (repository / "other.py",)
    empty = repository / "empty.toml"
    empty.write_text("")
    with pytest.raises(UsageError, match="lists no kernels"):
        read_manifest(empty, repository)


def test_one_result_for_all(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "kernels/attention/b.py").write_text("# reject\n")
    (repository / "deep/k.py").write_text("# stop\n")
    arguments = ["kernels/good.py", "kernels/attention/b.py", "deep/k.py"]
    assert main(["changed", *arguments, "--format", "sarif=o.sarif", "--format", "markdown"]) == 1
    out, err = capsys.readouterr()
    assert "## cuassay: 1 REJECTED, 1 NO VERDICT, 1 ACCEPTED" in out
    assert "| kernels/attention/b.py | ❌ REJECTED" in out
    assert "deep/k.py: the reference fails" in err
    run = json.loads((repository / "o.sarif").read_text())["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert main(["changed", "deep/k.py", "-q"]) == 3
    assert main(["changed", "kernels/good.py", "-q"]) == 0
    assert main(["changed", "other.py"]) == 0
    assert "no listed kernel is concerned" in capsys.readouterr().err


def test_changes_since_a_commit(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "trunk")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    git("checkout", "-q", "-b", "topic")
    (repository / "kernels/good.py").write_text("# reject\n")
    git("commit", "-q", "-a", "-m", "two")
    assert main(["changed", "--since", "trunk", "-q"]) == 1
    assert capsys.readouterr().out.startswith("REJECTED good")
    assert main(["changed", "--since", "HEAD", "-q"]) == 0
    assert main(["changed", "--since", "nowhere", "-q"]) == 2
    assert "fetch-depth: 0" in capsys.readouterr().err
    assert main(["changed", "--since", "--output=x"]) == 2
    assert main(["changed"]) == 2
    assert main(["changed", "--all", "--json"]) == 2
    assert main(["changed", "--all", "-q"]) == 1


def test_the_worst_of_several_codes() -> None:
    assert [worst(c) for c in ([], [0, 0], [0, 3], [3, 2], [2, 3, 1])] == [0, 0, 3, 2, 1]
