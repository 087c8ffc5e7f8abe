"""A quota holds for a client, and some clients share it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.quota.entities import (
    MAX_KNOWN_CLIENTS,
    MAX_REMEMBERED_NAME,
    Client,
    KnownLimits,
    Limit,
    QuotaKey,
    Share,
    has_any,
    limit_of,
    remembered,
)
from tests.unit.quota.entities import entity, quotas

KEY = QuotaKey.PRODUCER_BYTE_RATE
ORDER = [
    ("user=u client-id=c", Share("u", "c")),
    ("user=u client-id=", Share("u", "c")),
    ("user=u", Share("u", "")),
    ("user= client-id=c", Share("u", "c")),
    ("user= client-id=", Share("u", "c")),
    ("user=", Share("u", "")),
    ("client-id=c", Share("", "c")),
    ("client-id=", Share("", "c")),
]
"""The entities that match client c of user u, the one that counts first."""


@pytest.mark.parametrize("first", range(len(ORDER)), ids=[text for text, _ in ORDER])
def test_of_all_that_match_the_first_holds(first: int) -> None:
    rows = [(text, KEY, 100.0 + number) for number, (text, _) in enumerate(ORDER)]
    assert limit_of(quotas(*rows[first:]), KEY, Client("u", "c")) == Limit(
        ORDER[first][1], 100.0 + first
    )


@given(st.sets(st.sampled_from(range(len(ORDER)))))
def test_whatever_is_set_the_first_of_it_holds(chosen: set[int]) -> None:
    found = limit_of(
        quotas(*((ORDER[number][0], KEY, 1.0 + number) for number in chosen)), KEY, Client("u", "c")
    )
    assert found == (Limit(ORDER[min(chosen)][1], 1.0 + min(chosen)) if chosen else None)


def test_others_quotas_are_for_others() -> None:
    rows = quotas(
        ("user=x", KEY, 1),
        ("client-id=x", KEY, 1),
        ("user=u client-id=x", KEY, 1),
        ("user=x client-id=c", KEY, 1),
        ("ip=", KEY, 1),
    )
    assert limit_of(rows, KEY, Client("u", "c")) is None


def test_kinds_are_looked_up_apart() -> None:
    rows = quotas(("user=u client-id=c", "request_percentage", 5), ("client-id=", KEY, 9))
    assert limit_of(rows, KEY, Client("u", "c")) == Limit(Share("", "c"), 9)
    assert limit_of(rows, QuotaKey.REQUEST_PERCENTAGE, Client("u", "c")) == Limit(
        Share("u", "c"), 5
    )


def test_a_client_without_an_id_has_no_default_of_client_ids() -> None:
    rows = quotas(
        ("client-id=", KEY, 1), ("user=u client-id=", KEY, 1), ("user= client-id=", KEY, 1)
    )
    assert limit_of(rows, KEY, Client("u", "")) is None
    assert (
        limit_of(quotas(("user= client-id=", KEY, 1), ("user=", KEY, 1)), KEY, Client("", "c"))
        is None
    )
    assert limit_of(quotas(("user=", KEY, 7)), KEY, Client("u", "")) == Limit(Share("u", ""), 7)


def test_has_any_looks_for_kinds() -> None:
    rows = quotas(("ip=", "connection_creation_rate", 9))
    assert has_any(rows, QuotaKey.CONNECTION_CREATION_RATE)
    assert not has_any(rows, KEY)


def test_long_names_of_clients_are_not_kept() -> None:
    """Ten thousand client ids of 32 kB were kept twice over: 300 MB."""
    rows = quotas(("client-id=", KEY, 9), (f"client-id={'n' * 40_000}", KEY, 5))
    limits = KnownLimits(rows, (KEY,))
    found = [limits.of(Client("ANONYMOUS", f"{number:030000}")) for number in range(300)]
    shares = [limit.share for (limit,) in found if limit is not None]
    assert len(set(shares)) == len(limits.known_clients) == 300, "each has its own"
    kept = [*shares, *limits.known_clients]
    assert max(len(name) for names in kept for name in names) <= MAX_REMEMBERED_NAME
    (named,) = limits.of(Client("ANONYMOUS", "n" * 40_000))
    assert named is not None
    assert named.bound == 5, "a quota is found by the whole name"
    assert limits.of(Client("ANONYMOUS", "n" * 40_001))[0] == Limit(
        Share("", remembered("n" * 40_001)), 9
    )


def test_clients_that_are_too_many_are_looked_up_anew() -> None:
    known = KnownLimits({entity("client-id="): {KEY: 5.0}}, (KEY,))
    for number in range(MAX_KNOWN_CLIENTS + 10):
        assert known.of(Client("u", str(number))) == (Limit(Share("", str(number)), 5.0),)
    assert len(known.known_clients) <= MAX_KNOWN_CLIENTS
