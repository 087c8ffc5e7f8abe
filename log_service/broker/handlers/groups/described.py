"""The steps that descriptions of groups share, whatever the protocol of their members.

Each named group is described once. If the cluster does not support groups of this protocol, none
is described. The coordinators decide the rest.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from log_service.broker.cluster_view import with_group_operations
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode

Ask = Callable[[Callable[[Any], None]], None]
"""Asks the coordinators, and hands the response to a callback."""


def describe_groups(
    call: Call, request: Any, group_type: type[Any], ask: Ask, *, is_enabled: bool
) -> Any | Deferred:
    """Describe the groups of a request, each as a ``group_type``.

    Each group gets UNSUPPORTED_VERSION if the cluster does not support such groups.
    """
    request.group_ids = list(dict.fromkeys(request.group_ids))
    if not is_enabled:
        code = ErrorCode.UNSUPPORTED_VERSION
        groups = [group_type(group_id=group_id, error_code=code) for group_id in request.group_ids]
        return call.response_type(groups=groups)
    deferred = call.defer()
    ask(deferred.completing(partial(with_group_operations, request)))
    return deferred
