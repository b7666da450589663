"""Candidates that attack: each is contained, told by name, and the pool goes on."""

from __future__ import annotations

import dataclasses
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import torch

from cuassay.model.trace import (
    BuildFailed,
    Claim,
    Exited,
    Finished,
    Flooded,
    Garbled,
    Killed,
    ScenarioResult,
    StepRaised,
    TimedOut,
    ToolMissing,
)
from cuassay.sandbox import processes
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.limits import Limits
from tests.support.workers import LIMITS, ROOT, nursery, pool, ramp, read, scenario


@pytest.fixture(scope="module")
def cpu() -> Iterator[Nursery]:
    with nursery() as opened:
        yield opened


def attack(
    source: str, keep: Path, cpu: Nursery, *, timeout_s: float = 120.0, limits: Limits = LIMITS
) -> ScenarioResult:
    """Run a candidate that attacks in its first call, and see that the next worker works."""
    marker = keep / secrets.token_hex(4)
    text = f"def attacked(): return os.path.exists({str(marker)!r})\n{source}"
    with pool(text, keep, cpu, limits=limits) as workers:
        result = workers.run(scenario(timeout_s=timeout_s), ramp).result
        marker.write_text("")
        after = workers.run(scenario(), ramp, fresh=True)
        assert after.result.termination == Finished()
        assert torch.equal(read(after, 2), torch.arange(100.0))
    return result


HEAD = "def run(x):\n    if attacked(): return x\n    "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("os._exit(0)", Exited(index=1, exit_code=0)),
        ("sys.exit()", Exited(index=1, exit_code=0)),
        ("sys.exit('bye')", Exited(index=1, exit_code=1)),
        ("ctypes.string_at(0)", Killed(index=1, signal=11)),
        ("os.abort()", Killed(index=1, signal=6)),
        ("os.kill(0, 9)", Killed(index=1, signal=9)),
    ],
)
def test_sudden_ends(cpu: Nursery, tmp_path: Path, body: str, expected: object) -> None:
    assert attack(HEAD + body, tmp_path, cpu).termination == expected


def test_an_endless_loop_is_ended(cpu: Nursery, tmp_path: Path) -> None:
    end = attack(HEAD + "while True: pass", tmp_path, cpu, timeout_s=2.0).termination
    assert end == TimedOut(index=1, limit_s=2.0)


def test_a_call_that_waits_for_ever_is_ended_before_its_time(cpu: Nursery, tmp_path: Path) -> None:
    few = dataclasses.replace(LIMITS, idle_s=1.0, watch_s=0.05)
    body = "import threading; threading.Event().wait()"
    end = attack(HEAD + body, tmp_path, cpu, limits=few).termination
    assert end == TimedOut(index=1, limit_s=1.0, idle=True)


def test_a_call_that_waits_for_what_works_is_not_idle(cpu: Nursery, tmp_path: Path) -> None:
    few = dataclasses.replace(LIMITS, idle_s=2.0, watch_s=0.05)
    body = """if os.fork() == 0:
        while True: pass
    os.wait()"""
    end = attack(HEAD + body, tmp_path, cpu, timeout_s=3.0, limits=few).termination
    assert end == TimedOut(index=1, limit_s=3.0)


def test_a_loop_that_ignores_signals_is_ended(cpu: Nursery, tmp_path: Path) -> None:
    body = "import signal; [signal.signal(s, signal.SIG_IGN) for s in (2, 15)]; time.sleep(1e6)"
    assert isinstance(attack(HEAD + body, tmp_path, cpu, timeout_s=0.2).termination, TimedOut)


def test_a_fork_bomb_is_bounded(cpu: Nursery, tmp_path: Path) -> None:
    source = f"{HEAD}\n    while True:\n        if os.fork() == 0: time.sleep(30)\n"
    limits = Limits(processes=20, watch_s=0.05)
    result = attack(source, tmp_path, cpu, limits=limits)
    assert result.termination == Killed(index=1, signal=9)
    assert "allowed 20" in result.output_text


