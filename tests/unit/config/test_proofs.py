"""No key says that it is honoured without a test that sees what it does: the register of those
tests.

A key that acts has a row here, or is a broker's synonym of a topic's key with an effect in
``test_effects_on_logs``; a key without meaning has none. A row names a file below ``tests`` and a
test in it, which fails where the key is ignored: ``ignored_keys`` tries that, for all keys as a
command and for a few of them here.
"""

import ast
import subprocess
import sys

import pytest

from log_service.config.definition import Trait
from log_service.config.dynamic_keys import keys_with
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS
from tests.helpers.whole import of_a_run
from tests.unit.broker.effects_on_logs import EFFECTS, EFFECTS_OF_UNITS
from tests.unit.config.proofs import PROOFS, PROOFS_OF_TOPIC_KEYS, TESTS
from tools.configuration_page import PAGE, page

CLEANER = "unit/storage/cleaner/test_cleaner.py"
COMPACTION = "unit/storage/cleaner/test_compaction.py"


EFFECTS_OF_VIEWS = {
    "delete.retention.ms": (
        COMPACTION,
        "test_a_tombstone_stays_until_its_horizon_and_goes_with_the_next_pass",
    ),
    "log.cleaner.dedupe.buffer.size": (
        COMPACTION,
        "test_keys_that_do_not_fit_into_the_map_take_more_passes",
    ),
    "log.cleaner.delete.retention.ms": (
        COMPACTION,
        "test_a_tombstone_stays_until_its_horizon_and_goes_with_the_next_pass",
    ),
    "log.cleaner.io.max.bytes.per.second": (CLEANER, "test_the_rate_of_reading_is_bounded"),
}
"""Where the proof of a key sees no more than that its value arrives: the test that sees what is
done with such a value.
"""

SEEN_BY_THEIR_TOPIC_KEYS = {
    TOPIC_KEYS[topic_key].synonyms[0] for topic_key in EFFECTS
} | EFFECTS_OF_UNITS.keys()


def names_in(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_key_of_a_broker_that_acts_is_proven_and_no_other() -> None:
    acting = {name for name, key in SERVER_KEYS.items() if key.is_acting}
    assert acting - PROOFS.keys() - SEEN_BY_THEIR_TOPIC_KEYS == set()
    assert (PROOFS.keys() | SEEN_BY_THEIR_TOPIC_KEYS) - acting == set()


def test_every_key_of_a_topic_that_acts_is_proven_and_no_other() -> None:
    acting = {name for name, key in TOPIC_KEYS.items() if key.is_acting}
    assert acting == EFFECTS.keys() | PROOFS_OF_TOPIC_KEYS.keys()


NAMED_TESTS = (*PROOFS.values(), *PROOFS_OF_TOPIC_KEYS.values(), *EFFECTS_OF_VIEWS.values())


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED_TESTS}))
def test_the_tests_are_there(path: str) -> None:
    named = {name for where, name in NAMED_TESTS if where == path}
    assert named - names_in(path) == set()


def test_the_page_about_configuration_says_what_the_keys_say() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tools.configuration_page"
    assert {
        name for name in SERVER_KEYS if f"`{name}`" in page()
    } >= SERVER_KEYS.keys() - keys_with(Trait.INTERNAL)


@pytest.mark.timeout(of_a_run(usual=120, whole=3600))
def test_a_proof_fails_where_its_key_is_ignored() -> None:
    """A sample; a long run tries every key, and so does ``python -m
    tests.unit.config.ignored_keys``.
    """
    command = [
        sys.executable,
        "-m",
        "tests.unit.config.ignored_keys",
        *of_a_run(usual=["--sample"], whole=[]),
    ]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
