"""ACLs decide as in Apache Kafka's StandardAuthorizer: KIP-11, KIP-290, KIP-679."""

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.common.access import ANONYMOUS, AclOperation, AclResource, Principal
from log_service.security.acls import authorizer as authorizer_module
from log_service.security.acls import index as index_module
from log_service.security.acls.authorizer import MAX_CALLERS, MAX_DECISIONS, AclAuthorizer
from log_service.security.acls.decision import Reason
from log_service.security.acls.filters import AclFilter
from log_service.security.acls.hosts import java_host
from log_service.security.acls.index import BLOCK_SIZE, NO_INDEX
from log_service.security.acls.values import place
from tests.unit.security.acls import Acl, walk

ANN = Principal("User", "ann")
BOB = Principal("User", "bob")
HERE = "10.0.0.1"
READ, WRITE, DESCRIBE, ALTER = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALTER,
)
TOPIC, CLUSTER = AclResource.TOPIC, AclResource.CLUSTER
DENY = 2
PREFIXED = 4
ALL = 2


def deciding(*acls: Acl, super_users: Iterable[str] = (), is_open: bool = False) -> AclAuthorizer:
    authorizer = AclAuthorizer(frozenset(super_users), is_open=is_open)
    change(authorizer, acls, ())
    return authorizer


def change(authorizer: AclAuthorizer, added: Iterable[Acl], removed: Iterable[Acl]) -> None:
    authorizer.follow(authorizer.index.changed(added, removed))


def may(
    authorizer: AclAuthorizer,
    operation: AclOperation = READ,
    name: str = "orders",
    *,
    principal: Principal = ANN,
    host: str = HERE,
    resource: AclResource = TOPIC,
) -> bool:
    return authorizer.rights_of(principal, host).decide(operation, resource, name).is_allowed


def test_nothing_is_allowed_without_an_acl() -> None:
    decision = deciding().rights_of(ANN, HERE).decide(READ, TOPIC, "orders")
    assert (decision.is_allowed, decision.reason) == (False, Reason.DEFAULT_DENY)


def test_an_acl_allows_its_principal_and_nobody_else() -> None:
    authorizer = deciding(Acl())
    assert may(authorizer)
    assert not may(authorizer, principal=BOB)
    assert not may(authorizer, principal=Principal("Group", "ann"))
    assert not may(authorizer, name="orders2")
    assert not may(authorizer, WRITE)
    assert not may(authorizer, resource=AclResource.GROUP)


def test_a_denial_wins_whatever_its_pattern_and_order() -> None:
    for denial in (
        Acl(permission_type=DENY),
        Acl(resource_name="or", pattern_type=PREFIXED, permission_type=DENY),
        Acl(resource_name="*", permission_type=DENY),
    ):
        for acls in ((Acl(), denial), (denial, Acl())):
            assert not may(deciding(*acls))


def test_the_principal_star_is_every_principal_of_every_type() -> None:
    authorizer = deciding(Acl(principal="User:*"))
    assert may(authorizer, principal=Principal("Group", "x"))
    assert may(authorizer, principal=ANONYMOUS)
    assert not may(deciding(Acl(principal="Group:*")), principal=Principal("Group", "x"))
    assert not may(deciding(Acl(), Acl(principal="User:*", permission_type=DENY)))


def test_reading_implies_describing_and_denying_it_does_not() -> None:
    for operation in (READ, WRITE, AclOperation.DELETE, ALTER):
        assert may(deciding(Acl(operation=operation)), DESCRIBE)
    assert may(deciding(Acl(operation=AclOperation.ALTER_CONFIGS)), AclOperation.DESCRIBE_CONFIGS)
    assert not may(deciding(Acl(operation=AclOperation.CREATE)), DESCRIBE)
    assert may(deciding(Acl(operation=WRITE), Acl(permission_type=DENY)), DESCRIBE)
    assert not may(deciding(Acl(), Acl(operation=DESCRIBE, permission_type=DENY)), DESCRIBE)


def test_all_is_every_operation() -> None:
    assert may(deciding(Acl(operation=ALL)), AclOperation.ALTER_CONFIGS)
    assert not may(deciding(Acl(), Acl(operation=ALL, permission_type=DENY)))


def test_a_prefix_of_a_star_is_the_character() -> None:
    authorizer = deciding(Acl(resource_name="*", pattern_type=PREFIXED))
    assert not may(authorizer)
    assert may(authorizer, name="*orders")


