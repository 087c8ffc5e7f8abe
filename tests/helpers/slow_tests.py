"""The tests that ``make test`` leaves out, in one table. ``make test-all`` and CI run them, too.

They repeat on more seeds, kills, products and pages what a quick test says once. The figures of
``make test-all CPU=1`` decide what stands here: the quick part takes less than ten minutes on two
cores.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache

from tests.helpers.one_case import one_case


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """Modules whose tests are slow, for one reason.

    ``modules`` are patterns below ``tests/``. Tests whose node id matches ``kept`` stay quick. With
    ``is_case_kept`` one case of each test stays quick.
    """

    why: str
    modules: tuple[str, ...]
    kept: str = ""
    is_case_kept: bool = False


SLOW = (
    Slow(
        why="more seeds of the simulations, and the bugs that are planted in them",
        modules=(
            "sim/test_cluster_*.py",
            "sim/test_node_*.py",
            "sim/test_registries.py",
            "sim/test_world.py",
        ),
        kept=r"test_cluster_seeds\.py::.*(general, [135]\]|missing files, 1\]|queues, 0\]|copy loop, 2\])"
        r"|test_node_seeds\.py::.*\[[02346]\]|test_the_|test_no_two|test_bugs_of"
        r"|test_registries\.py::.*(promise\[1\]|is_found|fence a superseded)",
    ),
    Slow(
        why="nodes of Apache Kafka in one cluster with ours, in turn with ours, or beside ours",
        modules=(
            "integration/test_mixed_*.py",
            "integration/test_differential_*.py",
            "integration/test_groups_mixed.py",
            "integration/test_metadata_against_kafka.py",
            "integration/test_metadata_of_all_kinds.py",
            "integration/test_moved_files.py",
            "integration/test_dump_log_segments.py",
            "integration/test_files_to_the_byte.py",
        ),
    ),
    Slow(
        why="a browser opens every page of the console, and axe-core judges it",
        modules=("integration/http/test_console_browser.py",),
        kept="stay_text|live",
    ),
    Slow(
        why="a console with a cluster of its own, which has metrics pages or loses nodes",
        modules=(
            "integration/http/test_console_faults.py",
            "integration/http/test_console_rates.py",
        ),
        kept="last_hour|flow",
    ),
    Slow(
        why="consoles start processes of the platform, with Spark, in the browser and with logins",
        modules=("platform/test_console_*.py",),
        kept=r"test_console_pages\.py::.*(every_page|the_list|leads_to_its_topics|answered_cut)",
    ),
    Slow(
        why="streams, writes with a key and queues of the REST proxy through kills, waits and limits",
        modules=(
            "integration/http/test_rest_streams.py",
            "integration/http/test_rest_writes.py",
            "integration/http/test_rest_queues.py",
        ),
        kept=r"misses_and_repeats|repeat_at_another|settled_at_another",
    ),
    Slow(
        why="proxies and registries with logins in an installation, at Apache Kafka, and killed in turn",
        modules=(
            "integration/http/test_*_up_secure.py",
            "integration/http/test_rest_on_kafka.py",
            "integration/http/test_registries.py",
        ),
        kept=r"test_registries\.py::(?!test_kills)",
    ),
    Slow(
        why="what schemas mean to Java's libraries and to franz-go, which is built first",
        modules=(
            "integration/http/test_avro_against_java.py",
            "integration/http/test_franz_go_registry.py",
            "integration/http/test_json_schema_against_java.py",
            "integration/test_franz_go_security.py",
        ),
    ),
    Slow(
        why="more generated requests to each operation that the REST proxy describes",
        modules=("integration/http/test_rest_openapi.py",),
        kept=r"v3-good-few",
    ),
    Slow(
        why="topics with schema validation through failures of the registry and of leaders",
        modules=("integration/http/test_schema_validation.py",),
        kept=r"serializers|another_subject|idempotent|transaction|no_registry",
    ),
    Slow(
        why="clusters of several processes through faults, changes and copies",
        modules=(
            "chaos/*.py",
            "fuzz/*.py",
            "integration/test_cli_cluster_moves.py",
            "integration/test_client_assignors_java.py",
            "integration/test_client_clusters.py",
            "integration/test_clients_of_a_cluster.py",
            "integration/test_copy_loop.py",
            "integration/test_exactly_once_clients.py",
            "integration/test_hosts.py",
            "integration/test_killed_clusters.py",
            "integration/test_mirror*.py",
            "integration/test_queues_of_a_cluster.py",
            "integration/test_queues_of_other_clients_on_a_cluster.py",
            "integration/test_secure_cluster.py",
            "integration/test_securing_a_cluster.py",
            "integration/test_streams_smoke.py",
            "integration/test_up_cluster.py",
            "integration/test_up_mirror.py",
            "integration/test_up_secure.py",
        ),
    ),
    Slow(
        why="whole installations, and the pages of the documentation as a person follows them",
        modules=(
            "documentation/test_exactly_once.py",
            "documentation/test_mirror.py",
            "documentation/test_queues.py",
            "documentation/test_site.py",
            "platform/test_cluster_jobs.py",
            "platform/test_definitions.py",
            "platform/test_demo.py",
            "platform/test_instance.py",
            "platform/test_own_dagster.py",
            "platform/test_pages.py",
            "platform/test_ui_guard.py",
            "platform/test_ui_login.py",
            "platform/test_up*.py",
        ),
    ),
    Slow(
        why="kills of runs at every step",
        modules=("platform/test_*kill*.py",),
        kept=r"test_kills\.py::.*\[(before-target|after-target)\]",
    ),
    Slow(
        why="every sink, shape and limit of a run with Spark",
        modules=(
            "platform/test_accepted_loss.py",
            "platform/test_aggregate_table.py",
            "platform/test_archive.py",
            "platform/test_byte_limits.py",
            "platform/test_chosen_by_arrow.py",
            "platform/test_database_stores.py",
            "platform/test_dead_letter_asset.py",
            "platform/test_debezium_topics.py",
            "platform/test_derived_run.py",
            "platform/test_event_storage.py",
            "platform/test_failing_records.py",
            "platform/test_following.py",
            "platform/test_history.py",
            "platform/test_join_table.py",
            "platform/test_latest_table.py",
            "platform/test_maintenance.py",
            "platform/test_overtaken_*.py",
            "platform/test_planted_secrets.py",
            "platform/test_registry_topics.py",
            "platform/test_replay*.py",
            "platform/test_source_assets.py",
            "platform/test_spark_token.py",
            "platform/test_strict_reading.py",
            "platform/test_time_zones.py",
            "platform/test_to_database_assets.py",
            "platform/test_to_topic_run.py",
            "platform/test_value_formats.py",
            "platform/test_watchdog.py",
            "platform/test_without_java.py",
            "platform/test_to_topic_replay.py",
        ),
    ),
    Slow(
        why="keys are ignored on purpose, and the tests of each run in processes of their own",
        modules=("unit/config/test_proofs.py",),
        kept="test_every|test_the",
    ),
    Slow(
        why="many cases of one rule",
        modules=(
            "unit/broker/authorization/test_matrix.py",
            "unit/broker/test_cluster_bad_input.py",
            "unit/broker/requests/test_every_version.py",
            "unit/broker/test_failing_start.py",
            "unit/orchestration/cli/test_reading_commands.py",
            "unit/orchestration/cli/test_sql_command.py",
            "unit/broker/requests/test_large_requests.py",
            "unit/broker/requests/test_longest_turn.py",
            "unit/orchestration/values/test_json_rule.py",
            "unit/orchestration/rows/test_latest.py",
            "unit/orchestration/rows/test_joins.py",
            "unit/protocol/test_codec_*.py",
            "unit/raft/test_quorum_sim.py",
            "unit/storage/cleaner/test_swap_crashes.py",
            "unit/storage/test_crash_points.py",
            "unit/storage/test_rebuilt_indexes.py",
        ),
        is_case_kept=True,
    ),
)


def slow_of(node_ids: Iterable[str]) -> set[str]:
    """Return the node ids of ``tests/...`` that are slow."""
    chosen: dict[Slow, list[str]] = {}
    for one in node_ids:
        for group in _groups_of(one.partition("::")[0]):
            if not (group.kept and re.search(group.kept, one)):
                chosen.setdefault(group, []).append(one)
    found: set[str] = set()
    for group, mine in chosen.items():
        found |= set(mine) - (one_case(mine) if group.is_case_kept else set())
    return found


def is_needed(module: str, expression: str) -> bool:
    """Return whether a run with ``-m expression`` may choose a test of a module.

    ``module`` is a path such as ``tests/unit/test_x.py``. Modules that a run does not need are not
    imported, which takes most of the time before the first test.
    """
    groups = _groups_of(module)
    if expression == "slow":
        return bool(groups)
    if expression == "not slow":
        return all(group.kept or group.is_case_kept for group in groups)
    return True


@cache
def _groups_of(module: str) -> tuple[Slow, ...]:
    path = module.removeprefix("tests/")
    return tuple(
        group for group in SLOW if any(fnmatch(path, pattern) for pattern in group.modules)
    )
