"""Measures one decision of the authorizer, and one ACL change, with 100 to 100,000 ACLs.

A decision is asked for again, as in all requests of a client but the first, or made anew. The names
of the ACLs are those of many teams' topics, half of them prefixes. The figure is CPU time.
"""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from uuid import UUID

from benchmarks.rounds import Bench, Sides, say
from benchmarks.table import OURS, Row
from log_service.common.access import AclOperation, AclResource, Principal
from log_service.metadata.access import AclEntry
from log_service.security.acls.authorizer import AclAuthorizer
from log_service.security.acls.index import NO_INDEX, AclIndex

ACL_COUNTS = (100, 10_000, 100_000)
HOST, READ, TOPIC = "10.0.0.1", AclOperation.READ, AclResource.TOPIC
ASKED_COUNT, MADE_COUNT, CHANGE_COUNT = 100_000, 5_000, 500


def acl(number: int) -> AclEntry:
    """Return one of many ACLs that allow a user to read."""
    return AclEntry(
        acl_id=UUID(int=number + 1),
        resource_type=int(TOPIC),
        resource_name=f"team-{number % 100}.topic-{number}",
        pattern_type=3 + number % 2,
        principal=f"User:{number % 1_000}",
        host="*",
        operation=int(READ),
        permission_type=3,
    )


def measure(indexes: Sequence[AclIndex]) -> list[Row]:
    """Measure one round."""
    gc.collect()
    return [row for index in indexes for row in _rows(index)]


def _rows(index: AclIndex) -> Iterator[Row]:
    authorizer = AclAuthorizer(frozenset(), is_open=False)
    authorizer.follow(index)
    caller, name = Principal("User", "7"), "team-7.topic-7.of-somebody"
    one = acl(10**9)

    def decide() -> None:
        authorizer.rights_of(caller, HOST).decide(READ, TOPIC, name)

    def decide_anew() -> None:
        authorizer.follow(index)
        decide()

    for kind, count, act in (
        ("decision asked again", ASKED_COUNT, decide),
        ("decision made anew", MADE_COUNT, decide_anew),
        ("change of one ACL", CHANGE_COUNT, lambda: index.changed((one,), ())),
    ):
        yield Row(
            figure=f"{kind}, {index.count:,} ACLs", unit="us", rounds=(_microseconds(act, count),)
        )


def _microseconds(act: Callable[[], object], count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        act()
    return (time.process_time() - started) * 1e6 / count


@contextlib.contextmanager
def access(bench: Bench) -> Iterator[Sides]:
    """Make the indexes once for all rounds."""
    bench.stop_brokers()
    say("access: making indexes of ACLs")
    indexes = [
        NO_INDEX.changed(map(acl, range(bench.count(count, at_least=100))), ())
        for count in ACL_COUNTS
    ]
    yield Sides(measures={OURS: partial(measure, indexes)})
