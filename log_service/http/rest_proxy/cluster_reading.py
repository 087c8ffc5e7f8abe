"""Looks up topics, partitions and offsets for all versions of the API."""

from log_service.client import (
    Admin,
    KafkaError,
    OffsetSpec,
    TopicDescription,
    TopicPartition,
)
from log_service.client.connections.cluster_view import PartitionView, TopicView
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.context import Call


async def topic_of(admin: Admin, name: str, *, timeout_ms: int | None = None) -> TopicDescription:
    """Return the description of a topic.

    Without ``timeout_ms`` the admin client's own timeout bounds the wait.

    Raises:
        RestError: 40401, the topic does not exist.
    """
    try:
        return (await admin.describe_topics([name], timeout_ms=timeout_ms))[name]
    except KafkaError as error:
        if error.code in errors.NO_TOPIC:
            raise errors.topic_not_found(name) from error
        raise


def partition_of(topic: TopicDescription | TopicView, text: str) -> PartitionView:
    """Return the partition of a topic whose number is ``text``.

    Raises:
        RestError: 40402, the partition does not exist. 404, the text is not a number.
    """
    if not (text.isascii() and text.isdigit()):
        raise errors.RestError(404, f"HTTP 404 Not Found: {text[:30]} is no partition")
    if len(text) > 10 or int(text) >= len(topic.partitions):
        raise errors.partition_not_found(text)
    return topic.partitions[int(text)]


async def known_topic(call: Call, name: str) -> TopicView:
    """Return a topic to produce to.

    The topic is taken from the producer's metadata if possible, which saves a request to the
    cluster.

    Raises:
        RestError: 40401, the topic does not exist.
    """
    producer = await call.producer()
    found = producer.cluster.view.topics.get(name)
    if found is not None:
        return found
    await topic_of(await call.admin(), name)
    return await producer.find_topic(name, None)


async def offsets_of(admin: Admin, partition: TopicPartition) -> tuple[int, int]:
    """Return the first offset of a partition, and the offset after its last record."""
    first = await admin.list_offsets({partition: OffsetSpec.earliest()})
    last = await admin.list_offsets({partition: OffsetSpec.latest()})
    return first[partition].offset, last[partition].offset
