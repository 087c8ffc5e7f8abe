"""ShareFetch and ShareAcknowledge acquire, hold and return records (KIP-932).

The tests also look at the stored state.
"""

import trio

from log_service.broker.quotas import ClientQuotas
from log_service.common.errors import ErrorCode
from log_service.config.views import QuotaWindows
from log_service.coordinator.share.record_states import AcquireMode
from log_service.metadata.delta import MetadataDelta
from log_service.network.server import PendingResponse
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.records.control import EndOfTransaction
from log_service.storage.transaction_checks import begin_verification
from tests.unit.broker.share.context import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Ack,
    Got,
    ShareNode,
    batch,
    tell_shares,
)
from tests.unit.metadata.records import quota

LOCK_S = 30


def test_members_get_different_records_and_what_they_accept_is_stored() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(b"one", b"two"))
        await node.produce("a", batch(b"three"))
        first, second = node.member(), node.member()
        assert await first.fetch(max_records=1) == Got(
            acquired=[(0, 1, 1)], values=[b"one", b"two"]
        )
        assert await second.fetch() == Got(acquired=[(2, 2, 1)], values=[b"three"])
        assert await first.acknowledge((0, 1, [ACCEPT])) == 0
        assert node.stored() == (0, [(0, 1, 2, 1)])
        assert await second.acknowledge((2, 2, [ACCEPT])) == 0
        assert node.stored()[0] in {2, 3}

    tell_shares(story)


def test_acknowledgements_come_along_with_a_fetch() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for value in (b"one", b"two"):
            await node.produce("a", batch(value))
        member = node.member()
        assert (await member.fetch(max_records=1)).acquired == [(0, 0, 1)]
        got = await member.fetch(acks={("a", 0): [(0, 0, [ACCEPT])]})
        assert (got.acknowledged, got.acquired, got.values) == (0, [(1, 1, 1)], [b"two"])
        refused = await member.fetch(acks={("a", 0): [(0, 1, [])]})
        assert (refused.error, refused.acknowledged) == (0, ErrorCode.INVALID_REQUEST)

    tell_shares(story)


def test_what_is_released_or_whose_member_has_gone_is_delivered_again() -> None:
    async def story(node: ShareNode) -> None:
        await node.share_record()
        first, second, third = node.member(), node.member(), node.member()
        await first.fetch()
        assert await first.acknowledge((0, 0, [RELEASE])) == 0
        assert (await second.fetch()).acquired == [(0, 0, 2)]
        second.vanish()
        assert (await third.fetch()).acquired == [(0, 0, 3)]
        await third.leave()
        assert (await first.fetch()).acquired == [(0, 0, 4)]

    tell_shares(story)


def test_a_lock_expires_and_a_renewal_keeps_it() -> None:
    async def story(node: ShareNode) -> None:
        await node.share_record()
        first, second = node.member(), node.member()
        await first.fetch()
        await trio.sleep(LOCK_S - 1)
        assert await first.acknowledge((0, 0, [RENEW]), is_renewing=True) == 0
        await trio.sleep(LOCK_S - 1)
        assert not (await second.fetch()).acquired
        await trio.sleep(1.1)
        assert (await second.fetch()).acquired == [(0, 0, 2)]
        assert await first.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert node.node.shares.counts.lock_timeouts == 1

    tell_shares(story)


def test_a_fetch_waits_for_records_and_is_woken_by_a_release() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        holder, waiter = node.member(), node.member()
        got: list[Got] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiter.fetch_into, got)
            await trio.sleep(5)
            assert not got
            await node.produce("a", batch(b"one"))
        assert got.pop().acquired == [(0, 0, 1)]
        await holder.fetch()
        async with trio.open_nursery() as nursery:
            holder.epoch = 1
            nursery.start_soon(holder.fetch_into, got)
            await trio.sleep(5)
            assert not got
            assert await waiter.acknowledge((0, 0, [RELEASE])) == 0
        assert got.pop().acquired == [(0, 0, 2)]

    tell_shares(story)


