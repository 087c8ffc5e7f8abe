"""ShareFetch (API key 78), versions 1-2.

Behaviour: a member of a share group fetches from the partitions of its share session and acquires
the records. No other member gets them until it acknowledges them or its locks expire. The response
names the acquired offsets. The records are whole batches of the log, and may hold more than was
acquired. The broker responds at once if records of ``min_bytes`` can be acquired. Otherwise it
responds as soon as they can, or after ``max_wait_ms``. A request may also carry acknowledgements of
an earlier fetch, and the response waits until they are stored. The final epoch acknowledges,
fetches nothing, and releases the member's remaining records.

Versions: 1 as in Apache Kafka 4.2; 2 acquire mode (KIP-1206), and requests that renew locks and
fetch nothing (KIP-1222).

A fetch that waited is authorized by the ACLs at the end of its wait. (Apache Kafka 4.3 uses the
ACLs at the start of the wait.)

A member whose quota makes it pause acquires nothing. So no delivery is counted for records that it
never sees. (Apache Kafka 4.3 counts such deliveries.)
"""

from dataclasses import dataclass, field
from functools import partial

from log_service.broker.handlers.share.acknowledge import (
    FIRST_VERSION_WITH_RENEWAL,
    Outcomes,
    Parts,
    acknowledge,
    add_partitions,
    batches_of,
    check_exists,
    check_readable,
    session_key,
)
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.broker.share.delayed_share_fetch import (
    DelayedShareFetch,
    Fetched,
    Wanted,
    acquirable,
    fetch_all,
    has_enough,
)
from log_service.broker.share.led_share_partition import LedSharePartition
from log_service.broker.share.session import SessionKey, SharedPartition, ShareFetchContext
from log_service.common.access import AclOperation, AclResource
from log_service.common.errors import ErrorCode, KafkaError, kept
from log_service.common.session_epochs import next_epoch
from log_service.coordinator.share.record_states import AcquireMode
from log_service.coordinator.share.share_state import ShareKey
from log_service.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

NO_RECORDS = b""
PARTS = Parts(topic=ShareFetchableTopicResponse, leader=LeaderIdAndEpoch, endpoint=NodeEndpoint)
SESSIONS = "share sessions"
HEAD_BYTES, TOPIC_BYTES, PARTITION_BYTES, ACQUIRED_BYTES = 24, 18, 24, 18
"""Bytes of a response, of its topics, partitions and acquired ranges, without the records."""


@dataclass(slots=True)
class _Fetch:
    """A ShareFetch request in progress: its partitions, and the finished parts of its response."""

    node: Node
    call: Call
    request: ShareFetchRequest
    context: ShareFetchContext
    deferred: Deferred
    wanted: Wanted
    began_ms: int
    waits_for_partition: bool = False
    """Whether the fetch waits for any partition to acquire from, and not for more bytes."""
    led: dict[ShareKey, LedSharePartition] = field(default_factory=dict)
    errors: dict[SharedPartition, KafkaError] = field(default_factory=dict)
    """Errors of partitions that this node cannot serve to the member, found before any fetch."""
    fetched: list[Fetched] | None = None
    is_paused: bool = False
    outcomes: Outcomes | None = None


def handle_share_fetch(node: Node, call: Call, request: ShareFetchRequest) -> Deferred:
    """Respond with records that the member has acquired, or wait for some."""
    key = session_key(node, request.group_id, request.member_id)
    mode = _checked(request, call.version)
    asked = batches_of(request.topics)
    try:
        context = node.shares.sessions.open_fetch(
            key,
            request.share_session_epoch,
            added=asked,
            forgotten=[
                (topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ],
            connection_id=call.connection.connection_id,
            has_acknowledgements=any(asked.values()),
        )
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return _refuse_later(node, call, error, request.max_wait_ms)
        raise
    call.connection.on_closed.setdefault(
        SESSIONS, partial(node.shares.end_connection, call.connection.connection_id)
    )
    fetch = _Fetch(
        node,
        call,
        request,
        context,
        call.defer(),
        _wanted(node, call, request, key, mode),
        node.clock.monotonic_ms(),
    )
    if any(asked.values()):
        acknowledge(
            node, call, key, asked, partial(_acknowledged, fetch), is_renewing=request.is_renew_ack
        )
    else:
        fetch.outcomes = {}
    if context.is_final or request.is_renew_ack:
        fetch.fetched = []
        _maybe_respond(fetch)
    else:
        _begin_fetch(fetch)
    return fetch.deferred


def _checked(request: ShareFetchRequest, version: int) -> AcquireMode:
    """Check a request, and return its acquire mode: how strictly the limit of records is enforced.

    Raises:
        KafkaError: INVALID_REQUEST, an unknown mode, or a request that renews locks and wants
            records.
    """
    if version >= FIRST_VERSION_WITH_RENEWAL and request.is_renew_ack:
        wanted = {
            "max_bytes": request.max_bytes,
            "min_bytes": request.min_bytes,
            "max_records": request.max_records,
            "max_wait_ms": request.max_wait_ms,
        }
        wrong = [name for name, value in wanted.items() if value]
        if wrong:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a request that renews locks fetches nothing: {', '.join(wrong)} must be 0",
            )
    try:
        return AcquireMode(request.share_acquire_mode)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"acquire mode {request.share_acquire_mode} does not exist"
        ) from error


