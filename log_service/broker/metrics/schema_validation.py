"""Schema validation on the metrics page: checked batches, and requests to the schema registry.

A node without a registry shows none of this. Batches that are refused are among the failed produce
requests of their topic.
"""

from collections.abc import Iterator

from log_service.broker.metrics.sources import MetricsSources
from log_service.metrics.exposition import Family, labels


def schema_validation_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the counts of schema validation, if this node has a registry."""
    validation = sources.node.schema_validation
    if validation is None:
        return
    counts = validation.counts
    yield Family(
        name="tidelog_schema_validation_batches_total",
        type="counter",
        help="Checks of batches of topics with schema validation.",
        samples=[("", "", counts.checked_batches)],
    )
    outcomes = {
        "accepted": counts.accepted,
        "refused": counts.refused,
        "unanswered": counts.unanswered,
    }
    yield Family(
        name="tidelog_schema_registry_questions_total",
        type="counter",
        help="Questions to the schema registry about schemas that were not known.",
        samples=[("", labels({"outcome": name}), count) for name, count in outcomes.items()],
    )
    yield Family(
        name="tidelog_schema_registry_questions_seconds_total",
        type="counter",
        help="Time that questions to the schema registry took.",
        samples=[("", "", counts.asked_ms / 1_000)],
    )
