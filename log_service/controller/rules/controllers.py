"""Decides on ControllerRegistration: a controller's listeners and feature levels (KIP-919).

The active controller accepts every registration if the cluster's metadata.version has records for
it. A later registration replaces the earlier one of the same controller.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import METADATA_VERSION
from log_service.common.types import NodeId
from log_service.metadata.image import ControllerRegistration, Endpoint, MetadataImage
from log_service.metadata.snapshot import register_controller_record
from log_service.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from log_service.protocol.stored.metadata_records import MetadataRecord

FIRST_LEVEL = 15
"""The metadata.version (3.7-IV0) from which on the metadata may hold registrations of controllers.
"""


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> tuple[list[MetadataRecord], ControllerRegistrationResponse]:
    """Return the record of a registration.

    Raises:
        KafkaError: UNSUPPORTED_VERSION, the cluster's metadata.version has no such record.
    """
    level = image.features.get(METADATA_VERSION, 0)
    if level < FIRST_LEVEL:
        text = f"metadata.version is {level}; controllers register from {FIRST_LEVEL} on"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    registration = ControllerRegistration(
        node_id=NodeId(request.controller_id),
        incarnation_id=request.incarnation_id,
        endpoints={
            listener.name: Endpoint(
                host=listener.host, port=listener.port, security_protocol=listener.security_protocol
            )
            for listener in request.listeners
        },
        features={
            feature.name: (feature.min_supported_version, feature.max_supported_version)
            for feature in request.features
        },
        is_zk_migration_ready=request.zk_migration_ready,
    )
    return [register_controller_record(registration)], ControllerRegistrationResponse(
        error_message=None
    )
