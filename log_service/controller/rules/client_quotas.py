"""Decides on AlterClientQuotas: sets and removes quotas of users, client ids and addresses.

The controller decides on each entry of a request separately: it makes all changes of the entry, or
none. KIP-546, KIP-599, KIP-612.

Invariants: a written value is a number above 0, and its key is one that the entity can have. An
unchanged value is not written again. Addresses are IP addresses. Apache Kafka also resolves host
names, but a rule cannot ask a name server, and nodes might get different addresses.
"""

import math
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from operator import itemgetter

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.repeated import repeated
from log_service.metadata.access_records import quota_entity
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    ResponseEntityData,
    ResponseEntryData,
)
from log_service.protocol.stored.metadata_records import (
    ClientQuotaRecord,
    EntityData,
    MetadataRecord,
)
from log_service.quota.entities import CLIENT_ID, IP, USER, QuotaKey

TOLERANCE = 1e-6
"""Permitted difference from a whole number."""
MAX_INT = 2**31 - 1
MAX_LONG = 2.0**63
"""Upper bound of bytes per second, which Apache Kafka stores in 64 bits."""

FRACTIONS = frozenset({QuotaKey.REQUEST_PERCENTAGE, QuotaKey.CONTROLLER_MUTATION_RATE})
OF_CLIENTS = frozenset(QuotaKey) - {QuotaKey.CONNECTION_CREATION_RATE}
OF_ADDRESSES = frozenset({QuotaKey.CONNECTION_CREATION_RATE})

Parts = tuple[tuple[str, str | None], ...]
"""An entity of a request: its names sorted by type.

The name of a default is None. The last name of a repeated type counts.
"""


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest
) -> tuple[list[MetadataRecord], AlterClientQuotasResponse]:
    """Return the records of changed quotas, and the response with a result for each entity.

    A second entry of the same entity is refused, and its error is the result of the entity. The
    changes of the first entry are made all the same, as in Apache Kafka.
    """
    records: list[MetadataRecord] = []
    results: dict[Parts, tuple[ErrorCode, str | None]] = {}
    for entry in request.entries:
        parts = _parts(entry.entity)
        code, text = ErrorCode.NONE, None
        try:
            if parts in results:
                raise _invalid("the entity stands more than once in the request")
            records += _alter(image, parts, entry.ops)
        except KafkaError as error:
            code, text = error.code, str(error)
        results[parts] = code, text
    response = AlterClientQuotasResponse(
        entries=[_result(parts, code, text) for parts, (code, text) in results.items()]
    )
    return [] if request.validate_only else records, response


def _parts(entity: Sequence[RequestEntityData]) -> Parts:
    return tuple(
        sorted({part.entity_type: part.entity_name for part in entity}.items(), key=itemgetter(0))
    )


def _result(parts: Parts, code: ErrorCode, text: str | None) -> ResponseEntryData:
    entity = [ResponseEntityData(entity_type=kind, entity_name=name) for kind, name in parts]
    return ResponseEntryData(error_code=code, error_message=text, entity=entity)


def _alter(image: MetadataImage, parts: Parts, changes: Sequence[OpData]) -> list[MetadataRecord]:
    for key in repeated([change.key for change in changes]):
        raise _invalid(f"{key} is changed more than once")
    allowed = _allowed_keys(dict(parts))
    entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in parts]
    present = image.access.client_quotas.get(quota_entity(entity), {})
    records: list[MetadataRecord] = []
    for change in changes:
        if not change.remove:
            _validate_value(change, allowed)
            if present.get(change.key) != change.value:
                records.append(ClientQuotaRecord(entity=entity, key=change.key, value=change.value))
        elif change.key in present:
            records.append(ClientQuotaRecord(entity=entity, key=change.key, value=0.0, remove=True))
    return records


def _allowed_keys(names: Mapping[str, str | None]) -> frozenset[QuotaKey]:
    """Return the quota keys that an entity can have.

    Raises:
        KafkaError: INVALID_REQUEST, a type or a name is invalid, or types do not go together.
    """
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(
                f"there are no quotas for {kind!r}; there are for user, client-id and ip"
            )
        if name == "":
            raise _invalid(f"{kind} has an empty name; the default of all has none")
    if not names:
        raise _invalid("an entity is empty; name a user, a client id, both, or an address")
    if IP not in names:
        return OF_CLIENTS
    if len(names) > 1:
        raise _invalid("quotas of addresses are for no user and no client id; name ip alone")
    _validate_address(names[IP])
    return OF_ADDRESSES


def _validate_address(name: str | None) -> None:
    try:
        if name is not None:
            ip_address(name)
    except ValueError:
        raise _invalid(f"{name!r} is not an IP address; names of hosts are not looked up") from None


def _validate_value(change: OpData, allowed: frozenset[QuotaKey]) -> None:
    key, value = change.key, change.value
    if key not in allowed:
        raise _invalid(
            f"the entity cannot have a quota {key!r}; it can have {', '.join(sorted(allowed))}"
        )
    if not (math.isfinite(value) and value > 0):
        raise _invalid(f"{key} is {value:g}; it must be a number above 0")
    if key in FRACTIONS:
        return
    if abs(math.floor(value + TOLERANCE) - value) > TOLERANCE:
        raise _invalid(f"{key} is {value:g}; it must be a whole number")
    if value > MAX_LONG:
        raise _invalid(f"{key} is {value:g}; it must be at most {MAX_LONG:g}")
    if key == QuotaKey.CONNECTION_CREATION_RATE and value > MAX_INT:
        raise _invalid(f"{key} is {value:g}; it must be at most {MAX_INT}")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
