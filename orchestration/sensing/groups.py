"""The lag of every group of the cluster: classic, consumer, share and streams groups.

The sensor lists the groups of any application. It reports each as an observation of the asset
``groups/NAME``: lag by topic, members, state. No project declares these assets, and no run
materializes them. The UI shows them after the first observation. The platform's own groups are left
out, because the lag of a table or a transform is reported on its own asset.

``decide_groups`` decides which groups are worth an observation. The cursor remembers the reported
values. A tick looks at a bounded number of groups for a bounded time, and says so if there are
more. The next tick begins after the group at which this one stopped. If the lag of a group cannot
be read, that does not block others, and the tick says why.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import dagster as dg

from log_service.common.counts import agreed, counted
from log_service.common.installation_names import PLATFORM_GROUP_PREFIXES
from orchestration.log_client.protocol import LogServiceError
from orchestration.resources.log_service import LogServiceResource
from orchestration.sensing.progress import Reported, is_due, read_cursor, stored

if TYPE_CHECKING:
    from log_service.client import BlockingAdmin, GroupListing, TopicPartition

GROUPS_PREFIX = "groups"
INTERVAL_S = 30
TIMEOUT_MS = 5_000
"""The timeout of each request, in milliseconds."""
LOOK_S = 20.0
"""How long a tick starts looks at further groups. It always looks at one."""
MAX_GROUPS = 50
ALL = ("*",)
TOLD = "told"
STOPPED_AT = "stopped_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """The current state of a group.

    ``lags`` holds the lag by topic, for topics with committed offsets.
    """

    kind: str
    state: str
    member_count: int
    lags: Mapping[str, int]

    @property
    def lag(self) -> int:
        """The lag of all topics."""
        return sum(self.lags.values())

    @property
    def value(self) -> str:
        """The text that the cursor remembers. It changes with every reported value."""
        return json.dumps([self.state, self.member_count, dict(sorted(self.lags.items()))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The findings of a tick: ``listed`` groups, ``found`` groups, and ``reasons``.

    ``found`` holds the groups whose lag was read. ``reasons`` are sentences about the others.
    ``stopped_at`` is the last group that the tick looked at before its time was over. It is empty
    if the tick looked at all groups.
    """

    listed: frozenset[str]
    found: Mapping[str, GroupLag]
    reasons: tuple[str, ...]
    stopped_at: str


def group_sensor(
    names: Sequence[str] = ALL,
    *,
    name: str = "group_lags",
    max_groups: int = MAX_GROUPS,
    now_s: Callable[[], float] = time.time,
) -> dg.SensorDefinition:
    """Return the sensor that reports the lag of groups.

    ``names`` are patterns (``orders-*``) of the groups to look at, at most ``max_groups`` of them.
    ``now_s`` returns the time in seconds.
    """

    @dg.sensor(
        name=name,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Tells how far the groups of other programs are behind: lag by topic, members, state"
        ),
    )
    def watch_groups(
        context: dg.SensorEvaluationContext, log_service: LogServiceResource
    ) -> dg.SensorResult | dg.SkipReason:
        try:
            looked = look_at_groups(log_service, names, max_groups, after=read_stop(context.cursor))
        except LogServiceError as error:
            return dg.SkipReason(f"the groups cannot be listed: {error}")
        due, gone, reported = decide_groups(
            looked.found, looked.listed, read_reported(context.cursor), now_s()
        )
        events = [
            *(group_event(group, looked.found[group]) for group in due),
            *map(gone_event, gone),
        ]
        reasons = [*looked.reasons, *([] if events else ["no group has changed"])]
        return dg.SensorResult(
            asset_events=events,
            cursor=written(reported, looked.stopped_at),
            skip_reason=dg.SkipReason("; ".join(reasons)) if reasons else None,
        )

    return watch_groups


def decide_groups(
    found: Mapping[str, GroupLag],
    listed: Collection[str],
    reported: Mapping[str, Reported],
    now_s: float,
) -> tuple[list[str], list[str], dict[str, Reported]]:
    """Return the groups to report, the groups that are gone, and the memory for the next tick.

    A group is reported when its lag, members or state changed, at most once per interval, and at
    once when its lag becomes zero. A reported group that is no longer ``listed`` is gone. A listed
    group that was not ``found`` keeps its remembered value.
    """
    fresh = {
        group: Reported(value=each.value, at_s=now_s)
        for group, each in found.items()
        if is_due(reported.get(group), each.value, now_s, is_urgent=each.lag == 0)
    }
    gone = sorted(reported.keys() - set(listed))
    kept = {group: one for group, one in reported.items() if group not in gone}
    return sorted(fresh), gone, {**kept, **fresh}


def choose_groups(
    group_ids: Collection[str], names: Sequence[str], max_groups: int
) -> tuple[list[str], str]:
    """Return the groups that a tick looks at, and a sentence if there are more.

    They are other programs' groups that match a pattern, ordered by name.
    """
    fitting = sorted(
        group
        for group in group_ids
        if not group.startswith(PLATFORM_GROUP_PREFIXES)
        and any(fnmatchcase(group, pattern) for pattern in names)
    )
    if len(fitting) <= max_groups:
        return fitting, ""
    return (
        fitting[:max_groups],
        (
            f"of {len(fitting)} groups only the first {max_groups} by name are looked at: "
            "choose with group_sensor(names=[...]), or allow more with max_groups"
        ),
    )


