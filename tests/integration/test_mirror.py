"""The mirror copies between two clusters exactly once, however it is killed.

It runs in both directions without a circle, also with Apache Kafka.
"""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.client import (
    Admin,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ConfigResource,
    TopicPartition,
)
from log_service.mirror import flow, group_keeper
from log_service.mirror.offsets_topic import read_progress
from log_service.mirror.progress import Lineage, Progress, encode_key, encode_value
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG, ClusterPool
from tests.integration.command_line import as_json, run
from tests.integration.mirrors import (
    MirrorProcess,
    committed,
    create,
    end_of,
    ends_with,
    is_at,
    is_there,
    mirroring,
    read_committed,
    send,
    sending,
    until,
    values,
    write_file,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

KILLS = of_a_run(10, whole=60)
PARTITIONS = 3


Route = tuple[str, str]
"""Where is mirrored from, and where to."""


@pytest.fixture(
    params=[(TIDELOG, TIDELOG), (APACHE_KAFKA, TIDELOG), (TIDELOG, APACHE_KAFKA)], ids=" to ".join
)
def route(request: pytest.FixtureRequest, here: str, there: str, pool: ClusterPool) -> Route:
    """From tidelog, from Apache Kafka, and to it."""
    source, target = request.param
    return (
        here if source == TIDELOG else pool.servers(source),
        there if target == TIDELOG else pool.servers(target),
    )


@pytest.fixture(params=[TIDELOG, APACHE_KAFKA])
def target(request: pytest.FixtureRequest, there: str, pool: ClusterPool) -> str:
    """A cluster to mirror to."""
    return there if request.param == TIDELOG else pool.servers(APACHE_KAFKA)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def write_in_transactions(source: str, name: str) -> None:
    """Write three committed records and an aborted one."""
    with BlockingProducer(source, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(
                name,
                value=b"one",
                key=b"k",
                headers=[("h", b"1"), ("h", None)],
                timestamp_ms=1_700_000_000_123,
                partition=2,
            )
            producer.send(
                name, value=None, key=b"gone", timestamp_ms=1_700_000_000_124, partition=2
            )
        producer.begin_transaction()
        producer.send(name, value=b"aborted", partition=2).wait()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(name, value=b"two", timestamp_ms=-1, partition=2)


def test_records_configs_and_groups_come_over_as_they_are(
    route: Route, name: str, tmp_path: Path
) -> None:
    """It copies from tidelog and from Apache Kafka, and to both.

    Records of aborted transactions stay where they are.
    """
    source, target = route
    create(source, name, PARTITIONS, retention_ms="-1", min_insync_replicas="1")
    write_in_transactions(source, name)
    file = write_file(
        tmp_path / "m.properties",
        {"S": source, "T": target},
        "S->T.enabled = true",
        f"S->T.topics = {name}",
    )
    remote = f"S.{name}"
    with BlockingConsumer(
        source, group_id=name, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(name, 2)])
        assert consumer.poll(max_records=1, timeout_ms=60_000)[0].value == b"one"
        consumer.commit()
    with mirroring(file):
        until(
            lambda: is_there(target, [remote]) and len(values(target, remote, 2)) == 3,
            "the records are there",
        )
        first, tombstone, last = read_committed(target, remote, 2)
        assert (first.key, first.value, first.headers, first.timestamp_ms) == (
            b"k",
            b"one",
            (("h", b"1"), ("h", None)),
            1_700_000_000_123,
        )
        assert (tombstone.key, tombstone.value) == (b"gone", None)
        assert (last.value, last.timestamp_ms) == (b"two", -1), (
            "a record without a timestamp stays without one"
        )
        until(
            lambda: TopicPartition(remote, 2) in committed(target, name),
            "the group's offset is there",
        )
        with BlockingAdmin(target) as admin:
            found = admin.describe_configs([ConfigResource.topic(remote)])[
                ConfigResource.topic(remote)
            ]
            assert found["retention.ms"].value == "-1"
            assert found["min.insync.replicas"].source != "DYNAMIC_TOPIC_CONFIG"
            assert admin.describe_topics([remote])[remote].partition_count == PARTITIONS
        until(
            lambda: as_json(run(["mirror", "status", str(file), "--json"]))[0]["records"] == 0,
            "markers are no lag for ever",
        )
    with BlockingConsumer(
        target, group_id=name, auto_offset_reset="none", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(remote, 2)])
        moved = consumer.poll()
        while len(moved) < 2:
            moved += consumer.poll()
        assert [record.key for record in moved] == [b"gone", None], (
            "it goes on exactly where it was"
        )


