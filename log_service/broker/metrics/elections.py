"""Counts the unclean elections that this node has seen in the metadata.

An unclean leader was out of sync, so records may be lost. The controller marks such a leader as
recovering (KIP-704). Elections before the first image are not counted, because counters start at 0
with the node.
"""

from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage
from log_service.metadata.partition import NO_LEADER, RECOVERING


class UncleanElections:
    """Counts unclean elections since the node started.

    It gets each new metadata image by ``on_image``.
    """

    def __init__(self) -> None:
        self.count = 0

    def on_image(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        """Count the partitions whose new leader is recovering from an unclean election."""
        for topic_id, changed in delta.changed_topics.items():
            before = delta.base.topics.by_id.get(topic_id)
            if before is None:
                continue
            for index, partition in changed.changed_partitions.items():
                known = before.partitions.get(index)
                is_elected = known is not None and partition.leader not in (known.leader, NO_LEADER)
                self.count += is_elected and partition.leader_recovery_state == RECOVERING