def test_a_fetch_of_many_bytes_waits_for_them_and_takes_what_there_is_at_its_deadline() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(b"x" * 100))
        member = node.member()
        began = trio.current_time()
        got = await member.fetch(max_wait_ms=7_000, min_bytes=10_000)
        assert got.acquired == [(0, 0, 1)]
        assert trio.current_time() - began == 7

    tell_shares(story)


def test_a_waiting_fetch_whose_connection_has_gone_acquires_nothing() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        gone, other = node.member(), node.member()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gone.fetch_into, [])
            await trio.sleep(1)
            gone.vanish()
            await trio.sleep(1)
            await node.produce("a", batch(b"one"))
            assert (await other.fetch()).acquired == [(0, 0, 1)]
            nursery.cancel_scope.cancel()

    tell_shares(story)


def test_a_process_that_dies_with_several_members_uses_up_one_delivery() -> None:
    """Its connections end one after another, while its other members wait for records."""

    async def story(node: ShareNode) -> None:
        await node.share_record()
        dying, survivor = [node.member() for _ in range(6)], node.member()
        assert (await dying[0].fetch()).acquired == [(0, 0, 1)]
        got: list[Got] = []
        async with trio.open_nursery() as nursery:
            for member in dying[1:]:
                nursery.start_soon(member.fetch_into, [])
            await trio.sleep(1)
            nursery.start_soon(survivor.fetch_into, got)
            await trio.sleep(1)
            for member in dying:
                member.vanish()
                await trio.sleep(0.005)
            await trio.sleep(1)
            assert [each.acquired for each in got] == [[(0, 0, 2)]]
            nursery.cancel_scope.cancel()

    tell_shares(story)


def test_connections_that_go_on_ending_do_not_keep_records_from_a_fetch_that_waits() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        waiter, got = node.member(), list[Got]()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiter.fetch_into, got)
            await trio.sleep(1)
            for number in range(10):
                passing = node.member()
                await passing.fetch(max_records=0)
                passing.vanish()
                if number == 0:
                    await node.produce("a", batch(b"one"))
                await trio.sleep(0.02)
            assert [each.acquired for each in got] == [[(0, 0, 1)]]
            nursery.cancel_scope.cancel()

    tell_shares(story)


def test_sessions_are_checked() -> None:
    async def story(node: ShareNode) -> None:
        await node.share_record()
        member = node.member()
        member.epoch = 3
        assert (await member.fetch()).error == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.SHARE_SESSION_NOT_FOUND
        member.epoch = 0
        assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert (
            await member.fetch(acks={("a", 0): [(0, 0, [ACCEPT])]})
        ).error == ErrorCode.INVALID_REQUEST
        assert (await member.fetch()).acquired == [(0, 0, 1)]
        member.epoch = 7
        assert (await member.fetch()).error == ErrorCode.INVALID_SHARE_SESSION_EPOCH

    tell_shares(story)


def test_a_session_too_many_is_refused_after_the_wait() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        members = [node.member() for _ in range(3)]
        for member in members[:2]:
            assert (await member.fetch()).error == 0
        began = trio.current_time()
        assert (
            await members[2].fetch(max_wait_ms=500)
        ).error == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert trio.current_time() - began == 0.5
        members[0].vanish()
        assert (await members[2].fetch()).error == 0

    tell_shares(story, group_share_max_share_sessions="2", group_share_max_size="2")


def test_a_session_holds_no_more_partitions_than_are_sensible() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        member = node.member()
        response = await member.send(partitions=10_001)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert len(node.node.shares.sessions) == 0

    tell_shares(story)


