"""Groups are found, listed, described and deleted as in Apache Kafka, in every version."""

import pytest

from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.list_groups import ListGroupsRequest
from tests.integration.differential import Duel
from tests.integration.group_cast import Cast, coordinators_are_there, subscription, told

PROPERTIES: dict[str, str] = {}
"""None, and clusters of this module's own: all groups of a cluster are listed."""

CONSUMER = [("range", subscription("orders"))]


@pytest.fixture(autouse=True)
def _there(duel: Duel) -> None:
    coordinators_are_there(duel)


@pytest.mark.parametrize("version", range(7))
def test_coordinators_of_groups_are_found(duel: Duel, version: int) -> None:
    for key in ("any", "", "ünïcödé"):
        request = (
            FindCoordinatorRequest(coordinator_keys=[key])
            if version >= 4
            else FindCoordinatorRequest(key=key)
        )
        duel.compare(request, version)
    if version >= 4:
        duel.compare(FindCoordinatorRequest(coordinator_keys=["a", "b", "a"]), version)
        duel.compare(FindCoordinatorRequest(coordinator_keys=[]), version)


def test_coordinators_of_a_kind_that_nobody_has_are_refused(duel: Duel) -> None:
    for version in (1, 3):
        duel.compare(FindCoordinatorRequest(key="x", key_type=9), version)
    for version in (4, 6):
        duel.compare(FindCoordinatorRequest(key_type=9, coordinator_keys=["x"]), version)


def one_stable_one_empty_group(cast: Cast) -> None:
    """Leaves ``shown-stable`` with one member and ``shown-empty`` with a position."""
    cast.group = "shown-stable"
    a = cast.member(protocols=CONSUMER, session_ms=60_000)
    a.join()
    a.sync({a: b"\0\1\2"})
    for version in range(7):
        cast.ask(
            DescribeGroupsRequest(
                groups=["shown-stable", "missing", ""], include_authorized_operations=version >= 3
            ),
            version,
        )
    for version in range(6):
        cast.ask(ListGroupsRequest(), version)
    cast.ask(DescribeGroupsRequest(groups=[]), 5)
    for states in (["Stable"], ["stable"], ["STABLE", "Empty"], ["nonsense"], [""]):
        cast.ask(ListGroupsRequest(states_filter=states), 4)
        cast.ask(ListGroupsRequest(states_filter=states), 5)
    for types in (["classic"], ["CLASSIC"], ["consumer"], ["share", "classic"], ["streams"]):
        cast.ask(ListGroupsRequest(types_filter=types), 5)
    cast.ask(ListGroupsRequest(types_filter=["classic"], states_filter=["Dead"]), 5)
    for version in range(3):
        cast.ask(DeleteGroupsRequest(groups_names=["shown-stable", "missing"]), version)
    cast.ask(DeleteGroupsRequest(groups_names=[]), 2)
    a.leave()
    cast.ask(DescribeGroupsRequest(groups=["shown-stable"]), 6)
    cast.ask(ListGroupsRequest(states_filter=["empty"]), 5)
    cast.ask(DeleteGroupsRequest(groups_names=["shown-stable", "shown-stable"]), 2)


def test_groups_are_shown_and_deleted_in_every_version(duel: Duel) -> None:
    duel.compare_told(told(one_stable_one_empty_group))


def test_groups_of_types_that_nobody_knows_are_asked_for(duel: Duel) -> None:
    duel.compare(ListGroupsRequest(types_filter=["nonsense"]), 5)
    duel.compare(ListGroupsRequest(types_filter=["nonsense", "consumer"]), 5)
