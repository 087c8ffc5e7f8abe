"""Runs of a table in a database die at a chosen step, in processes of their own.

See ``test_to_database_kills``. The processes are forked from one that has imported everything, so
that a kill costs a run and no start of Python.
"""

import os
from pathlib import Path
from typing import Any

from orchestration.dead_letters.table import DeadLetters
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.ledger import ledger
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.to_database import duckdb_store, sql_store
from orchestration.transforms.to_database.declarations import DatabaseTable, Engine
from orchestration.transforms.to_database.replay import DatabaseReplayer
from orchestration.transforms.to_database.run import Storing
from tests.platform.accounts import accounts_table, newest_accounts
from tests.platform.databases import Database
from tests.platform.dying import Steps, plant
from tests.platform.pipeline import clean_orders, orders_table, run_context
from tests.unit.orchestration.memory_log import MemoryLog

TABLE = "mine"
STEPS: Steps = {
    "before-dead-letters": (DeadLetters, "replace_pending", "before"),
    "after-dead-letters": (DeadLetters, "replace_pending", "after"),
    "between-rows-and-offsets": (sql_store, "write_offsets", "before"),
    "before-the-commit": (sql_store, "write_offsets", "after"),
    "before-the-ledger": (ledger, "write", "before"),
    "after-the-ledger": (ledger, "write", "after"),
}
DUCKDB_STEPS: Steps = {
    "between-rows-and-offsets": (duckdb_store, "write_offsets", "before"),
    "before-the-commit": (duckdb_store, "put_in_place", "before"),
}


REPLAY_STEPS: Steps = {
    "replay-before-dead-letters": (DeadLetters, "begin_replay", "before"),
    "replay-after-dead-letters": (DeadLetters, "begin_replay", "after"),
    "replay-between-rows-and-offsets": (sql_store, "write_offsets", "before"),
    "replay-before-the-commit": (sql_store, "write_offsets", "after"),
    "replay-before-the-ledger": (ledger, "write", "before"),
    "replay-before-tidying": (DeadLetters, "settle_replay", "before"),
}
DUCKDB_REPLAY_STEPS: Steps = {
    "replay-between-rows-and-offsets": (duckdb_store, "write_offsets", "before"),
    "replay-before-the-commit": (duckdb_store, "put_in_place", "before"),
}


def steps_of(kind: str) -> Steps:
    return {**STEPS, **DUCKDB_STEPS} if kind == "duckdb" else STEPS


def replay_steps_of(kind: str) -> Steps:
    return {**REPLAY_STEPS, **DUCKDB_REPLAY_STEPS} if kind == "duckdb" else REPLAY_STEPS


def correcting(records: Any) -> Any:
    """The transform that a replay of accounts uses."""
    return newest_accounts(records.selectExpr("* EXCEPT (balance)", "3 - balance AS balance"))


def lenient(records: Any) -> Any:
    """The transform that a replay of orders uses."""
    return clean_orders(records.selectExpr("* EXCEPT (amount)", "3 - amount AS amount"))


def follower(name: str, *, is_keyed: bool, is_replay: bool = False) -> TopicTable:
    if is_keyed:
        return accounts_table(name=name, **({"function": correcting} if is_replay else {}))
    return orders_table(name=name, unique_by=(), **({"function": lenient} if is_replay else {}))


def declared(place: Database, table: TopicTable) -> DatabaseTable:
    kind: Engine = "duckdb" if place.kind == "duckdb" else "sql"
    return DatabaseTable(follower=table, table=TABLE, kind=kind)


def run(
    remote: str,
    log: MemoryLog,
    place: Database,
    lake: Path,
    *,
    step: str,
    limit: int,
    is_keyed: bool,
) -> None:
    """Run until there is nothing new; a STEP "none" lets it live. One that begins with "replay"
    replays everything, as "replay" does.
    """
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    is_replay = step.startswith("replay")
    table = follower(TABLE, is_keyed=is_keyed, is_replay=is_replay)
    plant({**steps_of(place.kind), **replay_steps_of(place.kind)}, step)
    with place.store(TABLE, table.latest_by) as store:
        work = Storing(declared=declared(place, table), store=store)
        context = run_context(log, lake, session, records_per_run=limit, run_id=f"run-{step}")
        if is_replay:
            replayer = DatabaseReplayer(work, context)
            assert not any(
                one.failures
                for one in replayer.run(replayer.plan(ReplayRequest(is_everything=True)))
            )
            os._exit(0)
        while (result := work.run(table, context)).version is not None:
            pass
        assert not result.failures
    os._exit(0)  # without the session's farewell: the server is the tests'