def test_requests_that_make_no_sense_are_refused() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(b"one", b"two"))
        member = node.member()
        assert (await member.fetch(share_acquire_mode=7)).error == ErrorCode.INVALID_REQUEST
        assert (await member.fetch(is_renew_ack=True)).error == ErrorCode.INVALID_REQUEST
        nobody = node.member()
        nobody.member_id = "x" * 37
        assert (await nobody.fetch()).error == ErrorCode.INVALID_REQUEST
        await member.fetch()
        wrongs: list[Ack] = [
            (1, 0, [ACCEPT]),
            (0, 1, []),
            (0, 1, [ACCEPT] * 3),
            (0, 1, [5]),
            (0, 0, [-1]),
            (0, 0, [RENEW]),
        ]
        for wrong in wrongs:
            assert await member.acknowledge(wrong) == ErrorCode.INVALID_REQUEST
        assert (
            await member.acknowledge((1, 1, [ACCEPT]), (0, 0, [ACCEPT]))
            == ErrorCode.INVALID_REQUEST
        )
        assert await member.acknowledge((0, 9, [ACCEPT])) == ErrorCode.INVALID_REQUEST
        old = node.member(version=1)
        await old.fetch()
        assert await old.acknowledge((0, 0, [RENEW])) == ErrorCode.INVALID_REQUEST
        assert await member.acknowledge((0, 1, [ACCEPT, RELEASE])) == 0

    tell_shares(story)


def test_partitions_that_are_not_there_or_have_no_state() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        await node.share("b")
        del node.share_states.states[node.key("b")]
        member = node.member()
        assert (await member.fetch(("b",))).error == ErrorCode.UNKNOWN_SERVER_ERROR
        node.context.delete_topic("a")
        other = node.member()
        assert (await other.fetch(("a",))).error == ErrorCode.UNKNOWN_TOPIC_ID
        assert not node.node.shares.partitions

    tell_shares(story)


def test_another_leader_loads_what_was_stored() -> None:
    async def story(node: ShareNode) -> None:
        await node.share_record()
        await node.produce("a", batch(b"two"))
        member = node.member()
        assert (await member.fetch()).acquired == [(0, 1, 1)]
        assert await member.acknowledge((1, 1, [ACCEPT])) == 0
        node.context.elect(2)
        got = await member.fetch()
        assert got.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node.context.elect(1)
        got = await member.fetch()
        assert (got.acquired, node.state().leader_epoch) == ([(0, 0, 1)], 2)

    tell_shares(story)


def test_a_waiting_fetch_hears_at_once_that_the_leader_has_changed() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        member = node.member()
        await member.fetch()
        got: list[Got] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.fetch_into, got)
            await trio.sleep(1)
            node.context.elect(2)
            await trio.sleep(0.1)
            assert got.pop().error == ErrorCode.NOT_LEADER_OR_FOLLOWER

    tell_shares(story)


