"""100 000 findings: how long the reports and a question take, and in how much memory.

Made-up results are kept as an audit keeps them; nothing is judged. Writes
results/audit-scale-cpu.json.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from common import save  # noqa: E402
from tests.support import audits  # noqa: E402

_CANDIDATES, _FINDINGS = 10_000, 100_000


def prepare(folder: Path) -> None:
    """Write an audit of 10 000 candidates with 100 000 findings in all."""
    from cuassay.model import serial
    from cuassay.store.audits import AuditFolder

    each = _FINDINGS // (_CANDIDATES // 3) + 1
    audit = audits.audit(_CANDIDATES, findings=each)
    place = AuditFolder(folder)
    place.path.mkdir(parents=True)
    place.begin(audit.header, [r.item for r in audit.results], audit.oddities)
    lines = (serial.dumps(result) + "\n" for result in audit.results)
    (folder / "results.ndjson").write_text("".join(lines))


def measured(what: str, folder: Path) -> dict[str, object]:
    """Do one thing in this process and return its seconds and peak memory."""
    started = time.perf_counter()
    found = _WORK[what](folder)
    return {
        "seconds": round(time.perf_counter() - started, 3),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        **found,
    }


def _load(folder: Path) -> dict[str, object]:
    from cuassay.store.audits import read_audit

    audit = read_audit(folder)
    return {"findings": sum(len(result.findings) for result in audit.results)}


def _terminal(folder: Path) -> dict[str, object]:
    from cuassay.report.terminal import audit as audit_terminal
    from cuassay.store.audits import read_audit

    return {"lines": len(list(audit_terminal.lines(read_audit(folder))))}


def _json(folder: Path) -> dict[str, object]:
    from cuassay.report import audit_json
    from cuassay.store.audits import read_audit

    return {"bytes": len(json.dumps(audit_json.document(read_audit(folder))))}


def _html(folder: Path) -> dict[str, object]:
    from cuassay.report.html import audit as html_audit
    from cuassay.store.audits import read_audit

    return {"bytes": len(html_audit.render(read_audit(folder)))}


_WORK: dict[str, Callable[[Path], dict[str, object]]] = {
    "load": _load,
    "terminal report": _terminal,
    "JSON document": _json,
    "HTML page": _html,
}


def main() -> None:
    """Measure each step in a process of its own and write the result."""
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "audit"
        prepare(folder)
        size = (folder / "results.ndjson").stat().st_size
        for what in _WORK:
            done = subprocess.run(
                [sys.executable, __file__, what, str(folder)],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            results[what] = json.loads(done.stdout)
            print(what, results[what], flush=True)
    about = "an audit of 10 000 candidates and 100 000 findings: seconds and peak memory a step"
    print(save("audit-scale", {"what": about, "results_bytes": size, "steps": results}))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))
    else:
        main()
