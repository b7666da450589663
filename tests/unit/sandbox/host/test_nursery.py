"""A judge and the process that its workers are forked from import torch at the same time."""

from __future__ import annotations

import subprocess
import sys

_CODE = (
    "import sys\n"
    "from cuassay.sandbox.host.nursery import Nursery\n"
    "from cuassay.sandbox.host.waits import run_now\n"
    "with Nursery('cpu') as nursery:\n"
    "    print('torch' in sys.modules, 'numpy' in sys.modules)\n"
    "    run_now(nursery.wait_ready())\n"
)


def test_who_starts_workers_imports_no_torch_for_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["False", "False"], done.stderr
