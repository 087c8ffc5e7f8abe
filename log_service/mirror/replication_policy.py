"""Decides the name of a mirrored topic in the target cluster. It also tells whether a topic came
from there (KIP-382, KIP-690).

Decides by names alone. With the default policy a topic ``orders`` of the cluster A becomes the remote topic ``A.orders``. With the
identity policy it keeps its name. Knows no cluster and no file.

Invariant: with the default policy no topic goes back to a cluster whose alias its name has already, over however many clusters.
"""

from dataclasses import dataclass

INTERNAL_SUFFIXES = (".internal", "-internal")
INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """How topics are named in the target. ``separator`` stands between the source's alias and the topic."""

    is_identity: bool = False
    separator: str = "."

    def remote_topic(self, source: str, topic: str) -> str:
        """Return what ``topic`` of the cluster ``source`` is called in the target cluster."""
        return topic if self.is_identity else f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias that a name begins with: where the topic was mirrored from, if it was. None: it is no remote topic."""
        alias, separator, upstream = topic.partition(self.separator)
        return alias if not self.is_identity and alias and separator and upstream else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return what a remote topic is called in the cluster that it came from; None: it is no remote topic."""
        return None if self.topic_source(topic) is None else topic.partition(self.separator)[2]

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether a topic came from the cluster ``target``, directly or over others."""
        upstream: str | None = topic
        while upstream is not None:
            if self.topic_source(upstream) == target:
                return True
            upstream = self.upstream_topic(upstream)
        return False


def is_internal(topic: str) -> bool:
    """Whether a topic belongs to a broker or to a mirror, by its name: such topics are never mirrored."""
    return topic.startswith(INTERNAL_PREFIX) or topic.endswith(INTERNAL_SUFFIXES)
