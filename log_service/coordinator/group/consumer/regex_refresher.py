"""Match the regular expressions of consumer groups against all topic names, in small steps.

A heartbeat requests a refresh. Timers perform it in bounded steps, so that no member and no other
group waits for it. Expressions are matched one after the other. Then the matches are stored, and
the group enters a new epoch if they have changed. A group has one refresh at a time, and at most
one in ``MIN_INTERVAL_MS``.

Source: KIP-848 as of Kafka 4.3.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from log_service.common.regexes import matching, program_size
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.group_settings import GroupSettings
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.records.consumer import RegexRecord, ResolvedRegex
from log_service.coordinator.group.timer_kinds import TimerKind
from log_service.coordinator.request_context import VisibleOf
from log_service.metadata.image import MetadataImage
from log_service.state_machine.decision import Decision

GroupDecision = Decision[GroupRecord]
BeginEpoch = Callable[[ConsumerGroup, Iterable[str], GroupDecision], None]
"""Callback that begins a new epoch of a group. It takes the topics that the group reads."""

MIN_INTERVAL_MS = 10_000
WORK_PER_STEP = 40_000
"""The bound of one step's work: instructions of the expression, multiplied by names.

A usual expression is matched against about two thousand names in one step. A huge one is matched
against at least one name.
"""
WORK_OF_REGEX = 100
"""The fixed cost of an expression in each step, because it may have to be compiled."""
PAUSE_MS = 1


def regex_timer(group_id: str) -> tuple[str, str]:
    """Return the key of the timer that continues a refresh."""
    return (TimerKind.REGEX, group_id)


@dataclass(slots=True)
class _Refresh:
    """A refresh in progress: the expressions, all topic names, and the matches so far.

    ``version`` is the offset of the metadata that holds the names. The heartbeat of some client
    began the refresh. ``visible`` returns the topics that this client may see, and other topics do
    not match. If ``visible`` is None, the client may see all topics.
    ``done_count`` is the number of finished expressions. ``place`` is the number of names that the
    current expression was matched against.
    """

    regexes: tuple[str, ...]
    names: tuple[str, ...]
    version: int
    visible: VisibleOf | None
    done_count: int = 0
    place: int = 0
    found: dict[str, frozenset[str]] = field(default_factory=dict)

    def take_step(self) -> None:
        """Match names against expressions, with a bounded amount of work (``WORK_PER_STEP``)."""
        left = WORK_PER_STEP
        while left > 0 and self.done_count < len(self.regexes):
            regex = self.regexes[self.done_count]
            size = program_size(regex)
            names = self.names[self.place : self.place + max(1, left // size)]
            found = matching(regex, names)
            seen = found if self.visible is None or not found else frozenset(self.visible(found))
            self.found[regex] = self.found.get(regex, frozenset()) | seen
            self.place += len(names)
            left -= size * len(names) + WORK_OF_REGEX
            if self.place >= len(self.names):
                self.done_count, self.place = self.done_count + 1, 0

    @property
    def is_done(self) -> bool:
        """Whether all names have been matched against all expressions."""
        return self.done_count == len(self.regexes)


class RegexRefresher:
    """The refreshes of one shard's groups."""

    def __init__(
        self, settings: GroupSettings, image: Callable[[], MetadataImage], begin_epoch: BeginEpoch
    ) -> None:
        self._settings = settings
        self._image = image
        self._begin_epoch = begin_epoch
        self._under_way: dict[str, _Refresh] = {}
        self._newest_topics = image().offset

    def note_new_topics(self, version: int) -> None:
        """Mark matches of metadata before ``version`` as outdated, because topics were created."""
        self._newest_topics = version

    def forget(self, group_id: str) -> None:
        """Drop the refresh of a removed group."""
        self._under_way.pop(group_id, None)

    def maybe_refresh(
        self,
        group: ConsumerGroup,
        new_regex: str,
        decision: GroupDecision,
        visible: VisibleOf | None,
    ) -> None:
        """Begin a refresh if an expression is new, topics were created, or the matches are old.

        No refresh begins within ``MIN_INTERVAL_MS`` of the last one. ``new_regex`` is the regular
        expression of the member that sent the heartbeat, or empty. ``visible`` returns the topics
        that the sender may see. None stands for all topics.
        """
        if not new_regex and not group.regex_users:
            return
        regexes = set(group.regex_users) | ({new_regex} if new_regex else set())
        if group.group_id in self._under_way or not self._is_due(group, regexes, decision.wall_ms):
            return
        image = self._image()
        self._under_way[group.group_id] = _Refresh(
            tuple(sorted(regexes)), tuple(image.topics.by_name), image.offset, visible
        )
        decision.on_refused(partial(self.forget, group.group_id))
        decision.set_timer(regex_timer(group.group_id), decision.now_ms)

    def _is_due(self, group: ConsumerGroup, regexes: set[str], wall_ms: int) -> bool:
        resolved = group.regexes.values()
        age_ms = wall_ms - max(
            (each.resolved_ms for each in resolved), default=wall_ms - MIN_INTERVAL_MS - 1
        )
        if 0 <= age_ms <= MIN_INTERVAL_MS:  # a time ahead of this clock counts as old
            return False
        is_outdated = any(each.version < self._newest_topics for each in resolved)
        return (
            is_outdated
            or not regexes <= group.regexes.keys()
            or age_ms > self._settings.regex_refresh_interval_ms
        )

    def on_timer(self, group: ConsumerGroup | None, group_id: str, decision: GroupDecision) -> None:
        """Do one step of a refresh, and store the matches after the last step."""
        refresh = self._under_way.get(group_id)
        if refresh is None or group is None:
            self.forget(group_id)
            return
        decision.stage(refresh)
        refresh.take_step()
        if not refresh.is_done:
            decision.set_timer(regex_timer(group_id), decision.now_ms + PAUSE_MS)
            return
        del self._under_way[group_id]
        decision.on_refused(partial(self._under_way.__setitem__, group_id, refresh))
        self._store(group, refresh, decision)

    def _store(self, group: ConsumerGroup, refresh: _Refresh, decision: GroupDecision) -> None:
        used = [regex for regex in refresh.regexes if group.regex_users[regex]]
        resolved = {
            regex: ResolvedRegex(
                topics=refresh.found[regex], version=refresh.version, resolved_ms=decision.wall_ms
            )
            for regex in used
        }
        for regex, content in resolved.items():
            decision.append(RegexRecord(group_id=group.group_id, regex=regex, content=content))
        if any(content.topics != known_topics(group, regex) for regex, content in resolved.items()):
            named = {
                topic for member in group.members.values() for topic in member.subscription.topics
            }
            after = {**group.regexes, **resolved}
            matched = {
                topic
                for regex in group.regex_users
                if regex in after
                for topic in after[regex].topics
            }
            self._begin_epoch(group, named | matched, decision)


def known_topics(group: ConsumerGroup, regex: str) -> frozenset[str]:
    """Return the topics that an expression matched in its last refresh.

    Before the first refresh, the result is empty.
    """
    known = group.regexes.get(regex)
    return frozenset() if known is None else known.topics
