"""What the benchmarks share: the machine's name, JSON results, running the command line."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def machine() -> dict[str, str]:
    """Return the device's name and the versions that matter."""
    import torch

    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": str(os.cpu_count()),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "device": "CPU",
    }
    if torch.cuda.is_available():
        found["device"] = torch.cuda.get_device_name(0)
        found["cuda"] = str(torch.version.cuda)
    try:
        import triton

        found["triton"] = triton.__version__
    except ImportError:
        found["triton"] = "absent"
    return found


def save(name: str, results: Any) -> Path:
    """Write a result with its machine beside the others; $CUASSAY_RESULTS moves the folder."""
    path = result_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")
    return path


def result_path(name: str, folder: Path | None = None) -> Path:
    """Return where a result of this device lies: in $CUASSAY_RESULTS, unless a folder is given."""
    slug = machine()["device"].lower().replace("nvidia ", "").replace(" ", "-")
    return (folder or Path(os.environ.get("CUASSAY_RESULTS", RESULTS))) / f"{name}-{slug}.json"


def check(candidate: Path, problem: str, *, profile: str, home: Path) -> dict[str, Any]:
    """Run `cuassay check --json` in a process of its own; add its wall time and exit code."""
    environment = os.environ | {
        "CUASSAY_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        ),
    }
    command = [sys.executable, "-m", "cuassay", "check", str(candidate)]
    command += ["--problem", problem, "--profile", profile, "--json"]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    wall_s = time.perf_counter() - started
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        document = {"error": done.stdout[-2000:] + done.stderr[-4000:]}
    return document | {"wall_s": wall_s, "exit_code": done.returncode}


def line(name: str, document: dict[str, Any]) -> str:
    """Return one line: verdict, wall time and its split."""
    split = document.get("timing_s") or {}
    parts = " ".join(f"{key} {value:.1f}" for key, value in split.items() if value)
    verdict = document.get("verdict") or f"exit {document['exit_code']}"
    reason = str(document.get("reason") or document.get("error") or "")[:160]
    return f"{name:44s} {verdict:12s} {document['wall_s']:6.1f} s  ({parts})  {reason}"
