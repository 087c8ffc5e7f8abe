"""The judges of rights pass each request that was decided correctly.

They name each broken promise.
"""

from collections.abc import Sequence

import pytest

from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode
from tests.sim.access_checker import (
    BITS,
    CODE,
    EFFECT,
    ENDED,
    HIDDEN,
    KNOWN,
    LOGIN,
    REFUSED,
    SHOWN,
    check_attempt,
    check_effects,
    check_known,
    check_login,
)
from tests.sim.access_history import Attempt, Bits, LogIn, Part, Shown
from tests.sim.access_model import (
    ALLOW,
    DENY,
    LITERAL,
    PREFIXED,
    AccessState,
    Asker,
    Need,
    Rule,
    Step,
)
from tests.sim.access_requests import ON_GROUPS, add_partitions, commit

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP, CLUSTER = AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER
ANN = Asker("User:ann", "10.0.0.1")
NONE, NO_TOPIC, NO_GROUP = (
    ErrorCode.NONE,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ON_GOLD = (Step((Need(WRITE, TOPIC, "gold"),), NO_TOPIC),)


def rule(
    operation: int = WRITE,
    name: str = "gold",
    *,
    principal: str = "User:ann",
    host: str = "*",
    **more: int,
) -> Rule:
    return Rule(
        principal=principal,
        host=host,
        operation=operation,
        permission=more.get("permission", ALLOW),
        resource=more.get("resource", TOPIC),
        pattern=more.get("pattern", LITERAL),
        name=name,
    )


def state(*rules: Rule, **passwords: int) -> AccessState:
    return AccessState(rules=rules, passwords=passwords, super_users=frozenset({"User:admin"}))


NOTHING, WRITES = state(), state(rule())


def attempt(*parts: Part, **seen: Sequence[object]) -> Attempt:
    return Attempt(
        api="Produce",
        asker=ANN,
        deciders=("node1",),
        parts=list(parts),
        **{name: list(each) for name, each in seen.items()},  # type: ignore[arg-type]
    )


def told(
    code: ErrorCode | None, states: Sequence[AccessState], steps: tuple[Step, ...] = ON_GOLD
) -> list[str]:
    return [
        each.rule
        for each in check_attempt(
            attempt(Part(what="to gold", steps=steps, told=code, mark="1")), states
        )
    ]


# The model


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([rule()], True),
        ([rule(name="*")], True),
        ([rule(name="go", pattern=PREFIXED)], True),
        ([rule(name="old", pattern=PREFIXED)], False),
        ([rule(name="go")], False),
        ([rule(principal="User:*")], True),
        ([rule(principal="User:bob")], False),
        ([rule(host="10.0.0.1")], True),
        ([rule(host="10.0.0.2")], False),
        ([rule(operation=2)], True),
        ([rule(operation=READ)], False),
        ([rule(resource=GROUP)], False),
        ([rule(), rule(permission=DENY)], False),
        ([rule(), rule(permission=DENY, name="g", pattern=PREFIXED)], False),
        ([rule(), rule(permission=DENY, principal="User:*", name="*", operation=2)], False),
        ([rule(), rule(permission=DENY, host="10.0.0.2")], True),
    ],
)
def test_model_decides_as_the_standard_authorizer(rules: list[Rule], is_allowed: bool) -> None:
    assert state(*rules).allows(ANN, Need(WRITE, TOPIC, "gold")) is is_allowed


def test_model_knows_what_is_implied_and_who_may_do_everything() -> None:
    assert WRITES.allows(ANN, Need(DESCRIBE, TOPIC, "gold"))
    assert not state(rule(), rule(DESCRIBE, permission=DENY)).allows(
        ANN, Need(DESCRIBE, TOPIC, "gold")
    )
    assert state(rule(), rule(WRITE, permission=DENY), rule(READ)).allows(
        ANN, Need(DESCRIBE, TOPIC, "gold")
    )
    assert state(rule(principal="User:admin", permission=DENY)).allows(
        Asker("User:admin", "x"), Need(WRITE, TOPIC, "gold")
    )


# What was told


