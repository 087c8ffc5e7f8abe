"""Computes the metrics of a registry."""

from collections.abc import Iterator

from log_service.http.schema_registry.registry import Registry
from log_service.http.server.metrics import HttpMeter
from log_service.metrics.exposition import Family


def families(registry: Registry, meter: HttpMeter) -> Iterator[Family]:
    """Yield the metrics of requests, and of the size and the role of the registry."""
    yield from meter.families()
    state = registry.state
    counts = {
        "is_writer": ("Whether this instance writes the topic.", int(registry.is_writer)),
        "subjects": ("Subjects, with those whose versions are deleted.", state.subject_count),
        "schemas": ("Versions of all subjects.", state.version_count),
        "unreadable_records": (
            "Records of the topic that were left out.",
            registry.unreadable_count,
        ),
    }
    for name, (text, count) in counts.items():
        samples = [("", "", count)]
        yield Family(name=f"tidelog_registry_{name}", type="gauge", help=text, samples=samples)
