"""Fairness and accuracy in virtual time: what clients get that ask for more than they may.

Each client sends requests as fast as it is let, and waits for each pause. It uses up ten seconds at
once and is slow until these are forgotten, as at an Apache Kafka, so that some minutes are
measured.
"""

from heapq import heapify, heapreplace

import pytest

from log_service.config.views import QuotaWindows
from log_service.quota.entities import Client, KnownLimits, QuotaKey
from log_service.quota.windows import Meters
from tests.unit.quota.entities import quotas

WARM_UP_MS, END_MS = 30_000, 300_000
REQUEST_BYTES = 4_000
REQUEST_MS = 2


def served(clients: list[Client], known: KnownLimits) -> dict[Client, float]:
    """Bytes per second that each client gets."""
    meters = Meters(QuotaWindows())
    due = [(number % 7, number) for number in range(len(clients))]
    heapify(due)
    got = dict.fromkeys(clients, 0)
    while due[0][0] < END_MS:
        now_ms, number = due[0]
        client = clients[number]
        limit = known.of(client)[0]
        assert limit is not None
        pause = meters.charge(limit.share, REQUEST_BYTES, limit.bound, now_ms)
        heapreplace(due, (now_ms + REQUEST_MS + pause, number))
        if now_ms >= WARM_UP_MS:
            got[client] += REQUEST_BYTES
    return {client: count * 1_000 / (END_MS - WARM_UP_MS) for client, count in got.items()}


@pytest.mark.parametrize("count", [1, 4, 16, 64])
def test_clients_with_a_default_each_get_their_own_bound_within_5_percent(count: int) -> None:
    known = KnownLimits(
        quotas(("client-id=", "producer_byte_rate", 20_000)), (QuotaKey.PRODUCER_BYTE_RATE,)
    )
    found = served([Client("u", f"c{number}") for number in range(count)], known)
    assert all(abs(rate - 20_000) <= 1_000 for rate in found.values()), found


@pytest.mark.parametrize("count", [1, 4, 16, 64])
def test_clients_of_one_user_share_its_bound(count: int) -> None:
    bound = 20_000.0 * count
    known = KnownLimits(
        quotas(("user=u", "producer_byte_rate", bound)), (QuotaKey.PRODUCER_BYTE_RATE,)
    )
    found = served([Client("u", f"c{number}") for number in range(count)], known)
    assert abs(sum(found.values()) - bound) <= 0.05 * bound
    assert min(found.values()) > 0


def test_a_greedy_client_takes_nothing_from_one_with_another_bound() -> None:
    known = KnownLimits(
        quotas(
            ("client-id=greedy", "producer_byte_rate", 1_000_000),
            ("client-id=modest", "producer_byte_rate", 10_000),
        ),
        (QuotaKey.PRODUCER_BYTE_RATE,),
    )
    greedy, modest = Client("u", "greedy"), Client("u", "modest")
    found = served([greedy, modest], known)
    assert abs(found[greedy] - 1_000_000) <= 50_000
    assert abs(found[modest] - 10_000) <= 500
