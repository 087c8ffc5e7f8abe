"""Bugs of streams groups are planted here.

Instances in a simulated cluster must notice them.

As in ``cluster_bugs``, each replaces one decision by a wrong one that a programmer could have made.

    python -m tests.sim.streams_bugs                   each bug, with the seeds that are known to show it first
    python -m tests.sim.streams_bugs --seeds 9         every seed of each up to 9, with the time that it takes to show the bug
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from log_service.common.errors import ErrorCode
from log_service.coordinator.group.offsets import commit_checks
from log_service.coordinator.group.records import codec
from log_service.coordinator.group.records import streams as streams_records
from log_service.coordinator.group.records.streams import (
    StreamsAssignmentRecord,
    StreamsEpochRecord,
    StreamsTargetEpochRecord,
)
from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.group.streams.heartbeats import StreamsHeartbeats
from log_service.coordinator.group.streams.reconciliation import Holders
from log_service.coordinator.group.values.streams_tasks import NOTHING_HELD
from tests.sim import cluster_aims as aims
from tests.sim.bug_hunts import ClusterBug, hunt

# The wrong decisions

_assignment_value, _decode = streams_records.assignment_value, codec.decode
_remove = StreamsHeartbeats.remove


def _free_for_all(_self: StreamsGroup, _process_id: str) -> Holders:
    """A task is its next owner's as soon as the group has decided that."""
    return Holders(is_active_anywhere=lambda *_: False, is_held_here=lambda *_: False)


def _let_commit(group: StreamsGroup, request: Any, _context: Any) -> ErrorCode:
    """A member knows what it has processed."""
    return ErrorCode.NONE if request.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def _resume_nothing(_self: StreamsHeartbeats, _group: StreamsGroup, _decision: Any) -> None:
    """A member's session begins with its heartbeat."""


def _store_epochs_alone(content: Any) -> Any:
    """Store of a member only its epochs."""
    return _assignment_value(
        replace(content, assigned=NOTHING_HELD, pending_revocation=NOTHING_HELD)
    )


def _store_what_stays(content: Any) -> Any:
    """Store of a member only the tasks that stay."""
    return _assignment_value(replace(content, pending_revocation=NOTHING_HELD))


def _decode_first_epochs(key: Any, value: Any) -> Any:
    """A coordinator that loads begins to count anew."""
    record = _decode(key, value)
    if (
        isinstance(record, StreamsEpochRecord | StreamsTargetEpochRecord | StreamsAssignmentRecord)
        and record.content is not None
    ):
        return replace(record, content=replace(record.content, epoch=2))  # type: ignore[arg-type]  # each has an epoch
    return record


def _keep_the_member(
    self: StreamsHeartbeats, group: StreamsGroup, member: Any, soft: Any, decision: Any
) -> None:
    """Keep a member that leaves, without tasks.

    It may come back.
    """
    before = len(decision.records)
    _remove(self, group, member, soft, decision)
    decision.records[before:] = [
        each for each in decision.records[before:] if isinstance(each, StreamsEpochRecord)
    ]


def _look_at_nothing(_self: StreamsHeartbeats, _delta: Any, _groups: Any) -> None:
    """Topics are looked at when a member names them."""


BUGS: Sequence[ClusterBug] = (
    ClusterBug(
        name="handed over before it was given up",
        replacements=((StreamsGroup, "holders_for", _free_for_all),),
        aim=aims.STREAMS_GROUPS,
        shown_by=(1,),
    ),
    ClusterBug(
        name="stale commits count",
        replacements=((commit_checks, "validate_streams_commit", _let_commit),),
        aim=aims.STREAMS_GROUPS,
        shown_by=(5,),
    ),
    ClusterBug(
        name="sessions end with their coordinator",
        is_long=True,
        replacements=((StreamsHeartbeats, "resume", _resume_nothing),),
        aim=aims.STREAMS_GROUPS,
        shown_by=(1,),
    ),
    ClusterBug(
        name="assignments are not stored",
        is_long=True,
        replacements=((streams_records, "assignment_value", _store_epochs_alone),),
        aim=aims.STREAMS_GROUPS,
        shown_by=(4,),
    ),
    ClusterBug(
        name="what has to be given up is not stored",
        replacements=((streams_records, "assignment_value", _store_what_stays),),
        aim=aims.TASK_HANDOVERS,
        shown_by=(4, 3),
    ),
    ClusterBug(
        name="epochs lost on failover",
        replacements=((codec, "decode", _decode_first_epochs),),
        aim=aims.STREAMS_GROUPS,
        shown_by=(5,),
    ),
    ClusterBug(
        name="members stay that have left",
        replacements=((StreamsHeartbeats, "remove", _keep_the_member),),
        aim=aims.STREAMS_GROUPS,
        shown_by=(1,),
    ),
    ClusterBug(
        name="changed topics are not looked at",
        is_long=True,
        replacements=((StreamsHeartbeats, "on_image", _look_at_nothing),),
        aim=aims.STREAMS_GROUPS,
        shown_by=(3, 2, 9),
    ),
)


def main(arguments: Iterable[str] | None = None) -> int:
    """Play bugs; see ``bug_hunts.hunt``."""
    return hunt(BUGS, arguments)


if __name__ == "__main__":
    sys.exit(main())
