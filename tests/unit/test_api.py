"""The Python calls over a fake engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import cuassay
from cuassay.api import verdict_of
from cuassay.errors import CannotJudgeError, ProblemError, UsageError
from cuassay.model.events import EngineStopped, Event
from cuassay.model.problem import Problem, Reference
from tests.support import fake_engine, samples


def _problem(origin: str, path: Path | None = None) -> Problem:
    return Problem(
        name="double",
        axes=(),
        inputs=(),
        outputs=(),
        reference=Reference(path=Path("/p/double.py"), function="double"),
        workloads=(),
        origin=origin,
        path=path,
    )


def test_check_returns_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fake_engine.install(monkeypatch, samples.rejected())
    verdict = cuassay.check("k.py", problem=Path("p"), profile="quick", device="cpu", seed=3)
    assert verdict == samples.rejected()
    (job,) = fake.jobs
    assert (job.candidate, job.problem, job.profile) == ("k.py", "p", cuassay.Profile.QUICK)
    assert (job.device, job.seed) == ("cpu", 3)


def test_problems_are_named_so_that_another_process_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = fake_engine.install(monkeypatch, samples.accepted())

    def decorated() -> None: ...

    decorated.__cuassay_problem__ = _problem("native")  # type: ignore[attr-defined]
    cuassay.check("k.py", problem=decorated)  # type: ignore[arg-type]
    cuassay.check("k.py", problem=_problem("sol-execbench", Path("/sol")))
    assert [job.problem for job in fake.jobs] == ["/p/double.py:double", "/sol"]
    with pytest.raises(ProblemError, match="pass the path"):
        cuassay.check("k.py", problem=_problem("sol-execbench"))


def test_assert_correct_tells_the_story(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine.install(monkeypatch, samples.rejected())
    with pytest.raises(cuassay.CuassayAssertionError) as caught:
        cuassay.assert_correct("k.py", problem="p")
    assert "18.4 times the allowed error" in str(caught.value)
    assert f"cuassay replay {samples.RUN}/F1" in str(caught.value)
    assert caught.value.verdict == samples.rejected()


def test_assert_correct_takes_inconclusive_for_no(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine.install(monkeypatch, samples.inconclusive())
    with pytest.raises(AssertionError, match="INCONCLUSIVE"):
        cuassay.assert_correct("k.py", problem="p")
    fake_engine.install(monkeypatch, samples.accepted())
    assert cuassay.assert_correct("k.py", problem="p").passed


@pytest.mark.parametrize(("exit_code", "kind"), [(2, UsageError), (3, CannotJudgeError)])
def test_a_stopped_trial_raises(
    exit_code: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_engine.install(monkeypatch, events=(EngineStopped(exit_code=exit_code, message="why"),))
    with pytest.raises(kind, match="why"):
        cuassay.check("k.py", problem="p")
    fake_engine.install(monkeypatch)
    with pytest.raises(CannotJudgeError, match="without a verdict"):
        cuassay.check("k.py", problem="p")


def test_a_trial_that_ends_in_an_exception_is_over_before_it() -> None:
    closed = []

    def events() -> Iterator[Event]:
        try:
            yield EngineStopped(exit_code=3, message="why")
        finally:
            closed.append(True)

    with pytest.raises(CannotJudgeError, match="why"):
        verdict_of(events())
    assert closed  # while the exception still holds the frame that read them


def test_a_wrong_profile_names_the_legal_ones() -> None:
    with pytest.raises(UsageError, match="'fast', expected one of quick, standard, deep"):
        cuassay.check("k.py", problem="p", profile="fast")


def test_a_reference_needs_inputs_and_excludes_a_problem() -> None:
    with pytest.raises(UsageError, match="not both"):
        cuassay.check("k.py", _problem, problem="p")
    with pytest.raises(UsageError, match="nothing to judge against"):
        cuassay.check("k.py")
    with pytest.raises(UsageError, match="inputs are not known"):
        cuassay.check("k.py", _problem)
    with pytest.raises(UsageError, match="did you mean 'streams'"):
        cuassay.check("k.py", problem="p", require=["stream"])


def test_functions_become_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    fake = fake_engine.install(monkeypatch, samples.accepted())
    from tests.support import functions

    cuassay.check(functions.kernel, functions.reference, inputs=functions.example)
    (job,) = fake.jobs
    assert job.candidate == str(tmp_path / "runs" / ".functions" / Path(job.candidate).name)
    assert (Path(job.candidate) / "kernel.py").read_text().startswith("from tests.support.func")
    assert Path(job.problem, "definition.json").is_file()
