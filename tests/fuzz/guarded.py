"""A node asks for a login and has an authorizer.

The sessions of one user, who may do some of the requests, get behind both. The honest clients come
to the other listener, where everybody is a super user.
"""

from collections.abc import Sequence
from typing import Any

from log_service.client import AclBinding, Admin
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from log_service.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.sim.node_host import HOST, PORT

GUARDED_PORT = 9094
USER, PASSWORD = "eve", "eve-secret"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROPERTIES = {
    "listeners": f"PLAINTEXT://{HOST}:{PORT},GUARDED://{HOST}:{GUARDED_PORT}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.guarded.plain.sasl.jaas.config": f'{_MODULE} required user_{USER}="{PASSWORD}";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
RIGHTS = (
    ("topic", "plain", "all"),
    ("topic", "compact", "read"),
    ("topic", "short", "describe"),
    ("group", "group", "read"),
    ("group", "share", "all"),
    ("group", "streams", "all"),
    ("transactional_id", "key", "all"),
    ("cluster", "kafka-cluster", "describe"),
    ("cluster", "kafka-cluster", "create"),
)
"""What the user may do; names of ``shapes.NAMES``."""


def login() -> bytes:
    """The two frames of a login as ``USER``."""
    asked: tuple[tuple[int, Any], ...] = (
        (1, SaslHandshakeRequest(mechanism="PLAIN")),
        (2, SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode())),
    )
    return b"".join(_framed(number, 1 if number == 1 else 2, message) for number, message in asked)


async def give_rights(admin: Admin) -> None:
    """Allow the user what stands in ``RIGHTS``."""
    bindings: Sequence[AclBinding] = [
        AclBinding(resource_type=kind, name=name, principal=f"User:{USER}", operation=operation)
        for kind, name, operation in RIGHTS
    ]
    await admin.create_acls(bindings)


def _framed(number: int, version: int, message: Any) -> bytes:
    chunks: list[Any] = list(
        encode_request(RequestHeader(message.SCHEMA.key, version, number, "fuzz"), message)
    )
    return b"".join(chunks)