def test_a_node_that_was_asked_as_a_follower_names_no_leader() -> None:
    """Its member may know of a later election, and the leader that this node knows may be dead."""

    async def story(node: ShareNode) -> None:
        await node.share()
        node.context.elect(2)
        member = node.member()
        for _ in range(2):
            got = await member.fetch()
            assert (got.error, got.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        node.context.elect(1)
        assert (await member.fetch()).error == ErrorCode.NONE

    tell_shares(story)


def test_an_error_that_is_not_about_the_leader_names_none() -> None:
    """Some clients take any leader from 0 on beside an error for the new one."""

    async def story(node: ShareNode) -> None:
        await node.share_record()
        node.share_states.refusals = [ErrorCode.NOT_COORDINATOR]
        got = await node.member().fetch()
        assert (got.error, got.leader) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

    tell_shares(story)


def test_a_write_that_is_refused_is_taken_back_and_a_fenced_one_ends_the_share_partition() -> None:
    async def story(node: ShareNode) -> None:
        await node.share_record()
        member = node.member()
        await member.fetch()
        node.share_states.refusals = [ErrorCode.NOT_COORDINATOR]
        assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await member.acknowledge((0, 0, [ACCEPT])) == 0
        await node.produce("a", batch(b"two"))
        assert (await member.fetch()).acquired == [(1, 1, 1)]
        node.share_states.refusals = [ErrorCode.FENCED_STATE_EPOCH]
        assert await member.acknowledge((1, 1, [ACCEPT])) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not node.node.shares.partitions
        assert (await member.fetch()).acquired == [(1, 1, 1)]

    tell_shares(story)


def test_writes_that_come_while_one_is_under_way_go_together() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for _ in range(3):
            await node.produce("a", batch(b"x"))
        members = [node.member() for _ in range(3)]
        for member in members:
            await member.fetch(max_records=1)
        node.share_states.is_holding = True
        codes: list[int] = []

        async def accept(number: int) -> None:
            codes.append(await members[number].acknowledge((number, number, [ACCEPT])))

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(accept, number)
                await trio.sleep(0.1)
            assert not codes
            node.share_states.let_go()
        assert codes == [0, 0, 0]
        assert len(node.share_states.writes) == 2
        assert node.stored()[0] == 3 or node.stored() == (1, [(1, 2, 2, 1)])

    tell_shares(story)


def test_a_fetch_waits_while_the_state_is_loaded() -> None:
    async def story(node: ShareNode) -> None:
        await node.share_record()
        member = node.member()
        node.share_states.is_holding = True
        got: list[Got] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.fetch_into, got)
            await trio.sleep(1)
            assert not got
            node.share_states.let_go()
        assert got.pop().acquired == [(0, 0, 1)]

    tell_shares(story)


def test_where_a_group_begins() -> None:
    async def story(node: ShareNode) -> None:
        await node.share(start=-1)
        await node.produce("a", batch(b"old", timestamp_ms=1))
        now_ms = node.context.env.clock.wall_ms()
        await node.produce("a", batch(b"new", timestamp_ms=now_ms))
        for reset, group in (
            ("latest", "l"),
            ("earliest", "e"),
            ("by_duration:PT1M", "d"),
            ("by_duration:PT0S", "n"),
        ):
            node.configure_group("share.auto.offset.reset", reset, group)
            await node.share(group=group, start=-1)
        await trio.sleep(1)
        found = {
            group: (await node.member(group).fetch(max_wait_ms=100)).acquired for group in "ledn"
        }
        assert found == {"l": [], "e": [(0, 0, 1)], "d": [(1, 1, 1)], "n": []}

    tell_shares(story)


def test_retention_moves_the_start() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for _ in range(3):
            await node.produce("a", batch(b"x"))
        member, other = node.member(), node.member()
        assert (await member.fetch(max_records=1)).acquired == [(0, 0, 1)]
        node.context.partition().delete_records(2)
        assert not (await other.fetch()).acquired
        assert (await other.fetch()).acquired == [(2, 2, 1)]
        assert await member.acknowledge((0, 0, [ACCEPT])) == 0

    tell_shares(story)


def test_no_more_records_are_in_flight_than_the_group_may_have() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for _ in range(12):
            await node.produce("a", batch(*[b"x"] * 10))
        node.configure_group("share.partition.max.record.locks", "100")
        member, other = node.member(), node.member()
        got = await member.fetch()
        assert got.acquired == [(0, 99, 1)]
        began = trio.current_time()
        assert not (await other.fetch(max_wait_ms=1_000)).acquired
        assert trio.current_time() - began == 1
        assert await member.acknowledge((0, 9, [ACCEPT])) == 0
        assert (await other.fetch()).acquired == [(100, 109, 1)]

    tell_shares(story)


def test_with_the_limit_of_records_a_member_gets_no_more() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        await node.produce("a", batch(*[b"x"] * 10))
        member = node.member()
        got = await member.fetch(max_records=3, share_acquire_mode=AcquireMode.RECORD_LIMIT)
        assert (got.acquired, len(got.values)) == ([(0, 2, 1)], 10)

    tell_shares(story)