def test_a_mirror_that_is_killed_again_and_again_mirrors_each_record_once(
    here: str, target: str, name: str, tmp_path: Path
) -> None:
    """kill -9 comes while records come without a pause.

    Readers of committed records find each once, in order, whenever they look.
    """
    create(here, name, PARTITIONS)
    file = write_file(
        tmp_path / "m.properties",
        {"S": here, "T": target},
        "S->T.enabled = true",
        f"S->T.topics = {name}",
    )
    rng, remote = Random(7), f"S.{name}"
    with MirrorProcess(file) as mirror, sending(here, name, PARTITIONS) as sender:
        until(lambda: is_there(target, [remote]), "the topic is there")
        for _ in range(KILLS):
            goal = end_of(target, remote) + rng.randrange(1, 200)
            until(partial(is_at, target, remote, goal), "it gets on")
            mirror.end(signal.SIGKILL)
            mirror.start()
        sent = sender.stop()
        for partition in range(PARTITIONS):
            until(
                partial(ends_with, target, remote, partition, b"%d" % (sent - 1)),
                "everything is there",
            )
        until(
            lambda: as_json(run(["mirror", "status", str(file), "--json"]))[0]["records"] == 0,
            "nothing is behind",
        )
        until(lambda: mirror.is_mirroring, "the last of them has come that far")
        assert mirror.end(signal.SIGTERM) == 0
    for partition in range(PARTITIONS):
        assert values(target, remote, partition) == numbered(sent)
    status = run(["mirror", "status", str(file)])
    assert status.lines[0].split() == [
        "FLOW",
        "TOPIC",
        "TARGET",
        "PARTITIONS",
        "RECORDS",
        "SECONDS",
        "LOST",
    ]


def test_two_clusters_mirror_each_other_without_a_circle(
    here: str, there: str, name: str, tmp_path: Path
) -> None:
    for servers in (here, there):
        create(servers, name)
    send(here, name, [b"of A"])
    send(there, name, [b"of B"])
    lines = ("A->B.enabled = true", "B->A.enabled = true", f"topics = .*{name}")
    with mirroring(write_file(tmp_path / "m.properties", {"A": here, "B": there}, *lines)):
        until(
            lambda: (
                values(there, f"A.{name}") == [b"of A"] and values(here, f"B.{name}") == [b"of B"]
            ),
            "each has the other's",
        )
        send(here, name, [b"more of A"])
        until(lambda: values(there, f"A.{name}") == [b"of A", b"more of A"], "it goes on")
    for servers in (here, there):
        with BlockingAdmin(servers) as admin:
            mine = {each.name for each in admin.list_topics() if each.name.endswith(name)}
        assert mine == {name, f"B.{name}" if servers == here else f"A.{name}"}, "nothing went round"


def test_a_topic_that_grows_and_changes_does_so_in_the_target(
    here: str, there: str, name: str, tmp_path: Path
) -> None:
    create(here, name, retention_ms="86400000")
    lines = (
        "A->B.enabled = true",
        f"A->B.topics = {name}",
        "A->B.replication.policy.class = IdentityReplicationPolicy",
    )
    with mirroring(write_file(tmp_path / "m.properties", {"A": here, "B": there}, *lines)):
        until(lambda: is_there(there, [name]), "the topic is there, under its own name")
        topic = ConfigResource.topic(name)
        with BlockingAdmin(here) as admin:
            admin.create_partitions({name: 2})
            admin.alter_configs({topic: {"retention.ms": None, "max.message.bytes": "2000000"}})
        send(here, name, [b"new"], partition=1)
        until(lambda: values(there, name, 1) == [b"new"], "the new partition is mirrored")

        def is_configured() -> bool:
            with BlockingAdmin(there) as admin:
                found = admin.describe_configs([topic])[topic]
            return (
                found["max.message.bytes"].value == "2000000"
                and found["retention.ms"].source != "DYNAMIC_TOPIC_CONFIG"
            )

        until(is_configured, "the configs are as in the source")


