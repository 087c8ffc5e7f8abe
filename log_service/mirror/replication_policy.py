"""Decides the name of a mirrored topic in the target, and which topics came from the target.

With the default policy a topic ``orders`` of the cluster A becomes the remote topic ``A.orders``.
With the identity policy it has the same name, and the name does not tell where it came from. Only
names decide, without requests or files. KIP-382, KIP-690.

Invariant: with the default policy no topic goes back to a cluster whose alias is part of its name,
even if it passed through several clusters.
"""

from dataclasses import dataclass

INTERNAL_SUFFIXES = (".internal", "-internal")
INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy:
    """The naming of mirrored topics in the target.

    ``separator`` is between the source's alias and the name of the topic.
    """

    is_identity: bool = False
    separator: str = "."

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the name that ``topic`` of the cluster ``source`` gets in the target."""
        return topic if self.is_identity else f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias at the beginning of a topic's name, or None if the name has no alias.

        If the topic was mirrored, it was mirrored from the cluster with this alias. With the
        identity policy no name has an alias.
        """
        alias, separator, upstream = topic.partition(self.separator)
        return alias if not self.is_identity and alias and separator and upstream else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name that a remote topic has in the cluster that it was mirrored from.

        Return None if ``topic`` is not a remote topic.
        """
        return None if self.topic_source(topic) is None else topic.partition(self.separator)[2]

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether a topic came from the cluster ``target``, directly or through other clusters.

        The aliases in its name tell that. With the identity policy the result is always False.
        """
        upstream: str | None = topic
        while upstream is not None:
            if self.topic_source(upstream) == target:
                return True
            upstream = self.upstream_topic(upstream)
        return False


def is_internal(topic: str) -> bool:
    """Whether the name of a topic is that of an internal topic of brokers or of a mirror.

    Internal topics are not mirrored.
    """
    return topic.startswith(INTERNAL_PREFIX) or topic.endswith(INTERNAL_SUFFIXES)
