"""The decorator ``@spark_topic``, which makes a function an exactly-once transform of topics."""

from collections.abc import Callable, Mapping, Sequence

import dagster as dg

from orchestration.quality import Rule, Suite
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.dagster_views.assets import Presentation
from orchestration.transforms.declarations import NO_SUITE, TopicTable, Transform, rules_of
from orchestration.transforms.to_topic.assets import topic_transform_asset
from orchestration.transforms.to_topic.declarations import TopicTransform


def spark_topic(
    *,
    source: TopicSpec,
    target: TopicSpec,
    key: str | None = None,
    deleted_when: str | None = None,
    forward_tombstones: bool = False,
    name: str | None = None,
    rules: Rule | Sequence[Rule] = (),
    suite: Suite = NO_SUITE,
    minimum_interval_s: int | None = None,
    records_per_run: int | None = None,
    has_headers: bool = False,
    max_failed: float | None = None,
    group_name: str = "topics",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a DataFrame function into a transform from the topic ``source`` to ``target``.

    The function gets the same columns as that of a table from a topic (``spark_table``) and has to
    return ``_topic_id, _partition, _offset``, too. Each row of the result becomes a record of
    ``target``. Its value is a JSON object of the row's columns, or ``_value`` alone if there is
    such a column. ``key`` names the column of the record's key. The default is ``_key``, if there
    is one. ``_headers`` (as the function gets it with ``has_headers``, or a map) and ``_timestamp``
    become the record's headers and time. A row that meets ``deleted_when``, a condition in Spark
    SQL over the result, becomes a tombstone. With ``forward_tombstones`` a record without value is
    sent on without value, under its own key and with its headers, and is no dead letter.

    A run sends its rows and commits the offsets of the records that it read in one transaction. So
    readers with ``isolation_level=read_committed`` see each record's rows once, even if a run is
    killed at any moment. The progress is in the group ``tidelog-topic.NAME``. The lake table
    ``lake/NAME`` counts the sent records. ``max_failed`` is as for a table (``spark_table``).

    :raises ValueError: the declaration makes no sense. The text says why.
    """
    shown = Presentation(
        group_name=group_name, tags=tags, owners=owners, freshness_policy=freshness_policy
    )

    def declare(function: Transform) -> dg.AssetsDefinition:
        table = TopicTable(
            name=name or function.__name__,
            topic=source,
            function=function,
            rules=rules_of(rules),
            suite=suite,
            minimum_interval_s=minimum_interval_s,
            records_per_run=records_per_run,
            has_headers=has_headers,
            max_failed=max_failed,
        )
        transform = TopicTransform(
            table=table,
            target=target,
            key=key,
            deleted_when=deleted_when,
            is_forwarding_tombstones=forward_tombstones,
        )
        return topic_transform_asset(transform, shown)

    return declare