def test_a_flood_of_files_is_ended(cpu: Nursery, tmp_path: Path) -> None:
    few = dataclasses.replace(LIMITS, files=200)
    body = "os.makedirs('a', exist_ok=True); [open(f'a/{i}', 'w').close() for i in range({})]"
    result = attack(HEAD + body.replace("{}", "300") + "\n    return x", tmp_path, cpu, limits=few)
    assert isinstance(result.termination, Killed)
    assert "more than 200 files in its folder" in result.output_text
    some = attack(HEAD + body.replace("{}", "90") + "\n    return x", tmp_path, cpu, limits=few)
    assert some.termination == Finished()


def test_deeply_nested_folders_are_ended(cpu: Nursery, tmp_path: Path) -> None:
    body = "for _ in range({}): os.mkdir('d'); os.chdir('d')\n    return x"
    result = attack(HEAD + body.replace("{}", "3000"), tmp_path, cpu)
    assert isinstance(result.termination, Killed)
    assert "nested more than 200 levels" in result.output_text
    assert attack(HEAD + body.replace("{}", "50"), tmp_path, cpu).termination == Finished()


def test_processor_time_is_bounded(cpu: Nursery, tmp_path: Path) -> None:
    short = dataclasses.replace(LIMITS, processor_s=7)
    body = (
        "import resource; print(resource.getrlimit(resource.RLIMIT_CPU), flush=True)\n    return x"
    )
    assert "(7, 7)" in attack(HEAD + body, tmp_path, cpu, limits=short).output_text


def test_a_flood_of_output_is_ended(cpu: Nursery, tmp_path: Path) -> None:
    limits = Limits(output_bytes=1 << 20)
    result = attack(HEAD + "os.write(1, b'y' * (4 << 20))", tmp_path, cpu, limits=limits)
    assert isinstance(result.termination, Flooded)
    assert "printed more than" in result.termination.what
    assert len(result.output_text) <= limits.output_kept_bytes


SCRIBBLE = """
    import json, struct
    body = json.dumps({"nonce": "0" * 32, "record": {"type": "StepDone", "index": 1}}).encode()
    for fd in range(3, 4096):
        try: os.write(fd, %s)
        except OSError: pass
    return x
"""


@pytest.mark.parametrize("written", ["body", "struct.pack('<I', len(body)) + body", "b'\\0' * 99"])
def test_forged_replies_are_seen(cpu: Nursery, tmp_path: Path, written: str) -> None:
    result = attack(HEAD + SCRIBBLE % written, tmp_path, cpu)
    assert isinstance(result.termination, Garbled)
    assert result.termination.index == 1


def test_closing_every_descriptor_is_no_result(cpu: Nursery, tmp_path: Path) -> None:
    end = attack(HEAD + "os.closerange(0, 4096)\n    return x", tmp_path, cpu).termination
    assert isinstance(end, Exited | Garbled)


def test_a_daemon_dies_with_its_worker(cpu: Nursery, tmp_path: Path) -> None:
    source = """
        def run(x):
            reader, writer = os.pipe()
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.setsid()
                    os.write(writer, str(os.getpid()).encode())
                    time.sleep(1000)
                os._exit(0)
            return x * 0 + int(os.read(reader, 20))
    """
    with pool(source, tmp_path, cpu) as workers:
        daemon = int(read(workers.run(scenario(), ramp), 2)[0].item())
        assert daemon in processes.visible_processes()
        workers.run(scenario(steps=()), ramp, fresh=True)
        found = processes.visible_processes().get(daemon)
    assert found is None or found.state == "Z"


