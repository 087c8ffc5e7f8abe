"""Notices new versions of the subjects of topics, and versions that cannot be read.

A readable version is reported once, as an observation on the topic. An unreadable one is also an
alert. Decides what is reported, from the verdicts and from the memory of the last tick. If the
registry does not respond, nothing is forgotten.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from orchestration.formats.compatibility import UNDECIDED, Compatibility, newest_compatibility
from orchestration.formats.registry import RegistryAwayError, UnknownSchemaError
from orchestration.sensing.run_failures import Alert
from orchestration.topics.registry_check import evaluation, registry_schema
from orchestration.topics.spec import TopicSpec
from orchestration.transforms import TopicFeed

REGISTRY = "the schema registry"
SUBJECT = "topic "
"""The prefix of a topic's name in alerts."""
LOOKS_WITHIN_S = 20.0
"""The time after which a tick asks about no further topic. Dagster cuts off a tick after 60 s."""
UNREADABLE = ", unreadable"
"""The mark of a version that cannot be read, in the memory of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLook:
    """The verdicts of a tick by topic, and why a topic, or the registry, has none.

    A verdict tells whether the newest version of a subject is compatible. If the tick ended before
    it had asked about all topics, ``last_topic`` is the last one that it asked about.
    """

    verdicts: Mapping[str, Compatibility] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    last_topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryDrift:
    """The decision for all topics: alerts, topics whose verdict is reported, and the memory."""

    alerts: tuple[Alert, ...] = ()
    reported: tuple[str, ...] = ()
    remembered: Mapping[str, str] = field(default_factory=dict)


def look_at_registry(
    specs: Iterable[TopicSpec], now_s: Callable[[], float], last_topic: str = ""
) -> RegistryLook:
    """Ask for the newest version of the subject of each topic that has one.

    After the first request without a response, or after ``LOOKS_WITHIN_S``, no other request is
    made, so that a tick ends in time. The next tick begins after ``last_topic``, so that each topic
    is looked at.
    """
    began_s = now_s()
    verdicts: dict[str, Compatibility] = {}
    unread: dict[str, str] = {}
    asked = last_topic
    for spec in sorted(specs, key=lambda each: (each.name <= last_topic, each.name)):
        schema = registry_schema(spec)
        if schema is None:
            continue
        if now_s() - began_s >= LOOKS_WITHIN_S:
            unread[REGISTRY] = f"it took {LOOKS_WITHIN_S:.0f} s to answer about some topics"
            break
        asked = spec.name
        try:
            verdicts[spec.name] = newest_compatibility(schema)
        except UnknownSchemaError as error:
            if schema.declared_version.version:  # else no producer has registered one yet
                unread[SUBJECT + spec.name] = str(error)
        except RegistryAwayError as error:
            unread[REGISTRY] = str(error)
            break
        except UNDECIDED as error:
            unread[SUBJECT + spec.name] = str(error)
    else:
        asked = ""
    return RegistryLook(verdicts=verdicts, unread=unread, last_topic=asked)


def decide_registry_drift(
    before: Mapping[str, str], look: RegistryLook, topics: Collection[str]
) -> RegistryDrift:
    """Decide which verdicts are reported, and what the next tick remembers.

    ``before`` is the memory of the last tick, by topic.

    ``topics`` are all declared topics. Others are forgotten. For a topic that is seen for the first
    time, the declared version is not reported.
    """
    alerts: list[Alert] = []
    reported: list[str] = []
    remembered = {topic: one for topic, one in before.items() if topic in topics}
    for topic, verdict in look.verdicts.items():
        now = _memory(verdict)
        remembered[topic] = now
        if now == before.get(topic, _first_memory(verdict)):
            continue
        reported.append(topic)
        if not verdict.is_compatible:
            alerts.append(
                Alert(
                    subject=SUBJECT + topic,
                    run_id="",
                    failures=1,
                    why=verdict.text,
                    what="has a schema that its columns cannot hold",
                )
            )
    return RegistryDrift(alerts=tuple(alerts), reported=tuple(reported), remembered=remembered)


def _first_memory(verdict: Compatibility) -> str:
    """Return the version that counts as reported for a topic that is seen for the first time.

    It is the declared version. If the project declares the columns itself, there is none, and the
    newest version counts as reported.
    """
    declared = verdict.declared.version
    return str(declared or verdict.newest.version)


def _memory(verdict: Compatibility) -> str:
    version = str(verdict.newest.version)
    return version if verdict.is_compatible else version + UNREADABLE


def registry_events(
    spec: TopicSpec, feeds: Sequence[TopicFeed], verdict: Compatibility
) -> list[dg.AssetObservation | dg.AssetCheckEvaluation]:
    """Return the events of a verdict on the topic, and on the tables that follow no other topic."""
    observed = dg.AssetObservation(
        asset_key=spec.asset_key,
        description=f"Schema drift: {verdict.text}",
        metadata={"drift": verdict.text},
    )
    keys = [spec.asset_key, *(feed.asset_key for feed in feeds if feed.topics == (spec.name,))]
    return [observed, *(evaluation(key, [verdict]) for key in keys)]
