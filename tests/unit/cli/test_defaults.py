"""What a repository states once for every `cuassay check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.cli.defaults import Defaults, read_defaults
from cuassay.cli.main import main
from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.verdict import Profile
from tests.support import fake_engine, samples

_STATED = """\
[tool.cuassay]
profile = "quick"
problem = "rmsnorm"
require = ["layouts", "streams"]

[tool.cuassay.kernels]
"kernels/scale*.py" = "problems/scale.py"
"""


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    (tmp_path / ".git").mkdir()
    for name in ("kernels/plain.py", "kernels/scale_fast.py", "problems/scale.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("def run(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_nearest_file_says_what_holds(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_defaults("kernels/plain.py") == Defaults()
    file = repository / "pyproject.toml"
    file.write_text(_STATED)
    stated = read_defaults("kernels/plain.py")
    assert stated == Defaults(
        path=file, profile="quick", problem="rmsnorm", require="layouts,streams"
    )
    monkeypatch.chdir(repository / "kernels")
    assert read_defaults("plain.py") == stated
    listed = read_defaults("scale_fast.py::run")
    assert listed.problem == str(repository / "problems" / "scale.py")


def test_a_file_beside_the_kernel_says_nothing(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "kernels" / "pyproject.toml").write_text('[tool.cuassay]\nproblem = "mine.py"\n')
    assert read_defaults("kernels/plain.py") == Defaults()
    elsewhere = repository / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (repository.parent / "pyproject.toml").write_text('[tool.cuassay]\nprofile = "deep"\n')
    assert read_defaults("../kernels/plain.py") == Defaults()  # the root of the repository ends it


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('profil = "quick"', "profil"),
        ('profile = "fast"', "fast"),
        ("require = 3", "expected a list of texts"),
        ("problem = []", "expected a text"),
        ("profile = ", "cannot be read"),
    ],
)
def test_a_mistake_has_one_message(repository: Path, text: str, said: str) -> None:
    (repository / "pyproject.toml").write_text(f"[tool.cuassay]\n{text}\n")
    with pytest.raises(UsageError, match=said):
        read_defaults("kernels/plain.py")


def test_an_unknown_key_lists_the_known_ones(repository: Path) -> None:
    (repository / "pyproject.toml").write_text('[tool.cuassay]\nprofiles = "quick"\n')
    with pytest.raises(UnknownNameError, match="kernels, problem, profile, require"):
        read_defaults("kernels/plain.py")


def test_options_go_before_what_is_stated(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "pyproject.toml").write_text(_STATED)
    engine = fake_engine.install(monkeypatch, samples.accepted())
    assert main(["check", "kernels/plain.py"]) == 0
    assert "[tool.cuassay] of" in capsys.readouterr().err
    assert main(["check", "kernels/scale_fast.py", "--profile", "standard"]) == 0
    assert main(["check", "kernels/plain.py", "--problem", "swiglu", "--require", "graphs"]) == 0
    first, second, third = engine.jobs
    assert (first.problem, first.profile, first.require) == (
        "rmsnorm", Profile.QUICK, ("layouts", "streams"),
    )  # fmt: skip
    assert second.problem == str(repository / "problems" / "scale.py")
    assert second.profile is Profile.STANDARD
    assert (third.problem, third.require) == ("swiglu", ("graphs",))
