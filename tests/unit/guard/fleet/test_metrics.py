"""Exporters, alert rules, dashboard, logs and the status verb."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import cuassay
import cuassay_guard
from cuassay.cli.main import main
from cuassay_guard.fleet import metrics, registry
from cuassay_guard.fleet.status import FILE
from cuassay_guard.logs import JsonFormatter
from cuassay_guard.prometheus import GuardCollector
from cuassay_guard.wrap import Guarded
from tests.support.guards import QUIET, Faulty, honest, inputs, rmsnorm
from tests.support.paths import python_path

ASSETS = Path(cuassay_guard.__file__).parent / "assets"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quiet_guards: None) -> None:
    monkeypatch.setattr(registry, "_watches", type(registry._watches)())
    monkeypatch.setenv("CUASSAY_GUARD_STATUS", str(tmp_path / "status"))


def _run(**options: Any) -> Guarded:
    kernel = Faulty()
    guarded: Guarded = cuassay.guard(
        kernel, trusted=rmsnorm, **{**QUIET, "name": "norm", **options}
    )
    with guarded:
        guarded(*inputs())
    kernel.wrong = True
    with guarded:
        guarded(*inputs())
    guarded(*inputs())
    return guarded


def _values() -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in GuardCollector().collect():
        for sample in metric.samples:
            kept = {k: v for k, v in sample.labels.items() if k not in ("kernel", "digest")}
            found[f"{sample.name}{kept or ''}"] = sample.value
    return found


def test_a_collector_reads_the_counters() -> None:
    guarded = _run()
    found = _values()
    assert found["cuassay_guard_calls_total"] == 3
    assert found["cuassay_guard_shadow_total"] == 2
    assert found["cuassay_guard_fallback_total"] == 1
    assert found["cuassay_guard_breaker_state"] == 2
    mismatch = {k: v for k, v in found.items() if k.startswith("cuassay_guard_mismatch_total")}
    assert sum(mismatch.values()) == 1
    assert any("bfloat16" in key for key, value in mismatch.items() if value)
    assert found["cuassay_guard_error_budget_ratio_bucket{'le': '+Inf'}"] == 2
    assert found["cuassay_guard_error_budget_ratio_count"] == 2
    assert not any("64" in key for key in found)  # no label depends on a shape
    del guarded


def test_multiprocess_mode_adds_up_over_processes(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import os, cuassay, torch
        from cuassay_guard import prometheus
        from tests.support.guards import double
        guarded = cuassay.guard(double, trusted=double, sample=0, oracle="local", name="d")
        pusher = prometheus.install()
        child = os.fork()
        for _ in range(5):
            guarded(torch.ones(3))
        guarded.flush(); pusher.push(); pusher.push()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    environment = {
        **os.environ,
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path),
        "PYTHONPATH": python_path(Path(cuassay.__file__).parents[1], os.getcwd()),
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=environment, check=True)
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    merged = CollectorRegistry()
    MultiProcessCollector(merged, path=str(tmp_path))  # type: ignore[no-untyped-call]
    text = generate_latest(merged).decode()
    assert re.search(r'cuassay_guard_calls_total\{.*kernel="d".*\} 10.0', text)
    assert re.search(r'cuassay_guard_shadow_total\{.*kernel="d".*\} 2.0', text)


def test_opentelemetry_reads_the_counters() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from cuassay_guard import otel

    guarded = _run()
    reader = InMemoryMetricReader()
    otel.install(MeterProvider(metric_readers=[reader]))
    data: Any = reader.get_metrics_data()
    found = {
        metric.name: sum(point.value for point in metric.data.data_points)
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert found["cuassay.guard.calls"] == 3
    assert found["cuassay.guard.mismatch"] == 1
    assert found["cuassay.guard.breaker_state"] == 2
    assert guarded.stats().calls == 3


@pytest.mark.parametrize(
    ("module", "blocked", "line"),
    [
        ("prometheus", "prometheus_client", "pip install 'cuassay[metrics]'"),
        ("otel", "opentelemetry", "pip install 'cuassay[otel]'"),
    ],
)
def test_an_absent_exporter_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, blocked: str, line: str
) -> None:
    import importlib

    for name in list(sys.modules):
        if name.split(".")[0] == blocked or name == f"cuassay_guard.{module}":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, blocked, None)
    with pytest.raises(cuassay.errors.MissingToolError, match=re.escape(line)):
        importlib.import_module(f"cuassay_guard.{module}")


def test_logs_are_one_json_object_a_line(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("cuassay.guard").setLevel(logging.INFO)
    with caplog.at_level(logging.INFO, logger="cuassay.guard"):
        _run(trace_id=lambda: "abc")
    documents = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    events = {document["event"]: document for document in documents}
    assert events["violation"]["trace_id"] == "abc"
    assert events["violation"]["measured"] > events["violation"]["allowed"]
    assert events["violation"]["level"] == "error"
    assert events["breaker"]["state"] == "open"


def test_status_shows_every_guard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guard", "status"]) == 0
    assert "No process" in capsys.readouterr().out
    guarded = _run()
    FILE.write()
    assert main(["guard", "status"]) == 1
    text = capsys.readouterr().out
    assert "norm (enforce): open, 3 calls, 2 checked, 1 violations, 1 fallbacks" in text
    assert "last violation: guarded kernel norm violates its contract" in text
    assert main(["guard", "status", "--json"]) == 1
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    assert (process["pid"], process["alive"]) == (os.getpid(), True)
    (call,) = process["guards"][0]["seen"]["calls"]
    assert call["arguments"][0]["shape"] == [8, 64]
    assert call["absmax"][0] == pytest.approx(float(inputs()[0].abs().max()))
    (tmp_path / "status" / "1.json").write_text("{")
    assert main(["guard", "status", "--folder", str(tmp_path / "nowhere")]) == 2
    assert main(["guard", "status"]) == 1  # a broken file hides no other
    FILE.remove()
    assert guarded.stats().violations == 1


def _names_used(text: str) -> set[str]:
    found = set(re.findall(r"\bcuassay_guard_[a-z_]+", text))
    return {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in found}


def test_the_dashboard_and_the_alerts_use_metrics_that_exist(tmp_path: Path) -> None:
    guarded = _run()
    known = {f"{metrics.PREFIX}_{family.name}" for family in metrics.families()}
    known.add(f"{metrics.PREFIX}_{metrics.histogram().name}")
    assert main(["guard", "export", str(tmp_path / "out")]) == 0
    dashboard = json.loads((tmp_path / "out" / "grafana-dashboard.json").read_text())
    assert _names_used(json.dumps(dashboard)) <= known
    assert _names_used((tmp_path / "out" / "alerts.yml").read_text()) <= known
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places) >= 8
    assert guarded.stats().calls == 3


_RULE_TESTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'cuassay_guard_mismatch_total{{kernel="k", digest="d", severity="numeric", dtype="bfloat16"}}'
        values: '0x9 1x40'
      - series: 'cuassay_guard_breaker_state{{kernel="k", digest="d"}}'
        values: '0x9 2x10 0x40'
      - series: 'cuassay_guard_calls_total{{kernel="k", digest="d"}}'
        values: '0+10000x200'
      - series: 'cuassay_guard_shadow_total{{kernel="k", digest="d"}}'
        values: '0+10x60 600x140'
    alert_rule_test:
      - {{eval_time: 8m, alertname: CuassayGuardMismatch, exp_alerts: []}}
      - {{eval_time: 10m, alertname: CuassayGuardMismatch, exp_alerts: [
          {{exp_labels: {{kernel: k, digest: d, severity: page}}, exp_annotations: {{
            summary: "Kernel k gave wrong results (numeric)", description: "Look at `cuassay guard status` on the host, then `cuassay replay` the capsule."}}}}]}}
      - {{eval_time: 40m, alertname: CuassayGuardMismatch, exp_alerts: []}}
      - {{eval_time: 9m, alertname: CuassayGuardBreakerOpen, exp_alerts: []}}
      - {{eval_time: 12m, alertname: CuassayGuardBreakerOpen, exp_alerts: [
          {{exp_labels: {{kernel: k, digest: d, severity: page}}, exp_annotations: {{
            summary: "Kernel k is out of service; its trusted operator serves"}}}}]}}
      - {{eval_time: 60m, alertname: CuassayGuardBlind, exp_alerts: []}}
      - {{eval_time: 150m, alertname: CuassayGuardBlind, exp_alerts: [
          {{exp_labels: {{kernel: k, digest: d, severity: ticket}}, exp_annotations: {{
            summary: "No call of kernel k was checked for an hour"}}}}]}}
"""  # noqa: E501


