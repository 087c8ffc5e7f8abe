"""Serves an issuer behind HTTPS.

Its keys are at ``/keys``, and tokens of ``User:service`` at ``/token`` for the one client that
knows the secret.
"""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.authority import Authority
from tests.helpers.issuer_server import Asked, IssuerServer, server_context, serving
from tests.unit.security.sasl.issuer import jwk, key_set, token

SECRET = "planted-secret"
AUDIENCE = "logs"
LIFETIME_S = 600


@contextmanager
def oauth_issuer(authority: Authority) -> Iterator[IssuerServer]:
    """Serve with a certificate of the authority's."""
    # Made before anybody asks: those who ask at once would each be told another key.
    keys = key_set(jwk("rsa"))

    def respond(request: Asked) -> tuple[int, bytes]:
        return (200, keys) if request.path == "/keys" else _token(request)

    with serving(respond, server_context(authority.issue("issuer"))) as issuer:
        yield issuer


def _token(request: Asked) -> tuple[int, bytes]:
    known = base64.b64encode(f"service:{SECRET}".encode()).decode()
    if (
        request.headers.get("Authorization") != f"Basic {known}"
        or b"grant_type=client_credentials" not in request.body
    ):
        return 401, json.dumps(
            {"error": "invalid_client", "error_description": "no such client"}
        ).encode()
    now_s = int(time.time())
    signed = token("rsa", sub="service", aud=AUDIENCE, iat=now_s - 5, exp=now_s + LIFETIME_S)
    return 200, json.dumps(
        {"access_token": signed, "token_type": "Bearer", "expires_in": LIFETIME_S}
    ).encode()
