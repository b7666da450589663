"""The pytest plugin, run by pytest itself over a fake engine; twice over the real one."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

import cuassay.api
import cuassay.pytest_plugin
import cuassay.report.html.verdict
import cuassay.report.junit
import cuassay.report.terminal.trial
from cuassay.model.verdict import Profile
from tests.support import fake_engine, samples

pytest_plugins = ["pytester"]
_ROOT = Path(__file__).resolve().parents[2]
# Imported out here: what a run inside a test imports for the first time, it forgets at its end.
_KEPT = (cuassay.api, cuassay.pytest_plugin, cuassay.report.html.verdict, cuassay.report.junit)
_PLAIN = ("-p", "no:cacheprovider", "-p", "cuassay.pytest_plugin")
_TEST = """
def test_kernel(cuassay):
    cuassay.assert_correct("kernel.py", problem="rmsnorm")
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # other plugins only take time


def _run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*_PLAIN, *arguments)


def test_a_rejected_kernel_fails_once_and_says_why(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine.install(monkeypatch, samples.told())
    pytester.makepyfile(_TEST)
    result = _run(pytester)
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    for part in (
        "cause       Hot rows of grad_embed_weight",
        "line        kernel.py:9",
        "zeros(tokens, int64)",
        f"reproduce   cuassay replay {samples.RUN}/F1",
        "cuassay verdicts",
        "REJECTED     test_a_rejected_kernel_fails_once_and_says_why.py::test_kernel",
    ):
        assert part in text
    assert "api.py:" not in text  # frames of cuassay are hidden
    assert "verdict = Verdict(" not in text


def test_a_kernel_with_two_causes_has_a_sub_test_each(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataclasses.replace(samples.diagnosis(), words="reads past the end", findings=("F2",))
    two = (samples.diagnosis(), other)
    fake_engine.install(monkeypatch, dataclasses.replace(samples.rejected(), diagnoses=two))
    pytester.makepyfile(_TEST)
    result = _run(pytester)
    text = result.stdout.str()
    assert "reads past the end (kernel.py:9)" in text
    assert f"whole report: cuassay report {samples.RUN}" in text


def test_accepted_passes_and_inconclusive_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(_TEST)
    fake_engine.install(monkeypatch, samples.accepted())
    assert _run(pytester).ret == 0
    fake_engine.install(monkeypatch, samples.inconclusive())
    result = _run(pytester)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*INCONCLUSIVE*MEM001 did not run*"])


def test_who_wins_among_the_options(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())
    pytester.makeini("[pytest]\ncuassay_device = cpu\ncuassay_require = shapes\n")
    pytester.makepyfile(
        """
        import pytest
        def test_ini(cuassay): cuassay.check("k.py", problem="p")
        @pytest.mark.cuassay(profile="standard", require=["streams"], seed=4)
        def test_marker(cuassay): cuassay.check("k.py", problem="p")
        @pytest.mark.cuassay(profile="standard")
        def test_call(cuassay): cuassay.check("k.py", problem="p", profile="deep", seed=3)
        """
    )
    assert _run(pytester).ret == 0
    seen = [(job.profile, job.device, job.seed, job.require) for job in fake.jobs]
    assert seen == [
        (Profile.QUICK, "cpu", None, ("shapes",)),
        (Profile.STANDARD, "cpu", 4, ("streams",)),
        (Profile.DEEP, "cpu", 3, ("shapes",)),
    ]
    fake.jobs.clear()
    line = ("--cuassay-profile=quick", "--cuassay-seed=9", "--cuassay-require=graphs, threads")
    assert _run(pytester, *line).ret == 0
    assert {(job.profile, job.seed, job.require) for job in fake.jobs} == {
        (Profile.QUICK, 9, ("graphs", "threads"))
    }


@pytest.mark.parametrize(
    ("marker", "part"),
    [
        ('cuassay(profil="deep")', "'profil': did you mean 'profile'?"),
        ('cuassay("deep")', "takes names only"),
    ],
)
def test_a_wrong_marker_is_a_mistake_not_a_pass(
    marker: str, part: str, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_k(cuassay): pass\n")
    result = _run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert part in result.stdout.str() + result.stderr.str()


def test_an_unknown_condition_is_a_mistake_too(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine.install(monkeypatch, samples.accepted())
    pytester.makepyfile(_TEST)
    result = _run(pytester, "--cuassay-require=stream")
    result.stdout.fnmatch_lines(["cuassay: *'stream': did you mean 'streams'*"])
    assert result.ret == 1
    assert "api.py" not in result.stdout.str()


def test_no_verdict_is_a_failure_with_its_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine.install(monkeypatch)
    pytester.makepyfile(_TEST)
    result = _run(pytester)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*could not judge the kernel*", "NO VERDICT*test_kernel*"])


def test_junit_holds_the_properties_and_html_is_written(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine.install(monkeypatch, samples.rejected())
    pytester.makepyfile(test_a=_TEST)
    _run(pytester, "--junitxml=out.xml", "--cuassay-html=pages")
    root = ElementTree.parse(pytester.path / "out.xml").getroot()
    found = {p.get("name"): p.get("value") for p in root.iter("property")}
    assert found["cuassay.verdict"] == "REJECTED"
    assert found["cuassay.digest"] == samples.DIGEST
    assert found["cuassay.seed"] == str(samples.SEED)
    assert found["cuassay.worst_share"] == "18.35"
    assert "REJECTED" in (pytester.path / "pages" / "test_a.py_test_kernel.html").read_text()


def test_hostile_text_is_text(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine.install(monkeypatch, samples.nasty())
    pytester.makepyfile(_TEST)
    result = _run(pytester, "--junitxml=out.xml")
    assert "\x1b" not in result.stdout.str()
    assert "\x07" not in result.stdout.str()
    ElementTree.parse(pytester.path / "out.xml")


def test_verdicts_come_back_from_xdist_workers(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        f"""
        import sys
        sys.path[:0] = [{str(_ROOT)!r}]
        from tests.support import samples
        from cuassay.engine import run
        run.check = lambda job: iter(
            samples.events(samples.rejected() if "bad" in job.candidate else samples.accepted())
        )
        """
    )
    pytester.makepyfile(
        textwrap.dedent(
            """
            import pytest
            @pytest.mark.parametrize("kernel", ["good.py", "bad.py", "good2.py"])
            def test_k(cuassay, kernel): cuassay.assert_correct(kernel, problem="p")
            """
        )
    )
    result = pytester.runpytest_subprocess(*_PLAIN, "-p", "xdist", "-n", "2")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*cuassay verdicts*", "REJECTED *test_k?bad.py*", "ACCEPTED *", "ACCEPTED *"]
    )


_REAL = """
import torch
EPS = 1e-6

def helper(x):
    return x.float()

def reference(x, weight, eps=EPS):
    v = helper(x)
    return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight

def kernel(x, weight):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, EPS * {factor})

def test_it(cuassay):
    x = torch.randn(16, 128).bfloat16()
    cuassay.assert_correct(kernel, reference, inputs={{"x": x, "weight": x[0]}}, device="cpu")
"""


@pytest.mark.thorough
def test_functions_of_a_test_file_are_judged(pytester: pytest.Pytester) -> None:
    """A wrong one; tests/repo/test_readme_sections.py has a right one."""
    pytester.makepyfile(_REAL.format(factor="1000"))
    result = pytester.runpytest_subprocess(*_PLAIN)  # torch cannot be imported twice in a process
    assert result.ret == 1, result.stdout.str()
    result.stdout.fnmatch_lines(["*NUM001*", "REJECTED*"])
