"""A run folder or an audit in the browser, on loopback, also while it is being written.

Only this machine can connect, only with the address's secret word (other users of the machine
share its loopback), and only under a name that means loopback: a page of another site that has
its name resolved to 127.0.0.1 is refused. Nothing can be changed through it. Unfinished pages
ask the browser to load them again.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

from cuassay.errors import CuassayError, UsageError
from cuassay.model.events import EngineFinished, EngineStopped
from cuassay.store import audits
from cuassay.store.runs import RunFolder

REFRESH_S = 3
_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A page, and whether more is to come."""

    text: str
    live: bool = False


def run_page(path: Path) -> Shown:
    """Return the page of one trial's folder."""
    from cuassay.report.html import live as html_live
    from cuassay.report.html import verdict as html

    run = RunFolder(path)
    verdict = run.verdict()
    if verdict is not None:
        return Shown(text=html.render(verdict))
    events = tuple(run.events())
    ended = any(isinstance(event, EngineFinished | EngineStopped) for event in events)
    silent_s = 0.0
    with suppress(OSError):
        silent_s = time.time() - (path / "events.ndjson").stat().st_mtime
    return Shown(text=html_live.render(events, silent_s=silent_s), live=not ended)


def audit_page(path: Path, *, runs: str) -> Shown:
    """Return the page of an audit's folder; `runs` is where its candidates' pages are."""
    from cuassay.report.html import audit as html_audit

    audit = audits.read_audit(path)
    return Shown(text=html_audit.render(audit, runs=runs), live=not audit.finished_at)


class View:
    """A server of one folder. `address` is what the browser opens."""

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        self._folder = folder.resolve()
        self._secret = secrets.token_urlsafe(18)
        view = self

        class Handler(BaseHTTPRequestHandler):
            server_version, sys_version = "cuassay", ""

            def do_GET(self) -> None:
                view._answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Stay silent: what is asked for is text of the browser."""

        try:
            self._server = ThreadingHTTPServer((_HOST, port), Handler)
        except OSError as error:
            raise UsageError(
                f"--port {port} cannot be served: {error.strerror or error}; choose another, or "
                "leave it out"
            ) from None
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        """The address with its secret word."""
        return f"http://{_HOST}:{self.port}/{self._secret}/"

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def serve(self) -> None:
        """Serve until `close` is called or the process is interrupted."""
        self._server.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve in a thread for the time of a `with` block; yield the address."""
        thread = Thread(target=self.serve, daemon=True)
        thread.start()
        try:
            yield self.address
        finally:
            self.close()
            thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        page = self._page_of(request)
        if page is None:
            _refuse(request, HTTPStatus.NOT_FOUND)
            return
        try:
            shown = page()
        except (CuassayError, OSError):
            _refuse(request, HTTPStatus.NOT_FOUND)
            return
        data = shown.text.encode()
        request.send_response(HTTPStatus.OK)
        request.send_header("Content-Type", "text/html; charset=utf-8")
        request.send_header("Content-Length", str(len(data)))
        request.send_header("Cache-Control", "no-store")
        request.send_header("X-Content-Type-Options", "nosniff")
        request.send_header("X-Frame-Options", "DENY")
        request.send_header("Cross-Origin-Opener-Policy", "same-origin")
        if shown.live:
            request.send_header("Refresh", str(REFRESH_S))
        request.end_headers()
        try:
            request.wfile.write(data)
        except (BrokenPipeError, ConnectionResetError):
            return  # the browser went elsewhere

    def _page_of(self, request: BaseHTTPRequestHandler) -> Callable[[], Shown] | None:
        """Return what makes the page that is asked for, None where it may not be had."""
        host = request.headers.get("Host", "")
        if host not in (f"{_HOST}:{self.port}", f"localhost:{self.port}"):
            return None
        head, _, rest = unquote(urlsplit(request.path).path).lstrip("/").partition("/")
        if not hmac.compare_digest(head.encode(), self._secret.encode()):
            return None
        if not rest:
            return self._front
        below, _, name = rest.partition("/")
        if below != "run" or not name:
            return None
        folder = (self._folder / name).resolve()
        if not folder.is_relative_to(self._folder / "candidates") or not folder.is_dir():
            return None
        return lambda: run_page(folder)

    def _front(self) -> Shown:
        if audits.is_audit(self._folder):
            return audit_page(self._folder, runs=f"/{self._secret}/run/")
        return run_page(self._folder)


def _refuse(request: BaseHTTPRequestHandler, status: HTTPStatus) -> None:
    data = f"{status.value} {status.phrase}\n".encode()
    request.send_response(status)
    request.send_header("Content-Type", "text/plain; charset=utf-8")
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    try:
        request.wfile.write(data)
    except (TimeoutError, BrokenPipeError, ConnectionResetError):
        return
