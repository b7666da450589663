"""Every verb says its exit codes, and ends with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cuassay.cli.exit_codes import EXIT_CODES, page
from cuassay.cli.main import cli, main
from cuassay.errors import CannotJudgeError, ProblemError
from cuassay.model.verdict import Verdict
from tests.support import fake_engine, samples


def _verbs(group: click.Group = cli, *words: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _verbs(command, *words, name)
        else:
            yield " ".join((*words, name))


def test_every_verb_has_its_codes_and_no_other_is_listed() -> None:
    assert set(EXIT_CODES) == set(_verbs())
    assert {code for codes in EXIT_CODES.values() for code in codes} == {0, 1, 2, 3}


@pytest.mark.parametrize("verb", EXIT_CODES)
def test_help_says_them_and_is_0(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb.split(), "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for code, meaning in EXIT_CODES[verb].items():
        assert f"{code}: {meaning}" in told
    assert f"`{verb}`" in page()


@pytest.mark.parametrize("verb", EXIT_CODES)
def test_an_unknown_option_is_2_with_one_message(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb.split(), "--no-such-option"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cuassay: ")
    assert f"Try 'cuassay {verb} --help'." in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "call",
    [
        "check",
        "check no/such/file.py --problem rmsnorm",
        "check tests --device tpu --problem rmsnorm",
        "changed no/such/file.py --since nowhere",
        "audit no/such/tree",
        "report no-such-run",
        "replay no-such-run/F1",
        "report no-such-run --open",
        "explain NUM999",
        "report no-such --diff no-such-either",
        "problem show",
        "problem power",
        "run no/such/kernel.py",
        "loop train no/such/file.py --site embedding_grad",
        "loop infer no/such/file.py --site attention_decode",
        "loop blame no/such/config.py",
        "loop capture os:getcwd no/such/script.py",
        "guard recertify no/such/folder",
        "guard export",
        "certificate sign no-such-run",
        "certificate covers no/such/cert no/such/kernel.py",
        "certificate revoke",
        "serve --workers 0",
    ],
)
@pytest.mark.usefixtures("judge_here")
def test_what_cannot_be_is_2_with_one_message(
    call: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    assert main(call.split()) == 2
    err = capsys.readouterr().err
    assert "cuassay: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(samples.accepted(), 0), (samples.rejected(), 1), (samples.inconclusive(), 3)],
)
def test_check_ends_as_its_verdict(
    verdict: Verdict, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine.install(monkeypatch, verdict)
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x):\n    return x\n")
    assert main(["check", str(kernel), "--problem", "rmsnorm"]) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProblemError("axes are missing"), 2),
        (CannotJudgeError("no memory"), 3),
        (RuntimeError("x"), 3),
    ],
)
@pytest.mark.parametrize("call", ["check {} --problem rmsnorm", "problem show rmsnorm"])
def test_what_stops_a_trial_is_2_or_3(
    call: str,
    error: Exception,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_engine.install(monkeypatch, error=error)
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x):\n    return x\n")
    assert main(call.format(kernel).split()) == code
    assert "cuassay: " in capsys.readouterr().err


def test_an_interruption_is_130(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_engine.install(monkeypatch, error=KeyboardInterrupt())
    kernel = tmp_path / "kernel.py"
    kernel.write_text("def run(x):\n    return x\n")
    assert main(["check", str(kernel), "--problem", "rmsnorm"]) == 130
