"""A hub of a few models on the loopback interface, for the tests of the hub client."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

GOOD = "hf_good"
COMMIT = "a" * 40


@dataclass
class Repo:
    files: dict[str, bytes]
    access: str = "public"
    """public / private / gated / awaiting / broken (the hub answers 500)."""


@dataclass
class Hub:
    repos: dict[str, Repo]
    url: str = ""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path, token."""
    drop_after: int | None = None
    """Bytes of a file after which the connection is dropped, once for each file."""
    hold: threading.Event = field(default_factory=threading.Event)
    """While it is clear, files larger than 1 MiB stop after a chunk of 64 KiB."""
    role: str = "read"
    dropped: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hold.set()

    def fetched(self, name: str) -> int:
        """How often this file was asked for."""
        return sum(method == "GET" and path.endswith("/" + name) for method, path, _ in self.requests)


@contextmanager
def serving(repos: dict[str, Repo]) -> Iterator[Hub]:
    hub = Hub(repos)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.hold.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    @property
    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path, self._token))
        if path == "/api/whoami-v2":
            self._whoami()
        elif path.startswith("/api/models/"):
            self._info(path.removeprefix("/api/models/"))
        elif "/resolve/" in path:
            self._file(*path.lstrip("/").split("/resolve/", 1))
        else:
            self._error(404, "EntryNotFound", "Not found")

    def _whoami(self) -> None:
        if self._token != GOOD:
            return self._error(401, "", "Invalid credentials in Authorization header")
        access = {"displayName": "laptop", "role": self.hub.role}
        return self._json({"name": "ada", "type": "user", "auth": {"accessToken": access}})

    def _info(self, rest: str) -> None:
        name, _, revision = rest.partition("/revision/")
        repo = self._repo(name)
        if repo is None:
            return None
        if revision not in ("", "main", "v1", COMMIT):
            return self._error(404, "RevisionNotFound", "Invalid rev id")
        files = [{"rfilename": name, "size": len(data)} for name, data in repo.files.items()]
        return self._json(
            {"id": name, "modelId": name, "sha": COMMIT, "siblings": files, "tags": [], "downloads": 0}
        )

    def _repo(self, name: str) -> Repo | None:
        if self._token and self._token != GOOD:
            self._error(401, "", "Invalid credentials in Authorization header")
            return None
        repo = self.hub.repos.get(name)
        if repo is None or (repo.access == "private" and not self._token):
            self._error(404 if self._token else 401, "RepoNotFound", "Repository not found")
            return None
        if repo.access == "broken":
            self._error(500, "", "Internal Error")
            return None
        return repo

    def _file(self, name: str, rest: str) -> None:
        repo = self._repo(name)
        if repo is None:
            return None
        file = rest.partition("/")[2]
        if repo.access in ("gated", "awaiting"):
            words = (
                "Your request to access model is awaiting a review from the repo authors."
                if repo.access == "awaiting"
                else f"Access to model {name} is restricted. You must have access to it and be authenticated."
            )
            return self._error(403 if self._token else 401, "GatedRepo", words)
        if file not in repo.files:
            return self._error(404, "EntryNotFound", "Entry not found")
        return self._send(file, repo.files[file])

    def _send(self, name: str, data: bytes) -> None:
        start = 0
        if self.headers.get("Range", "").startswith("bytes="):
            start = int(self.headers["Range"].removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        drop = self.hub.drop_after
        for place in range(start, len(data), 65536):
            if len(data) > 2**20:
                if place > start:
                    self.hub.hold.wait(30)
                if drop is not None and place >= drop and name not in self.hub.dropped:
                    self.hub.dropped.add(name)
                    self.close_connection = True
                    self.connection.close()
                    return
            try:
                self.wfile.write(data[place : place + 65536])
            except OSError:
                self.close_connection = True
                return

    def _json(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
