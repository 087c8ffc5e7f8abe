"""How far a partition is mirrored, and that a translated offset skips nothing."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.mirror.progress import (
    MAX_RUNS,
    Lineage,
    Progress,
    Run,
    decode,
    encode_key,
    encode_value,
    kept_runs,
    runs_of,
)

LINEAGE = Lineage(source_topic_id="s", target_topic_id="t")
ORDERS = TopicPartition("orders", 3)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Progress, dict[int, int]]]:
    """Draw transactions of a mirror.

    Each is the progress behind it and the place of all records of the source so far: {source:
    target}. Offsets without records lie between: markers, and on the side of the target records of
    others.
    """
    source, target = draw(st.integers(0, 100)), draw(st.integers(0, 100))
    progress = Progress.begun(LINEAGE, source, target)
    places: dict[int, int] = {}
    behind = [(progress, dict(places))]
    for _ in range(draw(st.integers(0, 12))):
        pairs = []
        for _ in range(draw(st.integers(0, 6))):
            source += draw(st.sampled_from([0, 0, 0, 1, 5]))
            target += draw(st.sampled_from([0, 0, 0, 0, 3]))
            pairs.append((source, target))
            source, target = source + 1, target + 1
        places |= dict(pairs)
        source += draw(st.integers(0, 1))
        target += 1  # the marker
        progress = progress.advanced(source, 0, runs_of(pairs))
        behind.append((progress, dict(places)))
    return behind


@given(histories(), st.integers(0, 300))
def test_a_reader_that_moves_misses_nothing(
    history: list[tuple[Progress, dict[int, int]]], offset: int
) -> None:
    for progress, places in history:
        translated = progress.translated(offset)
        unread = [target for source, target in places.items() if source >= offset]
        first = history[0][0].position
        assert (translated is None) == (offset < first), (
            "everything from the beginning on can be translated"
        )
        assert translated is None or all(target >= translated for target in unread)


@given(histories(), st.integers(0, 300))
def test_offsets_near_the_end_are_exact(
    history: list[tuple[Progress, dict[int, int]]], back: int
) -> None:
    """Of the last run a reader reads nothing again."""
    progress, places = history[-1]
    last = progress.runs[-1]
    offset = max(last.source, last.source_end - back)
    translated = progress.translated(offset)
    assert translated is not None
    assert not [
        target for source, target in places.items() if source < offset and target >= translated
    ]


@given(histories())
def test_larger_offsets_are_never_translated_to_smaller_ones(
    history: list[tuple[Progress, dict[int, int]]],
) -> None:
    for progress, _ in history:
        found = [
            each
            for offset in range(progress.position + 5)
            if (each := progress.translated(offset)) is not None
        ]
        assert found == sorted(found)
    later = [each.translated(each.position) for each, _ in history]
    assert later == sorted(each for each in later if each is not None), (
        "a group at the end never goes back"
    )


@given(histories(), st.integers(0, 200))
def test_a_truncated_source_is_translated_as_before_below_the_cut(
    history: list[tuple[Progress, dict[int, int]]], end: int
) -> None:
    progress, places = history[-1]
    cut = progress.cut_to(min(max(end, history[0][0].position), progress.position))
    assert cut.position <= progress.position
    for offset in range(history[0][0].position, cut.position + 1):
        translated = cut.translated(offset)
        assert translated is not None
        assert all(
            target >= translated
            for source, target in places.items()
            if offset <= source < cut.position
        )


@pytest.mark.parametrize(
    "lengths",
    [[1], [200], [1, 10, 200, 3_000], [1, 1, 1, 100_000], [1, 4, 16, 64, 256, 1_024, 4_096]],
)
def test_many_transactions_keep_few_runs_that_reach_back(lengths: list[int]) -> None:
    """A group that lags reads again fewer records than it lags by."""
    rng, end = Random(7), 0
    runs: tuple[Run, ...] = (Run(0, 0, 0),)
    for number in range(1_000):
        length = rng.choice(lengths)
        runs, end = kept_runs([*runs, Run(end, end + number, length)]), end + length
        assert len(runs) <= 40 <= MAX_RUNS
        assert runs[0].source == 0
        assert list(runs) == sorted(runs)
        for lag in (
            [step << bits for bits in range(end.bit_length()) for step in (1, 3)]
            if number % 50 == 0
            else []
        ):
            before = [run for run in runs if run.source <= end - lag]
            assert not before or end - lag - before[-1].source_end < lag


def test_runs_go_on_where_offsets_go_side_by_side() -> None:
    assert runs_of([(5, 70), (6, 71), (7, 72)]) == [Run(5, 70, 3)]
    assert runs_of([(5, 70), (7, 71), (8, 72), (9, 75)]) == [
        Run(5, 70, 1),
        Run(7, 71, 2),
        Run(9, 75, 1),
    ]
    assert runs_of([]) == []
    assert kept_runs([Run(0, 0, 5), Run(5, 5, 2)]) == (Run(0, 0, 7),)


def test_lost_records_are_counted() -> None:
    skipped = Progress(lineage=LINEAGE, position=10, runs=(Run(0, 0, 10),)).skipped_to(25)
    assert (skipped.position, skipped.lost_count) == (25, 15)
    assert skipped.translated(17) == 10, "a group that was there goes on behind what is mirrored"


@given(histories())
def test_progress_is_read_as_it_was_written(history: list[tuple[Progress, dict[int, int]]]) -> None:
    progress, _ = history[-1]
    assert decode(encode_key(ORDERS), encode_value(progress)) == (ORDERS, progress)
    assert decode(encode_key(ORDERS), None) == (ORDERS, None), "a tombstone"


@pytest.mark.parametrize(
    "value", [b"", b"{}", b"[]", b"null", b"\xff", b'{"offset":"5"}', b'{"offset":true}']
)
def test_what_no_mirror_wrote_is_refused(value: bytes) -> None:
    with pytest.raises(KafkaError, match="no mirror wrote"):
        decode(encode_key(ORDERS), value)