def _refuse_later(node: Node, call: Call, error: KafkaError, wait_ms: int) -> Deferred:
    """Refuse a request after the time that the fetch would have waited.

    Otherwise the client would send the next request at once.
    """
    deferred = call.defer()
    if wait_ms <= 0:
        deferred.complete(call.refusal(error))
        return deferred
    timer = node.shares.timers.schedule(
        node.clock.monotonic_ms() + wait_ms, lambda: deferred.complete(call.refusal(error))
    )
    deferred.on_discard(timer.cancel)
    return deferred


def _wanted(
    node: Node, call: Call, request: ShareFetchRequest, key: SessionKey, mode: AcquireMode
) -> Wanted:
    max_bytes = min(request.max_bytes, node.config.fetch.max_bytes)
    if call.account is not None and call.account.max_fetch_bytes is not None:
        max_bytes = min(max_bytes, call.account.max_fetch_bytes)
    return Wanted(
        member_id=key.member_id,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_records=request.max_records,
        batch_size=request.batch_size,
        mode=mode,
        isolation=node.shares.settings(key.group_id).isolation,
    )


# Fetching


def _begin_fetch(fetch: _Fetch) -> None:
    """Acquire records now, or begin to wait for them."""
    node, request, wanted = fetch.node, fetch.request, fetch.wanted
    for where in fetch.context.partitions:
        try:
            check_readable(node.image(), fetch.call, where)
            led = _open(node, fetch.context.key, where)
        except KafkaError as error:
            fetch.errors[where] = kept(error)
        else:
            fetch.led[led.key] = led
            led.partition.share_fetch_count += 1
    all_led = tuple(fetch.led.values())
    has_work = bool(all_led) and wanted.max_records > 0 and wanted.max_bytes > 0
    if (
        not has_work
        or request.max_wait_ms <= 0
        or all(led.error is not None for led in all_led)
        or has_enough(all_led, wanted)
    ):
        _fetch_now(fetch)
        return
    fetch.waits_for_partition = not acquirable(all_led)
    operation = DelayedShareFetch(
        fetch.led,
        wanted,
        fetch.deferred,
        partial(_fetch_late, fetch),
        partial(_fetch_at_deadline, fetch),
    )
    deadline_ms = node.clock.monotonic_ms() + request.max_wait_ms
    watch = node.shares.delayed_fetches.watch(operation, fetch.led, deadline_ms)
    fetch.deferred.on_discard(watch.cancel)


def _open(node: Node, key: SessionKey, where: SharedPartition) -> LedSharePartition:
    topic_id, index = where
    name = check_exists(node.image(), where)
    partition = node.replicas.find("", topic_id, index)
    partition.served_log()
    found = node.shares.open(
        ShareKey(group_id=key.group_id, topic_id=topic_id, partition=index), partition
    )
    assert found.partition.topic_partition.topic == name, "ids of topics are unique"
    return found


def _fetch_at_deadline(fetch: _Fetch) -> None:
    """Fetch the available records, because the wait has reached its deadline."""
    fetch.node.shares.expired_fetch_count += 1
    _fetch_late(fetch)


def _fetch_late(fetch: _Fetch) -> None:
    """Fetch after a wait, by the ACLs that apply now.

    A client that may not read the group any more gets nothing, and an error at its next request.
    """
    access, group_id = fetch.call.access, fetch.context.key.group_id
    if access is not None and not fetch.deferred.is_done:
        waited = fetch.led if access.may(AclOperation.READ, AclResource.GROUP, group_id) else {}
        fetch.led = {key: led for key, led in waited.items() if _is_readable_still(fetch, key)}
    _fetch_now(fetch)


def _is_readable_still(fetch: _Fetch, key: ShareKey) -> bool:
    where = (key.topic_id, key.partition)
    try:
        check_readable(fetch.node.image(), fetch.call, where)
    except KafkaError as error:
        fetch.errors[where] = kept(error)
        return False
    return True


def _fetch_now(fetch: _Fetch) -> None:
    """Acquire the available records, and respond if all else is finished.

    Do nothing if the client has gone.
    """
    if fetch.deferred.is_done:
        return
    with fetch.call.counted():
        _acquire(fetch)
    _maybe_respond(fetch)


def _acquire(fetch: _Fetch) -> None:
    wanted, account, all_led = fetch.wanted, fetch.call.account, tuple(fetch.led.values())
    _count(fetch, all_led)
    if wanted.max_records > 0 and wanted.max_bytes > 0 and _is_current(fetch):
        fetch.fetched = fetch_all(all_led, wanted, can_undo=account is not None)
    else:
        fetch.fetched = [Fetched(led, error=led.error) for led in all_led if led.error is not None]
    for each in fetch.fetched:
        each.led.partition.failed_share_fetch_count += each.error is not None
    if account is not None and account.must_pause(_response_bytes(fetch, fetch.fetched)):
        fetch.is_paused = True
        for each in fetch.fetched:
            each.give_back()


