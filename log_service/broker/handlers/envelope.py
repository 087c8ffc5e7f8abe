"""Envelope (API key 58), version 0: a client's request that another broker forwarded (KIP-590).

Behaviour: the inner request goes through all steps of its API as its own client's request, with
permissions and quotas of the principal in the envelope. Its response, header and body, is returned
inside the envelope's response.

The envelope itself is refused with CLUSTER_AUTHORIZATION_FAILED for a sender that is not a broker,
PRINCIPAL_DESERIALIZATION_FAILURE for a principal that cannot be read, INVALID_REQUEST for an
invalid address and for an API that brokers do not forward, and UNSUPPORTED_VERSION for a request
that does not parse. If this node is not the active controller it is NOT_CONTROLLER, without an
inner response, so the sender looks for the active one.
"""

from log_service.broker.node import Node
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Call, Deferred, Outer
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.controller.channel import is_for_another
from log_service.controller.envelope import host_of, principal_of
from log_service.network.server import ConnectionContext
from log_service.protocol.frames import SIZE_BYTES, encode_response
from log_service.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from log_service.protocol.schema import Message

KEY_BYTES = 2


def handle_envelope(
    node: Node,  # noqa: ARG001 - the request inside asks the node
    call: Call,
    request: EnvelopeRequest,
) -> EnvelopeResponse | Deferred:
    """Respond to the inner request."""
    outer = call.connection
    principal, is_by_token = principal_of(request.request_principal)
    context = ConnectionContext(
        connection_id=outer.connection_id,
        peer_host=host_of(request.client_host_address),
        local_host=outer.local_host,
        listener_name=outer.listener_name,
        principal=principal,
        is_token_authenticated=is_by_token,
    )
    frame = memoryview(bytearray(request.request_data))
    key = int.from_bytes(frame[:KEY_BYTES], "big")
    api = REGISTRY.get(key)  # type: ignore[call-overload]  # a key of no API is in no row
    if len(frame) < KEY_BYTES or api is None or not api.is_forwardable:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"an envelope holds a request of API key {key}, which no broker passes on",
        )
    try:
        reply = call.route.respond_to_forwarded(Outer(call, _sealed), context, frame)
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"the {api.key.name} request in an envelope: {error}"
        ) from error
    assert isinstance(reply, Deferred | EnvelopeResponse), "what is answered at once is sealed"
    return reply


def _sealed(call: Call, response: Message) -> EnvelopeResponse:
    """Return the envelope's response, which contains the inner response."""
    if is_for_another(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    frame = encode_response(call.route.api.key, call.version, call.correlation_id, response)
    return EnvelopeResponse(response_data=b"".join(map(bytes, frame))[SIZE_BYTES:])  # type: ignore[arg-type]
