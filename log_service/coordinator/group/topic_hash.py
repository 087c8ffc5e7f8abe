"""Hashes of the topics that a group reads (KIP-1101).

A changed hash causes a new assignment.

A topic's hash covers its id, name, partitions and the racks of their replicas. A group's hash
covers the hashes of its topics, by name. The hashed bytes are the same as in Kafka, so every
coordinator computes the same hash. Numbers are little-endian. A text is encoded as its UTF-16 code
units, followed by their count.
"""

import struct
from collections.abc import Iterable, Mapping

from xxhash import xxh3_64_intdigest

from log_service.metadata.image import MetadataImage, TopicImage

_FORMAT_VERSION = b"\0"
NO_TOPICS_HASH = 0
"""The hash of a group if none of its topics exists."""

_INT32, _INT64 = struct.Struct("<i"), struct.Struct("<q")


def topic_hash(topic: TopicImage, racks: Mapping[int, str | None]) -> int:
    """Return the hash of one topic. ``racks`` maps each broker to its rack."""
    hashed = bytearray(_FORMAT_VERSION)
    topic_id = topic.topic_id.bytes
    hashed += topic_id[7::-1] + topic_id[:7:-1]
    hashed += _text(topic.name)
    hashed += _INT32.pack(len(topic.partitions))
    for index in sorted(topic.partitions):
        hashed += _INT32.pack(index)
        for rack in sorted(
            rack
            for replica in topic.partitions[index].replicas
            if (rack := racks.get(replica)) is not None
        ):
            text = _text(rack)
            hashed += text[-_INT32.size :] + text
    return xxh3_64_intdigest(hashed)


def _text(text: str) -> bytes:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + _INT32.pack(len(encoded) // 2)


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """Return the hash of a group from the hashes of its topics, as a signed integer."""
    if not topic_hashes:
        return NO_TOPICS_HASH
    joined = b"".join(topic_hashes[name].to_bytes(8, "little") for name in sorted(topic_hashes))
    signed: int = _INT64.unpack(xxh3_64_intdigest(joined).to_bytes(8, "little"))[0]
    return signed


class TopicHashes:
    """A cache of topic hashes. A topic is hashed again when the topic or a rack has changed."""

    def __init__(self) -> None:
        self._racks: dict[int, str | None] = {}
        self._known: dict[str, tuple[TopicImage, int]] = {}

    def of(self, names: Iterable[str], image: MetadataImage) -> int:
        """Return the group hash of the named topics. Topics that do not exist are ignored."""
        racks: dict[int, str | None] = {
            broker.node_id: broker.rack for broker in image.cluster.brokers.values()
        }
        if racks != self._racks:
            self._racks = racks
            self._known.clear()
        topics = (image.topics.by_name.get(name) for name in names)
        return group_hash(
            {topic.name: self._of_topic(topic) for topic in topics if topic is not None}
        )

    def _of_topic(self, topic: TopicImage) -> int:
        known = self._known.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._known[topic.name] = (topic, topic_hash(topic, self._racks))
        return known[1]

    def forget(self, names: Iterable[str]) -> None:
        """Drop the hashes of deleted topics."""
        for name in names:
            self._known.pop(name, None)
