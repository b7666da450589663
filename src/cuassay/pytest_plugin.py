"""The pytest plugin: kernels judged in tests, findings as sub-tests, verdicts in every report.

    def test_rmsnorm(cuassay):
        cuassay.assert_correct(fused_rmsnorm, reference, inputs={"x": x, "weight": w, "eps": 1e-6})

What is chosen holds in this order: the command line, the call, the marker, the ini file. Every
process of pytest-xdist judges by itself; trials on one GPU wait for each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuassay.errors import CannotJudgeError, UnknownNameError, UsageError
from cuassay.model.options import Given
from cuassay.model.precision import Precision
from cuassay.model.profile import Profile

if TYPE_CHECKING:
    from cuassay.model.verdict import Verdict

_SHARES = pytest.StashKey[bool]()
_OPTIONS = tuple(Given.__annotations__)
_PREFIX = "cuassay."
_MARKER = (
    f"cuassay({', '.join(_OPTIONS)}): how kernels of this test are judged; the command line takes "
    "precedence"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add one group of options, and an ini key for each that a project fixes."""
    group = parser.getgroup("cuassay", "cuassay: judge GPU kernels")
    group.addoption(
        "--cuassay-profile",
        choices=[member.value for member in Profile],
        help="How much to try. Default: quick.",
    )
    group.addoption("--cuassay-device", metavar="DEVICE", help="cpu, cuda or cuda:N.")
    group.addoption(
        "--cuassay-seed", type=int, metavar="N", help="Repeat trials: the seed of a report."
    )
    group.addoption(
        "--cuassay-require", metavar="LIST", help="Conditions that must hold, by commas."
    )
    group.addoption(
        "--cuassay-precision",
        choices=[member.value for member in Precision],
        help="What kernels may keep. Default: the problem's policy.",
    )
    group.addoption(
        "--cuassay-html", metavar="DIR", help="Write an HTML report of every trial there."
    )
    parser.addini("cuassay_profile", "How much to try: quick, standard or deep.", default="")
    parser.addini("cuassay_device", "cpu, cuda or cuda:N.", default="")
    parser.addini("cuassay_precision", "strict, tf32 or mixed.", default="")
    parser.addini("cuassay_require", "Conditions that must hold.", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_report_header(config: pytest.Config) -> str:
    """Say by what kernels will be judged."""
    from cuassay import __version__

    chosen = _chosen(config, {}, {})
    device = chosen.get("device") or "cuda where there is a GPU"
    return f"cuassay {__version__}: profile {chosen['profile']}, device {device}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that judge kernels into one group: `--dist loadgroup` keeps them apart."""
    for item in items:
        if "cuassay" in getattr(item, "fixturenames", ()):
            _marked(item)
            if item.config.pluginmanager.hasplugin("xdist"):
                item.add_marker(pytest.mark.xdist_group("cuassay"))


@pytest.fixture(name="cuassay")
def cuassay_fixture(request: pytest.FixtureRequest) -> Cuassay:
    """Judge kernels with this test's options: `check(...)` and `assert_correct(...)`."""
    return Cuassay(request)


class Cuassay:
    """What the fixture gives: `cuassay.check` and `cuassay.assert_correct` with its options."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._count = 0

    def check(
        self,
        candidate: str | Path | Callable[..., Any],
        reference: Callable[..., Any] | None = None,
        **options: Any,
    ) -> Verdict:
        """Return the verdict of a kernel. Arguments as for `cuassay.check`.

        The verdict, its digest and its run stand in the test's properties.
        """
        __tracebackhide__ = True
        from cuassay import api

        node = self._request.node
        options |= _chosen(self._request.config, _marked(node), options)
        # Let this session's trials share a judge, as long as their problem stays the same.
        if _SHARES not in self._request.config.stash:
            from cuassay.engine.run import one_judge

            stack = contextlib.ExitStack()
            stack.enter_context(one_judge())
            self._request.config.stash[_SHARES] = True
            self._request.config.add_cleanup(stack.close)
        failed = ""
        with _turn(options.get("device")):
            try:
                verdict = api.check(candidate, reference, **options)
            except UsageError as error:
                failed = f"cuassay: {error}"
            except CannotJudgeError as error:
                node.user_properties.append((f"{_PREFIX}verdict", "NO VERDICT"))
                failed = f"cuassay could not judge the kernel: {error}"
        if failed:  # outside the handlers: pytest would show what they caught
            pytest.fail(failed, pytrace=False)
        from cuassay.report.clean import one_line

        self._count += 1
        number = "" if self._count == 1 else f"{self._count}."
        shares = [f.share for f in verdict.findings if f.share is not None]
        facts = {
            "verdict": verdict.decision.value,
            "candidate": one_line(verdict.candidate, limit=120),
            "reason": one_line(verdict.reason, limit=240),
            "digest": verdict.digest,
            "run": verdict.run,
            "seed": str(verdict.seed),
            "device": one_line(verdict.device),
            "profile": verdict.profile.value,
        }
        if shares:
            facts["worst_share"] = f"{max(shares):.4g}"
        properties = self._request.node.user_properties
        properties += [(f"{_PREFIX}{number}{name}", value) for name, value in facts.items()]
        folder = self._request.config.getoption("cuassay_html")
        if folder:
            from cuassay.report.html.verdict import render

            name = re.sub(r"[^\w.-]+", "_", self._request.node.nodeid)[-150:]
            path = Path(folder) / f"{name}{'.' + number.rstrip('.') if number else ''}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(render(verdict), encoding="utf-8")
        return verdict

    def assert_correct(
        self,
        candidate: str | Path | Callable[..., Any],
        reference: Callable[..., Any] | None = None,
        **options: Any,
    ) -> Verdict:
        """Return the verdict of a kernel that is ACCEPTED. Arguments as for `cuassay.check`.

        Raises CuassayAssertionError otherwise. Where a kernel has several causes, each of them is
        a sub-test of its own if pytest has sub-tests (9 and later).
        """
        __tracebackhide__ = True
        verdict = self.check(candidate, reference, **options)
        if verdict.passed:
            return verdict
        from cuassay import api
        from cuassay.report import words
        from cuassay.report.terminal.trial import story

        told = len(words.diagnosed(verdict)) > 1 and self._subtests(verdict)
        raise api.CuassayAssertionError(_short(verdict) if told else story(verdict), verdict)

    def _subtests(self, verdict: Verdict) -> bool:
        """Report every cause as a failed sub-test; return whether that was possible."""
        from cuassay.report import words

        try:
            subtests = self._request.getfixturevalue("subtests")
        except pytest.FixtureLookupError:
            return False
        for made in words.diagnosed(verdict):
            with subtests.test(msg=words.cause_line(made)):
                __tracebackhide__ = True
                from cuassay.report.junit import cause_story

                raise AssertionError(cause_story(made, verdict))
        return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show a line a verdict, the ones that may not ship first."""
    lines: list[tuple[str, str]] = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call" and not hasattr(report, "context"):
                lines += _summary_lines(report)
    if not lines:
        return
    terminalreporter.section("cuassay verdicts")
    order = {"REJECTED": 0, "NO VERDICT": 1, "INCONCLUSIVE": 2, "ACCEPTED": 3}
    for word, line in sorted(lines, key=lambda item: (order.get(item[0], 9), item[1])):
        terminalreporter.write_line(f"{word:<12} {line}")


def _summary_lines(report: pytest.TestReport) -> Iterator[tuple[str, str]]:
    facts = {name: str(value) for name, value in report.user_properties}
    for name, word in facts.items():
        if name.startswith(_PREFIX) and name.endswith("verdict"):
            stem = name.removesuffix("verdict")
            who = facts.get(f"{stem}candidate", "")
            why = "" if word == "ACCEPTED" else facts.get(f"{stem}reason", "")
            run = facts.get(f"{stem}run", "")
            yield word, " · ".join(part for part in (report.nodeid, who, why, run) if part)


def _short(verdict: Verdict) -> str:
    from cuassay.report.clean import one_line

    return (
        f"{verdict.decision.value}: {one_line(verdict.candidate)}: {one_line(verdict.reason)}\n"
        f"whole report: cuassay report {verdict.run}"
    )


def _marked(node: pytest.Item) -> dict[str, Any]:
    """Return what the test's markers choose, the nearest first. Raises pytest.UsageError."""
    found: dict[str, Any] = {}
    for marker in node.iter_markers("cuassay"):
        if marker.args:
            raise pytest.UsageError(
                f"{node.nodeid}: the marker cuassay takes names only, such as "
                'cuassay(profile="standard")'
            )
        for name, value in marker.kwargs.items():
            if name not in _OPTIONS:
                raise pytest.UsageError(
                    f"{node.nodeid}: {UnknownNameError('option of the marker', name, _OPTIONS)}"
                )
            found.setdefault(name, value)
    return found


def _chosen(
    config: pytest.Config, marked: dict[str, Any], called: dict[str, Any]
) -> dict[str, Any]:
    """Return the options of one trial, from the command line down to the ini file."""
    found: dict[str, Any] = {"profile": "quick"}
    for name in ("profile", "device", "require", "precision"):
        if value := config.getini(f"cuassay_{name}"):
            found[name] = value
    found |= marked
    found |= {name: called[name] for name in _OPTIONS if called.get(name) is not None}
    for name in _OPTIONS:
        value = config.getoption(f"cuassay_{name}")
        if value is not None:
            found[name] = value
    if isinstance(found.get("require"), str):
        found["require"] = [name.strip() for name in found["require"].split(",") if name.strip()]
    return found


@contextlib.contextmanager
def _turn(device: str | None) -> Iterator[None]:
    """Hold the device's lock: two trials on one GPU would slow and starve each other."""
    if device == "cpu" or not Path("/dev/nvidiactl").exists():
        yield
        return
    from cuassay.home import home

    path = home() / "locks" / f"{(device or 'cuda').replace(':', '-')}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # a home that cannot be written costs the turn, not the test
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
