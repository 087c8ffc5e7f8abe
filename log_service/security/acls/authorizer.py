"""The authorizer of a node: super users, ACLs, and a cache of decisions.

It decides whether a principal on a host may perform an operation on a resource. Super users may do
everything, even before the ACLs are loaded and even against a DENY.

Each decision is made once and then cached for its caller, a principal on a host. ``rights_of``
returns the cache of one caller. The cache belongs to one index. A change of ACLs replaces the index
and empties the cache in one step, so no decision outlives the ACLs that made it. ``version``
identifies the current ACLs. Code that stores a decision stores the version with it, and asks again
when the authorizer has another version. Code that stores ``Rights`` compares their ``version`` with
the authorizer's.

Invariants: the numbers of cached callers and decisions are bounded, per caller and in total, and so
is the length of the names in them. Decisions beyond a bound are dropped and made again.
"""

from collections.abc import Collection
from typing import Any, Final

from log_service.common.access import AclOperation, AclResource, Principal
from log_service.security.acls.decision import (
    SUPER_USER,
    Decision,
    Who,
    decide,
    is_allowed_somewhere,
)
from log_service.security.acls.hosts import java_host
from log_service.security.acls.index import NO_INDEX, AclIndex

MAX_CALLERS: Final = 4096
"""The most pairs of principal and host in the cache."""
MAX_DECISIONS: Final = 8192
"""The most cached decisions of one caller."""
MAX_DECISIONS_OF_ALL: Final = 1 << 18
"""The most cached decisions of all callers.

Clients choose the names, and may come from many hosts.
"""
MAX_NAME_LENGTH: Final = 256
"""A decision about a longer name is not cached. Topic names have at most 249 characters."""

Question = tuple[int, int, str]
"""Operation, resource type, resource name."""


class _Memory:
    """The cached callers and the number of their decisions. ``version`` identifies their ACLs."""

    __slots__ = ("callers", "decision_count", "version")

    def __init__(self, version: object) -> None:
        self.version = version
        self.callers: dict[tuple[Principal, str], Rights] = {}
        self.decision_count = 0

    def note_decision(self) -> None:
        """Count one more decision, and clear the cache at the limit.

        A request in progress keeps its ``Rights``.
        """
        self.decision_count += 1
        if self.decision_count > MAX_DECISIONS_OF_ALL:
            self.forget()

    def forget(self) -> None:
        """Clear the cache.

        This also breaks the reference cycles of its rights, which hold this object and the ACLs.
        The garbage collector of a node may never look at them.
        """
        for rights in self.callers.values():
            rights.askers.clear()
        self.callers.clear()
        self.decision_count = 0


class Rights:
    """The decisions for one caller under the ACLs that ``version`` identifies."""

    __slots__ = (
        "_decided",
        "_index",
        "_is_open",
        "_memory",
        "_somewhere",
        "_who",
        "askers",
        "host",
        "is_super",
        "principal",
        "version",
    )

    def __init__(
        self,
        index: AclIndex,
        who: Who,
        principal: Principal,
        memory: _Memory,
        *,
        is_super: bool,
        is_open: bool,
    ) -> None:
        self.principal = principal
        self.host = who.host
        self.is_super = is_super
        self.version = memory.version
        self.askers: dict[int, Any] = {}
        """The ``Access`` objects of ``broker.authorization`` for this caller, by API key.

        They are dropped together with the rights.
        """
        self._index = index
        self._who = who
        self._memory = memory
        self._is_open = is_open
        self._decided: dict[Question, Decision] = {}
        self._somewhere: dict[tuple[int, int], bool] = {}

    def __repr__(self) -> str:
        return f"<Rights of {self._who.principal} on {self.host} decided={len(self._decided)}>"

    @property
    def questions(self) -> Collection[Question]:
        """The questions (operation, resource type, name) whose decisions are cached."""
        return self._decided.keys()

    def decide(self, operation: AclOperation, resource: AclResource, name: str) -> Decision:
        """Return the decision on an operation on the named resource."""
        found = self._decided.get((operation, resource, name))
        return self._decide(operation, resource, name) if found is None else found

    def _decide(self, operation: AclOperation, resource: AclResource, name: str) -> Decision:
        if self.is_super:
            return SUPER_USER
        decision = decide(self._index, self._who, operation, resource, name, is_open=self._is_open)
        if len(name) > MAX_NAME_LENGTH:
            return decision
        if len(self._decided) >= MAX_DECISIONS:
            self._decided.clear()
        self._decided[operation, resource, name] = decision
        self._memory.note_decision()
        return decision

    def may_somewhere(self, operation: AclOperation, resource: AclResource) -> bool:
        """Whether ACLs allow the operation on any resource of the type, existing or not."""
        key = (operation, resource)
        if key not in self._somewhere:
            self._somewhere[key] = is_allowed_somewhere(self._index, self._who, operation, resource)
        return self._somewhere[key]


class AclAuthorizer:
    """Decides by ACLs.

    ``is_open`` allows access to resources without ACLs (``allow.everyone.if.no.acl.found``).
    """

    def __init__(self, super_users: frozenset[str], *, is_open: bool) -> None:
        self._super_users = super_users
        self._is_open = is_open
        self._index = NO_INDEX
        self.version = object()
        """Identifies the current ACLs.

        Each change sets a new object. Compare versions with ``is``.
        """
        self._memory = _Memory(self.version)
        self.is_loaded = False
        """Whether the ACLs are loaded. Until then only super users may do anything."""

    def __repr__(self) -> str:
        return f"<AclAuthorizer {self._index!r} callers={len(self.known_rights)}>"

    @property
    def known_rights(self) -> Collection[Rights]:
        """The rights of the callers that are cached."""
        return self._memory.callers.values()

    @property
    def index(self) -> AclIndex:
        """The ACLs by which decisions are made."""
        return self._index

    def follow(self, index: AclIndex) -> None:
        """Replace the ACLs by which decisions are made, and empty the cache."""
        self.version = object()
        self._memory.forget()
        self._index, self._memory = index, _Memory(self.version)

    def is_super(self, principal: Principal) -> bool:
        """Whether a principal is a super user. Type and name are compared case-sensitively."""
        return f"{principal.type}:{principal.name}" in self._super_users

    def rights_of(self, principal: Principal, host: str) -> Rights:
        """Return the current rights of a caller.

        Call this for each request, because ACLs change.

        ``host`` is an address in any notation.
        """
        return self._memory.callers.get((principal, host)) or self._learn(principal, host)

    def _learn(self, principal: Principal, host: str) -> Rights:
        memory = self._memory
        if len(memory.callers) >= MAX_CALLERS:
            memory.forget()
        who = Who(principal=str(principal), host=java_host(host))
        rights = Rights(
            self._index,
            who,
            principal,
            memory,
            is_super=self.is_super(principal),
            is_open=self._is_open,
        )
        memory.callers[principal, host] = rights
        return rights