def test_alerts_fire_when_they_should_and_stop(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    case = tmp_path / "case.yml"
    case.write_text(_RULE_TESTS.format(rules=ASSETS / "alerts.yml"))
    done = subprocess.run(
        [promtool, "test", "rules", str(case)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _asked(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as reply:
        return json.load(reply)["data"]


def _until(check: Any, *, tries: int = 1500) -> Any:
    for _ in range(tries):
        try:
            found = check()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come")


def test_a_real_prometheus_scrapes_a_running_guard_and_alerts(tmp_path: Path) -> None:
    server = shutil.which("prometheus")
    if server is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    from prometheus_client import CollectorRegistry, start_http_server

    own = CollectorRegistry()
    own.register(GuardCollector())
    exporter, thread = start_http_server(0, addr="127.0.0.1", registry=own)
    port = _free_port()
    settings = tmp_path / "prometheus.yml"
    settings.write_text(
        f"""
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: [{ASSETS / "alerts.yml"}]
scrape_configs:
  - job_name: guard
    static_configs: [{{targets: ["127.0.0.1:{exporter.server_port}"]}}]
"""
    )
    guarded: Guarded = cuassay.guard(honest, trusted=rmsnorm, **{**QUIET, "name": "norm"})
    process = subprocess.Popen(
        [server, f"--config.file={settings}", f"--storage.tsdb.path={tmp_path / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    query = urllib.parse.quote('cuassay_guard_calls_total{kernel="norm"}')
    try:
        with guarded:
            guarded(*inputs())
        _until(lambda: _asked(port, f"/api/v1/query?query={query}")["result"])
        assert _asked(port, "/api/v1/alerts")["alerts"] == []
        wrong = _run(name="other")
        alerts = _until(lambda: _asked(port, "/api/v1/alerts")["alerts"])
        assert {a["labels"]["kernel"] for a in alerts} == {"other"}
        assert "CuassayGuardMismatch" in {a["labels"]["alertname"] for a in alerts}
        assert wrong.stats().violations == 1
    finally:
        process.kill()
        process.wait()
        exporter.shutdown()
        exporter.server_close()
        thread.join()
    with guarded:  # nobody scrapes any more: nothing changes
        guarded(*inputs())
    assert guarded.stats().errors == 0
