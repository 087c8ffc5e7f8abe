"""Decides from which offsets a transform to a topic continues, by its group's committed offsets.

The group's offsets are the progress, because they are committed in the transactions that send. A
note in their metadata tells when they count. They count only for one source and one target topic,
both by id, because either topic may be deleted and recreated. Decides when to refuse: the offsets
belong to another transform, or they are gone although the lake knows some (groups forget offsets
after ``offsets.retention.minutes``). Offsets without a note were set by a person, and count as they
are. Knows no broker and no table.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from orchestration.log_client.protocol import CommittedOffset, TopicDescription
from orchestration.offsets.planning import Checkpoint, ProgressError

NOTE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The note in the metadata of each committed offset.

    It has the ids of source and target, the target's name, the attempt of dead letters that counts,
    and the run.
    """

    source_id: str
    target: str
    target_id: str
    letters: int | None
    run_id: str

    def to_text(self) -> str:
        """Return the text that ``read_note`` reads. Kafka keeps up to 4,096 bytes."""
        names = {
            "source": self.source_id,
            "target": self.target,
            "target_id": self.target_id,
            "letters": self.letters,
            "run": self.run_id,
        }
        return json.dumps({"tidelog": NOTE_VERSION, **names}, separators=(",", ":"))


def read_note(text: str) -> Note | None:
    """Return the note that a run committed, None for any other text."""
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or found["tidelog"] != NOTE_VERSION:
            return None
        letters = found["letters"]
        return Note(
            source_id=str(found["source"]),
            target=str(found["target"]),
            target_id=str(found["target_id"]),
            letters=None if letters is None else int(letters),
            run_id=str(found["run"]),
        )
    except (ValueError, LookupError, TypeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a transform: checkpoints by partition.

    ``letters`` is the attempt of dead letters that counts, ``notes`` are sentences for a person,
    and ``run_id`` is the run that committed last, if it is known.
    """

    checkpoints: Mapping[int, Checkpoint]
    letters: int | None
    notes: tuple[str, ...] = ()
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Source and target of a transform, as they are now, and the group that holds its offsets."""

    source: TopicDescription
    target: TopicDescription
    group_id: str


def decide_progress(
    route: Route,
    committed: Mapping[int, CommittedOffset],
    remembered: Mapping[int, Checkpoint],
    *,
    is_memory_trusted: bool = False,
) -> Progress:
    """Return the progress from which the next run continues.

    ``remembered`` are the checkpoints of the source's topic id in the lake's ledger. With
    ``is_memory_trusted`` they replace offsets that the group has lost.

    :raises ProgressError: the offsets belong to another transform, or are gone and
        ``is_memory_trusted`` is False.
    """
    notes = {partition: read_note(one.note) for partition, one in committed.items()}
    foreign = sorted(
        {
            one.target
            for one in notes.values()
            if one is not None and one.target != route.target.topic
        }
    )
    if foreign:
        raise ProgressError(
            f"the group {route.group_id} holds the offsets of a transform that sends to"
            f" {', '.join(foreign)}, and this one sends to {route.target.topic}. Nothing was read"
            " or sent. Give this transform another name, or the deployment (TIDELOG_DEPLOYMENT)"
        )
    known = [one for one in notes.values() if one is not None]
    recreated = _recreated(route, known)
    counted = {
        partition: one
        for partition, one in committed.items()
        if (note := notes[partition]) is None or _is_of(note, route)
    }
    lost = {partition: one for partition, one in remembered.items() if partition not in committed}
    if lost and not is_memory_trusted:
        raise ProgressError(_lost_text(route, lost))
    own = [one for one in known if _is_of(one, route)]
    return Progress(
        checkpoints={
            **(lost if is_memory_trusted else {}),
            **{
                partition: Checkpoint(next_offset=one.next_offset, leader_epoch=one.leader_epoch)
                for partition, one in counted.items()
            },
        },
        letters=max((one.letters for one in own if one.letters is not None), default=None),
        notes=recreated,
        run_id=own[0].run_id if own else "",
    )


def offsets_to_commit(
    checkpoints: Mapping[int, Checkpoint], note: Note
) -> dict[int, CommittedOffset]:
    """Return ``checkpoints`` with ``note``, in the form in which a group commits them.

    Every commit has all partitions, because a group forgets offsets that were not committed
    recently.
    """
    text = note.to_text()
    return {
        partition: CommittedOffset(
            next_offset=one.next_offset, leader_epoch=one.leader_epoch, note=text
        )
        for partition, one in checkpoints.items()
    }


def advanced(
    checkpoints: Mapping[int, Checkpoint],
    ends: Mapping[int, int],
    whole: Mapping[int, int],
    leader_epochs: Mapping[int, int],
) -> dict[int, Checkpoint]:
    """Return ``checkpoints`` after a transaction up to ``ends``.

    ``whole`` are the ends of the batch. A checkpoint gets its leader epoch only if the transaction
    reached the end of the batch in its partition, because the epoch is known only there.
    """
    moved = {
        partition: Checkpoint(
            next_offset=end,
            leader_epoch=leader_epochs.get(partition) if end == whole.get(partition) else None,
        )
        for partition, end in ends.items()
    }
    return {**checkpoints, **moved}


def note_of(route: Route, letters: int | None, run_id: str) -> Note:
    """Return the note of a run, for the offsets that it commits.

    ``letters`` is the attempt of dead letters that counts as soon as the offsets do.
    """
    source, target = route.source, route.target
    return Note(
        source_id=source.topic_id,
        target=target.topic,
        target_id=target.topic_id,
        letters=letters,
        run_id=run_id,
    )


def _is_of(note: Note, route: Route) -> bool:
    return note.source_id == route.source.topic_id and note.target_id == route.target.topic_id


def _recreated(route: Route, notes: list[Note]) -> tuple[str, ...]:
    texts = []
    for description, found in (
        (route.source, {one.source_id for one in notes}),
        (route.target, {one.target_id for one in notes}),
    ):
        others = sorted(found - {description.topic_id})
        if others:
            texts.append(
                f"topic {description.topic} was recreated: its id is now {description.topic_id} (it"
                f" was {', '.join(others)}); {route.source.topic} is read from its log start"
            )
    return tuple(texts)


def _lost_text(route: Route, lost: Mapping[int, Checkpoint]) -> str:
    places = " ".join(f"{partition}:{one.next_offset}" for partition, one in sorted(lost.items()))
    return (
        f"the group {route.group_id} has no offsets of the topic {route.source.topic} any more: the"
        " cluster forgot them (offsets.retention.minutes), or they were deleted. Nothing was read"
        f" or sent. The lake remembers that everything before {places} was sent: to go on from"
        " there run once with the config accept_remembered_offsets: true. Where a run was killed"
        " as the last thing before, look first whether its records are in the topic"
    )
