"""What a test's processes take is counted for it, and folders are summed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BUSY = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_processes_that_a_test_starts_are_counted(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    gpu\n    thorough\n")
    (tmp_path / "test_one.py").write_text(
        "import subprocess, sys, time\n"
        f"def test_starts(): subprocess.run([sys.executable, '-c', {_BUSY!r}], check=True)\n"
        "def test_waits(): time.sleep(0.4)\n"
        "def test_nothing(): pass\n"
    )
    out = tmp_path / "out" / "cost.ndjson"
    command = [sys.executable, str(ROOT / "benchmarks" / "cost_of_tests.py"), "--out", str(out)]
    done = subprocess.run(
        [*command, "--", "-p", "no:cuassay", "."],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT / "src")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = out.read_text().splitlines()
    rows = {name.partition("::")[2]: row for name, *row in map(json.loads, lines)}
    taken_s, own_s, _ = rows["test_starts"]
    assert taken_s - own_s >= 0.28  # ticks of /proc are 10 ms
    assert rows["test_waits"][0] < 0.2 < 0.4 <= rows["test_waits"][2]
    assert "3 tests" in done.stdout
    first = next(line for line in done.stdout.splitlines() if "::" in line)
    assert first.endswith("test_one.py::test_starts")
