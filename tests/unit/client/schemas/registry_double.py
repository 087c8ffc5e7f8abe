"""A schema registry in memory: the endpoints that serializers use, with no check of a schema.

It is a transport for our clients, and ``served`` offers it to other clients under a URL.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import NAMESPACE_OID, uuid5

import httpx

Answer = tuple[int, Any]


class RegistryDouble:
    """Remembers schemas and the requests that it got. ``is_guid_told``: it is a newer registry."""

    def __init__(self, *, is_guid_told: bool = True) -> None:
        self.requests: list[tuple[str, str]] = []
        self.logins: list[str | None] = []
        self._is_guid_told = is_guid_told
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def transport(self) -> httpx.MockTransport:
        """Return this registry as the network of a client, in threads or in tasks."""

        def handle(request: httpx.Request) -> httpx.Response:
            self.logins.append(request.headers.get("Authorization"))
            target = request.url.raw_path.decode()
            status, body = self.answer(request.method, target, request.content)
            return httpx.Response(status, json=body)

        return httpx.MockTransport(handle)

    def answer(self, method: str, target: str, content: bytes) -> Answer:
        """Return the status and the JSON body for a request."""
        with self._lock:
            self.requests.append((method, target))
            parts = urlsplit(target)
            path = [unquote(each) for each in parts.path.strip("/").split("/")]
            body = json.loads(content) if content else {}
            return self._answer(method, path, body)

    def asked(self, method: str) -> list[str]:
        """Return the targets of the requests with a method."""
        return [target for each, target in self.requests if each == method]

    def _answer(self, method: str, path: list[str], body: dict[str, Any]) -> Answer:
        answer: Answer = 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        match method, path:
            case "POST", ["subjects", subject, "versions"]:
                answer = self._register(subject, _content(body))
            case "POST", ["subjects", subject]:
                answer = self._look_up(subject, _content(body))
            case "GET", ["subjects", subject, "versions", version]:
                answer = self._version(subject, version)
            case "GET", ["schemas", "ids", number]:
                answer = self._by_id(int(number))
            case "GET", ["schemas", "ids", number, "versions"]:
                named = (
                    (subject, found)
                    for subject, found in self._subjects.items()
                    if int(number) - 1 in found
                )
                answer = (
                    200,
                    [
                        {"subject": subject, "version": found.index(int(number) - 1) + 1}
                        for subject, found in named
                    ],
                )
            case "GET", ["schemas", "guids", guid]:
                found = [index for index in range(len(self._schemas)) if self._guid(index) == guid]
                answer = self._by_id(found[0] + 1 if found else 0)
        return answer

    def _register(self, subject: str, content: dict[str, Any]) -> Answer:
        if content not in self._schemas:
            self._schemas.append(content)
        index, versions = self._schemas.index(content), self._subjects.setdefault(subject, [])
        if index not in versions:
            versions.append(index)
        return 200, self._described(subject, index) if self._is_guid_told else {"id": index + 1}

    def _look_up(self, subject: str, content: dict[str, Any]) -> Answer:
        if subject not in self._subjects:
            return _missing(40401, f"Subject '{subject}' not found.")
        if (
            content not in self._schemas
            or self._schemas.index(content) not in self._subjects[subject]
        ):
            return _missing(40403, "Schema not found")
        return 200, self._described(subject, self._schemas.index(content))

    def _version(self, subject: str, version: str) -> Answer:
        versions = self._subjects.get(subject, [])
        number = len(versions) if version == "latest" else int(version)
        if not 1 <= number <= len(versions):
            return _missing(40402 if versions else 40401, f"Version {version} not found.")
        return 200, self._described(subject, versions[number - 1])

    def _by_id(self, number: int) -> Answer:
        if not 1 <= number <= len(self._schemas):
            return _missing(40403, f"Schema {number} not found")
        return 200, {**self._schemas[number - 1], **self._guid_field(number - 1)}

    def _described(self, subject: str, index: int) -> dict[str, Any]:
        version = self._subjects[subject].index(index) + 1
        return {
            "subject": subject,
            "version": version,
            "id": index + 1,
            **self._schemas[index],
            **self._guid_field(index),
        }

    def _guid_field(self, index: int) -> dict[str, str]:
        return {"guid": self._guid(index)} if self._is_guid_told else {}

    def _guid(self, index: int) -> str:
        return str(uuid5(NAMESPACE_OID, json.dumps(self._schemas[index])))


def _content(body: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without empty parts, which clients send or leave out."""
    kept = {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}
    return {name: part for name, part in kept.items() if part != "AVRO"}


def _missing(code: int, text: str) -> Answer:
    return 404, {"error_code": code, "message": text}


@contextmanager
def served(registry: RegistryDouble, tls: SSLContext | None = None) -> Iterator[str]:
    """Serve a registry over HTTP, or over HTTPS with ``tls``, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One packet for a response, because the client would delay its acknowledgement of the first
        # of two.
        wbufsize = 1 << 16

        def handle_request(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body = registry.answer(self.command, self.path, content)
            encoded = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        do_GET = do_POST = handle_request  # noqa: N815 - the names that the server calls

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
