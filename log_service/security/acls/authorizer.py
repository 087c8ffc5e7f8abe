"""The authorizer of a node: super users, the ACLs, and the decisions that were made since the ACLs last changed.

Decides whether a principal on a host may perform an operation on a resource. Super users may do everything, also before the ACLs are known
and against an ACL that denies.

A decision is made once and then remembered, under the caller: ``rights_of`` returns what is known of one. The memory belongs to the index
that the decisions came from. A change of ACLs puts a new index with an empty memory in the place of both, in one step, so that no decision
outlives the ACLs that made it. ``version`` stands for the ACLs of the moment. Code that keeps a decision keeps the version beside it, and
asks again once the authorizer has another; code that keeps ``Rights`` compares their own ``version`` with the authorizer's.

Invariants: callers and decisions that are remembered are bounded, of one caller and of all, and so are the names in them; what is over is
forgotten and decided anew.
"""

from typing import Any, Final

from log_service.common.access import AclOperation, AclResource, Principal
from log_service.security.acls.decision import SUPER_USER, Decision, Who, decide, is_allowed_somewhere
from log_service.security.acls.hosts import java_host
from log_service.security.acls.index import NO_INDEX, AclIndex

MAX_CALLERS: Final = 4096
"""So many pairs of a principal and a host are remembered."""
MAX_DECISIONS: Final = 8192
"""So many decisions are remembered of one caller."""
MAX_DECISIONS_OF_ALL: Final = 1 << 18
"""So many decisions are remembered of all callers: clients choose the names, and may come from many addresses."""
MAX_NAME_LENGTH: Final = 256
"""A decision about a longer name is made anew each time; names of topics have up to 249 letters."""

Question = tuple[int, int, str]
"""Operation, type of the resource, its name."""


class _Memory:
    """The callers that decisions are remembered of, and how many decisions that are. ``version`` stands for the ACLs that they are by."""

    __slots__ = ("callers", "decision_count", "version")

    def __init__(self, version: object) -> None:
        self.version = version
        self.callers: dict[tuple[Principal, str], Rights] = {}
        self.decision_count = 0

    def note_decision(self) -> None:
        """Count one more; where there are too many, forget all. A request under way keeps its own."""
        self.decision_count += 1
        if self.decision_count > MAX_DECISIONS_OF_ALL:
            self.forget()

    def forget(self) -> None:
        """Forget everything."""
        self.callers.clear()
        self.decision_count = 0


class Rights:
    """What one caller may do, by the state of the ACLs that ``version`` stands for."""

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

    def __init__(self, index: AclIndex, who: Who, principal: Principal, memory: _Memory, *, is_super: bool, is_open: bool) -> None:
        self.principal = principal
        self.host = who.host
        self.is_super = is_super
        self.version = memory.version
        self.askers: dict[int, Any] = {}
        """What ``broker.authorization`` keeps of this caller, by the key of the API: an ``Access`` each. It goes when the rights go."""
        self._index = index
        self._who = who
        self._memory = memory
        self._is_open = is_open
        self._decided: dict[Question, Decision] = {}
        self._somewhere: dict[tuple[int, int], bool] = {}

    def __repr__(self) -> str:
        return f"<Rights of {self._who.principal} on {self.host} decided={len(self._decided)}>"

    def decide(self, operation: AclOperation, resource: AclResource, name: str) -> Decision:
        """Return the decision on one operation on the resource of that name."""
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
        """Whether some resource of a type may exist on which the operation is allowed by an ACL."""
        key = (operation, resource)
        if key not in self._somewhere:
            self._somewhere[key] = is_allowed_somewhere(self._index, self._who, operation, resource)
        return self._somewhere[key]


class AclAuthorizer:
    """Decides by ACLs. ``is_open`` allows what no ACL is about (``allow.everyone.if.no.acl.found``)."""

    def __init__(self, super_users: frozenset[str], *, is_open: bool) -> None:
        self._super_users = super_users
        self._is_open = is_open
        self._index = NO_INDEX
        self.version = object()
        """Stands for the ACLs of the moment: another object after each change, compared by ``is``."""
        self._memory = _Memory(self.version)
        self.is_loaded = False
        """Whether the ACLs are known. Before, super users alone may do anything."""

    def __repr__(self) -> str:
        return f"<AclAuthorizer {self._index!r} callers={len(self._memory.callers)}>"

    @property
    def index(self) -> AclIndex:
        """The ACLs that decisions are made by."""
        return self._index

    def follow(self, index: AclIndex) -> None:
        """Decide by these ACLs from now on."""
        self.version = object()
        self._index, self._memory = index, _Memory(self.version)

    def is_super(self, principal: Principal) -> bool:
        """Whether a principal may do everything. Type and name are compared as they are, with the case of their letters."""
        return f"{principal.type}:{principal.name}" in self._super_users

    def rights_of(self, principal: Principal, host: str) -> Rights:
        """Return what a caller may do, as of now: ask anew for the next request. ``host`` is an address, however it is written."""
        return self._memory.callers.get((principal, host)) or self._learn(principal, host)

    def _learn(self, principal: Principal, host: str) -> Rights:
        memory = self._memory
        if len(memory.callers) >= MAX_CALLERS:
            memory.forget()
        who = Who(principal=str(principal), host=java_host(host))
        rights = Rights(self._index, who, principal, memory, is_super=self.is_super(principal), is_open=self._is_open)
        memory.callers[principal, host] = rights
        return rights