def test_what_is_decided_by_some_state_of_the_time_is_as_it_should_be() -> None:
    assert not told(NONE, [WRITES])
    assert not told(NO_TOPIC, [NOTHING])
    assert not told(NONE, [NOTHING, WRITES])
    assert not told(NO_TOPIC, [NOTHING, WRITES])
    assert not told(ErrorCode.NOT_LEADER_OR_FOLLOWER, [WRITES])
    assert not told(ErrorCode.NOT_CONTROLLER, [NOTHING]), "the node does not know the ACLs yet"
    assert not told(None, [NOTHING])


def test_what_is_never_allowed_and_takes_effect_is_named() -> None:
    assert told(NONE, [NOTHING]) == [EFFECT]
    assert told(NONE, [NOTHING, state(rule(READ))]) == [EFFECT]


def test_what_is_always_allowed_and_refused_is_named() -> None:
    assert told(NO_TOPIC, [WRITES]) == [REFUSED]
    assert told(NO_GROUP, [WRITES]) == [REFUSED]


def test_refusal_with_another_code_is_named() -> None:
    assert told(UNKNOWN_TOPIC, [NOTHING]) == [CODE], "it says that there is no such topic"
    assert told(NO_GROUP, [NOTHING]) == [CODE]
    assert told(NO_GROUP, [NOTHING, WRITES]) == [CODE]


def test_steps_are_refused_in_their_order() -> None:
    tried = commit("crew", ["gold", "iron"], "mark")
    (gold, iron) = (part.steps for part in tried.parts)
    of_group = rule(READ, "crew", resource=GROUP)
    assert not told(NO_GROUP, [NOTHING], gold)
    assert told(NO_TOPIC, [NOTHING], gold) == [CODE]
    assert not told(NO_TOPIC, [state(of_group)], gold)
    assert not told(NONE, [state(of_group, rule(READ))], gold)
    assert told(NONE, [state(of_group, rule(READ))], iron) == [EFFECT]


def test_one_denied_topic_keeps_the_others_out_of_a_transaction() -> None:
    (gold, iron) = (part.steps for part in add_partitions("deal", 1, 0, ["gold", "iron"]).parts)
    some = state(rule(WRITE, "deal", resource=AclResource.TRANSACTIONAL_ID), rule())
    assert not told(ErrorCode.OPERATION_NOT_ATTEMPTED, [some], gold)
    assert not told(NO_TOPIC, [some], iron)
    assert told(NONE, [some], gold) == [EFFECT]
    assert told(NONE, [some], iron) == [EFFECT]
    assert not told(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, [WRITES], gold)


# What is left, shown and known


def test_what_is_left_of_a_request_that_was_never_allowed_is_named() -> None:
    tried = attempt(Part(what="to gold", steps=ON_GOLD, mark="1"))
    assert [each.rule for each in check_effects(tried, [NOTHING], {"1"})] == [EFFECT]
    assert not list(check_effects(tried, [NOTHING], {"2"}))
    assert not list(check_effects(tried, [NOTHING, WRITES], {"1"}))


def test_names_are_shown_to_those_who_may_see_them() -> None:
    def shown(
        names: list[str], states: list[AccessState], *, or_on_cluster: bool = False
    ) -> list[str]:
        seen = Shown(resource=TOPIC, names=names, known=["gold"], or_on_cluster=or_on_cluster)
        return [each.rule for each in check_attempt(attempt(shown=[seen]), states)]

    assert not shown(["gold"], [WRITES])
    assert not shown([], [NOTHING])
    assert not shown([], [NOTHING, WRITES])
    assert shown(["gold", "iron"], [WRITES]) == [HIDDEN]
    assert shown([], [WRITES]) == [SHOWN]
    sees_all = state(rule(DESCRIBE, "kafka-cluster", resource=CLUSTER))
    assert shown(["gold"], [sees_all]) == [HIDDEN]
    assert not shown(["gold"], [sees_all], or_on_cluster=True)


