"""SaslHandshake (API key 17, versions 0-1), SaslAuthenticate (36, 0-2), without a due login.

Behaviour: responds with ILLEGAL_SASL_STATE, and the connection stays usable. There are three
causes: a listener without SASL, a request after a login without a lifetime, and a client that
begins to log in again too soon. ``broker.logins`` takes all other requests of logins before they
come here.

Versions: SaslHandshake 1 announces tokens in SaslAuthenticate (KIP-152). SaslAuthenticate 1 session
lifetime (KIP-368); 2 flexible.
"""

from log_service.broker.node import QuorumNode
from log_service.broker.requests.call import Call
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NOT_DUE = "SaslAuthenticate request received after successful authentication"


def handle_sasl_handshake(
    node: QuorumNode,  # noqa: ARG001 - one shape for all
    call: Call,  # noqa: ARG001 - one shape for all
    request: SaslHandshakeRequest,  # noqa: ARG001 - as above
) -> SaslHandshakeResponse:
    """Respond that no login is due."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def handle_sasl_authenticate(
    node: QuorumNode,  # noqa: ARG001 - one shape for all
    call: Call,  # noqa: ARG001 - one shape for all
    request: SaslAuthenticateRequest,  # noqa: ARG001 - as above
) -> SaslAuthenticateResponse:
    """Respond that no login is due."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=NOT_DUE)
