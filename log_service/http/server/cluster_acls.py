"""The cluster's own ACLs, by which HTTP services decide what a principal may do.

They are read every ``INTERVAL_S``, so a change takes effect after that time. While the cluster does
not respond, the ACLs read last apply. Until they are read for the first time, only super users
may do anything.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import trio

from log_service.client import Admin, ConfigError, ErrorCode, KafkaError
from log_service.client.admin.access import (
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    AclBinding,
)
from log_service.common.access import AclOperation, AclResource, Principal
from log_service.http.server.values import HttpRequest
from log_service.security.acls.authorizer import AclAuthorizer
from log_service.security.acls.index import NO_INDEX, AclIndex

INTERVAL_S: Final = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Acl:
    """One ACL, with the protocol's codes for types and operations."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class ClusterAcls:
    """The ACLs of one cluster. ``admin`` has to be open. Others may use it, too."""

    def __init__(self, admin: Admin, super_users: frozenset[str]) -> None:
        self._admin = admin
        self._authorizer = AclAuthorizer(super_users, is_open=False)
        self._known: frozenset[AclBinding] = frozenset()

    def __repr__(self) -> str:
        return f"<ClusterAcls {self._authorizer!r}>"

    def may(
        self, request: HttpRequest, operation: AclOperation, resource: AclResource, name: str
    ) -> bool:
        """Return whether the request's principal may perform an operation on a named resource."""
        kind, _, user = request.principal.partition(":")
        rights = self._authorizer.rights_of(Principal(kind, user), request.peer)
        return rights.decide(operation, resource, name).is_allowed

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read the ACLs again and again until cancelled. Started once the first ones are read.

        Raises:
            ConfigError: the cluster has no authorizer.
            KafkaError: the ACLs cannot be read at first, for instance because the user of ``admin``
                may not read them.
        """
        await self._refresh()
        task_status.started()
        while True:
            await trio.sleep(INTERVAL_S)
            try:
                await self._refresh()
            except KafkaError as error:
                logger.warning("The ACLs of the cluster are not renewed: %s", error)

    async def _refresh(self) -> None:
        try:
            found = frozenset(await self._admin.describe_acls())
        except KafkaError as error:
            if error.code is ErrorCode.SECURITY_DISABLED:
                text = "the cluster has no authorizer, so there are no ACLs to decide by"
                raise ConfigError(
                    f"{text}: set authorizer=none, or an authorizer.class.name on its nodes"
                ) from error
            raise
        if found != self._known or not self._authorizer.is_loaded:
            self._known = found
            self._authorizer.follow(acl_index(found))
            self._authorizer.is_loaded = True


def acl_index(bindings: Iterable[AclBinding]) -> AclIndex:
    """Return an index of ACLs for the authorizer."""
    acls = [
        _Acl(
            resource_type=RESOURCE_TYPES[each.resource_type],
            resource_name=each.name,
            pattern_type=PATTERN_TYPES[each.pattern_type],
            principal=each.principal,
            host=each.host,
            operation=OPERATIONS[each.operation],
            permission_type=PERMISSIONS[each.permission],
        )
        for each in bindings
    ]
    return NO_INDEX.changed(acls, [])