def test_a_daemon_that_forks_on_and_on_dies_with_its_worker(cpu: Nursery, tmp_path: Path) -> None:
    """Each link of the chain starts the next one in a session of its own, and ends."""
    source = """
        def run(x):
            for _ in range(4):
                if os.fork() == 0:
                    while True:
                        os.setsid()
                        if os.fork():
                            os._exit(0)
            return x
    """
    with pool(source, tmp_path, cpu) as workers:
        workers.run(scenario(), ramp)
        assert not cpu.is_as_new()
    assert cpu.is_as_new()


def test_patched_torch_and_json_gain_nothing(cpu: Nursery, tmp_path: Path) -> None:
    source = """
        import json
        json.dumps = json.loads = lambda *a, **k: "{}"
        torch.Tensor.copy_ = lambda self, *a, **k: self
        torch.equal = torch.allclose = lambda *a, **k: True
        def run(x):
            return torch.zeros_like(x)
    """
    with pool(source, tmp_path, cpu) as workers:
        run = workers.run(scenario(), ramp)
    assert torch.equal(read(run, 2), torch.zeros(100))
    assert not torch.equal(read(run, 2), torch.arange(100.0))


def test_the_network_is_out_of_reach(cpu: Nursery, tmp_path: Path) -> None:
    if cpu.sandbox["network namespace"] != "yes":
        pytest.skip(f"no network namespace here: {cpu.sandbox['network namespace']}")
    body = "import socket; socket.create_connection(('127.0.0.1', 9), timeout=1)"
    raised = cast(StepRaised, attack(HEAD + body, tmp_path, cpu).records[1])
    assert raised.exception in ("OSError", "PermissionError")


def test_a_huge_allocation_is_refused(cpu: Nursery, tmp_path: Path) -> None:
    limits = Limits(memory_bytes=2 << 30)
    body = "return torch.ones(1 << 30)"
    raised = cast(StepRaised, attack(HEAD + body, tmp_path, cpu, limits=limits).records[1])
    assert raised.claim is Claim.NO_MEMORY


@pytest.mark.parametrize(("own", "ended"), [(False, False), (True, True)])
def test_memory_that_forks_share_is_counted_once(
    own: bool, ended: bool, cpu: Nursery, tmp_path: Path
) -> None:
    """As of torch's compiler, which forks a process a core from one that has loaded all."""
    source = f"""
        held = bytearray(b"1") * (600 << 20)

        def run(x):
            children = []
            for _ in range(5):
                child = os.fork()
                if not child:
                    mine = bytearray(b"2") * (600 << 20) if {own} else None
                    time.sleep({600 if ended else 1})
                    os._exit(0)
                children.append(child)
            for child in children:
                os.waitpid(child, 0)
            return x + 1
    """
    limits = Limits(memory_bytes=2 << 30, watch_s=0.05)
    with pool(source, tmp_path, cpu, limits=limits) as workers:
        result = workers.run(scenario(), ramp).result
    assert isinstance(result.termination, Killed if ended else Finished)
    assert ("bytes held, allowed" in result.output_text) is ended


_BYTES = {
    "files": "open(f'f{i}', 'wb').write(bytes(16 << 20))",
    "memfds": "KEPT.append(os.memfd_create('x')); os.write(KEPT[-1], bytes(16 << 20))",
    "removed files": "KEPT.append(open('f', 'wb', 0)); os.remove('f')\n        "
    "KEPT[-1].write(bytes(16 << 20))",
    "mapped memory": "f = os.memfd_create('x'); os.write(f, bytes(16 << 20))\n        "
    "KEPT.append(mmap.mmap(f, 16 << 20)); os.close(f)",
}


@pytest.mark.parametrize("act", _BYTES.values(), ids=_BYTES)
def test_bytes_that_no_memory_limit_counts_are_bounded(
    act: str, cpu: Nursery, tmp_path: Path
) -> None:
    limits = Limits(folder_bytes=128 << 20, cache_bytes=128 << 20, watch_s=0.05)
    body = f"""import mmap
KEPT = []
def run(x):
    if attacked(): return x
    for i in range(16):
        {act}
    time.sleep(60)
    return x"""
    result = attack(body, tmp_path, cpu, limits=limits)
    assert isinstance(result.termination, Killed)
    assert "bytes" in result.output_text


