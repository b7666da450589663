"""The Ray executor: the same verdicts as on this machine, and nothing lost with an actor."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from cuassay.audit import driver
from cuassay.cli.main import main
from cuassay.engine.ray_executor import RayExecutor
from cuassay.engine.shipping import packed, unpacked
from cuassay.errors import CannotJudgeError, MissingToolError
from cuassay.model.audit import Audit, Ending
from cuassay.model.device import CPU, CUDA
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision
from cuassay.store import audits as store
from tests.support import fake_judge, trees
from tests.support.fake_ray import Cluster
from tests.support.ray_nodes import actors
from tests.unit.audit.test_driver import _header, _plan, _run, _table, _tree


@pytest.fixture(autouse=True)
def _fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    fake_judge.install(monkeypatch)


def _ray(root: Path, folder: Path, *, lanes: int = 1, address: str | None = None) -> Audit:
    executor = RayExecutor(device=CPU, lanes=lanes, address=address)
    place = store.AuditFolder(folder)
    return driver.run_audit(_plan(root), _header(root), place, executor=executor)


def test_verdicts_are_those_of_the_local_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    cluster.install(monkeypatch)
    root = _tree(tmp_path / "t", 5)
    local = _run(root, tmp_path / "local")
    for lanes in (1, 3):
        remote = _ray(root, tmp_path / f"ray{lanes}", lanes=lanes)
        assert _table(remote) == _table(local)
    assert cluster.options["max_restarts"] == cluster.options["max_task_retries"] == 0
    assert remote.results[0].lane.startswith("ray:")
    run = store.AuditFolder(tmp_path / "ray1").path / remote.results[1].run
    assert {"events.ndjson", "job.json", "verdict.json"} <= {p.name for p in run.iterdir()}
    assert list((run / "findings").iterdir())


def test_a_trial_whose_actor_is_lost_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(losses=frozenset({1, 3})).install(monkeypatch)
    root = _tree(tmp_path / "t", 4)
    audit = _ray(root, tmp_path / "audit")
    assert _table(audit) == _table(_run(root, tmp_path / "local"))
    assert sorted(result.attempts for result in audit.results) == [1, 1, 2, 2]


def test_a_trial_that_is_lost_three_times_is_reported_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(losses=frozenset({2, 3, 4})).install(
        monkeypatch
    )  # k1, once it is alone in the queue: always
    root = _tree(tmp_path / "t", 2, first="# accept")
    audit = _ray(root, tmp_path / "audit")
    assert [r.ending for r in audit.results] == [Ending.JUDGED, Ending.LOST]
    assert audit.results[1].verdict is Decision.INCONCLUSIVE
    assert "lost 3 times" in audit.results[1].reason
    assert audit.results[1].reason.endswith(": the actor died")
    again = _ray(root, tmp_path / "audit")  # a resumed audit tries it once more
    assert [r.ending for r in again.results] == [Ending.JUDGED, Ending.JUDGED]


def test_a_cluster_without_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(room=0).install(monkeypatch)
    audit = _ray(_tree(tmp_path / "t", 2), tmp_path / "audit")
    assert {r.ending for r in audit.results} == {Ending.LOST}
    assert audit.results[0].reason == "no machine was left to judge it on: no room"


def test_one_actor_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(gpus=2)
    cluster.install(monkeypatch)
    executor = RayExecutor()
    root = _tree(tmp_path / "t", 3, first="# accept")
    place = store.AuditFolder(tmp_path / "audit")
    driver.run_audit(_plan(root), _header(root), place, executor=executor)
    assert cluster.options["num_gpus"] == 1
    assert cluster.started == {
        "include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR",
    }  # fmt: skip


def test_what_is_missing_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _tree(tmp_path / "t", 1)
    Cluster(version="0.0.1").install(monkeypatch)
    with pytest.raises(CannotJudgeError, match=r"has cuassay 0\.0\.1, this one"):
        _ray(root, tmp_path / "a")
    Cluster().install(monkeypatch)
    executor = RayExecutor(device=CUDA)
    with pytest.raises(CannotJudgeError, match="the Ray cluster has no GPU"):
        list(executor.run([], stop=lambda: False, watch=lambda *event: None))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingToolError, match=r"pip install 'cuassay\[ray\]'"):
        _ray(root, tmp_path / "b")


def test_files_travel_as_they_stood_to_each_other(tmp_path: Path) -> None:
    trees.sol(tmp_path / "tree" / "p", "p")
    kernel = trees.write(tmp_path / "tree" / "k.py", "def run(x): ...\n")
    large = tmp_path / "tree" / "p" / "stored.safetensors"
    with large.open("wb") as file:
        file.truncate(64 * 2**20)
    files = [*sorted((tmp_path / "tree" / "p").iterdir()), kernel]
    contents = packed(files)
    assert str(large) not in contents
    job = TrialJob(problem=str(tmp_path / "tree" / "p"), candidate=f"{kernel}::run")
    there = unpacked(job, contents, tmp_path / "there")
    assert Path(there.problem, "definition.json").read_text()
    assert there.candidate == f"{tmp_path}/there{kernel}::run"
    assert Path(there.problem, "stored.safetensors").stat().st_size == 64 * 2**20
    assert (
        unpacked(TrialJob(problem="rmsnorm", candidate="k.py"), {}, tmp_path).problem == "rmsnorm"
    )


@pytest.mark.thorough
def test_a_real_cluster_with_real_judges_survives_a_killed_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="needs ray: pip install -e '.[dev-ray]'")
    monkeypatch.undo()
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    tree = _tree(tmp_path / "t", 0)
    for name in ("a", "b"):
        text = "def run(x):\n    return x * 2\n"
        trees.write(tree / "p" / "candidates" / f"{name}.py", text)
    bug = "def run(x):\n    return x * 2.01\n"
    trees.write(tree / "p" / "candidates" / "bug.py", bug)
    call = ["audit", str(tree), "--device", "cpu", "--seed", "3", "-q", "--json"]
    killer = threading.Thread(target=_kill_a_worker, args=(tmp_path / "ray",), daemon=True)
    killer.start()
    arguments = ["--executor", "ray", "--lanes", "2", "--run", str(tmp_path / "ray")]
    assert main([*call, *arguments]) == 1
    killer.join()
    assert main([*call, "--run", str(tmp_path / "local")]) == 1
    remote, local = (store.read_audit(tmp_path / name) for name in ("ray", "local"))
    assert [(r.verdict, r.seed) for r in remote.results] == [
        (r.verdict, r.seed) for r in local.results
    ]
    assert max(r.attempts for r in remote.results) == 2


def _kill_a_worker(folder: Path) -> None:
    """Kill the processes of both actors while their first trials run."""
    while len(list(folder.glob("candidates/*/events.ndjson"))) < 2:
        time.sleep(0.1)
    for actor in actors():
        os.kill(actor, signal.SIGKILL)
