"""The verifier for programs: typed results whatever happens, budgets, a pool of waiting judges."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import cuassay
from cuassay import verifier as verifying
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model.events import EngineStopped, Event
from cuassay.model.jobs import TrialJob
from cuassay.verifier import Result, Status, Verifier, verify
from tests.support import fake_judge, samples


@pytest.fixture(autouse=True)
def _fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    fake_judge.install(monkeypatch)
    for name in ("accept", "reject", "die", "unreadable", "stop", "wait 600"):
        (tmp_path / f"{name.split()[0]}.py").write_text(f"# {name}\ndef run(x): ...\n")


@pytest.mark.parametrize(
    ("name", "status", "part"),
    [
        ("accept", Status.ACCEPTED, "every check passed"),
        ("reject", Status.REJECTED, "Hot rows"),
        ("die", Status.INCONCLUSIVE, "signal SIGKILL"),
        ("unreadable", Status.INVALID, "not valid JSON"),
        ("stop", Status.INCONCLUSIVE, "the reference fails"),
    ],
)
def test_every_ending_is_a_result(name: str, status: Status, part: str) -> None:
    result = verify(f"{name}.py", "rmsnorm", device="cpu")
    assert (result.status, result.passed) == (status, status is Status.ACCEPTED)
    assert part in result.reason
    assert not result.timed_out
    document = json.dumps(result.agent())
    assert '"schema": "cuassay/agent/1"' in document
    with pytest.raises(TypeError, match="four values"):
        bool(result)


def test_a_budget_ends_a_trial_without_a_verdict() -> None:
    result = verify("wait.py", "rmsnorm", device="cpu", budget_s=2.0)
    assert (result.status, result.timed_out) == (Status.INCONCLUSIVE, True)
    assert result.agent()["verdict"] == "INCONCLUSIVE"


def test_a_wrong_result_seen_before_the_end_rejects() -> None:
    seen: list[Event] = [
        *samples.events(samples.rejected())[:-1],
        EngineStopped(exit_code=3, message="stopped after 9 s"),
    ]
    job = TrialJob(problem="p", candidate="k.py")
    result = verifying._result(seen, job, took_s=9.0, budget_s=9.0)
    assert (result.status, result.timed_out) == (Status.REJECTED, True)
    assert result.reason.endswith("(stopped after 9 s)")
    told = result.agent()
    assert (told["verdict"], told["findings"][0]["code"]) == ("REJECTED", "NUM002")
    unsafe = [event for event in seen if "F1" not in repr(event)]
    result = verifying._result(unsafe, job, took_s=9.0, budget_s=None)
    assert (result.status, result.timed_out) == (Status.INCONCLUSIVE, False)


def test_source_text_is_a_candidate_and_kept_out_of_sight(tmp_path: Path) -> None:
    result = verify("# reject\ndef run(x): return x\n", "rmsnorm", device="cpu")
    assert result.status is Status.REJECTED
    (kept,) = (tmp_path / "home" / "runs" / ".functions").glob("source-*/kernel.py")
    assert kept.read_text().startswith("# reject")
    verify('# accept\nextern "C" __global__ void f() {}\n', "rmsnorm", device="cpu")
    assert list((tmp_path / "home" / "runs" / ".functions").glob("source-*/kernel.cu"))


@pytest.mark.parametrize(
    "options",
    [{"profile": "fast"}, {"budget_s": 0}, {"budget_s": float("nan")}, {"require": ["stream"]}],
)
def test_a_call_that_is_off_raises(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        verify("accept.py", "rmsnorm", **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        Verifier(device="cpu", **options)  # type: ignore[arg-type]


def test_a_candidate_that_is_no_function_is_invalid() -> None:
    result = verify(lambda x: x, "rmsnorm")
    assert result.status is Status.INVALID
    assert "top level of a file" in result.reason


def test_a_batch_comes_back_in_order_from_waiting_judges() -> None:
    names = ["accept", "reject", "die", "accept", "unreadable", "reject", "accept"]
    with Verifier(workers=2, device="cpu") as pool:
        pairs = [(f"{name}.py", "rmsnorm") for name in names]
        results = list(pool.verify_all(*pairs))
    assert [result.status.value[:3] for result in results] == [
        "ACC", "REJ", "INC", "ACC", "INV", "REJ", "ACC",
    ]  # fmt: skip
    runs = {result.run for result in results}
    assert len(runs) == len(names)  # each trial has a judge and a folder of its own


def test_a_judge_that_died_waiting_is_replaced() -> None:
    with Verifier(workers=1, device="cpu") as pool:
        (waiting,) = pool._pool._waiting.values()
        waiting.kill()
        waiting._process.wait()
        assert pool.verify("accept.py", "rmsnorm").passed


def test_closing_ends_what_runs() -> None:
    pool = Verifier(workers=1, device="cpu")
    begun = threading.Event()
    future = pool.submit("wait.py", "rmsnorm", watch=lambda event: begun.set())
    assert begun.wait(300)
    pool.close()
    result: Result = future.result(timeout=300)
    assert result.status is Status.INCONCLUSIVE
    assert pool.verify("accept.py", "rmsnorm").status is Status.INCONCLUSIVE
    with pytest.raises(CannotJudgeError, match="closed"):
        next(iter(pool._pool.check(TrialJob(problem="p", candidate="accept.py"))))


def test_the_public_names_are_these() -> None:
    assert cuassay.verify is verify
    assert cuassay.Verifier is Verifier
    assert cuassay.Result is Result
    with pytest.raises(UsageError, match="workers is 0"):
        Verifier(workers=0)


def test_who_asks_by_program_agrees_to_a_file_that_declares_its_own_problem() -> None:
    seen: list[TrialJob] = []

    def trial(job: TrialJob, timeout_s: float | None) -> list[Event]:
        seen.append(job)
        return [EngineStopped(exit_code=2, message="not judged here")]

    for options in ({}, {"own_problem": True}):
        verifying._verified(
            trial,
            "accept.py",
            "accept.py:f",
            budget_s=None,
            options={"own_problem": False, **options},
        )
    assert [job.own_problem for job in seen] == [False, True]
    with Verifier(workers=1, device="cpu") as pool:
        assert pool._options["own_problem"] is False
