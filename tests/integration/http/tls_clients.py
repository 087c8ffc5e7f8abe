"""Clients of HTTP services with TLS."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx


@contextmanager
def client(
    url: str, authority: Path, keystore: Path | None = None, **headers: str
) -> Iterator[httpx.Client]:
    """Open a client of a service, which may show a certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    if keystore is not None:
        context.load_cert_chain(keystore)
    with httpx.Client(base_url=url, verify=context, headers=headers, timeout=30) as opened:
        yield opened
