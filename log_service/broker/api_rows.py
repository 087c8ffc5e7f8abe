"""Builds the rows of the registry, one for each API.

A row has the handler of the API, its permissions, the gates that check them, its limits, and its
sides: the listeners of brokers, of controllers, or both.

Handlers that every client needs first are imported with the node. The others are imported, with
their messages, on their first request or by ``warm_up``. Importing them all would take as long as
the rest of a start. Gates are imported on their first request too, because many nodes have none.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from log_service.broker.quotas import MAX_MEMBER_PUT_OFF_MS, MAX_PUT_OFF_MS
from log_service.broker.requests.call import Api, Echo, Gate, Handler, QuotaKind, Recognizer, Side
from log_service.broker.requests.echo import AT_TOP, ItemEcho
from log_service.broker.requests.pieces import Levels
from log_service.common.access import AclOperation, AclResource, Permission
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.codec import MAX_REQUEST_ELEMENTS


class OnDemand:
    """A function that is imported on its first call.

    ``name`` is its name in the module ``log_service.broker.ROOM.MODULE``.
    """

    __slots__ = ("function", "module", "name", "room")

    def __init__(self, module: str, name: str, room: str = "handlers") -> None:
        self.room = room
        self.module = module
        self.name = name
        self.function: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<OnDemand {self.module}.{self.name}{'' if self.function is None else ' loaded'}>"

    def load(self) -> Callable[..., Any]:
        """Return the function. Import it the first time."""
        if self.function is None:
            self.function = getattr(
                import_module(f"log_service.broker.{self.room}.{self.module}"), self.name
            )
        return self.function

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return (self.function or self.load())(*arguments)


def gate_of(module: str, name: str) -> OnDemand:
    """Return the gate with this name in a module of ``broker.authorization``."""
    return OnDemand(module, name, "authorization")


PERMISSIONS = gate_of("gate_shapes", "by_permissions")
"""The gate that checks the permissions in the row itself.

A client needs one of the row's permissions on the cluster. If the row has none on the cluster, the
client needs its permission on the request's group.
"""


(
    READ,
    WRITE,
    CREATE,
    DELETE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
    *_,
) = AclOperation

NO_PERMISSION: tuple[Permission, ...] = ()


def on_topic(*operations: AclOperation) -> tuple[Permission, ...]:
    """Return the permissions for operations on a topic."""
    return tuple(Permission(operation, AclResource.TOPIC) for operation in operations)


def on_group(*operations: AclOperation) -> tuple[Permission, ...]:
    """Return the permissions for operations on a group."""
    return tuple(Permission(operation, AclResource.GROUP) for operation in operations)


def on_cluster(*operations: AclOperation) -> tuple[Permission, ...]:
    """Return the permissions for operations on the cluster."""
    return tuple(Permission(operation, AclResource.CLUSTER) for operation in operations)


def on_transaction(*operations: AclOperation) -> tuple[Permission, ...]:
    """Return the permissions for operations on a transactional id."""
    return tuple(Permission(operation, AclResource.TRANSACTIONAL_ID) for operation in operations)


def on_user(*operations: AclOperation) -> tuple[Permission, ...]:
    """Return the permissions for operations on a user."""
    return tuple(Permission(operation, AclResource.USER) for operation in operations)


BROKER = frozenset({Side.BROKER})
CONTROLLER = frozenset({Side.CONTROLLER})
"""Requests of nodes to the controller.

No client sends them, and a broker's listener does not accept them.
"""
BOTH = frozenset(Side)
"""Requests that both brokers and controllers accept.

Admin clients may send them directly to a controller (``bootstrap.controllers``, KIP-919).
"""


MAX_ELEMENTS_IN_PIECES = 50_000
"""The most elements of a request that is handled in pieces.

Tools that name all partitions of a large cluster send some ten thousand.
"""
MAX_ELEMENTS = 5_000
"""The most elements of a request, or of an item, that is handled in one turn of the loop."""
MAX_PLAIN_ELEMENTS = 20_000
"""The most elements if they are numbers that are only looked up, such as the partitions that a
group member owns.
"""

NEVER_PUT_OFF = 0
"""``max_put_off_ms`` of requests that are never delayed.