def test_only_the_batches_that_were_acquired_are_sent() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        for value in (b"one", b"two", b"three"):
            await node.produce("a", batch(value))
        first, second = node.member(), node.member()
        assert (await first.fetch(max_records=1)).values == [b"one"]
        assert (await second.fetch(max_records=1)).values == [b"two"]
        assert await first.acknowledge((0, 0, [REJECT])) == 0
        assert (await first.fetch()).values == [b"three"]

    tell_shares(story)


def test_partitions_share_the_bytes_and_take_turns() -> None:
    async def story(node: ShareNode) -> None:
        await node.share(partitions=2)
        for index in (0, 1):
            for _ in range(2):
                await node.produce("a", batch(b"x" * 100), partition=index)
        member = node.member()
        response = await member.send(partitions=2, max_bytes=400)
        told = {
            each.partition_index: len(each.acquired_records)
            for topic in response.responses
            for each in topic.partitions
        }
        assert told == {0: 1, 1: 1}

    tell_shares(story)


def test_partitions_take_turns_for_a_member_that_acknowledges_by_requests_of_their_own() -> None:
    """Each such request advances the epoch of the session between two fetches."""

    async def story(node: ShareNode) -> None:
        await node.share(partitions=2)
        for index in (0, 1):
            for _ in range(10):
                await node.produce("a", batch(b"x" * 100), partition=index)
        member = node.member()
        told = []
        for _ in range(4):
            response = await member.send(partitions=2, max_bytes=800, max_records=3)
            told.append(
                {
                    each.partition_index: sum(
                        one.last_offset - one.first_offset + 1 for one in each.acquired_records
                    )
                    for topic in response.responses
                    for each in topic.partitions
                }
            )
            assert await member.acknowledge() == 0
        assert told == [{0: 2, 1: 1}, {0: 1, 1: 2}] * 2

    tell_shares(story)


def test_a_fetch_that_only_acknowledges_takes_no_turn() -> None:
    async def story(node: ShareNode) -> None:
        await node.share(partitions=2)
        for index in (0, 1):
            for _ in range(4):
                await node.produce("a", batch(b"x"), partition=index)
        member = node.member()
        told = []
        for _ in range(4):
            response = await member.send(partitions=2, max_records=1)
            (one,) = [
                each.partition_index
                for topic in response.responses
                for each in topic.partitions
                if each.acquired_records
            ]
            told.append(one)
            await member.send(max_records=0)
        assert told == [0, 1, 0, 1]

    tell_shares(story)


def test_switched_off_share_groups_are_not_served() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        member = node.member()
        await member.fetch()
        node.set_share_version(0)
        assert (await member.fetch()).error == ErrorCode.UNSUPPORTED_VERSION
        assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.UNSUPPORTED_VERSION
        assert not node.node.shares.partitions
        assert not len(node.node.shares.sessions)

    tell_shares(story)


def test_a_group_without_members_is_forgotten_once_all_is_stored() -> None:
    async def story(node: ShareNode) -> None:
        await node.share_record()
        member = node.member()
        await member.fetch()
        node.share_states.is_holding = True
        member.vanish()
        assert node.node.shares.partitions
        node.share_states.let_go()
        assert not node.node.shares.partitions
        assert node.stored() == (0, [(0, 0, 0, 1)])
        assert not node.context.partition().high_watermark_listeners.registrations

    tell_shares(story)


