"""The first bytes of a TLS handshake.

A process that speaks TLS responds to them, at least with an alert. The response shows that the
process runs.
"""

from contextlib import suppress


def client_hello(host: str) -> bytes:
    """Return the first message of a TLS client that connects to ``host``.

    The handshake cannot be continued, because its keys are thrown away.
    """
    import ssl  # noqa: PLC0415 - most processes speak no TLS

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host).do_handshake()
    return outgoing.read()
