"""Several registries over one topic keep their promises through kills, pauses, cuts and take-overs.

Bugs that are planted are noticed. A failure is played again with
``play_registries(seed)``.
"""

import pytest

from log_service.http.schema_registry.log.reader import LogRecord
from tests.sim.node_bugs import Bug, planted, warn_where_late
from tests.sim.registries import play_registries
from tests.sim.registry_bugs import BUGS
from tests.sim.registry_checker import Registered, Written, ids_given_twice, superseded_writes

SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_seed_breaks_a_promise(seed: int) -> None:
    """Several instances write in turn, and compaction takes records out in between."""
    outcome = play_registries(seed)
    assert outcome.violations == []
    assert outcome.writer_count > 1
    assert outcome.registered_count > 0
    assert outcome.compacted_count > 0


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_noticed(bug: Bug) -> None:
    """Known seeds come first, and others follow where the product has changed since."""
    with planted(bug):
        shown = next((seed for seed in bug.seeds() if play_registries(seed).violations), None)
    assert shown is not None
    warn_where_late(bug, shown)


def noop(offset: int, writer: str) -> LogRecord:
    """Return the first record of a writer."""
    value = f'{{"highestIds":{{}},"writer":"{writer}"}}'.encode()
    return LogRecord(
        offset=offset, timestamp_ms=1, key=b'{"keytype":"NOOP","magic":0}', value=value
    )


def test_a_write_behind_the_take_over_of_another_instance_is_found() -> None:
    """One before it is not, and neither is one behind a renewal of the same instance."""
    records = [noop(0, "a"), noop(2, "a"), noop(5, "b")]
    fine = [
        Written(offset=1, writer="a"),
        Written(offset=4, writer="a"),
        Written(offset=6, writer="b"),
    ]
    assert superseded_writes(fine, records) == []
    late = [Written(offset=7, writer="a")]
    assert superseded_writes(late, records) == ["a wrote offset 7, and the writer was b"]


def test_an_id_of_two_schemas_is_found_within_its_context() -> None:
    """Contexts have ids of their own, and one schema has one id in two subjects."""
    given = [
        Registered(subject="a", version=1, id=1, text="x"),
        Registered(subject="b", version=1, id=1, text="x"),
        Registered(subject=":.c:a", version=1, id=1, text="y"),
    ]
    assert ids_given_twice(given, []) == []
    (found,) = ids_given_twice([*given, Registered(subject="d", version=1, id=1, text="z")], [])
    assert found.startswith("id 1 of context . was given to 2 schemas")
