"""The files of a secured installation are for their owner alone.

They name the installation's hosts, and certificates are made anew in time.
"""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from cryptography import x509
from trio.testing import MockClock

from log_service.client.settings_files import settings_from_file
from log_service.common.errors import StorageError
from log_service.config.client import AdminConfig
from log_service.config.tls import tls_config
from log_service.security.tls.contexts import server_context
from log_service.security.tls.replacement import validate_replacement
from log_service.supervisor.authority import CERTIFICATE_DAYS, KEY_FILE, LocalAuthority, end_of
from log_service.supervisor.grants import grants
from log_service.supervisor.protection import (
    CONSOLE,
    NODE,
    OPERATOR,
    PLATFORM,
    REGISTRY,
    REST,
    hosts_of,
    is_protected,
    issue_client,
    keep_certificates,
    known_certificates,
    protect,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_only_the_owner_reads_what_protects_an_installation(tmp_path: Path) -> None:
    assert not is_protected(tmp_path)
    protection = protect(tmp_path, "127.0.0.1", ["broker", "broker2"])
    assert is_protected(tmp_path)
    modes = {
        path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode)
        for path in tmp_path.rglob("*")
    }
    assert {mode for path, mode in modes.items() if (tmp_path / path).is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if (tmp_path / path).is_file()} == {0o600}
    assert (protection.directory / "nodes" / "broker2.pem").is_file()
    assert {"broker", "broker2", "logs"} <= {str(path) for path in modes}


def test_directories_of_nodes_that_others_could_read_are_closed(tmp_path: Path) -> None:
    for name in ("broker", "logs"):
        (tmp_path / name).mkdir(mode=0o755)
    protect(tmp_path, "127.0.0.1", ["broker"])
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("broker", "logs")] == [
        0o700,
        0o700,
    ]


@pytest.mark.parametrize(
    ("mode", "left"), [(0o777, 0o755), (0o775, 0o755), (0o750, 0o750), (0o700, 0o700)]
)
def test_others_cannot_put_their_own_in_the_place_of_what_is_closed(
    tmp_path: Path, mode: int, left: int
) -> None:
    tmp_path.chmod(mode)
    protect(tmp_path, "127.0.0.1", ["broker"])
    assert stat.S_IMODE(tmp_path.stat().st_mode) == left


def test_a_second_start_keeps_keys_and_authority(tmp_path: Path) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    protect(tmp_path, "127.0.0.1", ["broker"])
    before = contents()
    protect(tmp_path, "127.0.0.1", ["broker"])
    assert contents() == before


def test_a_certificate_is_made_anew_near_its_end_and_for_another_host(tmp_path: Path) -> None:
    authority, path = LocalAuthority(tmp_path / "a"), tmp_path / "a" / "node.pem"
    assert authority.keep(path, "node", ("localhost",), NOW)
    assert not authority.keep(
        path, "node", ("localhost",), NOW + timedelta(days=CERTIFICATE_DAYS / 2)
    )
    assert authority.keep(path, "node", ("localhost", "log.example"), NOW)
    late = NOW + timedelta(days=CERTIFICATE_DAYS * 0.7)
    assert authority.keep(path, "node", ("localhost", "log.example"), late)
    assert x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc > late + timedelta(
        days=CERTIFICATE_DAYS - 1
    )


def run_for(days: float, data: Path, said: list[str]) -> None:
    """Keep an installation's certificates for so many days from now on, by a clock that does not
    wait.
    """

    async def run() -> None:
        began, started = datetime.now(UTC), trio.current_time()
        with trio.move_on_after(days * 86_400):
            await keep_certificates(
                data,
                "127.0.0.1",
                said.append,
                lambda: began + timedelta(seconds=trio.current_time() - started),
            )

    trio.run(run, clock=MockClock(autojump_threshold=0))


def test_certificates_are_renewed_before_they_end_while_the_installation_runs(
    tmp_path: Path,
) -> None:
    protect(tmp_path, "127.0.0.1", ["broker", "broker2"])
    files = [
        tmp_path / "security" / "nodes" / "broker.pem",
        tmp_path / "security" / "clients" / "platform.pem",
    ]
    before, said = [file.read_bytes() for file in files], list[str]()
    run_for(CERTIFICATE_DAYS * 2 / 3 - 2, tmp_path, said)
    assert not said
    assert [file.read_bytes() for file in files] == before
    run_for(CERTIFICATE_DAYS * 2 / 3 + 2, tmp_path, said)
    assert said == [
        "certificates were renewed: broker, broker2, operator, platform, registry, rest, console"
    ]
    assert all(
        end_of(file) > datetime.now(UTC) + timedelta(days=CERTIFICATE_DAYS * 5 / 3 - 3)
        for file in files
    )


