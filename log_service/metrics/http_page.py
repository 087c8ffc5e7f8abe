"""Implements the part of HTTP/1.1 (RFC 9112) that a page of text needs.

It reads the head of one request and writes the head of one response, and then the connection ends.
This module decides the format and the largest size of a request, and the status of refusals. It
uses no sockets, because bytes are passed in and out. It supports only GET and HEAD, no bodies, and
one request per connection.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address

MAX_HEAD_BYTES = 8 << 10
HEAD_END = re.compile(rb"\r?\n\r?\n")
REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\S+) HTTP/1\.([0-9])")
HOST_LINE = re.compile(rb"^host:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
}
PLAIN_TEXT = "text/plain; charset=utf-8"
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The method and the path of a request.

    ``is_chunked`` means that the client knows chunked responses (HTTP/1.1). ``hosts`` are the
    values of the request's ``Host`` headers, in lower case.
    """

    path: str
    is_head: bool
    is_chunked: bool
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The status and the reason of a response without the page."""

    status: int
    text: str


def parse_request(received: bytes | bytearray) -> PageRequest | Refusal | None:
    """Return the request in the bytes, a refusal, or None while the head is incomplete."""
    end = HEAD_END.search(received)
    if end is None:
        return (
            Refusal(status=431, text=f"a request has at most {MAX_HEAD_BYTES} bytes")
            if len(received) > MAX_HEAD_BYTES
            else None
        )
    line = bytes(received[: end.start()]).splitlines()[0] if end.start() else b""
    found = REQUEST_LINE.fullmatch(line)
    if found is None:
        return Refusal(status=400, text="that is not an HTTP/1 request")
    method, target, minor = found.groups()
    if method not in {b"GET", b"HEAD"}:
        return Refusal(status=405, text="only GET and HEAD are served")
    path = target.decode("ascii", "replace").partition("?")[0]
    hosts = tuple(
        each.decode("ascii", "replace").lower()
        for each in HOST_LINE.findall(received[: end.start()])
    )
    return PageRequest(path=path, is_head=method == b"HEAD", is_chunked=minor != b"0", hosts=hosts)


def is_local_name(host: str) -> bool:
    """Return whether the host in a ``Host`` header is an IP address or ``localhost``.

    Any other name may be one that somebody's DNS points here (DNS rebinding).
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


def page_head(content_type: str, *, is_chunked: bool) -> bytes:
    """Return the head of a response whose length is not known yet."""
    framing = ["Transfer-Encoding: chunked"] if is_chunked else []
    return _head(200, [f"Content-Type: {content_type}", *framing])


def chunk(content: bytes) -> list[bytes]:
    """Return the bytes of one chunk of a chunked response, which holds ``content``."""
    return [b"%x\r\n" % len(content), content, b"\r\n"]


def refusal_response(refusal: Refusal, *, is_head: bool = False) -> bytes:
    """Return a whole response that refuses a request."""
    body = f"{refusal.text}\n".encode()
    fields = [f"Content-Type: {PLAIN_TEXT}", f"Content-Length: {len(body)}"]
    if refusal.status == 405:
        fields.append("Allow: GET, HEAD")
    return _head(refusal.status, fields) + (b"" if is_head else body)


def _head(status: int, fields: list[str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        *fields,
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        "",
        "",
    ]
    return "\r\n".join(lines).encode("ascii")
