"""The GitHub Action, its steps run by bash as a runner would; and the pre-commit hook, for real.

`gh` is a stand-in that keeps comments in a file, `cuassay` the real command over a judge that
judges nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import fake_command

_ROOT = Path(__file__).resolve().parents[2]
_ACTION: dict[str, Any] = yaml.safe_load((_ROOT / "action.yml").read_text())
_HOOKS: list[dict[str, Any]] = yaml.safe_load((_ROOT / ".pre-commit-hooks.yaml").read_text())
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_GH = f"""#!{sys.executable}
import json, os, sys
store = os.environ["FAKE_GH"]
comments = json.load(open(store)) if os.path.exists(store) else []
words = sys.argv[1:]
if os.environ.get("GH_TOKEN") != "secret":
    sys.exit("no token")
if "--method" not in words:
    for comment in comments:
        if comment["body"].startswith("<!-- cuassay -->"):
            print(comment["id"])
    sys.exit()
method, path = words[words.index("--method") + 1:][:2]
field = words[words.index("--field") + 1].removeprefix("body=@")
body = open(field).read()
if method == "POST":
    comments.append({{"id": len(comments) + 1, "path": path, "body": body}})
else:
    (found,) = [c for c in comments if path.endswith(f"/{{c['id']}}")]
    found["body"] = body