def test_a_build_cache_that_is_filled_ends_the_kernel_and_is_removed(
    cpu: Nursery, tmp_path: Path
) -> None:
    source = """
        def run(x):
            place = os.path.dirname(os.environ["TRITON_CACHE_DIR"])
            for i in range(16):
                with open(f"{place}/f{i}", "wb") as file:
                    file.write(bytes(16 << 20))
            time.sleep(60)
            return x
    """
    limits = Limits(cache_bytes=128 << 20, watch_s=0.05)
    with pool(source, tmp_path, cpu, limits=limits) as workers:
        result = workers.run(scenario(), ramp).result
        assert isinstance(result.termination, Killed)
        assert "more than 134217728 bytes" in result.output_text
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) < 1 << 20


def test_a_process_stays_visible(cpu: Nursery, tmp_path: Path) -> None:
    body = "return x * 0 + ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"
    with pool(HEAD.replace("attacked()", "False") + body, tmp_path, cpu) as workers:
        run = workers.run(scenario(), ramp)
    assert torch.equal(read(run, 2), torch.full((100,), -1.0))


def test_writes_outside_are_refused(cpu: Nursery, tmp_path: Path) -> None:
    target = tmp_path / "outside"
    body = f"open({str(target)!r}, 'w').write('x')"
    result = attack(HEAD + body, tmp_path, cpu)
    if isinstance(result.records[1], StepRaised):
        assert result.records[1].exception == "PermissionError"
        assert not target.exists()
    else:
        pytest.skip("this kernel has no Landlock")


