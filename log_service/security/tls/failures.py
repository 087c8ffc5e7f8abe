"""Error texts of TLS failures, which say which side is at fault and what to check."""

import errno
import ssl

NOT_TLS = frozenset(
    {
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "HTTPS_PROXY_REQUEST",
        "UNEXPECTED_MESSAGE",
        "PACKET_LENGTH_TOO_LONG",
    }
)
REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "the client shows no certificate, and this listener asks for one (ssl.client.auth=required)"
    ),
    "NO_SHARED_CIPHER": (
        "the two sides have no cipher suite in common (ssl.cipher.suites, or the kind of our key)"
    ),
    "UNSUPPORTED_PROTOCOL": (
        "the two sides have no version of TLS in common (ssl.enabled.protocols)"
    ),
    "TLSV1_ALERT_PROTOCOL_VERSION": (
        "the other side speaks none of our versions of TLS (ssl.enabled.protocols)"
    ),
    "TLSV1_ALERT_UNKNOWN_CA": (
        "the other side does not trust the authority that signed our certificate"
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side refused our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side says that our certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": (
        "the other side refused our certificate: it does not trust its authority, or the name in it"
    ),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side asks for a certificate, and we show none",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": (
        "the other side found no cipher suite in common, or wants a certificate that we do not show"
    ),
    "NO_RENEGOTIATION": "the other side asked to renegotiate, which is never done",
}


class TlsError(OSError):
    """A handshake failed, or bytes are not TLS. The text has the reason."""

    def __init__(self, text: str) -> None:
        super().__init__(errno.EPROTO, text)


def named(error: ssl.SSLError, *, is_server: bool, is_tls: bool = True) -> TlsError:
    """Convert an OpenSSL error to a TlsError with a text for operators.

    ``is_tls`` means that the first received byte looked like TLS.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsError(
            f"the certificate of the {'client' if is_server else 'server'} is not accepted:"
            f" {error.verify_message}"
        )
    if isinstance(error, ssl.SSLEOFError):
        return TlsError(
            f"the {'client' if is_server else 'server'} closed the connection in the middle of a"
            " handshake"
        )
    if error.reason in NOT_TLS or not is_tls:
        if is_server:
            return TlsError(
                "the client does not speak TLS on a listener that does; set its security.protocol"
                " to SSL or SASL_SSL"
            )
        return TlsError(
            "the server does not speak TLS at this address; connect to its SSL listener, or set"
            " security.protocol to PLAINTEXT"
        )
    return TlsError(REASONS.get(error.reason or "", f"TLS failed: {error.reason or error}"))
