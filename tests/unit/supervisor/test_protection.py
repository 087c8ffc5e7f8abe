"""The files of a secured installation: who may read them, what they say, and when certificates are made anew."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from log_service.client.settings_files import settings_from_file
from log_service.common.errors import StorageError
from log_service.config.client import AdminConfig
from log_service.supervisor.authority import CERTIFICATE_DAYS, KEY_FILE, LocalAuthority
from log_service.supervisor.grants import grants
from log_service.supervisor.protection import OPERATOR, PLATFORM, hosts_of, is_protected, protect

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_only_the_owner_reads_what_protects_an_installation(tmp_path: Path) -> None:
    assert not is_protected(tmp_path)
    protection = protect(tmp_path, "127.0.0.1", ["broker", "broker2"])
    assert is_protected(tmp_path)
    modes = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {mode for path, mode in modes.items() if (tmp_path / path).is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if (tmp_path / path).is_file()} == {0o600}
    assert (protection.directory / "nodes" / "broker2.pem").is_file()


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
    assert not authority.keep(path, "node", ("localhost",), NOW + timedelta(days=CERTIFICATE_DAYS / 2))
    assert authority.keep(path, "node", ("localhost", "log.example"), NOW)
    late = NOW + timedelta(days=CERTIFICATE_DAYS * 0.7)
    assert authority.keep(path, "node", ("localhost", "log.example"), late)
    assert x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc > late + timedelta(days=CERTIFICATE_DAYS - 1)


def test_an_authority_without_its_key_is_told(tmp_path: Path) -> None:
    LocalAuthority(tmp_path / "a")
    (tmp_path / "a" / KEY_FILE).unlink()
    with pytest.raises(StorageError, match=r"authority\.key is missing"):
        LocalAuthority(tmp_path / "a")


def test_files_of_clients_are_taken_by_clients(tmp_path: Path) -> None:
    protection = protect(tmp_path, "127.0.0.1", ["broker"])
    for name in (OPERATOR, PLATFORM):
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


def test_the_platform_may_not_delete_topics_nor_read_groups_of_others() -> None:
    given = {(acl.resource_type, acl.name, acl.pattern_type, acl.operation) for acl in grants()}
    assert all(acl.principal == "User:platform" for acl in grants())
    assert not [one for one in given if one[3] in {"delete", "all", "cluster_action", "idempotent_write"}]
    assert [one for one in given if one[0] == "group" and one[3] == "read"] == [("group", "tidelog", "prefixed", "read")]
