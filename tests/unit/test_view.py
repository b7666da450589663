"""`cuassay report --open`: what loopback serves, to whom, and what it refuses."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cuassay.cli.main import main
from cuassay.cli.verbs.report import folder_of
from cuassay.errors import UsageError
from cuassay.model.events import EngineStopped
from cuassay.model.jobs import TrialJob
from cuassay.view import View
from tests.support import audits, samples
from tests.support.folders import kept_audit, kept_run, kept_verdict

_JOB = TrialJob(problem="p", candidate="kernel.py")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text("def run(x, weight, eps):\n    return x\n")


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    with View(folder).running() as address:
        yield address


def _get(address: str, **headers: str) -> tuple[str, dict[str, str]]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(address, headers=headers), timeout=60) as answer:
        return answer.read().decode(), dict(answer.headers)


def _refused(address: str, **headers: str) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        _get(address, **headers)
    caught.value.close()
    return caught.value.code


def test_a_finished_run_is_its_report() -> None:
    run = kept_run(samples.events(samples.rejected()), _JOB)
    with _served(run.path) as address:
        text, headers = _get(address)
    assert "REJECTED" in text
    assert "Refresh" not in headers
    assert headers["X-Frame-Options"] == "DENY"


def test_a_running_trial_shows_what_it_has_and_asks_again() -> None:
    events = samples.events(samples.rejected())
    run = kept_run(events[:12], _JOB)
    with _served(run.path) as address:
        text, headers = _get(address)
        assert "RUNNING" in text
        assert "3 of 8 checks done" in text
        assert "a static buffer is returned" in text
        assert headers["Refresh"] == "3"
        again = kept_run((), _JOB)  # a run that has written nothing yet
        with _served(again.path) as empty:
            assert "it begins" in _get(empty)[0]
    os.utime(run.path / "events.ndjson", (0, 0))
    with _served(run.path) as address:
        text, _ = _get(address)
    assert "SILENT" in text
    assert "it may have been killed" in text
    stopped = kept_run((*events[:3], EngineStopped(exit_code=3, message="no \x1b[1mnvcc")), _JOB)
    with _served(stopped.path) as address:
        text, headers = _get(address)
    assert "NO VERDICT" in text
    assert "no nvcc" in text
    assert "Refresh" not in headers


def test_hostile_events_are_text() -> None:
    run = kept_run(samples.events(samples.nasty())[:-1], _JOB)
    with _served(run.path) as address:
        text, _ = _get(address)
    assert "<script>alert(1)" not in text
    assert "\x1b" not in text


def test_an_audit_links_to_every_trial_s_own_report(tmp_path: Path) -> None:
    audit = audits.audit(6)
    folder = kept_audit(tmp_path / "audit", audit)
    result = audit.results[1]
    kept_verdict(samples.rejected(), tmp_path / "kernel.py", path=folder / result.run)
    with _served(folder) as address:
        text, headers = _get(address)
        secret = address.rstrip("/").rpartition("/")[2]
        link = f"/{secret}/run/{result.run}"
        assert f'href="{link}"' in text
        assert "Refresh" not in headers
        base = address.partition(f"/{secret}")[0]
        assert "18.4 times the allowed error" in _get(f"{base}{link}")[0]
        for wrong in (
            "/", "/wrong/", f"/{secret}/x", f"/{secret}/run/", f"/{secret}/run/..",
            f"/{secret}/run/candidates/../../../../etc", f"/{secret}/run/%2e%2e/home",
            f"/{secret}/run//etc", f"/{secret}/run/audit.json", f"/{secret}/run/candidates/none",
        ):  # fmt: skip
            assert _refused(base + wrong) == 404, wrong
    live = kept_audit(tmp_path / "live", audit, finished=False)
    with _served(live) as address:
        assert _get(address)[1]["Refresh"] == "3"


def test_other_names_and_methods_are_refused() -> None:
    run = kept_run(samples.events(samples.accepted()), _JOB)
    with _served(run.path) as address:
        assert _refused(address, Host="evil.example") == 404
        assert _refused(address, Host="127.0.0.1:1") == 404
        request = urllib.request.Request(address, data=b"x", method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(request, timeout=60)
        caught.value.close()
        assert caught.value.code == 501
        port = address.split(":")[2].partition("/")[0]
        with pytest.raises(UsageError, match=f"--port {port} cannot be served"):
            View(run.path, port=int(port))


def test_the_folder_of_a_run_or_an_audit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown run 'absent'"):
        folder_of("absent")
    run = kept_run(samples.events(samples.accepted()), _JOB)
    assert folder_of("last") == run.path
    assert folder_of(run.id[:12]) == run.path
    folder = kept_audit(tmp_path / "home" / "audits" / "20260101-000000-000abcd", audits.audit(2))
    assert folder_of("20260101") == folder
    assert folder_of(str(folder)) == folder


def test_the_command_prints_the_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = kept_run(samples.events(samples.accepted()), _JOB)

    opened: list[str] = []

    def interrupted(view: View) -> None:
        view._server.server_close()
        raise KeyboardInterrupt

    monkeypatch.setattr(View, "serve", interrupted)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["report", run.id, "--open"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("http://127.0.0.1:")
    assert opened == [out.strip()]
    assert "serving until interrupted" in err