json.dump(comments, open(store, "w"))
"""


class Runner:
    """Runs the steps of a composite action: expressions of env and if, bash, step outputs."""

    def __init__(self, work: Path, repository: Path, **inputs: str) -> None:
        self.work, self.repository = work, repository
        defaults = {name: str(spec["default"]) for name, spec in _ACTION["inputs"].items()}
        self.inputs = defaults | {"install": "", "token": "secret"} | inputs
        self.event: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.log = ""
        fake_command.install(work / "bin")
        (work / "bin" / "gh").write_text(_GH)
        (work / "bin" / "gh").chmod(0o755)

    def run(self) -> int:
        """Run the steps until one fails; return its exit code."""
        for step in _ACTION["runs"]["steps"]:
            if "if" in step and not self._value(step["if"]):
                continue
            code = self._step(step)
            if code:
                return code
        return 0

    def _step(self, step: dict[str, Any]) -> int:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "inputs reach scripts through the environment only"
        output = self.work / "output"
        output.write_text("")
        environment = {
            "PATH": f"{self.work / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.work),
            "CUASSAY_HOME": str(self.work / "home"),
            "FAKE_GH": str(self.work / "comments.json"),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.work / "summary.md"),
            **{k: self._text(str(v)) for k, v in step.get("env", {}).items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command,
            cwd=self.repository,
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        self.log += done.stdout + done.stderr
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"steps.{step['id']}.outputs.{name}"] = value
        return done.returncode

    def _text(self, value: str) -> str:
        return _EXPRESSION.sub(lambda found: str(self._value(found[1])), value)

    def _value(self, expression: str) -> str | bool:
        """Evaluate the few operators that the action uses: ||, &&, == and !=."""
        for sign in ("||", "&&"):
            if f" {sign} " in expression:
                first, second = expression.split(f" {sign} ", 1)
                value = self._value(first)
                return value if bool(value) is (sign == "||") else self._value(second)
        for sign in ("==", "!="):
            if f" {sign} " in expression:
                one, two = expression.split(f" {sign} ", 1)
                return (self._value(one) == self._value(two)) is (sign == "==")
        word = expression.strip()
        if word.startswith("'"):
            return word.strip("'")
        known = {
            **{f"inputs.{name}": value for name, value in self.inputs.items()},
            **self.outputs,
            **{f"github.{name}": value for name, value in self.event.items()},
        }
        return known.get(word, "")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "kernels").mkdir(parents=True)
    (root / "kernels" / "a.py").write_text("# accept\n")
    (root / "kernels" / "b.py").write_text("# accept\n")
    (root / "pyproject.toml").write_text('[tool.cuassay.kernels]\n"kernels/*.py" = "rmsnorm"\n')
    _git(root, "init", "-q", "-b", "trunk")
    _commit(root)
    return root


def _git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _commit(root: Path) -> str:
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "a commit")
    return _git(root, "rev-parse", "HEAD")


def _pull_request(runner: Runner, base: str) -> None:
    runner.event = {
        "event.pull_request.base.sha": base,
        "event.pull_request.number": "7",
        "repository": "them/kernels",
    }


def test_a_pull_request_gets_one_comment_that_is_kept_up_to_date(
    tmp_path: Path, repository: Path
) -> None:
    base = _git(repository, "rev-parse", "HEAD")
    (repository / "kernels" / "b.py").write_text("# reject\n")
    _commit(repository)
    runner = Runner(tmp_path / "work", repository)
    _pull_request(runner, base)
    assert runner.run() == 1, runner.log
    assert runner.outputs["steps.judge.outputs.exit-code"] == "1"
    assert "::error file=kernels/b.py,line=1,title=cuassay NUM002" in runner.log
    assert "❌ REJECTED" in (tmp_path / "work" / "summary.md").read_text()
    sarif = json.loads((repository / "cuassay-reports" / "cuassay.sarif").read_text())
    assert sarif["runs"][0]["results"]
    (comment,) = json.loads((tmp_path / "work" / "comments.json").read_text())
    assert comment["path"] == "repos/them/kernels/issues/7/comments"
    assert "1 REJECTED" in comment["body"]
    (repository / "kernels" / "b.py").write_text("# accept, repaired\n")
    _commit(repository)
    again = Runner(tmp_path / "work", repository)
    _pull_request(again, base)
    assert again.run() == 0, again.log
    (comment,) = json.loads((tmp_path / "work" / "comments.json").read_text())
    assert "## cuassay: 1 ACCEPTED" in comment["body"]


def test_nothing_to_judge_is_no_comment_and_a_fork_s_token_no_failure(
    tmp_path: Path, repository: Path
) -> None:
    base = _git(repository, "rev-parse", "HEAD")
    (repository / "README.md").write_text("x")
    _commit(repository)
    runner = Runner(tmp_path / "work", repository)
    _pull_request(runner, base)
    assert runner.run() == 0, runner.log
    assert not (tmp_path / "work" / "comments.json").exists()
    forked = Runner(tmp_path / "work", repository, token="", all="true")
    _pull_request(forked, base)
    assert forked.run() == 0, forked.log
    assert "::notice title=cuassay::the comment could not be written" in forked.log


def test_a_push_of_a_new_branch_judges_all(tmp_path: Path, repository: Path) -> None:
    runner = Runner(tmp_path / "work", repository)
    runner.event = {"event.before": "0" * 40}
    assert runner.run() == 0, runner.log
    assert "2 ACCEPTED" in (repository / "cuassay-reports" / "cuassay.md").read_text()
    assert not (tmp_path / "work" / "comments.json").exists()


def test_undecided_fails_unless_told_otherwise(tmp_path: Path, repository: Path) -> None:
    (repository / "kernels" / "a.py").write_text("# stop\n")
    assert Runner(tmp_path / "one", repository, all="true").run() == 3
    lenient = {"fail-on-inconclusive": "false"}
    runner = Runner(tmp_path / "two", repository, all="true", **lenient)
    assert runner.run() == 0
    assert "::warning title=cuassay::a kernel could not be decided" in runner.log
    assert Runner(tmp_path / "three", repository, since="nowhere").run() == 2


def test_inputs_cannot_run_anything(tmp_path: Path, repository: Path) -> None:
    evil = "$(touch pwned)`touch pwned`; touch pwned #"
    runner = Runner(
        tmp_path / "work", repository, since=evil, device=evil, require=evil, manifest=evil
    )
    assert runner.run() == 2
    assert not (repository / "pwned").exists()


def test_the_pre_commit_hook(tmp_path: Path, repository: Path) -> None:
    pytest.importorskip("pre_commit", reason="pre-commit is not installed")
    (hook,) = _HOOKS
    assert hook["language"] == "system"
    script = fake_command.install(tmp_path / "bin")
    config = {"repos": [{"repo": "local", "hooks": [hook]}]}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (repository / "kernels" / "a.py").write_text("# reject\n")
    _git(repository, "add", ".")
    environment = {
        "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PRE_COMMIT_HOME": str(tmp_path / "pre-commit"),
        "CUASSAY_HOME": str(tmp_path / "home"),
        "NO_COLOR": "1",
    }

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pre_commit", "run"]
        return subprocess.run(
            command, cwd=repository, env=environment, capture_output=True, text=True, check=False
        )

    done = run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "REJECTED  a" in done.stdout
    assert "ACCEPTED  b" not in done.stdout  # it was not touched
    (repository / "kernels" / "a.py").write_text("# accept again\n")
    _git(repository, "add", ".")
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
