"""What each API needs, as Apache Kafka decides it: without a right, with it, and with an ACL that denies it.

The rows are those of the matrix of the unit tests, which holds tidelog to a note of these facts: here Apache Kafka says them itself.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from log_service.broker.call import Side as NodeSide
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages import list_offsets
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.integration.access_frames import ACCESS_PROPERTIES, Right, Side
from tests.integration.differential import Cluster, Duel
from tests.unit.broker.authorization.acl_story import DENIALS, GROUP, TOPIC, TRANSACTIONAL_ID, codes, leaves
from tests.unit.broker.authorization.matrix import Row, Things
from tests.unit.broker.authorization.matrix_rows import ROWS
from tests.unit.broker.authorization.matrix_steps import fitted, shows
from tests.unit.broker.context import batch, produce_request

PROPERTIES = ACCESS_PROPERTIES
ONLY_HERE = frozenset({ApiKey.TIDELOG_MAINTENANCE})
CASES = {f"{index}-{row}": row for index, row in enumerate(ROWS) if NodeSide.BROKER in row.sides and row.key not in ONLY_HERE}


@pytest.fixture(scope="module")
def sides(clusters: Any) -> Iterator[dict[str, Side]]:
    opened = {cluster.bootstrap: Side(cluster) for cluster in clusters.sides()}
    yield opened
    for side in opened.values():
        side.close()


def prepared(side: Side, number: str) -> Things:
    """Make what a row's requests are about, with names that no other row has: a topic with a record, and the coordinators' topics."""
    things = Things(topic=f"t-{number}", group=f"g-{number}", transactional_id=f"x-{number}")
    topic = CreatableTopic(name=things.topic, num_partitions=1, replication_factor=1)
    created = side.admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics[0]
    assert created.error_code == 0, created
    until(lambda: side.admin.ask(produce_request(things.topic, batch(b"one")), 9).responses[0].partition_responses[0].error_code == 0)
    for key_type, key in ((0, things.group), (1, things.transactional_id)):
        wanted = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        until(lambda wanted=wanted: side.admin.ask(wanted, 4).coordinators[0].error_code == 0)
    return replace(things, topic_id=created.topic_id)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def renamed(right: Right, things: Things) -> Right:
    operation, resource, name = right
    names = {(TOPIC, "t"): things.topic, (GROUP, "g"): things.group, (TRANSACTIONAL_ID, "x"): things.transactional_id}
    return operation, resource, names.get((resource, name), name)


def hidden(row: Row, things: Things) -> str:
    """Return the text that a row's response must not show, by the names of this test."""
    return {"t": things.topic, "g": things.group, "x": things.transactional_id}[row.hidden or ""]


def ends(side: Side, things: Things) -> Any:
    """Tell where the log begins and ends, or the code that says that the topic is not there."""
    m = list_offsets
    found = []
    for timestamp in (-2, -1):
        wanted = m.ListOffsetsTopic(name=things.topic, partitions=[m.ListOffsetsPartition(timestamp=timestamp)])
        told = side.admin.ask(m.ListOffsetsRequest(topics=[wanted]), 7).topics[0].partitions[0]
        found.append([told.error_code, told.offset])
    return found


def codes_of(told: Any) -> Any:
    """Tell the error codes of a response and what it says of rights, or that no right was missing.

    What is let through is for other tests: much of its outcome is a matter of time.
    """
    if told is None:
        return "closed"
    if not codes(told) & DENIALS:
        return "let through"
    return sorted([name, int(value)] for name, value in leaves(told) if name.endswith(("error_code", "authorized_operations")))


def steps(row: Row) -> list[tuple[str, list[Right], list[Right]]]:
    """Return the states of the ACLs that a row is asked in: a name, what is allowed, what is denied."""
    needs = list(row.needs)
    told: list[tuple[str, list[Right], list[Right]]] = [("nothing", [], [])]
    for missing in needs if len(needs) > 1 else []:
        told.append((f"without {missing[0]} on {missing[1].name}", [right for right in needs if right is not missing], []))
    told += [(f"denied {right[0]} on {right[1].name}", needs, [right]) for right in needs]
    told += [(f"instead {right[0]} on {right[1].name} {right[2]}", [right], []) for right in row.instead]
    return [*told, ("all", needs, [])] if needs else told


@pytest.mark.parametrize("name", CASES)
def test_rights(duel: Duel, sides: dict[str, Side], name: str) -> None:
    row = CASES[name]

    def tell(cluster: Cluster) -> Any:
        side = sides[cluster.bootstrap]
        things = prepared(side, name.partition("-")[0])
        told = []
        for title, allowed, denied in steps(row):
            side.have_only([renamed(each, things) for each in allowed], [renamed(each, things) for each in denied])
            for version in row.all_versions:
                response = side.ask(fitted(row.build(things, version), version), version)
                outcome = codes_of(response)
                told.append([title, version, outcome, *(["the text is shown"] if row.hidden and shows(response, hidden(row, things)) else [])])
                if outcome != "let through":
                    told[-1].append(ends(side, things))
        return told

    duel.compare_told(tell)
