"""The topic and the table of the steady streams.

The table has typed columns of JSON, and no rule, no expectation, no key.
"""

from typing import Any

from orchestration import TopicSpec, spark_table, topic_asset

READINGS = TopicSpec(
    name="readings",
    partitions=3,
    schema="sensor STRING NOT NULL, number BIGINT NOT NULL, value DOUBLE, note STRING",
)

topics = [topic_asset(READINGS)]


@spark_table(topic=READINGS)
def readings(records: Any) -> Any:
    """Readings of sensors as they came."""
    return records.select("_topic_id", "_partition", "_offset", "sensor", "number", "value", "note")