def test_a_literal_star_is_every_resource_of_its_type() -> None:
    assert may(deciding(Acl(resource_name="*")))
    assert not may(deciding(Acl(resource_name="*")), resource=AclResource.GROUP)


def test_an_open_cluster_is_closed_by_the_first_acl_on_a_resource() -> None:
    assert may(deciding(is_open=True))
    assert not may(deciding(Acl(principal="User:bob"), is_open=True))
    assert may(deciding(Acl(principal="User:bob"), is_open=True), name="invoices")


def test_super_users_are_compared_with_type_and_case() -> None:
    authorizer = deciding(
        Acl(permission_type=DENY, operation=ALL), super_users=("User:ann", "Group:ops")
    )
    assert authorizer.rights_of(ANN, HERE).decide(READ, TOPIC, "orders").reason is Reason.SUPER_USER
    assert not may(authorizer, principal=Principal("User", "Ann"))
    assert not may(authorizer, principal=Principal("Group", "ann"))
    assert not may(authorizer, principal=Principal("User", "ops"))


@pytest.mark.parametrize(
    ("python", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::7:0", "2001:db8:0:0:0:0:7:0"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("", ""),
        ("a.host", "a.host"),
    ],
)
def test_hosts_are_written_as_java_writes_them(python: str, java: str) -> None:
    assert java_host(python) == java


def test_an_acl_for_an_address_holds_for_that_address() -> None:
    authorizer = deciding(Acl(host="0:0:0:0:0:0:0:1"))
    assert may(authorizer, host="::1")
    assert not may(authorizer, host="127.0.0.1")
    assert not may(
        deciding(Acl(), Acl(host="10.1.2.3", permission_type=DENY)), host="::ffff:10.1.2.3"
    )


def test_a_right_that_is_taken_away_is_gone_at_once() -> None:
    acl = Acl()
    authorizer = deciding(acl)
    assert may(authorizer)
    change(authorizer, (), (acl,))
    assert not may(authorizer)
    change(authorizer, (acl, Acl(permission_type=DENY, principal="User:*")), ())
    assert not may(authorizer)


def test_what_is_remembered_is_bounded() -> None:
    authorizer = deciding(Acl())
    for number in range(MAX_CALLERS + 10):
        authorizer.rights_of(Principal("User", str(number)), HERE)
    assert len(authorizer.known_rights) <= MAX_CALLERS
    rights = authorizer.rights_of(ANN, HERE)
    for number in range(MAX_DECISIONS + 10):
        rights.decide(READ, TOPIC, str(number))
    assert len(rights.questions) <= MAX_DECISIONS
    assert may(authorizer)


def test_many_acls_of_one_principal_go_without_being_compared() -> None:
    """The deletion takes any order.

    Comparing each ACL that goes with those before it would hold the controller up for seconds.
    """
    compared: list[object] = []

    class Counting(Acl):
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return super().__eq__(other)

        __hash__ = Acl.__hash__

    acls = [Counting(resource_name=f"topic-{number}") for number in range(500)]
    kept, *gone = acls
    index = NO_INDEX.changed(acls, ()).changed((), reversed(gone))
    assert (list(index.all()), list(index.of_principal(2, "User:ann")), index.count) == (
        [kept],
        [kept],
        1,
    )
    assert len(compared) < len(acls)


def test_an_acl_of_one_who_has_many_copies_few_of_them() -> None:
    many = [Acl(resource_name=f"topic-{number}") for number in range(10 * BLOCK_SIZE + 1)]
    before = NO_INDEX.changed(many, ())
    new = Acl(resource_name="another")
    after = before.changed([new], ())
    assert list(after.of_principal(2, "User:ann")) == [*many, new]
    assert list(before.of_principal(2, "User:ann")) == many
    (kept,), (blocks,) = before.by_principal.values(), after.by_principal.values()
    assert sum(block is not other for block, other in zip(kept, blocks, strict=True)) == 1
    left = after.changed((), many[::2])
    assert list(left.of_principal(2, "User:ann")) == [*many[1::2], new]


# The rule that decided


def test_names_that_clients_choose_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "MAX_DECISIONS_OF_ALL", 1_000)
    authorizer = AclAuthorizer(frozenset(), is_open=False)
    for caller in range(300):
        rights = authorizer.rights_of(ANONYMOUS, f"10.0.0.{caller}")
        for number in range(100):
            assert not rights.decide(AclOperation.READ, AclResource.TOPIC, f"t{number}").is_allowed
        assert not rights.decide(AclOperation.READ, AclResource.GROUP, "g" * 30_000).is_allowed
    remembered = [name for rights in authorizer.known_rights for _, _, name in rights.questions]
    assert 0 < len(remembered) <= 1_100
    assert max(map(len, remembered)) < 100


