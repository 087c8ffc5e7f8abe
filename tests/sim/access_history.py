"""Entries of the history tell the attempts of users of a simulated cluster, and the responses.

``access_checker`` judges them.

An ``Attempt`` is one request. ``deciders`` are the nodes that may decide on it: the node that got
it, or, where brokers pass it on, every controller. Each of its ``parts`` goes through ``steps`` and
has a code of its own in the response.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode
from tests.sim.access_model import Asker, Need, Step
from tests.sim.node_history import Operation


@dataclass(slots=True, kw_only=True)
class Part:
    """One thing that a request wants. ``told`` is None where there was no response. ``mark`` is
    what is left where it took effect.
    """

    what: str
    steps: tuple[Step, ...]
    told: ErrorCode | None = None
    mark: str = ""


@dataclass(slots=True, kw_only=True)
class Shown:
    """A list of names that a response shows. Each takes DESCRIBE on itself; where
    ``or_on_cluster``, that on the cluster will do.

    ``known`` are names that exist all the time.
    """

    resource: AclResource
    names: Sequence[str]
    known: Sequence[str] = ()
    or_on_cluster: bool = False

    def step(self, name: str) -> Step:
        """The rights of which one shows a name."""
        needs = [Need(AclOperation.DESCRIBE, self.resource, name)]
        if self.or_on_cluster:
            needs.append(Need(AclOperation.DESCRIBE, AclResource.CLUSTER, "kafka-cluster"))
        return Step(tuple(needs), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(slots=True, kw_only=True)
class Bits:
    """The operations on a resource that a response allows its client.

    ``is_hidden_without_describe``: nothing is told to others.
    """

    resource: AclResource
    name: str
    operations: tuple[AclOperation, ...]
    told: int
    is_hidden_without_describe: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt(Operation):
    """One request of a user."""

    api: str
    asker: Asker
    deciders: tuple[str, ...]
    parts: list[Part] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    bits: list[Bits] = field(default_factory=list)
    login_ends: float = float("inf")
    """When the login of its connection ended, or will."""

    def __str__(self) -> str:
        return f"{self.api} of {self.asker.principal} on {self.asker.host}, decided on {' or '.join(self.deciders)}"


@dataclass(slots=True, kw_only=True, eq=False)
class LogIn(Operation):
    """A login with a password, or with a token if there is one.

    ``told`` is None if the connection broke.

    ``is_repeated``: the connection had a login. The times are those of the node's wall clock when
    it began and ended.
    """

    user: str
    password: int = -1
    token: str = ""
    node: str
    told: ErrorCode | None = None
    is_repeated: bool = False
    wall_ms: int = 0
    ended_wall_ms: int = 0

    def __str__(self) -> str:
        secret = f"token {self.token}" if self.token else f"password {self.password}"
        return f"the {'repeated ' if self.is_repeated else ''}login of {self.user} with {secret} at {self.node}"
