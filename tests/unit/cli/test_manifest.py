"""Which kernel of a repository belongs to which problem, and what a change concerns."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.cli.manifest import Manifest, read_manifest
from cuassay.errors import UsageError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("kernels/a.py", "kernels/deep/b.py", "kernels/norm/kernel.py", "p/scale.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.cuassay.kernels]\n"kernels/a.py" = "p/scale.py:scale"\n'
        '"kernels/*/kernel.py" = "rmsnorm"\n"kernels/**/*.py" = "softmax"\n'
    )
    return tmp_path


def _manifest(repository: Path) -> Manifest:
    return read_manifest(None, repository / "kernels" / "deep")


def test_the_first_pattern_that_matches_holds(repository: Path) -> None:
    manifest = _manifest(repository)
    problems = {
        "kernels/a.py": f"{repository}/p/scale.py:scale",  # a file there: an absolute path
        "kernels/norm/kernel.py": "rmsnorm",
        "kernels/deep/b.py": "softmax",
        "kernels/c.py": "softmax",
        "other.py": None,
    }
    found = {name: manifest.problem_of(repository / name) for name in problems}
    assert found == problems
    assert manifest.problem_of(Path("/elsewhere/kernels/a.py")) is None


def test_a_star_stays_inside_one_folder(tmp_path: Path) -> None:
    manifest = Manifest(path=tmp_path / "pyproject.toml", problems=(("k/*.py", "rmsnorm"),))
    assert manifest.problem_of(tmp_path / "k" / "a.py") == "rmsnorm"
    assert manifest.problem_of(tmp_path / "k" / "deep" / "a.py") is None
    assert manifest.problem_of(tmp_path / "k" / "a_py") is None


def test_a_change_concerns_a_kernel_its_folder_and_its_problem(repository: Path) -> None:
    manifest = _manifest(repository)

    def touched(*changed: str) -> list[str]:
        found = manifest.touched(tuple(repository / name for name in changed))
        return [str(path.relative_to(repository)) for path in found]

    assert touched("kernels/a.py") == ["kernels/a.py"]
    assert touched("p/scale.py") == ["kernels/a.py"]
    assert touched("kernels/norm/helper.cuh") == ["kernels/norm/kernel.py"]
    assert touched("kernels/deep/helper.cuh") == []
    assert touched("README.md") == []
    assert len(touched("pyproject.toml")) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.other]\nx = 1\n", "lists no kernels"),
        ("[tool.cuassay]\nkernels = 3\n", "kernels is a int, expected a table"),
        ('[tool.cuassay.kernels]\n"/abs.py" = "p"\n', "expected a path inside the repository"),
        ('[tool.cuassay.kernels]\n"a.py" = ""\n', "expected a path inside the repository"),
        ("[tool.cuassay.kernels\n", "cannot be read"),
    ],
)
def test_a_mistake_is_one_message(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as failure:
        read_manifest(file, tmp_path)
    assert message in str(failure.value)


def test_nothing_is_looked_for_above_the_repository(repository: Path) -> None:
    inner = repository / "inner"
    (inner / ".git").mkdir(parents=True)
    with pytest.raises(UsageError, match="no kernels are listed"):
        read_manifest(None, inner)
