"""Events of a transform to a topic, for Dagster."""

import dagster as dg

from orchestration.log_client.protocol import LogClient
from orchestration.transforms.to_topic.declarations import TopicTransform

AFTER_FAILURE = (
    "What was not committed counts nowhere; the next run goes on from the group's offsets"
)


def grown(transform: TopicTransform, log: LogClient) -> dg.AssetMaterialization:
    """Return the event that the target has new records, for assets downstream of it."""
    offsets = log.partition_offsets(transform.target.name)
    return dg.AssetMaterialization(
        asset_key=transform.target.asset_key,
        description=f"{transform.name} sent records",
        metadata={
            "high_watermark": sum(one.high_watermark for one in offsets),
            "records_retained": sum(one.high_watermark - one.log_start_offset for one in offsets),
            "partitions": len(offsets),
        },
    )