def look_at_groups(
    log_service: LogServiceResource,
    names: Sequence[str],
    max_groups: int,
    *,
    after: str = "",
    clock_s: Callable[[], float] = time.monotonic,
) -> Looked:
    """Look at the groups, beginning with the first whose name comes after ``after``.

    :raises LogServiceError: the log service does not respond.
    """
    from log_service.client import (  # noqa: PLC0415 - a sensor's tick alone has use for it
        KafkaError,
    )

    deadline_s = clock_s() + LOOK_S
    found: dict[str, GroupLag] = {}
    ends: dict[TopicPartition, int] = {}
    stopped_at = ""
    with log_service.open_admin(timeout_ms=TIMEOUT_MS) as admin:
        listed = {each.group_id: each for each in admin.list_groups()}
        chosen, sentence = choose_groups(listed, names, max_groups)
        chosen.sort(key=lambda group: (group <= after, group))
        reasons = [sentence] if sentence else []
        for number, group in enumerate(chosen):
            if number and clock_s() > deadline_s:
                stopped_at = chosen[number - 1]
                left = len(chosen) - number
                reasons.append(
                    f"{counted(left, 'group')} {agreed(left, 'was', 'were')} not looked at, because"
                    f" the others took {LOOK_S:.0f} s: the next tick begins with {group}"
                )
                break
            try:
                found[group] = look(admin, listed[group], ends)
            except (KafkaError, ValueError) as error:
                reasons.append(f"the group {group} cannot be looked at: {error}")
    return Looked(
        listed=frozenset(listed), found=found, reasons=tuple(reasons), stopped_at=stopped_at
    )


def written(reported: Mapping[str, Reported], stopped_at: str) -> str:
    """Return the cursor, which ``read_reported`` and ``read_stop`` read."""
    return json.dumps({TOLD: stored(reported), STOPPED_AT: stopped_at})


def read_reported(cursor: str | None) -> dict[str, Reported]:
    """Return the reported value of each group, empty if the cursor is unreadable.

    Cursors of older releases hold nothing else.
    """
    kept = _kept(cursor)
    return read_cursor(cursor if kept is None else json.dumps(kept[TOLD]))


def read_stop(cursor: str | None) -> str:
    """Return the group at which the previous tick stopped, empty if it looked at all."""
    return str((_kept(cursor) or {}).get(STOPPED_AT, ""))


def _kept(cursor: str | None) -> dict[str, Any] | None:
    """Return the parts of a cursor, None if it is unreadable or of an older release.

    An older cursor has group names as its fields.
    """
    try:
        kept = json.loads(cursor or "{}")
    except ValueError:
        return None
    return kept if isinstance(kept, dict) and isinstance(kept.get(TOLD), dict) else None


def look(
    admin: "BlockingAdmin", listed: "GroupListing", ends: "dict[TopicPartition, int]"
) -> GroupLag:
    """Return the current state of a group.

    ``ends`` holds known high watermarks. Those that are fetched here are added to it.

    :raises KafkaError: the cluster does not respond, or refuses.
    """
    group = listed.group_id
    kind = listed.group_type.lower() or "classic"
    is_empty = listed.state.lower() == "empty"
    if kind == "share":
        members = 0 if is_empty else len(admin.describe_share_groups([group])[group].members)
        lags = {
            where: each.lag
            for where, each in admin.list_share_group_offsets(group).items()
            if each.lag is not None
        }
    else:
        members = 0 if is_empty else len(admin.describe_groups([group])[group].members)
        lags = _lags_of(
            admin,
            {where: each.offset for where, each in admin.list_group_offsets(group).items()},
            ends,
        )
    by_topic: dict[str, int] = {}
    for where, lag in lags.items():
        by_topic[where.topic] = by_topic.get(where.topic, 0) + lag
    return GroupLag(kind=kind, state=listed.state, member_count=members, lags=by_topic)


def _lags_of(
    admin: "BlockingAdmin",
    committed: "Mapping[TopicPartition, int]",
    ends: "dict[TopicPartition, int]",
) -> "dict[TopicPartition, int]":
    from log_service.client import OffsetSpec  # noqa: PLC0415

    unknown = [where for where in committed if where not in ends]
    if unknown:
        ends.update(
            {
                where: each.offset
                for where, each in admin.list_offsets(
                    dict.fromkeys(unknown, OffsetSpec.latest())
                ).items()
            }
        )
    return {where: max(ends[where] - offset, 0) for where, offset in committed.items()}


def asset_key(group_id: str) -> dg.AssetKey:
    """Return the asset key of a group."""
    return dg.AssetKey([GROUPS_PREFIX, group_id])


def group_event(group_id: str, found: GroupLag) -> dg.AssetObservation:
    """Return the observation of a group."""
    rows = [
        dg.TableRecord({"topic": topic, "lag": lag}) for topic, lag in sorted(found.lags.items())
    ]
    return dg.AssetObservation(
        asset_key=asset_key(group_id),
        description="How far the group is behind",
        metadata={
            "lag": found.lag,
            "members": found.member_count,
            "state": found.state,
            "kind": found.kind,
            "topics": (
                dg.MetadataValue.table(rows)
                if rows
                else dg.MetadataValue.text("the group has no offsets")
            ),
        },
    )


def gone_event(group_id: str) -> dg.AssetObservation:
    """Return the observation that a group is gone."""
    return dg.AssetObservation(
        asset_key=asset_key(group_id),
        description="The group is gone",
        metadata={"lag": 0, "members": 0, "state": "gone"},
    )