def test_authorized_operations_are_those_of_some_state() -> None:
    def operations(number: int, states: list[AccessState], *, is_hidden: bool = False) -> list[str]:
        bits = Bits(
            resource=GROUP,
            name="crew",
            operations=ON_GROUPS,
            told=number,
            is_hidden_without_describe=is_hidden,
        )
        return [each.rule for each in check_attempt(attempt(bits=[bits]), states)]

    reads = state(rule(READ, "crew", resource=GROUP))
    assert not operations(1 << READ | 1 << DESCRIBE, [reads])
    assert not operations(0, [reads, NOTHING])
    assert operations(0, [reads]) == [BITS]
    assert operations(1 << READ, [reads]) == [BITS]
    assert operations(1 << READ | 1 << DESCRIBE | 1 << AclOperation.DELETE, [reads, NOTHING]) == [
        BITS
    ]
    hidden = state(
        rule(READ, "crew", resource=GROUP), rule(DESCRIBE, "crew", resource=GROUP, permission=DENY)
    )
    assert operations(1 << READ, [hidden], is_hidden=True) == [BITS]
    assert not operations(0, [hidden], is_hidden=True)


@pytest.mark.parametrize(
    ("code", "known", "rules"),
    [
        (NONE, [1], []),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, [0], []),
        (NONE, [0, 1], []),
        (None, [0], []),
        (NONE, [0], [LOGIN]),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, [1], [LOGIN]),
        (ErrorCode.ILLEGAL_SASL_STATE, [0], [LOGIN]),
    ],
)
def test_login_goes_by_the_password_that_the_node_knows(
    code: ErrorCode | None, known: list[int], rules: list[str]
) -> None:
    login = LogIn(user="ann", password=1, node="node1", told=code)
    assert [
        each.rule for each in check_login(login, [state(ann=number) for number in known])
    ] == rules


def test_removed_user_may_not_log_in() -> None:
    assert [
        each.rule
        for each in check_login(LogIn(user="ann", password=1, node="node1", told=NONE), [state()])
    ] == [LOGIN]


def test_acknowledged_changes_are_known_once_all_is_calm() -> None:
    def rules(known: AccessState, **passwords: int | None) -> list[str]:
        return [
            each.rule
            for each in check_known("node1", known, {rule(): True, rule(READ): False}, passwords)
        ]

    assert not rules(state(rule(), rule(DESCRIBE), ann=2), ann=2, bob=None)
    assert rules(state()) == [KNOWN]
    assert rules(state(rule(), rule(READ))) == [KNOWN]
    assert rules(state(rule(), ann=1), ann=2) == [KNOWN]
    assert rules(state(rule(), ann=1), ann=None) == [KNOWN]


@pytest.mark.parametrize(
    ("seconds", "is_ok", "is_left", "rules"),
    [
        (-0.1, True, True, []),
        (0.0, True, True, []),
        (0.1, True, False, [ENDED]),
        (0.1, False, False, []),
        (0.1, False, True, [ENDED]),
    ],
)
def test_nothing_comes_of_what_is_asked_after_a_login_has_ended(
    seconds: float, *, is_ok: bool, is_left: bool, rules: list[str]
) -> None:
    late = attempt(Part(what="to gold", steps=ON_GOLD, told=NONE if is_ok else None, mark="1"))
    late.login_ends, late.time, late.is_ok = 5.0, 5.0 + seconds, is_ok
    found = [
        *check_attempt(late, [WRITES]),
        *check_effects(late, [WRITES], {"1"} if is_left else ()),
    ]
    assert [each.rule for each in found] == rules


@pytest.mark.parametrize(
    ("code", "ends_ms", "rules"),
    [
        (NONE, [200], []),
        (NONE, [100], [LOGIN]),
        (NONE, [0], [LOGIN]),
        (NONE, [150], []),
        (NONE, [0, 200], []),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, [200], [LOGIN]),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, [150], []),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, [100, 0], []),
        (None, [100], []),
    ],
)
def test_login_by_a_token_goes_by_when_it_expires(
    code: ErrorCode | None, ends_ms: list[int], rules: list[str]
) -> None:
    """It takes from 100 to 160 ms of the node's wall clock."""
    login = LogIn(user="ann", token="t", node="node1", told=code, wall_ms=100, ended_wall_ms=160)
    states = [AccessState(tokens={"t": end_ms} if end_ms else {}) for end_ms in ends_ms]
    assert [each.rule for each in check_login(login, states)] == rules