def _count(fetch: _Fetch, all_led: tuple[LedSharePartition, ...]) -> None:
    """Add a fetch that is about to acquire records to the counts of its group."""
    counts = fetch.node.shares.fetch_counts.get(fetch.context.key.group_id)
    if counts is not None and all_led:
        waited_ms = (
            fetch.node.clock.monotonic_ms() - fetch.began_ms if fetch.waits_for_partition else 0
        )
        counts.note(len(acquirable(all_led)), len(all_led), waited_ms)


def _is_current(fetch: _Fetch) -> bool:
    """Return whether the member has sent no later request in this session."""
    session, epoch = fetch.context.session, fetch.request.share_session_epoch
    return session is not None and fetch.node.shares.sessions.is_current(session, next_epoch(epoch))


# Responding


def _acknowledged(fetch: _Fetch, outcomes: Outcomes) -> None:
    fetch.outcomes = outcomes
    _maybe_respond(fetch)


def _maybe_respond(fetch: _Fetch) -> None:
    """Respond once records and acknowledgements are both finished."""
    if fetch.fetched is None or fetch.outcomes is None:
        return
    if fetch.context.ending is not None:
        fetch.node.shares.end_session(fetch.context.ending)
    if fetch.deferred.is_done or (fetch.context.session is not None and not _is_current(fetch)):
        for each in fetch.fetched:
            each.release()
    fetch.deferred.complete_with(partial(_response, fetch, fetch.fetched, fetch.outcomes))


def _response(fetch: _Fetch, fetched: list[Fetched], outcomes: Outcomes) -> ShareFetchResponse:
    node, context = fetch.node, fetch.context
    response = ShareFetchResponse()
    if context.session is not None and not _is_current(fetch):
        response.error_code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
        return response
    response.acquisition_lock_timeout_ms = node.shares.settings(
        context.key.group_id
    ).records.record_lock_duration_ms
    results = {} if fetch.is_paused else _results(fetch, fetched)
    _add_outcomes(results, outcomes)
    add_partitions(fetch.call, node.image(), response, results, PARTS, unled=fetch.errors)
    return response


def _response_bytes(fetch: _Fetch, fetched: list[Fetched]) -> int:
    records = sum(len(each.records) for each in fetched if each.records is not None)
    acquired = sum(len(each.acquired) for each in fetched)
    topic_count = len({each.led.key.topic_id for each in fetched})
    partition_bytes = PARTITION_BYTES * (len(fetched) + len(fetch.errors))
    return (
        HEAD_BYTES
        + TOPIC_BYTES * topic_count
        + partition_bytes
        + ACQUIRED_BYTES * acquired
        + records
    )


def _results(fetch: _Fetch, fetched: list[Fetched]) -> dict[SharedPartition, PartitionData]:
    """Return the results of a response.

    The first response of a session has all partitions. Later ones have only partitions with
    changes.
    """
    context = fetch.context
    found: dict[SharedPartition, PartitionData] = {
        where: _failed(where, error) for where, error in fetch.errors.items()
    }
    for each in fetched:
        where = (each.led.key.topic_id, each.led.key.partition)
        if each.error is not None:
            found[where] = _failed(where, each.error)
            continue
        records = each.records
        if records is not None:
            each.led.partition.sent_bytes += len(records)
        found[where] = PartitionData(
            partition_index=where[1],
            records=NO_RECORDS if records is None else records,
            acquired_records=[
                AcquiredRecords(
                    first_offset=one.first_offset,
                    last_offset=one.last_offset,
                    delivery_count=one.delivery_count,
                )
                for one in each.acquired
            ],
        )
    session = context.session
    if session is None:
        return found
    if fetch.led and fetch.wanted.max_records > 0 and fetch.wanted.max_bytes > 0:
        first = next(iter(fetch.led))
        given = [where for where, result in found.items() if result.records is not NO_RECORDS]
        session.end_turn((first.topic_id, first.partition), given)
    if context.is_first:
        return found
    return {
        where: result
        for where, result in found.items()
        if session.must_name(
            where, has_records=result.records is not NO_RECORDS, has_error=bool(result.error_code)
        )
    }


def _failed(where: SharedPartition, error: KafkaError) -> PartitionData:
    return PartitionData(
        partition_index=where[1],
        error_code=error.code,
        error_message=str(error),
        records=NO_RECORDS,
    )


def _add_outcomes(results: dict[SharedPartition, PartitionData], outcomes: Outcomes) -> None:
    """Add the outcomes of acknowledgements to the results of their partitions."""
    for where, error in outcomes.items():
        partition = results.get(where)
        if partition is None:
            partition = results[where] = PartitionData(partition_index=where[1], records=NO_RECORDS)
        if error is not None:
            partition.acknowledge_error_code, partition.acknowledge_error_message = (
                error.code,
                str(error),
            )