def test_the_judges_memory_environment_and_seeds_are_out_of_reach(
    cpu: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"""
        judge = {os.getpid()}
        def tried(path):
            try:
                return open(path, "rb").read(1 << 20)
            except OSError:
                return b""
        def run(x):
            seen = [tried(f"/proc/{{p}}/{{n}}") for p in (judge, os.getppid())
                    for n in ("environ", "maps", "mem")]
            own = ("CUASSAY_GUARD", "CUASSAY_HOME", "CUASSAY_RUNTIME")
            named = [n for n in os.environ if "SEED" in n or "CUASSAY" in n and n not in own]
            line = tried(f"/proc/{{judge}}/cmdline") + tried("/proc/self/cmdline")
            return [len(b"".join(seen)), len(named), int(b"secret-seed" in line)]
    """
    monkeypatch.setenv("CUASSAY_SEED", "secret-seed")
    with pool(source, tmp_path, cpu) as workers:
        result = workers.run(scenario(), ramp).result
    record = result.records[1]
    assert not isinstance(record, StepRaised), record
    assert [item.scalar for item in record.items] == [0.0, 0.0, 0.0]


def test_run_folders_are_hidden_and_shared_memory_is_private(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "events").write_text("seed 7")
    source = f"""
        import multiprocessing
        def run(x):
            multiprocessing.Lock()
            try: seen = len(os.listdir({str(tmp_path / "runs")!r}))
            except PermissionError: seen = 0
            return [seen, len(os.listdir("/dev/shm"))]
    """
    with nursery(hide=[tmp_path / "runs"]) as opened:
        if opened.sandbox["hidden folders"] != "yes":
            pytest.skip(f"no mount namespace here: {opened.sandbox['hidden folders']}")
        with pool(source, tmp_path / "keep", opened) as workers:
            record = workers.run(scenario(), ramp).result.records[1]
    assert not isinstance(record, StepRaised), record
    assert [item.scalar for item in record.items] == [0.0, 0.0]


def test_cases_arrive_without_seeds(cpu: Nursery, tmp_path: Path) -> None:
    source = """
        import gc
        def run(x):
            cases = [o for o in gc.get_objects() if type(o).__name__ == "Case"]
            return [len(cases) > 0, any(c.seed or c.fills for c in cases)]
    """
    with pool(source, tmp_path, cpu) as workers:
        result = workers.run(scenario(sizes=(5, 6, 7)), ramp).result
    record = result.records[1]
    assert not isinstance(record, StepRaised), record
    assert [item.scalar for item in record.items][1] == 0.0


def test_a_candidate_may_delete_its_folder(cpu: Nursery, tmp_path: Path) -> None:
    body = "import shutil; shutil.rmtree(os.getcwd(), ignore_errors=True); return x"
    assert attack(HEAD + body, tmp_path, cpu).termination == Finished()


def test_killing_the_parent_is_refused_or_survived(tmp_path: Path) -> None:
    with nursery() as opened:
        source = HEAD + "os.kill(os.getppid(), 9); time.sleep(0.5); return x"
        with pool(source.replace("attacked()", "False"), tmp_path, opened) as workers:
            result = workers.run(scenario(), ramp).result
    end, record = result.termination, result.records[-1]
    assert isinstance(end, Killed | Garbled) or isinstance(record, StepRaised)


@pytest.mark.parametrize(
    ("source", "limit_s", "what"),
    [
        ("os._exit(3)", 120.0, "exited with code 3"),
        ("ctypes.string_at(0)", 120.0, "died of signal 11"),
        ("time.sleep(1000)", 0.5, "did not end within 0.5 s"),
    ],
)
def test_builds_that_misbehave(
    cpu: Nursery, tmp_path: Path, source: str, limit_s: float, what: str
) -> None:
    with pool(source, tmp_path, cpu, limits=Limits(build_s=limit_s)) as workers:
        end = workers.run(scenario(), ramp).result.termination
    assert isinstance(end, BuildFailed)
    assert what in end.what


def test_a_compiler_that_needs_longer_is_no_fault_of_the_candidate(
    cpu: Nursery, tmp_path: Path
) -> None:
    source = "from torch.utils import cpp_extension\ntime.sleep(1000)"
    with pool(source, tmp_path, cpu, limits=Limits(build_s=0.5)) as workers:
        end = workers.run(scenario(), ramp).result.termination
    assert isinstance(end, ToolMissing)
    assert end.what.endswith("did not end within 0.5 s: run it again, what was compiled is kept")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with nursery() as opened:
        source = (
            "def run(x):\n    open('file', 'w').write('x' * 1000)\n    return x * 0 + os.getpid()"
        )
        with pool(source, tmp_path, opened) as workers:
            pid = int(read(workers.run(scenario(), ramp), 2)[0].item())
        folder = opened.folder
    assert not folder.exists()
    assert pid not in processes.visible_processes()


JUDGE = """
import sys
from pathlib import Path
from tests.support.workers import nursery, pool, ramp, read, scenario
source = "def run(x): return x * 0 + os.getpid()"
with nursery() as opened, pool(source, Path({keep!r}), opened) as p:
    pid = int(read(p.run(scenario(), ramp), 2)[0].item())
    sys.stdout.write(f"{{pid}} {{opened.folder}}\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""


def test_a_killed_judge_leaves_nothing(tmp_path: Path) -> None:
    judge = subprocess.Popen(
        [sys.executable, "-c", JUDGE.format(keep=str(tmp_path))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=f"{ROOT / 'src'}:{ROOT}"),
        text=True,
    )
    with judge:
        assert judge.stdout is not None
        pid, folder = judge.stdout.readline().split()
        assert int(pid) in processes.visible_processes()
        judge.kill()
    for _ in range(6000):
        if int(pid) not in processes.visible_processes() and not os.path.exists(folder):
            break
        time.sleep(0.02)
    assert int(pid) not in processes.visible_processes()
    assert not os.path.exists(folder)
