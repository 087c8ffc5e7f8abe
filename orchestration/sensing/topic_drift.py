"""Notices topics that differ from their declarations: missing, or other partitions or configs.

Other numbers of replicas are noticed, too. A difference is reported after two ticks in a row, once
until it changes or is over, because at the first tick a declared topic may be about to be created.
Nothing is changed here. A run of ``topics/NAME`` does that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from orchestration.sensing.run_failures import Alert
from orchestration.topics.spec import TopicSpec

SEEN = "seen: "
"""The prefix of a difference that is remembered but not yet reported."""
SUBJECT = "topic "
"""The prefix of a topic's name, in alerts and in the memory of alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDrift:
    """The decision for all topics: alerts, event texts by topic, and the memory by subject."""

    alerts: tuple[Alert, ...]
    events: Mapping[str, str]
    remembered: Mapping[str, str]


def decide_topic_drift(before: Mapping[str, str], found: Mapping[str, Sequence[str]]) -> TopicDrift:
    """Decide which differences in ``found`` are reported.

    ``found`` has the differences of each topic that could be looked at. ``before`` is the memory of
    the previous tick.
    """
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
            alerts.append(
                Alert(
                    subject=subject, run_id="", failures=1, why=now, what="is not as it is declared"
                )
            )
    return TopicDrift(alerts=tuple(alerts), events=events, remembered=remembered)


def topic_drift_event(spec: TopicSpec, reported: str) -> dg.AssetObservation:
    """Return the observation that a topic differs from its declaration, or no longer does.

    ``reported`` lists the differences, or is "as declared".
    """
    return dg.AssetObservation(
        asset_key=spec.asset_key,
        description=f"The topic {spec.name}: {reported}",
        metadata={"declaration": reported},
    )
