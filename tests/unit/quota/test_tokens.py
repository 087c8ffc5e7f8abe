"""Partitions that are created and deleted: the bucket of tokens of KIP-599."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import QuotaWindows
from log_service.quota.entities import Client
from log_service.quota.tokens import MutationCharge, MutationQuotas, TokenBucket
from log_service.quota.windows import LONGEST_PAUSE_MS, MIN_SWEEP_COUNT
from tests.unit.quota.entities import quotas

WINDOWS = QuotaWindows()
CLIENT = Client("u", "c")


def charge_of(
    mutations: MutationQuotas, rate: float, now_ms: int, *, is_strict: bool = True
) -> MutationCharge:
    found = mutations.charge_of(
        quotas(("user=u", "controller_mutation_rate", rate)),
        CLIENT,
        now_ms,
        is_strict=is_strict,
        remember=lambda _: None,
    )
    assert found is not None
    return found


def test_two_pass_and_the_third_is_refused() -> None:
    """The figure is of a running Apache Kafka 4.3.1.

    At a rate of 0.1 two topics of one partition pass, the third waits for about 9 s.
    """
    mutations = MutationQuotas(WINDOWS)
    for now_ms in (0, 100):
        charge = charge_of(mutations, 0.1, now_ms)
        charge.take(1)
        assert charge.throttle_time_ms == 0
    charge = charge_of(mutations, 0.1, 200)
    with pytest.raises(KafkaError) as refusal:
        charge.take(1)
    assert refusal.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert charge.throttle_time_ms == 8_800
    charge = charge_of(mutations, 0.1, 200 + 8_800)
    charge.take(1)


def test_more_partitions_than_the_burst_pass_at_once() -> None:
    mutations = MutationQuotas(WINDOWS)
    charge_of(mutations, 1, 0).take(500)
    charge = charge_of(mutations, 1, 1_000)
    with pytest.raises(KafkaError):
        charge.take(1)
    assert charge.throttle_time_ms == 488_000


def test_an_older_client_gets_its_partitions_and_pauses_after_them() -> None:
    mutations = MutationQuotas(WINDOWS)
    charge = charge_of(mutations, 1, 0, is_strict=False)
    for count in (6, 5):
        charge.take(count)
        assert charge.throttle_time_ms == 0
    charge.take(5)
    assert charge.throttle_time_ms == 5_000


def test_without_a_quota_nothing_is_counted() -> None:
    mutations = MutationQuotas(WINDOWS)
    assert mutations.charge_of({}, CLIENT, 0, is_strict=True, remember=lambda _: None) is None
    others = quotas(("user=x", "controller_mutation_rate", 1))
    assert mutations.charge_of(others, CLIENT, 0, is_strict=True, remember=lambda _: None) is None


def test_a_rate_next_to_nothing_has_the_longest_pause() -> None:
    mutations = MutationQuotas(WINDOWS)
    charge_of(mutations, 5e-324, 0).take(3)
    charge = charge_of(mutations, 5e-324, 0)
    with pytest.raises(KafkaError, match="used up"):
        charge.take(1)
    assert charge.throttle_time_ms == LONGEST_PAUSE_MS


@pytest.mark.parametrize("began_ms", [0, 1_000_000_000])
def test_a_bucket_is_forgotten_when_it_is_full_again(began_ms: int) -> None:
    bucket = TokenBucket(began_ms)
    bucket.refill(1, WINDOWS, began_ms)
    bucket.take(100)
    assert not bucket.is_idle(WINDOWS, began_ms + 99_000)
    assert bucket.is_idle(WINDOWS, began_ms + 100_000)


def test_a_bucket_that_no_request_took_from_is_forgotten() -> None:
    """A request has its bucket before it is known whether it changes anything."""
    assert TokenBucket(0).is_idle(WINDOWS, 0)


def test_a_controller_remembers_clients_that_owe_and_few_others() -> None:
    """Any client may come with ever new client ids.

    One that has used up the quota must not come back with a full bucket.
    """
    mutations = MutationQuotas(WINDOWS)
    limits = quotas(("client-id=", "controller_mutation_rate", 1))

    def charge(client_id: str, now_ms: int) -> MutationCharge:
        found = mutations.charge_of(
            limits, Client("u", client_id), now_ms, is_strict=True, remember=lambda _: None
        )
        assert found is not None
        return found

    charge("owes", 0).take(1_000_000)
    for number in range(2 * MIN_SWEEP_COUNT):
        charge(f"at-once-{number}", 0).take(5)
    for number in range(6 * MIN_SWEEP_COUNT):
        charge(f"later-{number}", 10_000 + number).take(1)
    assert mutations.bucket_count <= 4 * MIN_SWEEP_COUNT
    with pytest.raises(KafkaError, match="used up"):
        charge("owes", 20_000).take(1)


changes = st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 50)), min_size=1, max_size=60)


@given(changes, st.floats(0.05, 20), st.booleans())
def test_over_any_time_no_more_passes_than_the_rate_the_burst_and_one_change(
    asked: list[tuple[int, int]], rate: float, is_strict: bool
) -> None:
    mutations, now_ms, total = MutationQuotas(WINDOWS), 0, 0
    for wait_ms, count in asked:
        now_ms += wait_ms
        charge = charge_of(mutations, rate, now_ms, is_strict=is_strict)
        try:
            charge.take(count)
        except KafkaError:
            assert is_strict
            assert charge.throttle_time_ms >= 0
            continue
        total += count
        assert total <= rate * (now_ms / 1_000 + 11) + count + 1e-6 or not is_strict
        now_ms += 0 if is_strict else charge.throttle_time_ms
