"""Registries as processes that are paused and killed, on tidelog and on Apache Kafka."""

import itertools
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from log_service.client import Admin
from log_service.http.schema_registry.election.elector import Elector
from tests.helpers.forked_process import ForkedProcess, start_forked
from tests.integration.client_clusters import CLUSTERS, ClusterPool, run
from tests.integration.confluent import wait_until
from tests.integration.http.registry_processes import (
    OUTCOME_UNKNOWN,
    SUPERSEDED,
    election_of,
    take_part,
    wait_in_thread,
    write_on,
)
from tests.integration.http.schema_logs import TIMEOUT_MS, open_log

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

WAIT_SECONDS = 60
names = itertools.count()


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(request: pytest.FixtureRequest, pool: ClusterPool) -> str:
    return pool.servers(request.param)


@pytest.fixture
def name() -> str:
    return f"processes-{next(names)}"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "process.log"


@pytest.fixture
def writing(bootstrap: str, name: str, log: Path) -> Iterator[ForkedProcess]:
    """A process that writes all the time."""
    process = start_forked([bootstrap, name], log=log, target=write_on)
    yield process
    process.kill()


@pytest.fixture
def leading(bootstrap: str, name: str, log: Path) -> Iterator[ForkedProcess]:
    """A process that takes part in the election under a smaller URL than others."""
    process = start_forked([bootstrap, name, "a"], log=log, target=take_part)
    yield process
    process.kill()


def acknowledged(log: Path) -> dict[bytes, int]:
    """The offsets of the writes that the process was told of, by key."""
    found = (
        re.findall(r"^wrote (\d+) (\d+)$", log.read_text(), re.MULTILINE) if log.exists() else []
    )
    return {b"paused %d" % int(number): int(offset) for number, offset in found}


def test_a_paused_writer_that_was_superseded_writes_nothing_when_it_runs_again(
    bootstrap: str, name: str, writing: ForkedProcess, log: Path
) -> None:
    """The log has all that was acknowledged to the writer.

    It has nothing of it behind the first record of its successor.
    """
    wait_until(lambda: len(acknowledged(log)) > 20, "the process writes")
    writing.send_signal(signal.SIGSTOP)

    async def main() -> None:
        async with open_log(bootstrap, name) as successor:
            await successor.take_over(TIMEOUT_MS)
            mine = await successor.put(b"mine")
            writing.send_signal(signal.SIGCONT)
            assert await wait_in_thread(writing.wait, WAIT_SECONDS) in {SUPERSEDED, OUTCOME_UNKNOWN}
            await successor.put(b"mine, too")
            await successor.read_to_end(TIMEOUT_MS)
            offsets = {
                record.key: record.offset
                for record in successor.seen.records
                if record.key is not None
            }
            paused = {key: offset for key, offset in offsets.items() if key.startswith(b"paused")}
            assert acknowledged(log).items() <= paused.items()
            assert max(paused.values()) < mine - 1
            assert successor.seen.keys[-2:] == [b"mine", b"mine, too"]

    run(main)


def test_one_of_two_instances_leads_and_the_other_follows_a_killed_one(
    bootstrap: str, name: str, leading: ForkedProcess, log: Path
) -> None:
    """Each knows the URL of the leader."""
    wait_until(lambda: log.exists() and "leads" in log.read_text(), "the process leads")

    async def main() -> None:
        async with Admin(bootstrap) as admin, trio.open_nursery() as nursery:
            elector = Elector(election_of(name, "b"), admin)
            nursery.start_soon(elector.run)
            seen = await elector.wait_changed(elector.leadership)
            assert (seen.leader_url, seen.is_self) == ("http://a:8081", False)
            leading.kill()
            while not seen.is_self:
                seen = await elector.wait_changed(seen)
            assert seen.leader_url == "http://b:8081"
            nursery.cancel_scope.cancel()

    run(main)


def test_a_leader_that_stops_hands_over_at_once(bootstrap: str, name: str) -> None:
    """It leaves the group, so the others need not wait for its session. A leader stays when a
    smaller URL joins.
    """

    async def main() -> None:
        async with (
            Admin(bootstrap) as one,
            Admin(bootstrap) as other,
            trio.open_nursery() as nursery,
        ):
            first, second = (
                Elector(election_of(name, "b"), one),
                Elector(election_of(name, "a"), other),
            )
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as firsts:
                    firsts.start_soon(first.run)
                    assert (await first.wait_changed(first.leadership)).is_self
                    nursery.start_soon(second.run)
                    seen = await second.wait_changed(second.leadership)
                    assert (seen.leader_url, seen.is_self) == ("http://b:8081", False)
                    assert first.leadership.is_self
                    scope.cancel()
            assert not first.leadership.is_self
            while not seen.is_self:
                seen = await second.wait_changed(seen)
            nursery.cancel_scope.cancel()

    run(main)
