"""A token issuer on the loopback, whose responses the test decides.

It is an HTTP server, with TLS where it has a context.
"""

import http.server
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.helpers.authority import Authority, Issued

Respond = Callable[["Asked"], tuple[int, bytes]]
"""Returns status and body of a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that the server received."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True, kw_only=True)
class IssuerServer:
    """The server's address, and the requests that it received."""

    base: str
    """The URL without a path."""
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def serving(
    respond: Respond, context: ssl.SSLContext | None = None, **headers: str
) -> Iterator[IssuerServer]:
    """Serve on 127.0.0.1 for the length of the block. Each response has ``headers``."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            request = Asked(
                path=self.path,
                headers=dict(self.headers),
                body=self.rfile.read(int(self.headers.get("Content-Length", 0))),
            )
            issuer.asked.append(request)
            status, body = respond(request)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name is http.server's

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Print nothing, because some peers end their connections in the middle."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        issuer = IssuerServer(
            base=f"http{'' if context is None else 's'}://127.0.0.1:{server.server_port}"
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def server_context(issued: Issued, *, wants: Authority | None = None) -> ssl.SSLContext:
    """Return the context of a server that shows a certificate.

    With ``wants`` it asks the client for one that ``wants`` has signed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.keystore)
    if wants is not None:
        context.load_verify_locations(wants.truststore)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