def test_the_first_denial_decides_and_else_the_last_acl_that_allows() -> None:
    star, prefix, literal = (
        Acl(resource_name="*"),
        Acl(resource_name="ord", pattern_type=PREFIXED),
        Acl(),
    )
    assert (
        deciding(star, literal, prefix).rights_of(ANN, HERE).decide(READ, TOPIC, "orders").acl
        is star
    )
    assert (
        deciding(literal, prefix).rights_of(ANN, HERE).decide(READ, TOPIC, "orders").acl is prefix
    )
    denial = Acl(resource_name="o", pattern_type=PREFIXED, permission_type=DENY)
    assert (
        deciding(star, literal, denial).rights_of(ANN, HERE).decide(READ, TOPIC, "orders").acl
        is denial
    )


# Some resource of a type


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ((), False),
        ((Acl(operation=WRITE),), True),
        ((Acl(operation=ALL),), True),
        ((Acl(operation=READ),), False),
        ((Acl(operation=WRITE, principal="User:*"),), True),
        ((Acl(operation=WRITE, principal="User:bob"),), False),
        ((Acl(operation=WRITE, host="10.0.0.9"),), False),
        ((Acl(operation=WRITE, resource_name="*"),), True),
        (
            (
                Acl(operation=WRITE, resource_name="*"),
                Acl(operation=WRITE, resource_name="*", permission_type=DENY),
            ),
            False,
        ),
        ((Acl(operation=WRITE), Acl(operation=WRITE, permission_type=DENY)), False),
        (
            (
                Acl(operation=WRITE),
                Acl(
                    operation=ALL, resource_name="ord", pattern_type=PREFIXED, permission_type=DENY
                ),
            ),
            False,
        ),
        (
            (
                Acl(operation=WRITE, resource_name="o", pattern_type=PREFIXED),
                Acl(operation=WRITE, permission_type=DENY),
            ),
            True,
        ),
        (
            (
                Acl(operation=WRITE, resource_name="ord", pattern_type=PREFIXED),
                Acl(
                    operation=WRITE, resource_name="o", pattern_type=PREFIXED, permission_type=DENY
                ),
            ),
            False,
        ),
        (
            (
                Acl(operation=WRITE, resource_name="o", pattern_type=PREFIXED),
                Acl(
                    operation=WRITE,
                    resource_name="ord",
                    pattern_type=PREFIXED,
                    permission_type=DENY,
                ),
            ),
            True,
        ),
    ],
)
def test_writing_to_some_topic(acls: tuple[Acl, ...], *, is_allowed: bool) -> None:
    assert deciding(*acls).rights_of(ANN, HERE).may_somewhere(WRITE, TOPIC) is is_allowed


# The index and a list


PRINCIPALS = ["User:ann", "User:bob", "User:*", "Group:ann"]
names = st.text(alphabet="ab*", min_size=1, max_size=4)
acls_of_all_kinds = st.builds(
    Acl,
    resource_type=st.sampled_from([2, 3]),
    resource_name=names,
    pattern_type=st.sampled_from([3, 4]),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(["*", HERE, "10.0.0.2"]),
    operation=st.sampled_from([2, 3, 4, 8, 10, 11]),
    permission_type=st.sampled_from([2, 3]),
)


