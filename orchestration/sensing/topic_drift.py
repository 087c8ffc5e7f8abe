"""Notices topics that are not as they are declared: missing, with other partitions or replicas, or with other configs.

Decides what is told of them: what was so in two ticks in a row, once until it changes or is over. At the first tick a declared topic may
just be about to be created. Changes nothing: a run of ``topics/NAME`` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from orchestration.sensing.run_failures import Alert
from orchestration.topics import TopicSpec

SEEN = "seen: "
"""Before a difference that is remembered and was not told yet."""
SUBJECT = "topic "
"""Before the name of a topic, in alerts and in what is remembered of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDrift:
    """What is told of topics: alerts, the topics of which an event is due with what it says, and what to remember by subject."""

    alerts: tuple[Alert, ...]
    events: Mapping[str, str]
    remembered: Mapping[str, str]


def decide_topic_drift(before: Mapping[str, str], found: Mapping[str, Sequence[str]]) -> TopicDrift:
    """Return what is told of ``found``, the differences of each topic that could be looked at; ``before`` is what was remembered."""
    alerts: list[Alert] = []
    events: dict[str, str] = {}
    remembered: dict[str, str] = {}
    for topic, differences in found.items():
        subject, now = SUBJECT + topic, "; ".join(differences)
        last = before.get(subject, "")
        if not now:
            remembered |= {subject: ""} if last else {}
            events |= {topic: "as declared"} if last and not last.startswith(SEEN) else {}
        elif last not in {SEEN + now, now}:
            remembered[subject] = SEEN + now
        elif last != now:
            remembered[subject] = now
            events[topic] = now
            alerts.append(Alert(subject=subject, run_id="", failures=1, why=now, what="is not as it is declared"))
    return TopicDrift(alerts=tuple(alerts), events=events, remembered=remembered)


def topic_drift_event(spec: TopicSpec, told: str) -> dg.AssetObservation:
    """Return the observation on a topic whose drift is told, or is over."""
    return dg.AssetObservation(asset_key=spec.asset_key, description=f"The topic {spec.name}: {told}", metadata={"declaration": told})
