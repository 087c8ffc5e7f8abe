"""Bugs of authorization are planted here.

Users of a simulated cluster must notice them.

As in ``cluster_bugs``, each replaces one decision by a wrong one that a programmer could have made.

    python -m tests.sim.access_bugs                  each bug, with the seeds that are known to show it first
    python -m tests.sim.access_bugs --seeds 9        every seed of each up to 9, with the time that it takes to show the bug
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from log_service.broker.authorization import group_gates, transaction_gates
from log_service.broker.authorization.node_authorizer import NodeAuthorizer
from log_service.broker.cluster_view import GROUP_OPERATIONS
from log_service.broker.fetch_session import FetchTarget
from log_service.broker.handlers.fetch import reads
from log_service.broker.handlers.produce.repeated import RepeatedCall
from log_service.broker.logins.offered import ScramUsers
from log_service.broker.logins.tokens import TokenLogins
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Call, Side
from log_service.common.access import Admission, Principal
from log_service.controller.caller import Caller
from log_service.protocol.api_versions import ApiKey
from log_service.security.acls.authorizer import AclAuthorizer
from log_service.security.acls.index import AclIndex
from log_service.security.delegation import parse_principal
from log_service.security.sasl.scram_server import TokenLogin
from log_service.security.sasl.session import HANDSHAKE_KEY, LoginSession, Pass
from tests.sim import cluster_aims as aims
from tests.sim.access_users import NODE
from tests.sim.bug_hunts import ClusterBug, hunt

# The wrong decisions

_authorize, _caller, _described = (
    NodeAuthorizer.authorize,
    Call.caller,
    group_gates.described_groups,
)
_is_readable, _find_user = reads.is_topic_readable, ScramUsers.find
_add_partitions, _after_login = transaction_gates.add_partitions_to_txn, LoginSession.after_login


def _decide_on_what_was_decoded(self: NodeAuthorizer, call: Call) -> Admission | None:
    """A request that is known by its bytes was authorized when it came the first time."""
    return None if isinstance(call, RepeatedCall) else _authorize(self, call)


def _ask_for_names_alone(node: Any, access: Any, target: FetchTarget, *rest: Any) -> bool:
    """Authorization goes by names, and a request by ids has none."""
    return _is_readable(node, access, target, *rest) if target.topic else True


def _ask_once_in_a_session(node: Any, access: Any, target: FetchTarget, *rest: Any) -> bool:
    """Treat the topics of a session as authorized since it began."""
    return target.sent_high_watermark >= 0 or _is_readable(node, access, target, *rest)


def _ask_for_the_first_topic(question: Any) -> Admission | None:
    """A transaction gets all of its partitions or none, so that one topic says enough."""
    first = replace(question.request, v3_and_below_topics=question.request.v3_and_below_topics[:1])
    admission = _add_partitions(replace(question, request=first))
    return admission if admission is None else _add_partitions(question)


def _pass_on_in_own_name(self: Call) -> Caller:
    """The controller knows brokers, and not their clients."""
    return replace(_caller(self), principal=Principal("User", NODE))


def _keep_decisions(self: AclAuthorizer, index: AclIndex) -> None:
    """A decision is kept until there are too many."""
    self._index = index


def _show_all_operations(question: Any, response: Any, shown_topics: Any) -> Any:
    """Give all operations on each described group, as without an authorizer."""
    described = _described(question, response, shown_topics)
    for group in described.groups:
        if not group.error_code and question.request.include_authorized_operations:
            group.authorized_operations = GROUP_OPERATIONS
    return described


def _remember_users(self: ScramUsers, mechanism: Any, name: str) -> Any:
    """A credential is looked up once."""
    known = self.__dict__.setdefault("_known", {})
    if (mechanism, name) not in known:
        known[mechanism, name] = _find_user(self, mechanism, name)
    return known[mechanism, name]


async def _take_any_token(self: TokenLogins, wanted: Any) -> TokenLogin | None:
    """A token that is in the metadata is a token: the controller sweeps out what has expired."""
    token = self._image().access.delegation_tokens.get(wanted.token_id)
    if token is None or self._secret is None:
        return None
    credential = await self._credential(self._secret, wanted)
    return TokenLogin(
        owner=parse_principal(token.owner),
        credential=credential,
        expires_at_ms=self._clock.wall_ms() + 86_400_000,
        is_there=lambda: True,
    )


def _go_on(self: LoginSession, frame: Any, now: Any) -> Any:
    """Keep a login valid for ever.

    Only the next login is checked.
    """
    is_login = self.expires_ns is not None and int.from_bytes(frame[:2], "big") == HANDSHAKE_KEY
    return _after_login(self, frame, now) if is_login else Pass()


BUGS: Sequence[ClusterBug] = (
    ClusterBug(
        name="produce that is recognized is not authorized",
        replacements=((NodeAuthorizer, "authorize", _decide_on_what_was_decoded),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="fetch by topic id is not authorized",
        replacements=((reads, "is_topic_readable", _ask_for_names_alone),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="fetch session outlives an ACL",
        replacements=((reads, "is_topic_readable", _ask_once_in_a_session),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="first topic of AddPartitionsToTxn decides for all",
        replacements=(
            (
                REGISTRY[ApiKey.ADD_PARTITIONS_TO_TXN].gates[Side.BROKER],
                "function",
                _ask_for_the_first_topic,
            ),
        ),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="forwarded in the broker's name",
        replacements=((Call, "caller", _pass_on_in_own_name),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="decisions outlive their ACLs",
        replacements=((AclAuthorizer, "follow", _keep_decisions),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="described groups show every operation",
        replacements=((group_gates, "described_groups", _show_all_operations),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="credentials outlive their users",
        replacements=((ScramUsers, "find", _remember_users),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="token logs in that has expired",
        replacements=((TokenLogins, "find", _take_any_token),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
    ClusterBug(
        name="session goes on after the end of its login",
        replacements=((LoginSession, "after_login", _go_on),),
        aim=aims.SECURE_CLUSTERS,
        shown_by=(0,),
    ),
)


def main(arguments: Iterable[str] | None = None) -> int:
    """Play bugs; see ``bug_hunts.hunt``."""
    return hunt(BUGS, arguments)


if __name__ == "__main__":
    sys.exit(main())
