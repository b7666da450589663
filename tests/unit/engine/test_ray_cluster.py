"""The Ray executor on real clusters of two nodes: whatever is killed, each trial is judged once.

The judges judge nothing; actors, nodes, streams of events and what Ray does where they end are
real. Needs the extra `dev-ray`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuassay.audit import driver
from cuassay.engine.ray_executor import RayExecutor
from cuassay.model.audit import Audit, AuditItem, Ending
from cuassay.model.device import CPU
from cuassay.model.events import EngineFinished, EngineStarted, Event
from cuassay.model.verdict import Decision
from cuassay.store import audits as store
from cuassay.store.runs import RunFolder
from tests.support import fake_judge, trees
from tests.support.paths import python_path
from tests.unit.audit.test_driver import _header, _plan, _run, _table

pytest.importorskip("ray", reason="needs ray: pip install -e '.[dev-ray]'")
from tests.support.ray_nodes import actors, is_running, judges, nodes

_ROOT = Path(__file__).resolve().parents[3]
# Ray leaves sockets and files of its processes to the end of this one.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:.*:FutureWarning:ray",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    fake_judge.install(monkeypatch)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return the file that judges of `_tree` wait for."""
    return tmp_path / "gate"


def _tree(root: Path, gate: Path, count: int) -> Path:
    trees.native(root / "p")
    words = ("# theirs", "# reject # theirs", "#")
    for number in range(count):
        text = f"# until {gate}\n{words[number % 3]} {number}\n"
        trees.write(root / "p" / "candidates" / f"k{number}.py", text)
    return root


def _audit(
    root: Path,
    folder: Path,
    cluster: Any,
    watch: Callable[[AuditItem, str, Event], None] = lambda item, lane, event: None,
) -> Audit:
    import ray

    executor = RayExecutor(device=CPU, lanes=2, address=cluster.address)
    try:
        return driver.run_audit(
            _plan(root), _header(root), store.AuditFolder(folder), executor=executor, watch=watch
        )
    finally:
        ray.shutdown()


def _verdicts(folder: Path) -> list[int]:
    """Return how many verdicts were told of each candidate, over all attempts at it."""
    told: dict[str, int] = {}
    for path in (folder / "candidates").iterdir():
        name = path.name.rpartition("-")[0]
        ended = [event for event in RunFolder(path).events() if isinstance(event, EngineFinished)]
        told[name] = told.get(name, 0) + len(ended)
    return sorted(told.values())


def _results(folder: Path) -> int:
    return len((folder / "results.ndjson").read_text().splitlines())


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 90
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


def test_a_worker_and_a_node_are_killed_in_mid_audit(tmp_path: Path, gate: Path) -> None:
    root, folder = _tree(tmp_path / "t", gate, 7), tmp_path / "audit"
    begun: list[str] = []

    def watch(item: AuditItem, lane: str, event: Event) -> None:
        if isinstance(event, EngineStarted):
            begun.append(item.id)

    def kill() -> None:
        _until(lambda: len(begun) == 2)
        os.kill(actors()[0], signal.SIGKILL)
        _until(lambda: len(begun) == 3)  # another actor has begun another trial
        before = actors()
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        _until(lambda: not all(map(is_running, before)))  # else its trial may end before it does
        gate.touch()

    with nodes(2) as cluster:
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        audit = _audit(root, folder, cluster, watch)
        killer.join()
    assert _table(audit) == _table(_run(root, tmp_path / "local"))
    assert {result.ending for result in audit.results} == {Ending.JUDGED}
    assert sum(result.attempts - 1 for result in audit.results) >= 2
    assert _results(folder) == 7
    assert _verdicts(folder) == [1] * 7


def test_a_judge_that_is_killed_for_its_memory_ends_its_own_trial_alone(
    tmp_path: Path, gate: Path
) -> None:
    """As the kernel kills it: the actor lives on, and no other trial is run again."""
    root, folder = _tree(tmp_path / "t", gate, 4), tmp_path / "audit"
    begun: list[str] = []

    def watch(item: AuditItem, lane: str, event: Event) -> None:
        if isinstance(event, EngineStarted) and not begun:
            begun.append(item.id)
            (actor,) = actors()
            os.kill(judges(actor)[0], signal.SIGKILL)
            gate.touch()

    with nodes(1) as cluster:
        audit = _audit(root, folder, cluster, watch)
    ended = {result.item.id: result for result in audit.results}
    killed = ended.pop(begun[0])
    assert (killed.ending, killed.verdict) == (Ending.STOPPED, Decision.INCONCLUSIVE)
    assert "SIGKILL" in killed.reason
    assert {result.ending for result in ended.values()} == {Ending.JUDGED}
    assert {result.attempts for result in audit.results} == {1}
    assert len({result.lane for result in audit.results}) == 1
    assert _results(folder) == 4


def test_a_cluster_without_memory_loses_nothing_and_another_resumes(
    tmp_path: Path, gate: Path
) -> None:
    """Ray kills every actor of a node whose memory is in use beyond its threshold."""
    root, folder = _tree(tmp_path / "t", gate, 3), tmp_path / "audit"
    with nodes(2, memory_usage_threshold=0.01, memory_monitor_refresh_ms=100) as cluster:
        audit = _audit(root, folder, cluster)
    assert {result.ending for result in audit.results} == {Ending.LOST}
    assert all("low on memory" in result.reason for result in audit.results)
    gate.touch()
    with nodes(2) as cluster:
        audit = _audit(root, folder, cluster)
    assert _table(audit) == _table(_run(root, tmp_path / "local"))
    assert _verdicts(folder) == [1] * 3


def test_another_cluster_resumes_what_a_killed_driver_left(tmp_path: Path, gate: Path) -> None:
    root, folder = _tree(tmp_path / "t", gate, 5), tmp_path / "audit"
    (root / "p" / "candidates" / "k0.py").write_text("# accept\n")
    program = (
        "import sys\nfrom pathlib import Path\nfrom types import SimpleNamespace\n"
        "from tests.unit.engine.test_ray_cluster import _audit\n"
        "root, folder, address = sys.argv[1:]\n"
        "_audit(Path(root), Path(folder), SimpleNamespace(address=address))\n"
    )
    with nodes(2) as cluster:
        first = subprocess.Popen(
            [sys.executable, "-c", program, str(root), str(folder), cluster.address],
            env=os.environ | {"PYTHONPATH": python_path(_ROOT, _ROOT / "src")},
        )
        written = folder / "results.ndjson"
        begun = folder / "candidates"
        _until(lambda: written.exists() and len(list(begun.glob("*/events.ndjson"))) >= 3)
        first.kill()
        first.wait()
    gate.touch()
    before = written.read_text()
    with nodes(2) as cluster:
        audit = _audit(root, folder, cluster)
    assert written.read_text().startswith(before)
    assert _table(audit) == _table(_run(root, tmp_path / "local"))
    assert _results(folder) == 5
    assert _verdicts(folder) == [1] * 5
