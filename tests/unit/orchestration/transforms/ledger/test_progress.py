"""A run of a transform to a topic goes on by the commits of its group and the memory of the lake."""

from typing import Any

import pytest

from orchestration.log_client.protocol import CommittedOffset, TopicDescription
from orchestration.offsets.planning import Checkpoint, ProgressError
from orchestration.transforms.ledger.progress import (
    Note,
    Progress,
    Route,
    advanced,
    decide_progress,
    offsets_to_commit,
    read_note,
)


def described(topic: str, topic_id: str) -> TopicDescription:
    return TopicDescription(topic=topic, topic_id=topic_id, partitions=2, replication_factor=1)


ROUTE = Route(
    source=described("orders", "S"),
    target=described("good_orders", "T"),
    group_id="tidelog-topic.x",
)


def note(**changes: Any) -> Note:
    declared: dict[str, Any] = {
        "source_id": "S",
        "target": "good_orders",
        "target_id": "T",
        "letters": 3,
        "run_id": "r",
    }
    return Note(**{**declared, **changes})


def committed(**changes: Any) -> dict[int, CommittedOffset]:
    text = note(**changes).to_text()
    return {
        0: CommittedOffset(next_offset=7, leader_epoch=2, note=text),
        1: CommittedOffset(next_offset=9, note=text),
    }


def test_a_note_comes_back_as_it_was_and_other_texts_are_none() -> None:
    assert read_note(note().to_text()) == note()
    assert read_note(note(letters=None).to_text()) == note(letters=None)
    for text in (
        "",
        "by hand",
        "[]",
        "3",
        '{"tidelog": 2}',
        '{"tidelog": 1}',
        '{"tidelog": 1, "letters": "many"}',
    ):
        assert read_note(text) is None


def test_a_note_fits_into_what_a_group_keeps() -> None:
    assert (
        len(
            note(
                target="t" * 249,
                source_id="s" * 22,
                target_id="t" * 22,
                letters=1 << 62,
                run_id="r" * 36,
            ).to_text()
        )
        < 4096
    )


def test_a_run_goes_on_where_the_group_is() -> None:
    assert decide_progress(ROUTE, committed(), {0: Checkpoint(next_offset=5)}) == Progress(
        checkpoints={0: Checkpoint(next_offset=7, leader_epoch=2), 1: Checkpoint(next_offset=9)},
        letters=3,
        run_id="r",
    )


def test_nothing_committed_and_nothing_remembered_is_the_beginning() -> None:
    assert decide_progress(ROUTE, {}, {}) == Progress(checkpoints={}, letters=None)


def test_offsets_that_a_person_set_count_as_they_are() -> None:
    found = decide_progress(
        ROUTE, {0: CommittedOffset(next_offset=2)}, {0: Checkpoint(next_offset=7)}
    )
    assert found.checkpoints == {0: Checkpoint(next_offset=2)}


@pytest.mark.parametrize(
    ("changes", "topic"),
    [({"source_id": "older"}, "orders"), ({"target_id": "older"}, "good_orders")],
)
def test_a_topic_that_was_made_anew_is_begun_anew_and_that_is_told(
    changes: dict[str, str], topic: str
) -> None:
    found = decide_progress(ROUTE, committed(**changes), {})
    assert found.checkpoints == {}
    assert found.letters is None
    assert [text.split(":")[0] for text in found.notes] == [f"topic {topic} was recreated"]
    assert "orders is read from its log start" in found.notes[0]


def test_the_offsets_of_another_transform_are_refused() -> None:
    with pytest.raises(
        ProgressError,
        match=r"holds the offsets of a transform that sends to others, and this one sends to good_orders",
    ):
        decide_progress(ROUTE, committed(target="others"), {})


def test_offsets_that_the_cluster_forgot_are_refused_until_a_person_trusts_the_ledger() -> None:
    remembered = {0: Checkpoint(next_offset=7), 1: Checkpoint(next_offset=9)}
    with pytest.raises(
        ProgressError, match=r"everything before 0:7 1:9 was sent.*accept_remembered_offsets: true"
    ):
        decide_progress(ROUTE, {}, remembered)
    assert decide_progress(ROUTE, {}, remembered, is_memory_trusted=True).checkpoints == remembered
    with pytest.raises(ProgressError, match=r"everything before 1:9 was sent"):
        decide_progress(ROUTE, {0: committed()[0]}, remembered)


def test_a_partition_that_was_added_has_no_checkpoint_and_needs_none() -> None:
    assert set(
        decide_progress(ROUTE, {0: committed()[0]}, {0: Checkpoint(next_offset=7)}).checkpoints
    ) == {0}


def test_every_commit_holds_all_partitions_under_one_note() -> None:
    checkpoints = {0: Checkpoint(next_offset=7, leader_epoch=2), 1: Checkpoint(next_offset=9)}
    assert offsets_to_commit(checkpoints, note()) == committed()


def test_a_leader_epoch_is_known_at_the_end_of_a_range_only() -> None:
    before = {
        0: Checkpoint(next_offset=1, leader_epoch=1),
        2: Checkpoint(next_offset=5, leader_epoch=4),
    }
    after = advanced(before, {0: 10, 1: 3}, {0: 10, 1: 8}, {0: 2, 1: 2})
    assert after == {
        0: Checkpoint(next_offset=10, leader_epoch=2),
        1: Checkpoint(next_offset=3),
        2: Checkpoint(next_offset=5, leader_epoch=4),
    }