A fetch gets no records instead, and it may come from a follower. The other requests are sent before
authentication.
"""


def api_row(
    key: ApiKey,
    handler: Handler | str,
    permissions: tuple[Permission, ...],
    *,
    gate: Gate | str | None = PERMISSIONS,
    controller_gate: Gate | str | None = None,
    echo: Echo = AT_TOP,
    has_own_echo: bool = False,
    sides: frozenset[Side] = BROKER,
    quota: QuotaKind = QuotaKind.REQUEST,
    controller_handler: Handler | None = None,
    pieces: tuple[Levels, ...] | None = None,
    max_elements: int | None = None,
    is_each_named_once: bool = False,
    item_weight: int = 0,
    is_forwardable: bool = False,
    max_put_off_ms: int = MAX_PUT_OFF_MS,
    recognizer: Callable[[], Recognizer] | None = None,
    is_of_follower: Callable[[Any], bool] | None = None,
) -> Api:
    """Return the row of an API.

    ``handler`` and the gates are functions, or names of modules to import on demand. A function of
    such a module is named after the API. So is an own echo (``has_own_echo``) beside the handler,
    which makes error responses. Without a ``gate`` the handler authorizes the request, or every
    client may send it. ``controller_gate`` is used on the controller's side, if it differs.

    If the echo of an API has an error for each item, large requests are handled in pieces. They are
    cut between these items, unless ``pieces`` says otherwise.
    """
    name = key.name.lower().removeprefix("tidelog_")
    if has_own_echo:
        assert isinstance(handler, str), "an echo stands beside its handler"
        echo = OnDemand(handler, f"refuse_{name}")
    if isinstance(handler, str):
        handler = OnDemand(handler, f"handle_{name}")
    gates = {Side.BROKER: gate, Side.CONTROLLER: controller_gate or gate} if permissions else {}
    if pieces is None:
        pieces = (echo.levels,) if isinstance(echo, ItemEcho) and echo.levels else ()
    if max_elements is None:
        max_elements = (
            MAX_REQUEST_ELEMENTS
            if sides == CONTROLLER
            else MAX_ELEMENTS_IN_PIECES
            if pieces
            else MAX_ELEMENTS
        )
    return Api(
        key=key,
        handler=handler,
        sides=sides,
        permissions=permissions,
        gates={
            side: gate_of(each, name) if isinstance(each, str) else each
            for side, each in gates.items()
            if each and side in sides
        },
        quota=quota,
        echo=echo,
        max_elements=max_elements,
        pieces=pieces,
        is_each_named_once=is_each_named_once,
        item_weight=item_weight,
        controller_handler=controller_handler,
        is_forwardable=is_forwardable,
        max_put_off_ms=0 if quota is QuotaKind.NONE else max_put_off_ms,
        recognizer=recognizer,
        is_of_follower=is_of_follower,
    )


def forwarded_row(
    key: ApiKey,
    handler: str,
    permissions: tuple[Permission, ...],
    *,
    gate: str | OnDemand = PERMISSIONS,
    **others: Any,
) -> Api:
    """Return the row of an API that brokers only forward.

    Only the active controller checks its permissions.
    """
    return api_row(
        key,
        handler,
        permissions,
        gate=None,
        controller_gate=gate,
        sides=BOTH,
        is_forwardable=True,
        **others,
    )


def member_row(
    key: ApiKey, handler: str, permissions: tuple[Permission, ...], **others: Any
) -> Api:
    """Return the row of an API that members of groups send to their coordinator.

    Its requests are delayed less for a quota, because a member's heartbeats wait for them on the
    same connection.
    """
    return api_row(key, handler, permissions, max_put_off_ms=MAX_MEMBER_PUT_OFF_MS, **others)


def node_row(key: ApiKey, handler: str, *, is_forwardable: bool = False) -> Api:
    """Return the row of an API that nodes send to the controller."""
    return api_row(
        key,
        handler,
        on_cluster(CLUSTER_ACTION),
        sides=CONTROLLER,
        quota=QuotaKind.NONE,
        is_forwardable=is_forwardable,
    )
