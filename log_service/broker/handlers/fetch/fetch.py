"""Fetch (API key 1), versions 4-18.

Behaviour: the response holds whole batches below the high watermark (``read_committed``: below the
last stable offset), from the one that holds the fetch offset. The first batch of a response is sent
whole whatever its size, so a consumer always makes progress. The ``max_bytes`` of the request and
of each partition limit the batches after it. The broker responds at once if ``min_bytes`` can be
read (never more than ``max_bytes``), if an existing partition has an error, if it sends the
consumer to another replica, or if no partition exists. Otherwise the fetch waits until
``min_bytes`` can be read or ``max_wait_ms`` has passed. Records go from the segment to the socket
as a slice of the file, leased until it is sent.

Versions: 4 isolation level (KIP-98); 5 log start offset; 7 sessions (KIP-227); 9 current leader
epoch (KIP-320); 11 rack and preferred replica (KIP-392); 12 flexible, last fetched epoch and
diverging epoch (KIP-595); 13 topic ids (KIP-516); 15 replica state (KIP-903); 16 current leader and
node endpoints (KIP-951); 17 directory id (KIP-853); 18 high watermark (KIP-1166).

A follower (a request with a replica id) reads up to the log end offset, and waits for appends
instead of the high watermark. ``replica`` decides on the checks of such a request and on its
effects.

A partition of a topic that the client may not read is TOPIC_AUTHORIZATION_FAILED, also in a session
that named it before.
"""

import trio

from log_service.broker.fetch_session import FetchContext
from log_service.broker.handlers.fetch.in_turns import fetch_in_turns, respond_in_turns
from log_service.broker.handlers.fetch.reads import (
    DelayedFetch,
    PartitionReads,
    must_respond_now,
    replica_of_request,
)
from log_service.broker.handlers.fetch.response import build_response
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.access import AclOperation
from log_service.common.errors import KafkaError
from log_service.common.session_epochs import INITIAL_EPOCH
from log_service.common.steps import Steps
from log_service.protocol.messages.fetch import FetchRequest, FetchResponse

FIRST_VERSION_BY_ID = 13


def handle_fetch(node: Node, call: Call, request: FetchRequest) -> FetchResponse | Deferred:
    """Respond with records, or wait for them.

    If a request names very many partitions, its session is opened in several turns.
    """
    context: FetchContext | None = None
    try:
        opening = node.fetch_sessions.open(
            request,
            node.clock.monotonic_ms(),
            is_by_id=call.version >= FIRST_VERSION_BY_ID,
            is_privileged=_is_privileged(call, request),
        )
        next(opening)
    except StopIteration as opened:
        context = opened.value
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if context is not None:
        return _fetch(node, call, request, context)
    deferred = call.defer()
    call.route.start_task(_fetch_many, node, call, request, opening, deferred)
    return deferred


async def _fetch_many(
    node: Node, call: Call, request: FetchRequest, opening: Steps[FetchContext], deferred: Deferred
) -> None:
    scope = trio.CancelScope()
    deferred.on_discard(scope.cancel)
    with scope:
        try:
            context = await call.counting(node.step_scheduler.take(opening))
            with call.counted():
                reply = _fetch(node, call, request, context)
        except KafkaError as error:
            deferred.complete(FetchResponse(error_code=error.code))
        except Exception as error:  # noqa: BLE001 - a bug of ours: its own connection pays
            deferred.fail(error)
        else:
            if isinstance(reply, Deferred):
                reply.pass_on_to(deferred)
            else:
                deferred.complete(reply)


def _fetch(
    node: Node, call: Call, request: FetchRequest, context: FetchContext
) -> FetchResponse | Deferred:
    now_ms = node.clock.monotonic_ms()
    replica = replica_of_request(node, request, is_noted=False)
    reads = PartitionReads(node, call, request, context, replica)
    is_all, reading = reads.read_some(), reads.reading
    if replica is not None:
        replica.announce()
    if not is_all:
        return fetch_in_turns(reads, now_ms + request.max_wait_ms)
    if must_respond_now(request, reading) or not context.targets:
        return build_response(node, call, context, reading)
    operation = DelayedFetch(reads, call.defer(), respond_in_turns)
    if not operation.expect(reading.present):
        return build_response(node, call, context, reading)
    reading.release()
    return _delay(operation, now_ms + request.max_wait_ms)


def is_of_follower(request: FetchRequest) -> bool:
    """Whether a request names a replica, as those of followers do."""
    return request.replica_id >= 0 or (
        request.replica_state is not None and request.replica_state.replica_id >= 0
    )


def _is_privileged(call: Call, request: FetchRequest) -> bool:
    """Return whether a request may start a session that evicts consumers' sessions.

    Only a follower's request from a broker may. Apache Kafka believes any client that names a
    replica.
    """
    if not is_of_follower(request):
        return False
    access = call.access
    return (
        access is None
        or request.session_epoch != INITIAL_EPOCH
        or access.could_cluster(AclOperation.CLUSTER_ACTION)
    )


def _delay(operation: DelayedFetch, deadline_ms: int) -> Deferred:
    node, deferred = operation.node, operation.deferred
    watch = node.replicas.delayed_fetches.watch(operation, operation.keys, deadline_ms)
    deferred.on_discard(watch.cancel)
    return deferred