def test_a_group_that_reads_committed_records_gets_none_of_an_aborted_transaction() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        node.configure_group("share.isolation.level", "read_committed")
        partition = node.context.partition()
        await node.produce("a", batch(b"before"))
        log, now_ms = partition.served_log(), 1_700_000_000_000
        shown = begin_verification(log.producer_state, 7, 0, 0, is_version_2=True, now_ms=now_ms)
        assert shown is not None
        gone = bytearray(
            batch(b"gone", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        node.context.replicas.append_in_transaction(partition, gone, shown, acks=1, now_ms=now_ms)
        node.context.replicas.announce((partition,))
        await node.produce("a", batch(b"after"))
        member = node.member()
        got = await member.fetch()
        assert got.acquired == [(0, 0, 1)]
        marker = EndOfTransaction(
            producer_id=7, producer_epoch=0, is_abort=True, coordinator_epoch=0
        )
        node.context.replicas.append_marker(partition, marker)
        got = await member.fetch(max_wait_ms=1_000)
        acquired = {number for first, last, _ in got.acquired for number in range(first, last + 1)}
        assert 2 in acquired
        assert 1 not in acquired

    tell_shares(story)


def test_a_fetch_that_finds_only_what_was_aborted_gets_nothing_and_leases_no_file() -> None:
    async def story(node: ShareNode) -> None:
        await node.share()
        node.configure_group("share.isolation.level", "read_committed")
        partition = node.context.partition()
        log, now_ms = partition.served_log(), 1_700_000_000_000
        shown = begin_verification(log.producer_state, 7, 0, 0, is_version_2=True, now_ms=now_ms)
        assert shown is not None
        gone = bytearray(
            batch(b"gone", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        node.context.replicas.append_in_transaction(partition, gone, shown, acks=1, now_ms=now_ms)
        marker = EndOfTransaction(
            producer_id=7, producer_epoch=0, is_abort=True, coordinator_epoch=0
        )
        node.context.replicas.append_marker(partition, marker)
        member = node.member()
        got = await member.fetch(max_records=1)
        assert (got.acquired, got.values) == ([], [])
        assert node.context.files.lease_count == 0
        await node.produce("a", batch(b"after"))
        assert (await member.fetch()).values[-1] == b"after"

    tell_shares(story)


def test_a_member_that_has_to_pause_acquires_nothing() -> None:
    """No delivery is counted that a member never sees."""

    async def story(node: ShareNode) -> None:
        await node.share()
        for _ in range(4):
            await node.produce("a", batch(b"x" * 9_000))
        quotas = ClientQuotas(node.context.env.clock, QuotaWindows())
        quotas.govern(node.pipeline)
        node.publish(quota(1_000, "consumer_byte_rate", **{"client-id": "story"}))
        quotas.on_image(MetadataDelta(node.image), node.image)
        member = node.member()
        first = await member.send(max_records=1)
        assert (first.throttle_time_ms, len(first.responses[0].partitions[0].acquired_records)) == (
            0,
            1,
        )
        paused = await member.send(max_records=1)
        assert paused.throttle_time_ms > 0
        assert not paused.responses
        assert node.context.files.lease_count == 0
        node.pipeline.quotas = None
        assert (await member.fetch(max_records=1)).acquired == [(1, 1, 1)]

    tell_shares(story)


def test_records_that_nobody_waits_for_any_more_lease_no_file() -> None:
    """The connection goes while the response waits for an acknowledgement to be stored."""

    async def story(node: ShareNode) -> None:
        await node.share()
        for value in (b"one", b"two"):
            await node.produce("a", batch(value))
        member = node.member()
        await member.fetch(max_records=1)
        node.share_states.is_holding = True
        request = member.request(acks={("a", 0): [(0, 0, [ACCEPT])]})
        key = ApiKey.SHARE_FETCH
        frame = b"".join(map(bytes, encode_request(RequestHeader(key, 2, 1, "story"), request)))  # type: ignore[arg-type]  # no slice
        pending = node.pipeline.handle_frame(member.connection, memoryview(bytearray(frame[4:])))
        assert isinstance(pending, PendingResponse)
        taken = node.node.shares.partitions[node.key()].core
        assert taken is not None
        assert taken.end_offset == 2
        pending.discard()
        member.vanish()
        node.share_states.let_go()
        assert node.context.files.lease_count == 0
        assert (await node.member().fetch()).acquired == [(1, 1, 2)]

    tell_shares(story)
