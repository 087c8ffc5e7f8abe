"""Certificates change while a node runs: by requests and by their files, and never for worse."""

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing
from cryptography.hazmat.primitives.serialization import Encoding

from log_service.broker.certificates import (
    DAY_SECONDS,
    FILE_CHECK_INTERVAL_MS,
    WARNED_DAYS,
    Certificates,
    Fresh,
)
from log_service.broker.metrics.logins import certificate_families
from log_service.broker.protection import Protection
from log_service.common.clock import SystemClock
from log_service.common.env import NodeEnv
from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import EMPTY_IMAGE, ResourceType
from log_service.protocol.stored.metadata_records import ConfigRecord
from log_service.security.tls.distinguished_names import subject_text
from log_service.security.tls.material import MAX_STORE_BYTES
from log_service.storage.files import RealFiles
from tests.helpers.authority import Authority, Issued, fill
from tests.sim import MemoryNetwork

OWN = "listener.name.ssl."
ALONE = {"node.id": "1", "listeners": "SSL://127.0.0.1:1", "security.inter.broker.protocol": "SSL"}
QUORUM = {
    "node.id": "1",
    "listeners": "SSL://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
    "security.inter.broker.protocol": "SSL",
    "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
    "controller.quorum.voters": "1@127.0.0.1:2,2@127.0.0.1:3",
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


class Stage:
    """A node's protection over files on disk."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        config, settings = parse_server_properties(texts)
        env = NodeEnv(
            clock=SystemClock(), rng=Random(1), network=MemoryNetwork(), files=RealFiles(1)
        )
        self.protection = Protection(env, config)
        made = self.protection.certificates(settings.texts)
        assert made is not None
        self.certificates: Certificates = made

    @property
    def shown(self) -> bytes:
        key = self.protection.tls_listeners["SSL"].contexts.key
        assert key is not None
        return key.chain[0]

    def alter(self, texts: Mapping[str, str]) -> None:
        """Do what a request and then the metadata do."""
        trio.run(self.certificates.validate, frozenset(texts), texts)
        self.publish(texts)

    def publish(self, texts: Mapping[str, str]) -> None:
        self.announce(texts)
        trio.run(self.certificates.update)

    def announce(self, texts: Mapping[str, str]) -> None:
        delta = MetadataDelta(EMPTY_IMAGE)
        for name, text in texts.items():
            delta.replay(
                ConfigRecord(
                    resource_type=ResourceType.BROKER, resource_name="1", name=name, value=text
                )
            )
        self.certificates.on_image(delta, delta.build(offset=1, epoch=1))


def located(issued: Issued) -> dict[str, str]:
    return {f"{OWN}ssl.keystore.location": str(issued.keystore)}


def test_a_request_gives_a_listener_another_certificate(authority: Authority) -> None:
    stage = Stage(ALONE | authority.issue("node").properties())
    before, old_context = stage.shown, stage.protection.tls_listeners["SSL"].contexts.context
    stage.alter(located(authority.issue("node")))
    assert stage.shown != before
    assert stage.protection.tls_listeners["SSL"].contexts.context is not old_context


def test_another_name_or_fewer_hosts_are_refused_unless_they_are_allowed(
    authority: Authority,
) -> None:
    properties = authority.issue("node", ("a.example", "b.example")).properties()
    renamed, fewer = (
        authority.issue("other", ("a.example", "b.example")),
        authority.issue("node", ("a.example",)),
    )
    stage = Stage(ALONE | properties)
    with pytest.raises(
        ConfigError, match="listener SSL: the certificate is of CN=node, the new one of CN=other"
    ):
        stage.alter(located(renamed))
    with pytest.raises(ConfigError, match=r"the new certificate is not for b\.example"):
        stage.alter(located(fewer))
    before = stage.shown
    stage.publish(located(renamed))
    assert stage.shown == before, "what comes with the metadata is judged, too"
    stage.alter(located(authority.issue("node", ("b.example", "a.example", "c.example"))))
    free = Stage(
        ALONE | properties | {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    )
    free.alter(located(renamed))
    assert subject_text(free.shown) == "CN=other"
    free.alter(located(authority.issue("other", ("a.example",))))


def test_a_store_that_cannot_be_read_changes_nothing(authority: Authority) -> None:
    stage = Stage(ALONE | authority.issue("node").properties())
    before = stage.shown
    with pytest.raises(ConfigError, match="names /nowhere, which cannot be read"):
        stage.alter({f"{OWN}ssl.keystore.location": "/nowhere"})
    stage.publish({f"{OWN}ssl.keystore.location": "/nowhere"})
    assert stage.shown == before


def test_a_file_that_is_too_large_for_a_store_is_not_read(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(ALONE | authority.issue("node").properties())
    large, read = tmp_path / "large", RealFiles.read_bytes
    with large.open("wb") as file:
        file.truncate(MAX_STORE_BYTES + 1)

    def read_another(files: RealFiles, path: Path) -> bytes:
        assert path != large
        return read(files, path)

    monkeypatch.setattr(RealFiles, "read_bytes", read_another)
    with pytest.raises(ConfigError, match="cannot be read: it has more than 8388608 bytes"):
        stage.alter({f"{OWN}ssl.keystore.location": str(large)})


def test_a_trust_store_cannot_be_added_to_a_listener_that_had_none(authority: Authority) -> None:
    own = {
        name: text
        for name, text in authority.issue("node").properties().items()
        if "truststore" not in name
    }
    stage = Stage(ALONE | own)
    with pytest.raises(ConfigError, match="a trust store cannot be added"):
        stage.alter(
            {
                f"{OWN}ssl.truststore.type": "PEM",
                f"{OWN}ssl.truststore.location": str(authority.truststore),
            }
        )


def test_keys_that_would_cut_nodes_off_from_each_other_are_refused(
    authority: Authority, tmp_path: Path
) -> None:
    stage = Stage(QUORUM | authority.issue("node").properties())
    strange = Authority(tmp_path / "other").issue("node")
    with pytest.raises(
        ConfigError,
        match=r"could not connect to one that has the others: CERTIFICATE_VERIFY_FAILED",
    ):
        stage.alter(located(strange))
    outgoing = stage.protection.outgoing_tls["SSL"]
    before = outgoing.contexts.context
    stage.alter(located(authority.issue("node")))
    assert outgoing.contexts.context is not before, "our own connections get the new keys, too"


def test_files_that_change_are_read_again(authority: Authority) -> None:
    issued = authority.issue("node")
    stage = Stage(ALONE | issued.properties())
    before = stage.shown
    stage.publish({"background.threads": "9"})
    assert stage.shown == before
    shutil.copy(authority.issue("node").keystore, issued.keystore.with_suffix(".new"))
    issued.keystore.with_suffix(".new").rename(issued.keystore)
    stage.publish({"background.threads": "8"})
    assert stage.shown != before
    renewed = stage.shown
    issued.keystore.write_text("half of a file")
    stage.publish({"background.threads": "7"})
    assert stage.shown == renewed


def test_a_file_that_is_as_old_and_as_long_as_the_one_before_is_read_again(
    authority: Authority, tmp_path: Path
) -> None:
    keystore = tmp_path / "node.pem"
    fill(keystore, authority.issue("node").keystore)
    stage = Stage(
        ALONE | authority.issue("node").properties() | {"ssl.keystore.location": str(keystore)}
    )
    before = stage.shown
    fill(keystore, authority.issue("node").keystore)
    stage.publish({"background.threads": "9"})
    assert stage.shown != before


def test_stores_are_read_beside_the_event_loop(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, threads, read = (
        Stage(QUORUM | authority.issue("node").properties()),
        set[int](),
        RealFiles.read_bytes,
    )

    def reading(files: RealFiles, path: Path) -> bytes:
        threads.add(threading.get_ident())
        return read(files, path)

    monkeypatch.setattr(RealFiles, "read_bytes", reading)
    before = stage.shown
    stage.alter(located(authority.issue("node")))
    assert stage.shown != before
    assert threads
    assert threading.get_ident() not in threads


def test_a_change_of_the_configuration_is_gone_by_before_the_next_look_at_the_files(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(ALONE | authority.issue("node").properties())
    before, installed = stage.shown, trio.Event()
    install = Certificates.install

    def installing(self: Certificates, name: str, fresh: Fresh) -> None:
        install(self, name, fresh)
        installed.set()

    monkeypatch.setattr(Certificates, "install", installing)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.certificates.run)
            await trio.testing.wait_all_tasks_blocked()
            stage.announce(located(authority.issue("node")))
            with trio.fail_after(FILE_CHECK_INTERVAL_MS / 2_000):
                await installed.wait()
            assert stage.shown != before
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_each_of_several_keys_is_held_against_its_predecessor(
    authority: Authority, tmp_path: Path
) -> None:
    def store(name: str, *issued: Issued) -> dict[str, str]:
        path = tmp_path / name
        path.write_text("".join(each.keystore.read_text() for each in issued))
        return {f"{OWN}ssl.keystore.location": str(path)}

    one, other = (
        authority.issue("one", ("one.example",)),
        authority.issue("other", ("other.example",)),
    )
    own = one.properties() | {
        "ssl.keystore.location": store("own.pem", one, other)[f"{OWN}ssl.keystore.location"]
    }
    stage = Stage(ALONE | own)
    with pytest.raises(ConfigError, match="holds 2 keys, the new one 1; that needs a restart"):
        stage.alter(store("fewer.pem", one))
    with pytest.raises(ConfigError, match=r"the new certificate is not for other\.example"):
        stage.alter(store("hosts.pem", one, authority.issue("other", ("another.example",))))
    with pytest.raises(ConfigError, match="the certificate is of CN=one, the new one of CN=other"):
        stage.alter(store("order.pem", other, one))
    renewed = authority.issue("other", ("other.example",))
    stage.alter(store("renewed.pem", one, renewed))
    shown = [key.chain[0] for key in stage.protection.tls_listeners["SSL"].contexts.keys]
    assert shown == [each.certificate.public_bytes(Encoding.DER) for each in (one, renewed)]


def test_a_node_without_tls_has_no_certificates() -> None:
    config, settings = parse_server_properties("node.id=1\nlisteners=PLAINTEXT://127.0.0.1:1")
    env = NodeEnv(clock=SystemClock(), rng=Random(1), network=MemoryNetwork(), files=RealFiles(1))
    assert Protection(env, config).certificates(settings.texts) is None


def test_a_certificate_that_ends_soon_is_warned_about_once_a_day(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(ALONE | authority.issue("node").properties())
    begun_ms = SystemClock().wall_ms()
    left = stage.certificates.days_left()["SSL"]

    def warnings(days: int) -> list[str]:
        monkeypatch.setattr(SystemClock, "wall_ms", lambda _: begun_ms + days * DAY_SECONDS * 1_000)
        caplog.clear()
        for _ in range(3):
            stage.certificates.warn_of_ends()
        return [record.getMessage() for record in caplog.records]

    assert warnings(left - WARNED_DAYS - 1) == []
    for days in (WARNED_DAYS, 2):
        assert warnings(left - days) == [
            f"The certificate of listener SSL ends in {days} days; give the listener a new one before"
        ]
    (family,) = certificate_families(stage.certificates.days_left())
    assert (family.name, family.samples) == (
        "tidelog_listener_certificate_days_left",
        [("", 'listener="SSL"', 2)],
    )
    assert list(certificate_families({})) == []
    (told,) = warnings(left + 1)
    assert told.startswith("The certificate of listener SSL has ended")
    old = stage.shown
    monkeypatch.undo()
    stage.alter(located(authority.issue("node")))
    assert stage.shown != old
    assert warnings(0) == []
