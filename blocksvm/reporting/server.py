"""A server of the page of current runs, on this machine alone; the page is made again for each request."""

from __future__ import annotations

import sys
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from blocksvm.base.errors import InputError, option
from blocksvm.reporting.page import page_of
from blocksvm.reporting.runs import load_runs

HERE = "127.0.0.1"
SECONDS = 2  # between reloads by a browser


class Pages(ThreadingHTTPServer):
    """Serves the page of these traces at ``url``.  InputError where the port is in use."""

    daemon_threads = True

    def __init__(self, traces: list[Path], port: int = 0):
        self.traces = traces
        try:
            super().__init__((HERE, port), Handler)
        except (OSError, OverflowError) as error:
            what = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{option('port', port)}: cannot be served on ({what.lower()}); choose another") from error

    def handle_error(self, request, client_address) -> None:
        """A browser may close a connection before it has read the page; all else is reported."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://{HERE}:{self.server_address[1]}/"


class Handler(BaseHTTPRequestHandler):
    """Answers '/' with the page, which asks to be loaded again while a run goes on, and all else with 404."""

    server: Pages

    def do_GET(self) -> None:
        # a page of another site whose name resolves to this address must not read the report
        host, _, _ = (self.headers.get("Host") or "").partition(":")
        if self.path != "/" or host not in (HERE, "localhost"):
            self._answer(404, "<!doctype html>\n<title>not here</title>\n<p>There is one page, at /.</p>\n")
            return
        try:
            runs = load_runs(self.server.traces, unfinished=True)
            going_on = any(run.status is None for run in runs)
            self._answer(200, page_of(runs), going_on)
        except (InputError, OSError) as error:
            self._answer(500, f"<!doctype html>\n<title>no report</title>\n<p>{escape(str(error))}</p>\n", True)

    def _answer(self, status: int, page: str, going_on: bool = False) -> None:
        body = page.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if going_on:
            self.send_header("Refresh", str(SECONDS))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments) -> None:
        """Do not log requests."""