@settings(max_examples=150, deadline=None)
@given(
    first=st.lists(acls_of_all_kinds, max_size=12),
    later=st.lists(acls_of_all_kinds, max_size=6),
    removed=st.sets(st.integers(0, 17)),
    is_open=st.booleans(),
    asked=st.lists(
        st.tuples(
            st.sampled_from([ANN, BOB, Principal("Group", "ann")]),
            st.sampled_from([HERE, "10.0.0.2"]),
            st.sampled_from([READ, WRITE, DESCRIBE, AclOperation.DESCRIBE_CONFIGS]),
            st.sampled_from([TOPIC, AclResource.GROUP]),
            names,
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_the_index_decides_as_a_walk_over_all_acls(
    first: list[Acl],
    later: list[Acl],
    removed: set[int],
    asked: list[tuple[Principal, str, AclOperation, AclResource, str]],
    *,
    is_open: bool,
) -> None:
    authorizer = deciding(*first, is_open=is_open)
    gone = [acl for number, acl in enumerate(first) if number in removed]
    kept = [acl for number, acl in enumerate(first) if number not in removed] + later
    for (
        principal,
        host,
        operation,
        resource,
        name,
    ) in asked:  # so that there are decisions to forget
        assert may(
            authorizer, operation, name, principal=principal, host=host, resource=resource
        ) is walk(first, str(principal), host, operation, resource, name, is_open=is_open)
    with mock.patch.object(index_module, "BLOCK_SIZE", 2):
        change(authorizer, later, gone)
    assert authorizer.index.count == len(kept)
    assert [authorizer.index.holds(place(acl)) for acl in (*first, *later)] == [
        acl in kept for acl in (*first, *later)
    ]
    for named in PRINCIPALS:
        found = Counter(map(id, authorizer.index.of_principal(TOPIC, named)))
        assert found == Counter(
            id(acl) for acl in kept if (acl.resource_type, acl.principal) == (TOPIC, named)
        )
    for principal, host, operation, resource, name in asked:
        assert may(
            authorizer, operation, name, principal=principal, host=host, resource=resource
        ) is walk(kept, str(principal), host, operation, resource, name, is_open=is_open)
    change(authorizer, (), kept)
    assert authorizer.index == NO_INDEX or not authorizer.index.literal
    assert not authorizer.index.prefixed
    assert not authorizer.index.by_principal
    assert not any(authorizer.index.prefix_lengths.values())


# Many ACLs


def many(count: int) -> list[Acl]:
    return [
        Acl(
            resource_name=f"team-{number % 100}.topic-{number}",
            pattern_type=3 + number % 2,
            principal=f"User:{number % 1000}",
        )
        for number in range(count)
    ]


def looked_at(authorizer: AclAuthorizer, name: str) -> int:
    return sum(1 for _ in authorizer.index.about(TOPIC, name))


def test_a_decision_looks_at_the_acls_of_its_resource_alone() -> None:
    authorizer = deciding(*many(20_000))
    assert looked_at(authorizer, "team-7.topic-10070") == 1
    assert looked_at(authorizer, "nothing") == 0


def _allocated(work: Callable[[], None]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_change_does_not_rebuild_the_index() -> None:
    acls = many(20_000)
    whole_bytes = _allocated(lambda: change(deciding(), acls, ()))
    authorizer = deciding(*acls)
    one_bytes = _allocated(lambda: change(authorizer, (Acl(),), ()))
    assert one_bytes * 20 < whole_bytes


# Filters


ANY = AclFilter(
    resource_type=1,
    resource_name=None,
    pattern_type=1,
    principal=None,
    host=None,
    operation=1,
    permission_type=1,
)


def matching(acl: Acl, **wanted: Any) -> bool:
    """Whether a filter means an ACL, which it finds among others then."""
    asked = replace(ANY, **wanted)
    others = [
        Acl(resource_name=name, pattern_type=kind, resource_type=3)
        for name in ("x", "*")
        for kind in (3, 4)
    ]
    found = list(asked.find(NO_INDEX.changed([acl, *others], ())))
    assert (acl in found) is asked.matches(acl)
    return acl in found


def test_a_filter_finds_what_its_fields_say() -> None:
    acl = Acl()
    assert ANY.matches(acl)
    assert matching(
        acl,
        resource_name="orders",
        principal="User:ann",
        host="*",
        operation=3,
        permission_type=3,
        resource_type=2,
    )
    for wrong in (
        {"resource_name": "order"},
        {"principal": "User:*"},
        {"host": HERE},
        {"operation": 4},
        {"permission_type": 2},
        {"resource_type": 3},
        {"pattern_type": 4},
        {"pattern_type": 99},
        {"operation": 99},
    ):
        assert not matching(acl, **wrong), wrong


def test_the_pattern_match_finds_what_has_an_effect_on_a_name() -> None:
    assert matching(Acl(), resource_name="orders", pattern_type=2)
    assert matching(Acl(resource_name="*"), resource_name="orders", pattern_type=2)
    assert matching(
        Acl(resource_name="ord", pattern_type=PREFIXED), resource_name="orders", pattern_type=2
    )
    assert not matching(
        Acl(resource_name="orders.eu", pattern_type=PREFIXED),
        resource_name="orders",
        pattern_type=2,
    )
    assert not matching(
        Acl(resource_name="*", pattern_type=PREFIXED), resource_name="orders", pattern_type=2
    )
    assert not matching(Acl(resource_name="*"), resource_name="orders", pattern_type=1)
