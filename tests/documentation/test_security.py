"""A node takes the TLS settings of docs/security.md.
``tests.integration.test_securing_a_cluster`` takes the steps from plaintext, and
``test_users_and_rights`` what stands between.
"""

import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from log_service.config.definition import Trait
from log_service.config.dynamic_keys import base_name, traits_of
from log_service.config.properties import parse_properties
from log_service.config.server import parse_server_properties
from log_service.security.tls import connection, listener
from tests.helpers.authority import Authority
from tests.helpers.documents import ROOT, blocks

PAGE = ROOT / "docs" / "security.md"
USERS_BEGIN = PAGE.read_text().partition("## Users with passwords")[0].count("\n") + 1
SHOWN = [
    block for block in blocks("properties") if block.document == PAGE and block.line < USERS_BEGIN
]


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_the_keys_that_are_shown_are_keys(block: object, tmp_path: Path) -> None:
    text = getattr(block, "text", "")
    texts = parse_properties(text)
    if "listeners" not in texts:
        assert all(Trait.STORE in traits_of(base_name(name)) for name in texts)
        return
    issued = Authority(tmp_path).issue("node")
    config, settings = parse_server_properties(
        {"node.id": "1", "controller.quorum.voters": "1@h:9094", **texts, **issued.properties()}
    )
    assert settings.warning is None
    assert settings.idle_warning is None
    assert [
        each.security.protocol for each in (*config.listeners, *config.controller_listeners)
    ] == ["SSL", "SSL"]


def test_the_certificates_that_openssl_makes_are_what_the_steps_need(tmp_path: Path) -> None:
    (block,) = (block for block in blocks("sh") if block.document == PAGE)
    subprocess.run(
        ["bash", "-ec", block.text.replace("/etc/tidelog", str(tmp_path))],
        check=True,
        capture_output=True,
    )
    hosts = {}
    for name in ("node", "operator", "shop"):
        path = tmp_path / f"{name}.pem"
        assert path.stat().st_mode & 0o077 == 0
        assert path.read_text().startswith("-----BEGIN PRIVATE KEY-----"), (
            "PKCS#8, as Kafka's keys want it"
        )
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
        signed = x509.load_pem_x509_certificate(path.read_bytes())
        signed.verify_directly_issued_by(
            x509.load_pem_x509_certificate((tmp_path / "authority.pem").read_bytes())
        )
        assert signed.subject.rfc4514_string() == f"CN={name}"
        names = [
            each.value
            for each in signed.extensions
            if isinstance(each.value, x509.SubjectAlternativeName)
        ]
        hosts[name] = [host for value in names for host in value.get_values_for_type(x509.DNSName)]
    assert hosts == {"node": ["node1", "node2", "node3"], "operator": [], "shop": []}


def test_the_bounds_that_are_told_are_those() -> None:
    told = PAGE.read_text()
    assert (
        f"{listener.HANDSHAKE_DEADLINE_MS // 1_000} seconds each, {listener.MAX_HALF_OPEN_COUNT} at once"
        in told
    )
    assert f"{listener.MAX_HALF_OPEN_COUNT_PER_HOST} from one address" in told
    assert f"encrypts {connection.CHUNK_BYTES >> 10} KiB at a time" in told
