"""How long the audit page takes to build and to load, and what memory it needs.

    PYTHONPATH=src:. python benchmarks/report_pages.py

1 000 candidates with three findings each, and 100 000 findings over 5 000 candidates. Loading
is measured in headless Chromium where there is one: from navigation to the load event, the
page's own script included, best and worst of five. On a machine that is shared, as its load
average tells, the processor time of the page's main thread says more than the clock does.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import save

from cuassay import __version__
from cuassay.cli.sinks import rule
from cuassay.model.audit import Audit
from cuassay.model.outcome import CheckReport, Failed
from cuassay.report.html.audit import render
from cuassay.report.judged import Judged
from cuassay.report.junit import junit
from cuassay.report.markdown import markdown
from cuassay.report.sarif import sarif

_LOADS = 5


def main() -> None:
    """Measure and keep the results."""
    sizes = {"1000 candidates": (1000, 3), "100000 findings": (5000, 60)}
    results = {
        "pages": {name: _measured(*size) for name, size in sizes.items()},
        "forms of 100000 findings": _forms(2000, 50),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    print(json.dumps(results, indent=1))
    print(save("report-pages", results))


def _measured(candidates: int, findings: int) -> dict[str, object]:
    sys.path[:0] = [str(Path(__file__).resolve().parents[1])]  # the made-up audits of the tests
    made: Audit = importlib.import_module("tests.support.audits").audit(
        candidates, findings=findings
    )
    started = time.perf_counter()
    text = render(made)
    return {
        "candidates": len(made.results),
        "findings": sum(len(result.findings) for result in made.results),
        "build_s": round(time.perf_counter() - started, 3),
        "bytes": len(text.encode()),
        **_loads(text),
    }


def _forms(candidates: int, findings: int) -> dict[str, object]:
    """Time the files for other tools on as many trials, each with as many findings."""
    sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
    samples = importlib.import_module("tests.support.samples")
    found = tuple(
        dataclasses.replace(samples.hot_rows(), id=f"F{n}", scenario=None, error_map=None)
        for n in range(findings)
    )
    check = CheckReport(code="NUM002", title="t", outcome=Failed(findings=found))
    verdict = dataclasses.replace(samples.rejected(), checks=(check,))
    trials = [
        Judged(path=f"kernels/k{n}.py", root=Path("/r"), verdict=verdict) for n in range(candidates)
    ]
    forms: dict[str, Callable[[], str]] = {
        "sarif": lambda: json.dumps(sarif(trials, rules=rule, version=__version__)),
        "junit": lambda: junit(trials),
        "markdown": lambda: markdown(trials),
    }
    return {name: _built(make) for name, make in forms.items()}


def _built(make: Callable[[], str]) -> dict[str, object]:
    started = time.perf_counter()
    text = make()
    return {"build_s": round(time.perf_counter() - started, 2), "bytes": len(text.encode())}


def _loads(text: str) -> dict[str, object]:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return {"load_s": "no Chromium here"}
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "page.html"
        file.write_text(text, encoding="utf-8")
        chromium = driver.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
        )
        times, busy = [], []
        for _ in range(_LOADS):
            page = chromium.new_page()
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            started = time.perf_counter()
            page.goto(file.as_uri(), wait_until="load")
            page.evaluate("document.querySelectorAll('.items tbody').length")
            times.append(round(time.perf_counter() - started, 3))
            metrics = session.send("Performance.getMetrics")["metrics"]
            busy.append(next(round(m["value"], 3) for m in metrics if m["name"] == "TaskDuration"))
            page.close()
        chromium.close()
    return {"load_s": sorted(times), "main_thread_s": sorted(busy)}


if __name__ == "__main__":
    main()
