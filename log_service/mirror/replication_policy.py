"""Decides the name of a mirrored topic in the target, and which topics came from there.

With the default policy a topic ``orders`` of the cluster A becomes the remote topic ``A.orders``.
With the identity policy it has the same name. Decides by names alone. Knows no cluster and no file.
KIP-382, KIP-690.

Invariant: with the default policy no topic goes back to a cluster whose alias is part of its name,
over however many clusters.
"""

from dataclasses import dataclass

INTERNAL_SUFFIXES = (".internal", "-internal")
INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """The naming of topics in the target. ``separator`` stands between the source's alias and the
    topic.
    """

    is_identity: bool = False
    separator: str = "."

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the target's name of ``topic`` of the cluster ``source``."""
        return topic if self.is_identity else f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias at the beginning of a topic's name, or None if it is not a remote topic.

        The topic was mirrored from that cluster, if it was mirrored at all.
        """
        alias, separator, upstream = topic.partition(self.separator)
        return alias if not self.is_identity and alias and separator and upstream else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a remote topic in the cluster that it came from. None: it is not a
        remote topic.
        """
        return None if self.topic_source(topic) is None else topic.partition(self.separator)[2]

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether a topic came from the cluster ``target``, directly or through others."""
        upstream: str | None = topic
        while upstream is not None:
            if self.topic_source(upstream) == target:
                return True
            upstream = self.upstream_topic(upstream)
        return False


def is_internal(topic: str) -> bool:
    """Whether a topic is a broker's or a mirror's own, by its name. Internal topics are not
    mirrored.
    """
    return topic.startswith(INTERNAL_PREFIX) or topic.endswith(INTERNAL_SUFFIXES)
