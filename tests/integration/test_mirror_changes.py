"""Topics change while the mirror writes.

Races between cluster and mirror decide, and a reader of the target finds no wrong record.
"""

from pathlib import Path

import pytest
import trio

from log_service.client import Admin, BlockingAdmin, ConfigResource, NewTopic
from log_service.mirror.refused_configs import alter_configs, create_topics
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG, ClusterPool
from tests.integration.mirrors import (
    create,
    end_of,
    ends_with,
    is_at,
    is_there,
    mirroring,
    send,
    sending,
    until,
    values,
    write_file,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_a_remote_topic_that_is_deleted_while_records_come_has_each_record_once(
    here: str, there: str, name: str, tmp_path: Path
) -> None:
    """The target creates a topic by itself if the mirror writes to one that is gone.

    The mirror did not write to that topic before.
    """
    create(here, name)
    remote = f"A.{name}"
    lines = ("A->B.enabled = true", f"A->B.topics = {name}")
    with (
        mirroring(write_file(tmp_path / "m.properties", {"A": here, "B": there}, *lines)),
        sending(here, name, 1) as sender,
    ):
        for _ in range(3):
            until(lambda: is_at(there, remote, 50), "it gets on")
            with BlockingAdmin(there) as admin:
                admin.delete_topics([remote])
        sent = sender.stop()
        until(lambda: ends_with(there, remote, 0, b"%d" % (sent - 1)), "everything is there")
        assert values(there, remote) == [b"%d" % number for number in range(sent)]


def test_a_source_topic_that_is_created_anew_while_records_come_is_mirrored_whole(
    here: str, there: str, name: str, tmp_path: Path
) -> None:
    """The second topic is mirrored behind the target's end of the first one.

    Nothing of the second is taken for more of the first.
    """
    create(here, name)
    remote = f"A.{name}"
    lines = ("A->B.enabled = true", f"A->B.topics = {name}")
    with mirroring(write_file(tmp_path / "m.properties", {"A": here, "B": there}, *lines)):
        with sending(here, name, 1):
            until(lambda: is_at(there, remote, 50), "it gets on")
        with BlockingAdmin(here) as admin:
            admin.delete_topics([name])
        until(lambda: not is_there(here, [name]), "it is gone")
        create(here, name)
        anew = [b"anew %d" % number for number in range(300)]
        send(here, name, anew)
        until(lambda: ends_with(there, remote, 0, anew[-1]), "the second one follows")
    found = values(there, remote)
    first = [value for value in found if not value.startswith(b"anew")]
    assert found[len(first) :] == anew
    assert first == [b"%d" % number for number in range(len(first))]


def test_with_latest_a_topic_begins_at_its_end_and_nothing_that_comes_later_is_left_out(
    here: str, there: str, name: str, tmp_path: Path
) -> None:
    """The same holds for a partition that comes later, and for a topic that is created anew.

    They have no old records.
    """
    create(here, name)
    remote = f"A.{name}"
    send(here, name, [b"old"])
    lines = (
        "A->B.enabled = true",
        f"A->B.topics = {name}",
        "A->B.consumer.auto.offset.reset = latest",
    )
    file = write_file(tmp_path / "m.properties", {"A": here, "B": there}, *lines)
    with mirroring(file) as said:
        until(lambda: said, "it has begun")
        send(here, name, [b"new"])
        until(lambda: values(there, remote) == [b"new"], "what came later is there")
    with BlockingAdmin(here) as admin:
        admin.create_partitions({name: 2})
    send(here, name, [b"while away"])
    send(here, name, [b"in a new partition"], partition=1)
    with mirroring(file):
        until(lambda: values(there, remote) == [b"new", b"while away"], "it goes on where it was")
        until(
            lambda: values(there, remote, 1) == [b"in a new partition"],
            "the new partition is mirrored from its beginning",
        )
    with BlockingAdmin(here) as admin:
        admin.delete_topics([name])
    until(lambda: not is_there(here, [name]), "it is gone")
    create(here, name)
    send(here, name, [b"anew"])
    with mirroring(file):
        until(
            lambda: values(there, remote)[-1:] == [b"anew"],
            "the new topic is mirrored from its beginning",
        )
    assert end_of(here, name) == 1


@pytest.mark.parametrize("flavour", [TIDELOG, APACHE_KAFKA])
def test_a_target_without_tiered_storage_takes_the_other_configs(
    flavour: str, there: str, pool: ClusterPool, name: str
) -> None:
    """Each refuses the topic whole for the one config, and says which of them it is."""
    target = there if flavour == TIDELOG else pool.servers(flavour)
    refused: list[tuple[str, str]] = []

    def tell(topic: str, text: str) -> None:
        refused.append((topic, text))

    async def main() -> None:
        async with Admin(target) as admin:
            configs = {"remote.storage.enable": "true", "retention.ms": "-1"}
            new = NewTopic(name=name, partition_count=1, replication_factor=1, configs=configs)
            assert list(await create_topics(admin, [new], tell)) == [name]
            await alter_configs(
                admin,
                {
                    name: {
                        "retention.ms": None,
                        "cleanup.policy": "compact",
                        "remote.storage.enable": "true",
                    }
                },
                tell,
            )

    trio.run(main)
    with BlockingAdmin(target) as admin:
        found = admin.describe_configs([ConfigResource.topic(name)])[ConfigResource.topic(name)]
    assert {
        key: each.value for key, each in found.items() if each.source == "DYNAMIC_TOPIC_CONFIG"
    } == {"cleanup.policy": "compact"}
    assert [topic for topic, _ in refused] == [name, name]
    assert all(
        text.startswith("remote.storage.enable=true (") and text.count("=") == 1
        for _, text in refused
    )
