"""Queues over share groups (KIP-932): acquires records, each with a lease, and acknowledges them.

A lease names the share session that acquired the record. It has no secret of the proxy, and any
proxy can acknowledge with it, with the rights of the request. A forged lease is harmless: its
member id is drawn from 128 random bits. The cluster only takes acknowledgements of records that
this member has acquired, from users who may read the group and the topic.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import trio

from log_service.client import (
    AcknowledgeType,
    ConsumerRecord,
    ErrorCode,
    KafkaError,
    Lease,
    LeaseToken,
    ShareLeases,
    ShareRecord,
)
from log_service.client.share.leases import ACQUIRE_GRACE_MS
from log_service.http.record_formats.decoding import FORMATS, RecordDecoder
from log_service.http.record_formats.records import decoded
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.bodies import (
    JSON,
    json_response,
    list_of,
    number_of,
    read_object,
    refuse_unknown,
    text_of,
)
from log_service.http.rest_proxy.cluster_reading import topic_of
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v1.decoders import shared_decoder
from log_service.http.rest_proxy.v1.lines import record_line
from log_service.http.rest_proxy.v1.produce import require_json
from log_service.http.server.values import HttpResponse

LEASE: Final = re.compile(r"([\w-]{1,36})\.(\d{1,10})\.(\d{1,10})\.(\d{1,19})", re.ASCII)
MAX_RECORDS: Final = 100
MAX_WAIT_MS: Final = 30_000
MAX_FETCH_BYTES: Final = 1 << 20
LEASE_OVER: Final = 40905
KINDS: Final = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
    "extend": AcknowledgeType.RENEW,
}
OVER: Final = frozenset(
    {
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)


async def acquire(call: Call) -> HttpResponse:
    """Acquire records of a queue, and wait for some if there are none.

    The body may have max_records, wait_ms and encoding. Each record has a lease, with which any
    proxy can settle the record until its lock expires after lock_ms.
    """
    require_json(call.request)
    body = await read_object(call.request)
    refuse_unknown(body, ("max_records", "wait_ms", "encoding"), "The body")
    count = number_of(body, "max_records", at_least=1, at_most=MAX_RECORDS, default=1)
    wait_ms = number_of(body, "wait_ms", at_most=MAX_WAIT_MS, default=0)
    encoding = text_of(body, "encoding", default=FORMATS[0])
    if encoding not in FORMATS:
        raise RestError(422, f"encoding is {encoding[:30]!r}: it may be {', '.join(FORMATS)}.")
    longest_ms = wait_ms + ACQUIRE_GRACE_MS
    deadline_s = trio.current_time() + longest_ms / 1_000
    user, streams = "" if call.credentials is None else call.request.principal, call.context.streams
    group, topic = call.value("group"), call.value("topic")
    await topic_of(await call.admin(), topic, timeout_ms=longest_ms)
    async with streams.places.one_of(user):
        leases = await _leases(call)
        lease = None
        with trio.move_on_at(deadline_s):
            lease = await _unless_stopping(
                call,
                partial(leases.acquire, group, topic, max_records=count, wait_ms=wait_ms),
            )
    if lease is None:
        return json_response({"records": [], "lock_ms": None})
    streams.start(partial(_keep_clients, call, lease))
    decoder = await shared_decoder(call.context.settings, call.clients)
    lines = [await _line(decoder, record, token, encoding) for record, token in lease.records]
    text = b'{"lock_ms":%d,"records":[%b]}' % (lease.lock_ms, b",".join(lines))
    return HttpResponse(body=text, content_type=JSON)


async def settle(call: Call) -> HttpResponse:
    """Accept, release, reject or extend records by their leases.

    The body has lists of leases under accept, release, reject and extend. If some leases have
    expired, the status is 409 and the response names them.
    """
    require_json(call.request)
    body = await read_object(call.request)
    refuse_unknown(body, KINDS, "The body")
    given = {
        name: [token_of(each) for each in list_of(body, name, max_count=MAX_RECORDS)]
        for name in KINDS
        if body.get(name) is not None
    }
    tokens = [each for several in given.values() for each in several]
    if not tokens or len(set(tokens)) < len(tokens):
        raise RestError(422, f"The body names leases, each once, under {', '.join(KINDS)}.")
    group, topic = call.value("group"), call.value("topic")
    await topic_of(await call.admin(), topic)
    leases = await _leases(call)
    failed: dict[LeaseToken, KafkaError] = {}
    for name, several in given.items():
        failed |= await leases.settle(group, topic, several, KINDS[name])
    settled = len(tokens) - len(failed)
    if not failed:
        return json_response({"settled": settled})
    refused = [{"lease": text_of_token(each), **_refusal(error)} for each, error in failed.items()]
    if all(each["error_code"] == errors.FORBIDDEN for each in refused):
        raise RestError(errors.FORBIDDEN, str(refused[0]["message"]))
    message = f"{len(failed)} of {len(tokens)} leases could not be settled."
    shown = {"error_code": LEASE_OVER, "message": message, "settled": settled, "refused": refused}
    return json_response(shown, status=409)


def text_of_token(token: LeaseToken) -> str:
    """Format a token as the text of a lease."""
    return f"{token.member_id}.{token.epoch}.{token.partition}.{token.offset}"


def token_of(text: Any) -> LeaseToken:
    """Parse the text of a lease.

    Raises:
        RestError: 422, the text is not a lease.
    """
    found = LEASE.fullmatch(text) if isinstance(text, str) else None
    numbers = [] if found is None else [int(each) for each in found.groups()[1:]]
    if found is None or max(numbers[:2]) >= 2**31 or numbers[2] >= 2**63:
        raise RestError(422, f"{str(text)[:60]!r} is no lease: send what acquire has returned.")
    epoch, partition, offset = numbers
    return LeaseToken(member_id=found[1], epoch=epoch, partition=partition, offset=offset)


def _refusal(error: KafkaError) -> dict[str, Any]:
    if error.code in OVER:
        text = "The lease is over: the record was settled, or another one gets it."
        return {"error_code": LEASE_OVER, "message": text}
    refusal = errors.of_cluster(error)
    return {"error_code": refusal.code, "message": refusal.text}


async def _line(
    decoder: RecordDecoder, record: ShareRecord, token: LeaseToken, encoding: str
) -> bytes:
    plain = ConsumerRecord._make(record[: len(ConsumerRecord._fields)])
    found = await decoded(decoder, plain, encoding)
    await trio.lowlevel.checkpoint()
    lease = text_of_token(token)
    return await record_line(found, delivery_count=record.delivery_count, lease=lease)


async def _leases(call: Call) -> ShareLeases:
    """Return the client that acquires and settles records for all requests of a login."""
    clients = call.clients
    settings = {**clients.settings(), "fetch_max_bytes": MAX_FETCH_BYTES}
    make = partial(ShareLeases, clients.servers, env=clients.env, **settings)
    return await clients.shared_client("the leases of a login", make)


async def _unless_stopping(
    call: Call, acquire_some: Callable[[], Awaitable[Lease | None]]
) -> Lease | None:
    """Call ``acquire_some``, and cancel it once the proxy stops.

    Return its result, None if it was cancelled.
    """
    lease: Lease | None = None
    failure: KafkaError | None = None
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await call.context.streams.stopping.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        try:
            lease = await acquire_some()
        except KafkaError as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return lease


async def _keep_clients(call: Call, lease: Lease) -> None:
    """Keep the clients of a login open until a lease has ended."""
    async with call.context.clients.lease(call.credentials):
        await lease.ended.wait()
