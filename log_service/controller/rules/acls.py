"""Decides on CreateAcls and DeleteAcls. ACLs are records of the metadata (KIP-11, KIP-290).

The controller decides on each ACL and each filter of a request separately. All resulting records
form one batch. An ACL that exists, or is repeated in the request, is not an error and is not
written again. A request that would write more than ``MAX_RECORDS`` is refused as a whole.

Invariants: a written ACL has a known resource type and a name. The only name of the cluster
resource is ``kafka-cluster``, as in Apache Kafka. A principal is ``Type:name``. As in Apache Kafka,
hosts are not checked, nor is the operation against the resource type.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.access import AclEntry
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from log_service.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from log_service.protocol.stored.metadata_records import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from log_service.security.acls.filters import RESOURCE_ANY, AclFilter
from log_service.security.acls.index import NO_INDEX, AclIndex
from log_service.security.acls.values import (
    CLUSTER_NAME,
    OPERATION_ALL,
    OPERATION_ANY,
    PatternType,
    PermissionType,
    Place,
)

MAX_RECORDS: Final = 10_000
TYPES: Final = frozenset(map(int, AclResource))
OPERATIONS: Final = frozenset({OPERATION_ALL, *map(int, AclOperation)})
PATTERNS: Final = frozenset({int(PatternType.LITERAL), int(PatternType.PREFIXED)})
PERMISSIONS: Final = frozenset({int(PermissionType.DENY), int(PermissionType.ALLOW)})
FILTER_PATTERNS: Final = PATTERNS | {int(PatternType.ANY), int(PatternType.MATCH)}

ID_COUNT: Final = 1 << 128


def index_of(image: MetadataImage) -> AclIndex:
    """Return the index of the metadata's ACLs."""
    return image.access.acl_index or NO_INDEX


# Creating


def create_acls(
    image: MetadataImage, request: CreateAclsRequest, new_id: Callable[[], UUID]
) -> tuple[Sequence[MetadataRecord], CreateAclsResponse]:
    """Return the records of a request's new ACLs, and the response with a result for each ACL.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR, an ACL has a value that only filters may have;
            POLICY_VIOLATION, there are too many new ACLs.
    """
    for creation in request.creations:
        _refuse_filter(creation)
    index = index_of(image)
    new: dict[Place, None] = {}
    results = []
    for creation in request.creations:
        result = AclCreationResult(error_message=None)
        try:
            _validate(creation)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        else:
            wanted = _place_of(creation)
            if wanted not in new and not index.holds(wanted):
                new[wanted] = None
        results.append(result)
    if len(new) > MAX_RECORDS:
        text = f"the request would write {len(new)} ACLs, of at most {MAX_RECORDS}; split it"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
    return _records(new, new_id), CreateAclsResponse(results=results)


def _records(new: Collection[Place], new_id: Callable[[], UUID]) -> list[MetadataRecord]:
    """Return the records of new ACLs.

    Their ids are consecutive and begin at a random one. With unrelated ids, each ACL would change
    another chunk of the metadata's map.
    """
    if not new:
        return []
    first = new_id().int
    return [_record(each, UUID(int=(first + number) % ID_COUNT)) for number, each in enumerate(new)]


def _record(new: Place, acl_id: UUID) -> AccessControlEntryRecord:
    resource_type, resource_name, pattern_type, principal, host, operation, permission_type = new
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    )


def _refuse_filter(creation: AclCreation) -> None:
    """Refuse a new ACL with a value that only a filter may have."""
    if (
        creation.resource_type == RESOURCE_ANY
        or creation.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or creation.operation == OPERATION_ANY
        or creation.permission_type == PermissionType.ANY
    ):
        text = (
            "ANY and MATCH are for filters; an ACL names its resource type, pattern type, operation"
            " and permission"
        )
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


def _validate(creation: AclCreation) -> None:
    for what, value, known in (
        ("resource type", creation.resource_type, TYPES),
        ("pattern type", creation.resource_pattern_type, PATTERNS),
        ("operation", creation.operation, OPERATIONS),
        ("permission", creation.permission_type, PERMISSIONS),
    ):
        if value not in known:
            raise _invalid(f"{value} is not a valid {what}")
    if not creation.resource_name:
        raise _invalid("the name of the resource is empty; * means all of them")
    if creation.resource_type == AclResource.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid(
            f"the only resource of the type CLUSTER is {CLUSTER_NAME}, not"
            f" {creation.resource_name!r}"
        )
    if ":" not in creation.principal:
        raise _invalid(
            f"{creation.principal!r} is not a principal, which is Type:name, for example User:alice"
        )


def _place_of(creation: AclCreation) -> Place:
    """Return the sort key of a new ACL, as ``place`` returns for an existing one."""
    return (
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


# Deleting


def delete_acls(
    image: MetadataImage, request: DeleteAclsRequest
) -> tuple[Sequence[MetadataRecord], DeleteAclsResponse]:
    """Return the records that delete the ACLs matching a request's filters, and the response.

    An ACL that two filters match is deleted once, and is in the results of both.

    Raises:
        KafkaError: INVALID_REQUEST, too many ACLs match.
    """
    found: dict[UUID, AclEntry] = {}
    results = []
    for each in request.filters:
        result = DeleteAclsFilterResult(error_message=None)
        try:
            matching = _matching(index_of(image), each)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        else:
            found.update((entry.acl_id, entry) for entry in matching)
            result.matching_acls = [_deleted(entry) for entry in matching]
        results.append(result)
        if len(found) > MAX_RECORDS:
            raise _invalid(
                f"the filters find more than {MAX_RECORDS} ACLs, which is the most of one request;"
                " delete them in parts"
            )
    return [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in found], DeleteAclsResponse(
        filter_results=results
    )


def _matching(index: AclIndex, wanted: DeleteAclsFilter) -> list[AclEntry]:
    for what, value, known in (
        ("resource type", wanted.resource_type_filter, TYPES | {RESOURCE_ANY}),
        ("pattern type", wanted.pattern_type_filter, FILTER_PATTERNS),
        ("operation", wanted.operation, OPERATIONS | {OPERATION_ANY}),
        ("permission", wanted.permission_type, PERMISSIONS | {int(PermissionType.ANY)}),
    ):
        if value not in known:
            raise _invalid(f"{value} is not a valid {what}")
    return list(acl_filter(wanted).find(index))  # type: ignore[arg-type]  # the metadata's index holds its entries


def acl_filter(wanted: DeleteAclsFilter) -> AclFilter:
    """Convert a filter of DeleteAcls, or a DescribeAclsRequest, which has the same fields."""
    return AclFilter(
        resource_type=wanted.resource_type_filter,
        resource_name=wanted.resource_name_filter,
        pattern_type=wanted.pattern_type_filter,
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )


def _deleted(entry: AclEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
