"""The audit's driver over a fake judge: order, seeds, budget, resuming; no verdict is lost."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuassay.audit import driver
from cuassay.audit.discover import discover
from cuassay.audit.plan import Plan, WantedCandidates, make_plan
from cuassay.engine.executors import DeviceLane, LocalExecutor
from cuassay.errors import CannotJudgeError, UnknownNameError, UsageError
from cuassay.model.audit import Audit, AuditHeader, AuditItem, AuditResult, Ending
from cuassay.model.device import CPU, CUDA
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision
from cuassay.store import audits as store
from cuassay.store.files import append_line, locked
from cuassay.store.runs import open_run
from tests.support import audits, fake_judge, trees

_ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    fake_judge.install(monkeypatch)


def _tree(root: Path, count: int, *, first: str = "") -> Path:
    trees.native(root / "p")
    words = ("# accept theirs", "# reject # theirs", "# stop", "# accept")
    for number in range(count):
        line = first or words[number % len(words)]
        trees.write(root / "p" / "candidates" / f"k{number}.py", f"{line}\n# {number}\n")
    return root


def _plan(root: Path, **choice: object) -> Plan:
    wanted = WantedCandidates(**choice)  # type: ignore[arg-type]
    return make_plan(discover(str(root)), wanted, root=str(root), judged_as={"profile": "quick"})


def _header(root: Path, **changes: object) -> AuditHeader:
    return audits.header(tree=str(root), **changes)


def _executor(lanes: int = 1, **options: object) -> LocalExecutor:
    found = [DeviceLane(name=f"cpu:{number}", device=CPU) for number in range(lanes)]
    return LocalExecutor(found, spares=False, **options)  # type: ignore[arg-type]


def _run(root: Path, folder: Path, *, lanes: int = 1, **changes: object) -> Audit:
    header = _header(root, **changes)
    place = store.AuditFolder(folder)
    return driver.run_audit(_plan(root), header, place, executor=_executor(lanes))


def _table(audit: Audit) -> list[tuple[object, ...]]:
    return [
        (r.item.candidate_name, r.ending, r.verdict, r.seed, r.theirs, len(r.findings))
        for r in audit.results
    ]


def test_every_candidate_ends_in_the_order_of_the_plan(tmp_path: Path) -> None:
    audit = _run(_tree(tmp_path / "t", 5), tmp_path / "audit")
    assert [r.verdict for r in audit.results] == [
        Decision.ACCEPTED,
        Decision.REJECTED,
        Decision.INCONCLUSIVE,
        Decision.ACCEPTED,
        Decision.ACCEPTED,
    ]
    assert audit.results[2].ending is Ending.STOPPED
    assert store.read_audit(tmp_path / "audit").results == audit.results
    assert store.read_audit(tmp_path / "audit").header == audit.header
    lines = (tmp_path / "audit" / "findings.jsonl").read_text().splitlines()
    assert {json.loads(line)["candidate"] for line in lines} == {"k1"}


def test_one_lane_and_three_give_the_same_table(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 7)
    one = _run(root, tmp_path / "one")
    three = _run(root, tmp_path / "three", lanes=3)
    assert _table(one) == _table(three)
    assert len({r.lane for r in three.results}) > 1
    assert len({r.seed for r in one.results if r.seed}) == 1  # one problem: truths are shared
    other = _run(root, tmp_path / "other", seed=one.header.seed + 1)
    assert {r.seed for r in other.results}.isdisjoint(r.seed for r in one.results if r.seed)


def test_the_kept_run_of_a_candidate_can_be_opened(tmp_path: Path) -> None:
    audit = _run(_tree(tmp_path / "t", 2), tmp_path / "audit")
    run = open_run(str(tmp_path / "audit" / audit.results[1].run))
    verdict = run.verdict()
    assert verdict is not None
    assert verdict.decision is Decision.REJECTED
    job = run.job()
    assert isinstance(job, TrialJob)
    assert job.run_label == str(run.path)
    assert job.hide == (str(tmp_path / "audit"),)


def test_a_resumed_audit_judges_only_what_changed(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 4)
    first = _run(root, tmp_path / "audit")
    trees.write(root / "p" / "candidates" / "k0.py", "# reject\n")
    trees.write(root / "p" / "candidates" / "new.py", "# accept\n")
    ran: list[str] = []
    header, place = _header(root), store.AuditFolder(tmp_path / "audit")
    second = driver.run_audit(
        _plan(root),
        header,
        place,
        executor=_executor(),
        watch=lambda item, lane, event: ran.append(item.candidate_name),
    )
    assert set(ran) == {"k0", "new"}
    assert second.results[0].verdict is Decision.REJECTED
    assert _table(first)[1:] == _table(second)[1:4]
    seen = {result.seed for result in first.results}  # written into the audit's folder
    assert {r.seed for r in second.results if r.item.candidate_name in ran}.isdisjoint(seen)


def test_a_judge_that_dies_costs_only_its_own_verdict(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 2)
    trees.write(root / "p" / "candidates" / "killed.py", "# die\n")
    audit = _run(root, tmp_path / "audit")
    (killed,) = [r for r in audit.results if r.item.candidate_name == "killed"]
    assert (killed.ending, killed.verdict) == (Ending.STOPPED, Decision.INCONCLUSIVE)
    assert "SIGKILL" in killed.reason
    assert [r.ending for r in audit.results[:2]] == [Ending.JUDGED, Ending.JUDGED]


def test_a_candidate_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 1, first="# wait 600")
    place = store.AuditFolder(tmp_path / "audit")
    executor = _executor(timeout_s=0.5)
    audit = driver.run_audit(_plan(root), _header(root), place, executor=executor)
    assert "stopped after 0.5 s" in audit.results[0].reason


def test_what_the_budget_does_not_reach_is_said_and_runs_later(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 3, first="# accept")
    begun: list[str] = []
    with pytest.MonkeyPatch.context() as patch:  # spent once the first candidate has begun
        patch.setattr(driver, "_budget", lambda budget_s, started: lambda: bool(begun))
        audit = driver.run_audit(
            _plan(root),
            _header(root, budget_s=0.05),
            store.AuditFolder(tmp_path / "audit"),
            executor=_executor(),
            watch=lambda item, lane, event: begun.append(item.candidate_name),
        )
    assert [r.ending for r in audit.results] == [Ending.JUDGED, Ending.NOT_RUN, Ending.NOT_RUN]
    assert "the budget of 0.05 s was spent" in audit.results[1].reason
    assert {r.ending for r in _run(root, tmp_path / "audit").results} == {Ending.JUDGED}


def test_a_budget_is_spent_by_time() -> None:
    now = time.monotonic()
    assert not driver._budget(None, now - 1e9)()
    assert not driver._budget(1e6, now)()
    assert driver._budget(5.0, now - 6.0)()


_DRIVER = """
import sys
from pathlib import Path
from tests.support import audits, fake_judge
from tests.unit.audit import test_driver as t
from cuassay.engine import judge_process
judge_process.COMMAND = fake_judge.COMMAND
t._run(Path(sys.argv[1]), Path(sys.argv[2]), lanes=2)
"""


def test_a_driver_killed_at_any_time_loses_no_verdict(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 4, first="# accept")
    gate = tmp_path / "gate"  # shut, no driver gets beyond the first four
    for number in range(4, 8):
        trees.write(root / "p" / "candidates" / f"k{number}.py", f"# until {gate}\n# {number}\n")
    gate.touch()
    undisturbed = _run(root, tmp_path / "whole", lanes=2)
    gate.unlink()
    for kills in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", _DRIVER, str(root), str(tmp_path / "audit")],
            env=dict(os.environ, PYTHONPATH=f"{_ROOT}:{_ROOT / 'src'}"),
            start_new_session=True,
        )
        _wait_for_results(tmp_path / "audit", 2 * kills + 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    gate.touch()
    before = store.results_of(tmp_path / "audit")
    assert len(before) == 4
    resumed = _run(root, tmp_path / "audit", lanes=2)
    assert _table(resumed) == _table(undisturbed)
    for result in resumed.results:  # nothing that had ended was judged again
        if result.item.id in before:
            assert result.run == before[result.item.id].run


def _wait_for_results(folder: Path, count: int) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if len(store.results_of(folder)) >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{folder} never held {count} results")


def test_a_verdict_whose_line_was_not_written_is_found_again(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 3)
    first = _run(root, tmp_path / "audit")
    (tmp_path / "audit" / "results.ndjson").unlink()  # killed between the verdict and its line
    ran: list[str] = []
    again = driver.run_audit(
        _plan(root),
        _header(root),
        store.AuditFolder(tmp_path / "audit"),
        executor=_executor(),
        watch=lambda item, lane, event: ran.append(item.candidate_name),
    )
    assert set(ran) == {"k2"}  # which had no verdict
    assert _table(again) == _table(first)


def test_half_a_line_is_no_result(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 2)
    first = _run(root, tmp_path / "audit")
    file = tmp_path / "audit" / "results.ndjson"
    file.write_bytes(file.read_bytes()[:-40])
    assert store.read_audit(tmp_path / "audit").results[1].ending is Ending.NOT_RUN
    assert _table(_run(root, tmp_path / "audit")) == _table(first)


def test_a_full_disk_is_said_once_and_nothing_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole, failed = append_line, 3

    def sometimes(path: Path, text: str) -> None:
        nonlocal failed
        failed -= 1
        if failed >= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(path, text)

    monkeypatch.setattr(store, "append_line", sometimes)
    audit = _run(_tree(tmp_path / "t", 4), tmp_path / "audit")
    assert len(audit.results) == 4
    assert [r.getMessage() for r in caplog.records if "No space left" in r.getMessage()] != []
    assert len([r for r in caplog.records if "audit folder" in r.getMessage()]) == 1
    assert store.read_audit(tmp_path / "audit").results == audit.results


def test_two_audits_do_not_share_a_folder(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 1)
    (tmp_path / "audit").mkdir()
    with locked(tmp_path / "audit"), pytest.raises(UsageError, match="in use"):
        _run(root, tmp_path / "audit")


def test_interrupting_kills_what_runs(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 2, first="# wait 600")
    started = time.monotonic()

    def interrupt(item: object, lane: str, event: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driver.run_audit(
            _plan(root),
            _header(root),
            store.AuditFolder(tmp_path / "audit"),
            executor=_executor(),
            watch=interrupt,
        )
    assert time.monotonic() - started < 300


def test_choices_are_patterns_families_authors_and_a_limit(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 4)
    trees.write(root / "p" / "candidates" / "zoe" / "mine.py", "# accept\n")
    names = [[i.candidate_name for i in _plan(root, **c).items] for c in (
        {"only": ("k[01]",)}, {"authors": ("zoe",)}, {"limit": 1}, {"families": ("other",)},
    )]  # fmt: skip
    assert names == [["k0", "k1"], ["mine"], ["k0"], ["k0", "k1", "k2", "k3", "mine"]]
    assert _plan(root, limit=1).left_out == 4
    with pytest.raises(UnknownNameError, match="did you mean 'zoe'"):
        _plan(root, authors=("zo",))


def test_keys_change_with_every_file_and_option_and_with_nothing_else(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 1)
    before = _plan(root).items[0]
    assert _plan(root).items[0] == before
    found = discover(str(root))
    other = make_plan(found, WantedCandidates(), root=str(root), judged_as={"profile": "deep"})
    assert other.items[0].key != before.key
    trees.write(root / "p" / "cuassay.toml", "axes.n = { max = 8 }\n")
    assert _plan(root).items[0].key != before.key
    (root / "p" / "cuassay.toml").unlink()
    moved = root.rename(tmp_path / "elsewhere")
    after = _plan(moved).items[0]
    assert (after.id, after.key) == (before.id, before.key)


def test_candidates_of_one_name_are_told_apart(tmp_path: Path) -> None:
    trees.sol(tmp_path / "p", "p")
    for place in ("a", "b"):
        trees.solution(tmp_path / "p" / place / "solution.json", "p", name="same")
    plan = _plan(tmp_path)
    assert {i.candidate_name for i in plan.items} == {"same (p/a)", "same (p/b)"}
    assert "several candidates" in plan.oddities[0].message


def test_results_are_reported_as_they_come(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []

    def report(result: AuditResult, done: int, total: int) -> None:
        seen.append((result.item.candidate_name, done, total))

    root = _tree(tmp_path / "t", 2)
    driver.run_audit(
        _plan(root),
        _header(root),
        store.AuditFolder(tmp_path / "audit"),
        executor=_executor(),
        report=report,
    )
    assert seen == [("k0", 1, 2), ("k1", 2, 2)]


def test_cuda_sources_are_built_on_cpu_lanes_before_a_gpu_takes_them(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 3)
    slow = "# accept\n// PYBIND11_MODULE\n"
    trees.write(root / "p" / "candidates" / "a_first.py", slow)  # first in the plan
    order: list[str] = []
    executor = LocalExecutor(
        [DeviceLane(name="cuda:1", device=CUDA, environment={"CUDA_VISIBLE_DEVICES": "1"})],
        spares=True,
    )

    def watch(item: AuditItem, lane: str, event: object) -> None:
        order.append(item.candidate_name)

    audit = driver.run_audit(
        _plan(root),
        _header(root),
        store.AuditFolder(tmp_path / "audit"),
        executor=executor,
        watch=watch,
    )
    assert {r.ending for r in audit.results} <= {Ending.JUDGED, Ending.STOPPED}
    assert len(audit.results) == 4
    assert order[0] == "k0"
    built = sorted(path.name for path in (root / "p" / "candidates").glob("*.built"))
    assert built == ["a_first.built"]
    assert (root / "p" / "candidates" / "a_first.built").read_text() == "1"


def test_an_audit_says_what_it_ran_on(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", 1)
    header = dataclasses.replace(_header(root), environment={})
    place = store.AuditFolder(tmp_path / "audit")
    audit = driver.run_audit(_plan(root), header, place, executor=_executor())
    assert audit.header.environment["torch"]
    assert store.read_audit(tmp_path / "audit").header.environment == audit.header.environment


def test_a_build_that_breaks_holds_no_lane_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **options: object) -> None:
        raise CannotJudgeError("no compiler")

    monkeypatch.setattr("cuassay.engine.run.document", broken)
    root = _tree(tmp_path / "t", 1)
    trees.write(root / "p" / "candidates" / "x.py", "# accept\n# PYBIND11_MODULE\n")
    lane = DeviceLane(name="cuda:0", device=CUDA, environment={"CUDA_VISIBLE_DEVICES": "0"})
    audit = driver.run_audit(
        _plan(root),
        _header(root),
        store.AuditFolder(tmp_path / "audit"),
        executor=LocalExecutor([lane], spares=True),
    )
    assert {r.ending for r in audit.results} == {Ending.JUDGED}
