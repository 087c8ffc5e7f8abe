"""The check of new keys and authorities that replace a running listener's (KIP-226, 519, 978).

It refuses changes that would cut off clients or other nodes: another name in the certificate,
missing host names, a trust store where there was none, and, on the inter-broker listener, contexts
with which nodes can no longer connect to each other. The caller decides what follows. The old
contexts stay in use if the new ones are refused.
"""

import ssl

from log_service.common.errors import ConfigError
from log_service.security.tls.contexts import Contexts
from log_service.security.tls.distinguished_names import subject_text

MAX_ROUNDS = 10
"""A trial handshake is given up after so many rounds. A TLS handshake has at most four flights."""


def validate_replacement(
    old: Contexts, new: Contexts, *, are_names_free: bool = False, are_hosts_free: bool = False
) -> None:
    """Check that a listener's new keys and trust may replace the old ones.

    ``are_names_free`` is ``ssl.allow.dn.changes``, ``are_hosts_free`` is ``ssl.allow.san.changes``.

    Raises:
        ConfigError: the new keys or trust may not replace the old ones.
    """
    if old.trust is None and new.trust is not None:
        raise ConfigError(
            "a trust store cannot be added to a listener while it runs; set it in the file and"
            " restart"
        )
    if len(old.keys) != len(new.keys):
        raise ConfigError(
            f"the key store holds {len(old.keys)} keys, the new one {len(new.keys)}; that needs a"
            " restart"
        )
    for old_key, new_key in zip(old.keys, new.keys, strict=True):
        _validate_certificate(
            old_key.chain[0],
            new_key.chain[0],
            are_names_free=are_names_free,
            are_hosts_free=are_hosts_free,
        )


def _validate_certificate(
    old: bytes, new: bytes, *, are_names_free: bool, are_hosts_free: bool
) -> None:
    old_name, new_name = subject_text(old), subject_text(new)
    if old_name.lower() != new_name.lower() and not are_names_free:
        raise ConfigError(
            f"the certificate is of {old_name}, the new one of {new_name}; set ssl.allow.dn.changes"
            " where that is meant"
        )
    missing = subject_alternative_names(old) - subject_alternative_names(new)
    if missing and not are_hosts_free:
        named = ", ".join(sorted(missing))
        raise ConfigError(
            f"the new certificate is not for {named}, as the old one is; set ssl.allow.san.changes"
            " where that is meant"
        )


def validate_both_ways(
    old: tuple[ssl.SSLContext, ssl.SSLContext], new: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    """Try handshakes between the old and the new contexts, with either as the server.

    Both are in use while nodes are changed one by one. Each pair has a listener's context and the
    context of a connecting node, which does not compare host names.

    Raises:
        ConfigError: a handshake failed.
    """
    for server, client, which in (
        (old[0], new[1], "a node with the new keys"),
        (new[0], old[1], "a node with the old keys"),
    ):
        try:
            _shake_hands(server, client)
        except ssl.SSLError as error:
            raise ConfigError(
                f"{which} could not connect to one that has the others: {error.reason or error}"
            ) from error


def subject_alternative_names(certificate: bytes) -> frozenset[str]:
    """Return the host names and addresses of a certificate in DER."""
    from cryptography import x509  # noqa: PLC0415 - a node without TLS needs none of it

    try:
        extension = x509.load_der_x509_certificate(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in extension.value)


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(back, forth), server.wrap_bio(forth, back, server_side=True)]
    for _ in range(MAX_ROUNDS):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
        if not sides:
            return
    raise ssl.SSLError("the handshake has no end")
