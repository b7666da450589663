"""`--format NAME[=FILE]`: the forms that a result can take, and where each one goes."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuassay import __version__
from cuassay.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from cuassay.model.candidate import Candidate
    from cuassay.report.judged import Judged
    from cuassay.report.rules import Rule

FORMATS = ("terminal", "json", "agent", "html", "sarif", "junit", "github", "markdown")
_ONE_ONLY = ("json", "agent", "html")  # forms that hold a single trial
_TITLES = {
    "json": "JSON",
    "agent": "Agent",
    "html": "HTML",
    "sarif": "SARIF",
    "junit": "JUnit",
    "github": "GitHub",
    "markdown": "Markdown",
}
_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A form of the result and its file; None is stdout."""

    form: str
    path: Path | None = None


def targets(values: Sequence[str], *, as_json: bool, html: str | None) -> tuple[Target, ...]:
    """Return what --format, --json and --html ask for; one of them is stdout's.

    Raises UsageError where two ask for stdout, or where a file cannot be made there.
    """
    given = [*values, *(["json"] if as_json else [])]
    found = []
    for value in given:
        form, separator, file = value.partition("=")
        if form not in FORMATS:
            raise UnknownNameError("format in --format", form, FORMATS)
        if separator and (not file or form == "terminal"):
            raise UsageError(
                f"--format {value}: expected a file after '='"
                + ("; the terminal form goes to stdout only" if form == "terminal" else "")
            )
        path = writable(file, option=f"--format {value}") if separator else None
        found.append(Target(form=form, path=path))
    if html is not None:
        found.append(Target(form="html", path=writable(html, option=f"--html {html}")))
    to_stdout = list(dict.fromkeys(target.form for target in found if target.path is None))
    if len(to_stdout) > 1:
        raise UsageError(
            f"{' and '.join(to_stdout)} both go to stdout, which takes one form; give the others "
            f"a file: --format {to_stdout[1]}=FILE"
        )
    if not to_stdout:
        found.append(Target(form="terminal"))
    return tuple(dict.fromkeys(found))


def writable(file: str, *, option: str) -> Path:
    """Return the path if a file can be put there: said before a long trial, not after it.

    Raises UsageError where it cannot.
    """
    path = Path(file).expanduser()
    if path.is_dir():
        raise UsageError(f"{option} is a folder, expected a file; try {path / 'report.html'}")
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"{option}: the folder {path.absolute().parent} does not exist; make it first"
        )
    return path


def emit(trials: Sequence[Judged], wanted: Sequence[Target], *, quiet: bool) -> None:
    """Write every form that is asked for, files first.

    A file that cannot be written costs one message, never the verdict. Raises UsageError where
    a form that holds one trial is asked for several.
    """
    for target in wanted:
        if target.form in _ONE_ONLY and len(trials) != 1:
            raise UsageError(
                f"--format {target.form} holds one trial, got {len(trials)}; name one run"
            )
    for target in wanted:
        if target.path is not None and _write(target.path, target.form, trials) and not quiet:
            say(f"{_TITLES[target.form]} report: {target.path}")
    for target in wanted:
        if target.path is None and target.form != "terminal":
            click.echo(render(target.form, trials))
            if target.form == "github":
                _step_summary(trials)


def render(form: str, trials: Sequence[Judged]) -> str:
    """Return one form of some trials as text."""
    match form:
        case "json":
            from cuassay.report.json_report import document, error_document

            (judged,) = trials
            if judged.verdict is not None:
                return dumped(document(judged.verdict))
            kind = "usage" if judged.exit_code == 2 else "cannot_judge"
            return dumped(error_document(judged.stopped, kind=kind, exit_code=judged.exit_code))
        case "agent":
            from cuassay.report.agent import agent_document, agent_error

            (judged,) = trials
            if judged.verdict is not None:
                return dumped(agent_document(judged.verdict))
            return dumped(agent_error(judged.stopped, exit_code=judged.exit_code))
        case "html":
            from cuassay.report.html import verdict

            (judged,) = trials
            if judged.verdict is None:
                raise UsageError(f"{judged.name} has no verdict to show: {judged.reason}")
            return verdict.render(judged.verdict, rules=rule)
        case "sarif":
            from cuassay.report.sarif import sarif

            return dumped(sarif(trials, rules=rule, version=__version__))
        case "junit":
            from cuassay.report.junit import junit

            return junit(trials).rstrip()
        case "github":
            from cuassay.report.github import log

            return log(trials)
        case "markdown":
            from cuassay.report.markdown import markdown

            return markdown(trials).rstrip()
    raise UnknownNameError("form", form, FORMATS)


def rule(code: str) -> Rule:
    """Return the documentation of a check, or its bare code where there is no page.

    CUASSAY_DOCS is the address of a documentation site, as `make docs` builds it.
    """
    from cuassay.checks import registry
    from cuassay.report.clean import one_line
    from cuassay.report.rules import Rule

    try:
        page = registry.page(code)
    except UnknownNameError:
        return Rule(code=one_line(code, limit=40), title=one_line(code, limit=40))
    site = os.environ.get("CUASSAY_DOCS", "").rstrip("/")
    known = site.startswith(("https://", "http://"))
    address = f"{site}/checks/{page.code}/" if known else ""
    return Rule(code=page.code, title=page.title, sections=page.sections, address=address)


def dumped(document: Any) -> str:
    """Return a document as JSON text that a person can read too."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def root() -> Path:
    """Return the repository that the working folder is in, else the working folder."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def kept_candidate(run: Path) -> Candidate | None:
    """Return the candidate that a run folder keeps, or None where it keeps none."""
    from cuassay.model import serial
    from cuassay.model.candidate import Candidate

    try:
        found: Candidate = serial.loads(Candidate, (run / "candidate.json").read_text())
    except (OSError, UnicodeDecodeError, UsageError):
        return None
    return found


def _step_summary(trials: Sequence[Judged]) -> None:
    """Append the job summary where GitHub Actions asks for it."""
    from cuassay.report.github import summary

    file = os.environ.get(_SUMMARY)
    if not file:
        return
    try:
        with open(file, "a", encoding="utf-8") as out:
            out.write(summary(trials))
    except OSError as error:
        say(f"cuassay: the job summary {file} was not written: {error.strerror or error}")


def _write(path: Path, form: str, trials: Sequence[Judged]) -> bool:
    """Write one file in one step; say so where that fails."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_text(render(form, trials) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        try:
            os.unlink(temporary)
        except OSError as left:
            if left.errno not in (errno.ENOENT, errno.EROFS, errno.EACCES, errno.ENOTDIR):
                raise
        why = error.strerror or str(error)
        option = f"--html {path}" if form == "html" else f"--format {form}={path}"
        say(f"cuassay: {option} was not written: {why}; the verdict above stands")
        return False
    return True


def say(message: str) -> None:
    """Print one message on stderr."""
    from cuassay.report.clean import clean

    click.echo(clean(message), err=True)