def test_a_node_takes_a_renewed_certificate_for_its_own(tmp_path: Path) -> None:
    protection = protect(tmp_path, "127.0.0.1", ["broker"])
    keystore, trusted = (
        protection.directory / "nodes" / "broker.pem",
        protection.directory / "authority.pem",
    )
    config = tls_config(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
        }
    )
    old, before = server_context(config, Path.read_bytes), keystore.read_bytes()
    assert LocalAuthority(protection.directory).keep(
        keystore, NODE, hosts_of("127.0.0.1"), datetime.now(UTC) + timedelta(days=300)
    )
    assert keystore.read_bytes() != before
    keystore.write_bytes(
        LocalAuthority(protection.directory).issue(NODE, hosts_of("127.0.0.1"), datetime.now(UTC))
    )
    validate_replacement(old, server_context(config, Path.read_bytes))


def test_what_cannot_be_renewed_is_told_and_founds_no_new_authority(tmp_path: Path) -> None:
    protect(tmp_path, "127.0.0.1", ["broker"])
    (tmp_path / "security" / "authority.pem").unlink()
    (tmp_path / "security" / "authority.key").unlink()
    said: list[str] = []
    run_for(1, tmp_path, said)
    assert said
    assert all("authority.pem is missing: put it back" in text for text in said)
    assert not (tmp_path / "security" / "authority.key").exists()


def test_a_service_gets_a_certificate_that_only_it_can_read(tmp_path: Path) -> None:
    protect(tmp_path / "data", "127.0.0.1", ["broker"])
    issued = issue_client(tmp_path / "data", "shop", tmp_path / "shop", datetime.now(UTC))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "shop").iterdir()}
    assert modes == {"shop.pem": 0o600, "authority.pem": 0o600, "shop.properties": 0o600}
    security = AdminConfig.of(
        "127.0.0.1:9092", settings_from_file(issued.properties_path)
    ).security()
    assert security.tls is not None
    context = ssl.create_default_context(cafile=str(security.tls.truststore_location))
    context.load_cert_chain(str(security.tls.keystore_location))
    known = {(each.name, each.kind) for each in known_certificates(tmp_path / "data")}
    assert known == {
        (NODE, "node"),
        (OPERATOR, "client"),
        (PLATFORM, "client"),
        (REGISTRY, "client"),
        (REST, "client"),
        (CONSOLE, "client"),
        ("shop", "service"),
    }
    kept = tmp_path / "data" / "security" / "services" / "shop.pem"
    assert b"PRIVATE KEY" not in kept.read_bytes(), "the key is the service's alone"


def test_an_authority_without_its_key_is_told(tmp_path: Path) -> None:
    LocalAuthority(tmp_path / "a")
    (tmp_path / "a" / KEY_FILE).unlink()
    with pytest.raises(StorageError, match=r"authority\.key is missing"):
        LocalAuthority(tmp_path / "a")


def test_files_of_clients_are_taken_by_clients(tmp_path: Path) -> None:
    protection = protect(tmp_path, "127.0.0.1", ["broker"])
    for name in (OPERATOR, PLATFORM, REGISTRY):
        settings = settings_from_file(protection.client_file(name))
        security = AdminConfig.of("127.0.0.1:9092", settings).security()
        assert security.tls is not None
        assert security.login is None
        context = ssl.create_default_context(cafile=str(security.tls.truststore_location))
        context.load_cert_chain(str(security.tls.keystore_location))


def test_nodes_are_dialled_by_the_names_in_their_certificates() -> None:
    assert hosts_of("127.0.0.1") == ("localhost", "127.0.0.1", "::1")
    assert hosts_of("10.1.2.3") == ("localhost", "127.0.0.1", "::1", "10.1.2.3")
    assert "0.0.0.0" not in hosts_of("0.0.0.0")


def test_the_platform_may_not_give_itself_rights() -> None:
    given = {(acl.resource_type, acl.operation) for acl in grants()}
    assert ("cluster", "describe") in given
    assert not given & {
        ("cluster", "alter"),
        ("cluster", "alter_configs"),
        ("cluster", "all"),
        ("user", "create_tokens"),
    }


def test_platform_and_registry_may_not_delete_topics_nor_read_groups_of_others() -> None:
    """Each has the rights for its own work."""
    given = {
        (acl.principal, acl.resource_type, acl.name, acl.pattern_type, acl.operation)
        for user in (PLATFORM, REGISTRY)
        for acl in grants(user)
    }
    assert {one[0] for one in given} == {"User:platform", "User:registry"}
    assert not [
        one for one in given if one[4] in {"delete", "all", "cluster_action", "idempotent_write"}
    ]
    groups = {(one[0], *one[2:4]) for one in given if one[1] == "group" and one[4] == "read"}
    assert groups == {
        ("User:platform", "tidelog", "prefixed"),
        ("User:registry", "schema-registry", "literal"),
    }
    topics = {one[2] for one in given if one[0] == "User:registry" and one[1] == "topic"}
    assert topics == {"_schemas"}
