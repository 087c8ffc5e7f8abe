"""A closed connection means death if connections are refused at both ends of the grace.

There must be no sign of life between them.
"""

import errno
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.death_detector import probe
from log_service.controller.death_watch import (
    MAX_BROKEN_OFF,
    PAUSE_MS,
    DeathWatch,
    Fence,
    Finding,
    Probe,
)
from log_service.metadata.image import Endpoint

GRACE_MS = 200
NODE, EPOCH = NodeId(2), BrokerEpoch(70)


def ended(watch: DeathWatch, connection_id: int = 1) -> object:
    """One heartbeat on a connection, and its end."""
    watch.note_heartbeat(NODE, EPOCH, connection_id)
    return watch.connection_ended(NODE, EPOCH, connection_id)


def test_a_broker_is_dead_when_it_refuses_at_both_ends_of_the_grace() -> None:
    watch = DeathWatch(GRACE_MS)
    assert ended(watch) == Probe(0)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_000) == Probe(GRACE_MS)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_150) == Probe(50)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_200) == Fence()
    assert not watch.is_suspected(NODE, EPOCH)


def test_a_broker_that_responds_is_suspected_no_more() -> None:
    for finding in (Finding.RESPONDED, Finding.UNKNOWN):
        watch = DeathWatch(GRACE_MS)
        ended(watch)
        assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_000) == Probe(GRACE_MS)
        assert watch.probed(NODE, EPOCH, finding, 1_200) is None
        assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_400) is None


def test_a_heartbeat_in_the_grace_ends_the_suspicion() -> None:
    watch = DeathWatch(GRACE_MS)
    ended(watch)
    watch.probed(NODE, EPOCH, Finding.REFUSED, 1_000)
    watch.note_heartbeat(NODE, EPOCH, 2)
    assert not watch.is_suspected(NODE, EPOCH)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_200) is None


def test_the_end_of_an_older_connection_means_nothing() -> None:
    watch = DeathWatch(GRACE_MS)
    watch.note_heartbeat(NODE, EPOCH, 1)
    watch.note_heartbeat(NODE, EPOCH, 2)
    assert watch.connection_ended(NODE, EPOCH, 1) is None
    assert watch.connection_ended(NODE, EPOCH, 2) == Probe(0)


def test_a_live_broker_is_fenced_once_in_its_epoch() -> None:
    watch = DeathWatch(GRACE_MS)
    ended(watch)
    watch.probed(NODE, EPOCH, Finding.REFUSED, 1_000)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_200) == Fence()
    assert ended(watch, 2) is None
    later = BrokerEpoch(EPOCH + 1)
    watch.note_heartbeat(NODE, later, 3)
    assert watch.connection_ended(NODE, later, 3) == Probe(0)


def test_a_process_whose_sockets_close_one_by_one_is_probed_again() -> None:
    watch = DeathWatch(GRACE_MS)
    ended(watch)
    for _ in range(MAX_BROKEN_OFF):
        assert watch.probed(NODE, EPOCH, Finding.BROKEN_OFF, 1_000) == Probe(PAUSE_MS)
    assert watch.probed(NODE, EPOCH, Finding.BROKEN_OFF, 1_000) is None


def test_a_connection_that_was_accepted_in_the_grace_begins_it_anew() -> None:
    """A process that listens again may be the broker that starts.

    Only refusals for a whole grace after it are a death.
    """
    watch = DeathWatch(GRACE_MS)
    ended(watch)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_000) == Probe(GRACE_MS)
    assert watch.probed(NODE, EPOCH, Finding.BROKEN_OFF, 1_150) == Probe(PAUSE_MS)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_200) == Probe(GRACE_MS)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_399) == Probe(1)
    assert watch.probed(NODE, EPOCH, Finding.REFUSED, 1_400) == Fence()


def test_a_new_controller_suspects_brokers_that_it_has_not_heard_of() -> None:
    watch = DeathWatch(GRACE_MS)
    assert watch.suspect(NODE, EPOCH) == Probe(0)
    assert watch.suspect(NODE, EPOCH) is None
    other = NodeId(3)
    watch.note_heartbeat(other, EPOCH, 1)
    assert watch.suspect(other, EPOCH) is None


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        ((errno.ECONNREFUSED,), Finding.REFUSED),
        ((errno.ECONNREFUSED, errno.ECONNREFUSED), Finding.REFUSED),
        ((errno.EHOSTUNREACH,), Finding.UNKNOWN),
        ((errno.ECONNREFUSED, errno.EHOSTUNREACH), Finding.UNKNOWN),
        ((), Finding.UNKNOWN),
    ],
)
def test_only_a_host_that_refuses_every_address_says_that_its_process_is_gone(
    errors: tuple[int, ...], found: Finding
) -> None:
    """A host that is out of reach may serve others."""

    class Network:
        async def connect(self, _host: str, port: int) -> None:
            raise OSError(errors[port], "no connection")

    env: Any = SimpleNamespace(network=Network())
    assert (
        trio.run(probe, env, [Endpoint(host="two", port=number) for number in range(len(errors))])
        is found
    )
