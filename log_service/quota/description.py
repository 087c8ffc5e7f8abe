"""Finds the quotas that a DescribeClientQuotas request selects (KIP-546).

A request names types of entities, each with a name, with "the default", or with "any". An entity is
shown when it has all of these types and its names match. A strict request shows only entities that
have no other type. A request that names no type selects all.
"""

from collections.abc import Sequence
from typing import Final

from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.access import QuotaEntity
from log_service.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from log_service.quota.entities import CLIENT_ID, IP, USER, Quotas

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2
TYPES: Final = frozenset({USER, CLIENT_ID, IP})


def describe(quotas: Quotas, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Return the quotas that the filter of a request selects, in the order of their entities.

    Raises:
        KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION: the filter is not valid.
    """
    _validate(request.components)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[
                    EntityData(
                        entity_type=part.entity_type,
                        entity_name=None if part.is_default else part.name,
                    )
                    for part in entity
                ],
                values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            for entity, values in sorted(quotas.items())
            if _matches(entity, request.components)
            and not (request.strict and len(entity) != len(request.components))
        ]
    )


def _matches(entity: QuotaEntity, components: Sequence[ComponentData]) -> bool:
    parts = {part.entity_type: part for part in entity}
    for component in components:
        part = parts.get(component.entity_type)
        if part is None:
            return False
        if component.match_type == DEFAULT and not part.is_default:
            return False
        if component.match_type == EXACT and (part.is_default or part.name != component.match):
            return False
    return True


def _validate(components: Sequence[ComponentData]) -> None:
    named: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("a part of the filter has no type; give it user, client-id or ip")
        if kind in named:
            raise _invalid(f"{kind} stands more than once in the filter")
        if kind not in TYPES:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"there are no quotas for {kind!r}; there are for user, client-id and ip",
            )
        named.add(kind)
        _validate_match(component)
    if IP in named and len(named) > 1:
        raise _invalid("quotas of addresses are for no user and no client id; ask for ip alone")


def _validate_match(component: ComponentData) -> None:
    kind = component.entity_type
    if component.match_type not in (EXACT, DEFAULT, ANY):
        raise _invalid(
            f"{kind}: there is no way to match {component.match_type}; use 0 (by name), 1 (the"
            " default) or 2 (any)"
        )
    if component.match_type == EXACT and component.match is None:
        raise _invalid(f"{kind} is to be matched by its name, and no name is given")
    if component.match_type != EXACT and component.match is not None:
        raise _invalid(
            f"{kind} is not to be matched by its name, and the name {component.match!r} is given"
        )


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
