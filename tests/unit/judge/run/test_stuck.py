"""A block that never returns ends its process with one message; one that goes on does not."""

from __future__ import annotations

import subprocess
import sys

_RUN = """
import time
from cuassay.judge.run.stuck import ended_where_stuck

def tell(event):
    print(type(event).__name__, event.exit_code, event.message, flush=True)

count = 0
with ended_where_stuck(tell, "the reference", progress=lambda: count, limit_s=0.8):
    for _ in range(40):
        time.sleep(0.05)
        count += {step}
print("went on")
"""


def _run(step: int) -> subprocess.CompletedProcess[str]:
    text = _RUN.format(step=step)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


def test_a_block_without_progress_ends_the_process_with_a_message() -> None:
    done = _run(0)
    assert done.returncode == 3
    assert done.stdout.startswith("EngineStopped 3 the reference did not return within 0.8 s")
    assert "went on" not in done.stdout


def test_a_block_that_makes_progress_takes_as_long_as_it_needs() -> None:
    done = _run(1)
    assert done.returncode == 0
    assert done.stdout.strip() == "went on"
