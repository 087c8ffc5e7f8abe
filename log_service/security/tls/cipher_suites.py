"""Cipher suites: the mapping from Java's names in ``ssl.cipher.suites`` to OpenSSL's names.

A list is exact, as in Java. A protocol without a suite in the list is disabled. Python's ``ssl``
cannot choose among the suites of TLS 1.3, so a list must name all of them or none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from log_service.common.errors import ConfigError

TLS13_SUITES = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
OPENSSL_NAMES = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
"""The suites of TLS 1.2. Those of TLS 1.3 have the same names in Java and OpenSSL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CipherChoice:
    """The protocols, and the suites of TLS 1.2. ``openssl_names`` is None for the defaults."""

    protocols: tuple[str, ...]
    openssl_names: str | None = None


def choose_ciphers(protocols: Sequence[str], suites: Sequence[str]) -> CipherChoice:
    """Return the choice for the enabled protocols and suites.

    Without suites it is OpenSSL's default.

    Raises:
        ConfigError: a suite is not known, the list names some suites of TLS 1.3 and not all, or no
            protocol is left.
    """
    if not suites:
        return CipherChoice(protocols=tuple(protocols))
    unknown = [
        suite for suite in suites if suite not in TLS13_SUITES and suite not in OPENSSL_NAMES
    ]
    if unknown:
        known = "the suites of TLS 1.3 and those of TLS 1.2 with AES or ChaCha20"
        raise ConfigError(
            f"ssl.cipher.suites names {unknown[0]!r}, which is not known; there are {known}, by"
            " their names in Java"
        )
    newest = TLS13_SUITES & set(suites)
    if newest and newest != TLS13_SUITES and "TLSv1.3" in protocols:
        text = "Python's ssl module cannot choose among the suites of TLS 1.3"
        raise ConfigError(
            f"ssl.cipher.suites names {', '.join(sorted(newest))} alone; {text}: name all three, or"
            " none to do without TLS 1.3"
        )
    older = [OPENSSL_NAMES[suite] for suite in suites if suite in OPENSSL_NAMES]
    spoken = {"TLSv1.2": bool(older), "TLSv1.3": bool(newest)}
    left = tuple(protocol for protocol in protocols if spoken[protocol])
    if not left:
        raise ConfigError(
            f"ssl.cipher.suites names no suite of {' or '.join(protocols)}, which"
            " ssl.enabled.protocols asks for"
        )
    return CipherChoice(protocols=left, openssl_names=":".join(older) or None)
