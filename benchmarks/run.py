"""`make bench`: every measurement in turn; those that need a GPU say so and are passed over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = (
    *("roundtrip.py", "comparator.py", "verdicts.py", "loops_gpu.py"),
    *("audit_scale.py", "audit_throughput.py"),
    *("agents.py", "report_pages.py"),
)


def main() -> int:
    """Run each script in a process of its own; 1 where one failed."""
    failed = []
    for script in SCRIPTS:
        print(f"\n== {script}", flush=True)
        if subprocess.run([sys.executable, str(HERE / script)], check=False).returncode:
            failed.append(script)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