def test_a_topic_that_was_created_anew_is_mirrored_from_its_beginning(
    here: str, there: str, name: str, tmp_path: Path
) -> None:
    """On either side. In the target, what an earlier incarnation of the source left is followed by
    what the new one holds.
    """
    create(here, name)
    send(here, name, numbered(5))
    file = write_file(
        tmp_path / "m.properties",
        {"A": here, "B": there},
        "A->B.enabled = true",
        f"A->B.topics = {name}",
    )
    with mirroring(file):
        until(lambda: values(there, f"A.{name}") == numbered(5), "the first incarnation is there")
        with BlockingAdmin(here) as admin:
            admin.delete_topics([name])
        until(lambda: not is_there(here, [name]), "it is gone")
        create(here, name)
        send(here, name, numbered(8, start=100))
        until(
            lambda: values(there, f"A.{name}") == numbered(5) + numbered(8, start=100),
            "the second one follows, whole",
        )
        with BlockingAdmin(there) as admin:
            admin.delete_topics([f"A.{name}"])
        until(
            lambda: values(there, f"A.{name}") == numbered(8, start=100),
            "the target that was deleted is mirrored again",
        )


def test_what_retention_removed_before_it_was_mirrored_is_told(
    here: str, there: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(here, name)
    send(here, name, numbered(3))
    file = write_file(
        tmp_path / "m.properties",
        {"A": here, "B": there},
        "A->B.enabled = true",
        f"A->B.topics = {name}",
    )
    with mirroring(file):
        until(lambda: values(there, f"A.{name}") == numbered(3), "the first records are there")
    send(here, name, numbered(10, start=3))
    (behind,) = as_json(run(["mirror", "status", str(file), "--json"]))
    assert (behind["records"], behind["seconds"] > 0, behind["lost"]) == (10, True, 0)
    with BlockingAdmin(here) as admin:
        admin.delete_records({TopicPartition(name, 0): 9})
    with mirroring(file):
        until(
            lambda: values(there, f"A.{name}") == numbered(3) + numbered(4, start=9),
            "it goes on at what is left",
        )
    (lag,) = as_json(run(["mirror", "status", str(file), "--json"]))
    assert (lag["records"], lag["lost"]) == (0, 6)
    assert "retention removed 6 offsets before they were mirrored" in caplog.text


@pytest.mark.parametrize("new_count", [6, 2], ids=["longer", "shorter"])
def test_a_source_that_lost_records_goes_on_where_the_logs_agree(
    there: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, new_count: int
) -> None:
    """Its log is cut back as by an unclean election, and written anew.

    That is below and beyond the mirror's position (KIP-320).
    """
    with BrokerProcess(tmp_path / "source") as source:
        create(source.bootstrap, name)
        with BlockingProducer(source.bootstrap) as producer:
            for value in numbered(10):
                producer.send(name, value=value).wait()
        file = write_file(
            tmp_path / "m.properties",
            {"A": source.bootstrap, "B": there},
            "A->B.enabled = true",
            f"A->B.topics = {name}",
        )
        with mirroring(file):
            until(lambda: values(there, f"A.{name}") == numbered(10), "the records are there")
        source.kill()
        log = tmp_path / "source" / "data" / f"{name}-0" / f"{0:020d}.log"
        os.truncate(log, log.stat().st_size * 6 // 10)
        source.start()
        send(source.bootstrap, name, numbered(new_count, start=100))
        assert values(source.bootstrap, name) == numbered(6) + numbered(new_count, start=100)
        with mirroring(file):
            wanted = numbered(10) + numbered(new_count, start=100)
            until(
                lambda: values(there, f"A.{name}") == wanted,
                "the new records are there, and what was lost stays",
            )
    assert f"{name}-0 was truncated to 6 after 10 was mirrored" in caplog.text


def test_a_topic_whose_records_the_target_refuses_keeps_no_other_from_its_turn(
    here: str, there: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large, other = f"{name}-large", f"{name}-other"
    create(there, f"A.{large}", max_message_bytes="1000")
    for topic in (large, other):
        create(here, topic)
    send(here, large, [bytes(5_000)])
    lines = (
        "A->B.enabled = true",
        f"A->B.topics = {name}-.*",
        "A->B.sync.topic.configs.enabled = false",
    )
    with mirroring(write_file(tmp_path / "m.properties", {"A": here, "B": there}, *lines)):
        until(lambda: f"B refuses records of {large}" in caplog.text, "it is told")
        send(here, other, [b"small"])
        until(lambda: values(there, f"A.{other}") == [b"small"], "the other topic goes on")
        assert values(there, f"A.{large}") == []
        with BlockingAdmin(there) as admin:
            admin.alter_configs(
                {ConfigResource.topic(f"A.{large}"): {"max.message.bytes": "100000"}}
            )
        until(
            lambda: values(there, f"A.{large}") == [bytes(5_000)],
            "the record is there once it may be",
        )


def test_a_topic_whose_records_the_mirror_itself_cannot_send_keeps_no_other_from_its_turn(
    here: str, there: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch that is small because it is compressed may hold a record that no request can take."""
    large, other = f"{name}-large", f"{name}-other"
    for topic in (large, other):
        create(here, topic)
    send(here, large, [bytes(400_000)])
    send(here, other, [b"small"])
    lines = ("A->B.enabled = true", f"A->B.topics = {name}-.*")
    with pytest.MonkeyPatch.context() as small:
        small.setattr(flow, "MAX_REQUEST_BYTES", 300_000)
        with mirroring(write_file(tmp_path / "m.properties", {"A": here, "B": there}, *lines)):
            until(lambda: values(there, f"A.{other}") == [b"small"], "the other topic goes on")
    assert f"B refuses records of {large}" in caplog.text


def test_offsets_that_a_group_loses_in_the_target_come_back(
    here: str, there: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They expire there while the group has no members.

    In the source it has some, which only read nothing new.
    """
    monkeypatch.setattr(group_keeper, "KNOWN_FOR_S", 0.5)
    create(here, name)
    send(here, name, numbered(10))
    where, remote = TopicPartition(name, 0), TopicPartition(f"A.{name}", 0)
    with BlockingAdmin(here) as admin:
        admin.alter_group_offsets(name, {where: 4})
    with mirroring(
        write_file(
            tmp_path / "m.properties",
            {"A": here, "B": there},
            "A->B.enabled = true",
            f"A->B.topics = {name}",
        )
    ):
        until(lambda: committed(there, name) == {remote: 4}, "the group is carried over")
        with BlockingAdmin(there) as admin:
            admin.delete_groups([name])
        until(lambda: committed(there, name) == {remote: 4}, "it is carried over again")


def test_a_group_that_has_read_everything_lags_by_nothing_in_the_target(
    route: Route, name: str, tmp_path: Path
) -> None:
    """The target's transactions end with markers.

    The mirror may have looked at the group before the marker was there.
    """
    source, target = route
    create(source, name)
    where, remote = TopicPartition(name, 0), TopicPartition(f"A.{name}", 0)
    with mirroring(
        write_file(
            tmp_path / "m.properties",
            {"A": source, "B": target},
            "A->B.enabled = true",
            f"A->B.topics = {name}",
        )
    ):
        for count in (10, 20):
            send(source, name, numbered(10, start=count - 10))
            with BlockingAdmin(source) as admin:
                admin.alter_group_offsets(name, {where: count})
            until(partial(is_at, target, remote.topic, count), "the records are there")
            until(
                lambda: committed(target, name).get(remote) == end_of(target, remote.topic),
                "nothing is left to read",
            )
            send(source, name, [b"more"] if count == 20 else [])
        until(lambda: values(target, remote.topic) == [*numbered(20), b"more"], "one more is there")
    with BlockingConsumer(
        target, group_id=name, auto_offset_reset="none", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([remote])
        records = consumer.poll()
        while not records:
            records = consumer.poll()
        assert [record.value for record in records] == [b"more"]


def test_a_group_that_reads_in_the_target_is_left_alone(
    here: str, there: str, name: str, tmp_path: Path
) -> None:
    create(here, name)
    send(here, name, numbered(10))
    where, remote = TopicPartition(name, 0), TopicPartition(f"A.{name}", 0)
    file = write_file(
        tmp_path / "m.properties",
        {"A": here, "B": there},
        "A->B.enabled = true",
        f"A->B.topics = {name}",
    )
    with BlockingAdmin(here) as admin:
        admin.alter_group_offsets(f"{name}-moves", {where: 4})
        admin.alter_group_offsets(f"{name}-reads", {where: 7})
    with mirroring(file):
        until(lambda: values(there, remote.topic) == numbered(10), "the records are there")
        until(
            lambda: committed(there, f"{name}-reads") == {remote: 7},
            "the second group is carried over",
        )
        with BlockingConsumer(
            there, group_id=f"{name}-reads", enable_auto_commit=False
        ) as consumer:
            consumer.subscribe([remote.topic])
            until(
                lambda: consumer.poll(timeout_ms=100) or consumer.assignment,
                "it reads in the target",
            )
            with BlockingAdmin(here) as admin:
                admin.alter_group_offsets(f"{name}-reads", {where: 9})
                admin.alter_group_offsets(f"{name}-moves", {where: 9})
            until(
                lambda: committed(there, f"{name}-moves") == {remote: 9}, "the other group goes on"
            )
            assert committed(there, f"{name}-reads") == {remote: 7}
        with BlockingAdmin(here) as admin:
            admin.alter_group_offsets(f"{name}-moves", {where: 2})
            admin.alter_group_offsets(f"{name}-reads", {where: 10})
        end = end_of(there, remote.topic)
        until(
            lambda: committed(there, f"{name}-reads") == {remote: end},
            "it is carried over again once it has no members",
        )
    assert committed(there, f"{name}-moves") == {remote: 9}, "never back"


def test_clusters_that_cannot_be_mirrored_are_told(
    here: str, there: str, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A cluster into itself; and one that is away, until it is there."""
    lines = ("A->B.enabled = true", f"A->B.topics = {name}")
    same, wrong = (
        write_file(tmp_path / "same.properties", {"A": here, "B": here}, *lines),
        tmp_path / "wrong",
    )
    with mirroring(same, complaint=wrong):
        until(
            lambda: "a cluster is not mirrored into itself" in wrong.read_text(),
            "a supervisor is told",
        )
    refused = subprocess.run(
        [sys.executable, "-m", "log_service.cli.main", "mirror", "run", str(same)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1, "a person is refused"
    assert "a cluster is not mirrored into itself" in refused.stderr.splitlines()[-1]
    with mirroring(write_file(tmp_path / "early.properties", {"A": here, "B": there}, *lines)):
        until(
            lambda: f"A->B: A has no topic {name}, which A->B.topics names" in caplog.text,
            "a topic that is not there is told",
        )
        create(here, name)
        until(lambda: is_there(there, [f"A.{name}"]), "it is mirrored once it is there")
    send(here, name, [b"late"])
    away = BrokerProcess(tmp_path / "away")
    with away:
        away.kill()
        with mirroring(
            write_file(
                tmp_path / "away.properties",
                {"A": here, "B": away.bootstrap},
                *lines,
                "A.request.timeout.ms = 3000",
            )
        ):
            away.start()
            until(
                lambda: values(away.bootstrap, f"A.{name}") == [b"late"],
                "it begins when the cluster is there",
            )


def test_a_tombstone_takes_the_progress_of_a_partition_away(there: str, name: str) -> None:
    """Compaction removes both records in time; until then the topic says the same to its reader."""
    progress = Progress.begun(Lineage(source_topic_id="s", target_topic_id="t"), 3, 0)
    kept, gone = TopicPartition(name, 0), TopicPartition(name, 1)
    create(there, name)
    with BlockingProducer(there) as producer:
        for where, value in (
            (kept, encode_value(progress)),
            (gone, encode_value(progress)),
            (gone, None),
        ):
            producer.send(name, value=value, key=encode_key(where)).wait()

    async def read() -> dict[TopicPartition, Progress]:
        async with Admin(there) as admin:
            return await read_progress(admin, name, is_every_transaction_ended=False)

    assert trio.run(read) == {kept: progress}


def test_a_second_process_takes_a_flow_over(
    here: str, there: str, name: str, tmp_path: Path
) -> None:
    """The transactional id has one owner: the one that came later. What both wrote is there once."""
    create(here, name)
    file = write_file(
        tmp_path / "m.properties",
        {"A": here, "B": there},
        "A->B.enabled = true",
        f"A->B.topics = {name}",
    )
    with mirroring(file), mirroring(file):
        for batch in range(4):
            send(here, name, numbered(50, start=50 * batch))
            until(partial(is_at, there, f"A.{name}", 50 * batch), "it gets on")
        until(lambda: len(values(there, f"A.{name}")) >= 200, "everything is there")
    assert values(there, f"A.{name}") == numbered(200)


def test_a_supervisor_sees_that_a_mirror_lives_and_what_is_wrong(tmp_path: Path) -> None:
    """Also of one whose clusters are away: it is not hung."""
    quick = [
        f"{alias}.{key} = 500"
        for alias in "AB"
        for key in ("request.timeout.ms", "default.api.timeout.ms")
    ]
    file = write_file(
        tmp_path / "m.properties",
        {"A": "127.0.0.1:1", "B": "127.0.0.1:1"},
        "A->B.enabled = true",
        *quick,
    )
    heartbeat, complaint = tmp_path / "alive", tmp_path / "wrong"
    with mirroring(file, heartbeat=heartbeat, complaint=complaint):
        until(
            lambda: "A->B: stopped, and begins again where it was: " in complaint.read_text(),
            "it says what is wrong",
        )
        assert heartbeat.exists()


def test_a_cluster_that_is_away_is_told_long_before_a_client_gives_it_up_and_until_it_is_back(
    here: str, name: str, tmp_path: Path
) -> None:
    """The clients' own timeouts are longer here than the test waits.

    Only a question of its own finds out.
    """
    create(here, name)
    complaint = tmp_path / "wrong"
    patient = [
        f"{alias}.{key}"
        for alias in "AB"
        for key in ("request.timeout.ms = 110000", "default.api.timeout.ms = 3600000")
    ]
    lines = ("A->B.enabled = true", f"A->B.topics = {name}", *patient)
    away = BrokerProcess(tmp_path / "away")
    with away:
        file = write_file(tmp_path / "m.properties", {"A": here, "B": away.bootstrap}, *lines)
        with mirroring(file, complaint=complaint):
            until(lambda: is_there(away.bootstrap, [f"A.{name}"]), "it mirrors")
            away.kill()
            told = f"A->B: B does not respond at {away.bootstrap}: the mirror waits for it"
            until(lambda: told in complaint.read_text().splitlines(), "it is told")
            away.start()
            until(lambda: told not in complaint.read_text().splitlines(), "it is told no more")


def test_a_mirror_goes_on_where_its_supervisor_cannot_be_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk, or a folder that is not there: what is mirrored needs neither."""
    file = write_file(
        tmp_path / "m.properties", {"A": "127.0.0.1:1", "B": "127.0.0.1:1"}, "A->B.enabled = true"
    )
    folder = tmp_path / "gone"
    with mirroring(file, heartbeat=folder / "alive", complaint=folder / "wrong"):
        until(lambda: "the supervisor cannot be told" in caplog.text, "it says so")
        folder.mkdir()
        until((folder / "alive").exists, "it tells again")
