"""``tidelog up --secure`` runs as a person runs it.

Some users get in, the platform's user may do certain things, and no secret is told anywhere.

One story, because an installation takes seconds to start.
"""

import shlex
from pathlib import Path

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ConfigResource,
    ErrorCode,
    KafkaError,
    NewTopic,
    TopicPartition,
    settings_from_file,
)
from log_service.client.settings_files import servers_from_file
from log_service.supervisor import grants
from tests.helpers.ports import free_port
from tests.integration.command_line import as_json, run
from tests.integration.installations import free_port_for
from tests.integration.secured_installations import installation, secrets_in, told_places

pytestmark = pytest.mark.timeout(240)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "secure-installation.md"


def test_a_secured_installation_lets_in_who_holds_a_certificate_and_keeps_it_so(
    tmp_path: Path,
) -> None:
    port = free_port()
    servers = f"127.0.0.1:{port}"
    with installation(tmp_path, port, "--secure") as data:
        operator, platform = (
            data / "security" / "clients" / f"{name}.properties"
            for name in ("operator", "platform")
        )
        mine, theirs = settings_from_file(operator), settings_from_file(platform)
        refused = run(["topics", "list"], bootstrap=servers)
        assert "security.protocol=SSL" in refused.errors
        with BlockingAdmin(servers, **mine) as admin:
            admin.create_topics([NewTopic(name="kept", partition_count=1)])
        with BlockingAdmin(servers, **theirs) as admin, pytest.raises(KafkaError) as caught:
            admin.describe_topics(["kept"])
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        grants.main([servers, str(operator)])
        with BlockingProducer(servers, **theirs) as producer:
            producer.send("kept", value=b"1").wait()
        with BlockingAdmin(servers, **theirs) as admin, pytest.raises(KafkaError) as caught:
            admin.delete_topics(["kept"])
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        listed = as_json(
            run(["acls", "list", "--json", "--command-config", str(operator)], bootstrap=servers)
        )
        assert {row["principal"] for row in listed} == {"User:platform"}
        keys = secrets_in(data)
        assert len(keys) == 7, "authority, node, operator, platform, registry, rest, console"
        assert not [key for key in keys for told in told_places(tmp_path, data) if key in told]
    audited = (data / "logs" / "broker-authorizer.log").read_text()
    assert "Principal = User:platform is Denied operation = DELETE" in audited
    assert "on resource = Topic:LITERAL:kept for request = DeleteTopics" in audited
    with installation(tmp_path, port):  # without --secure: what was secured stays so
        with BlockingConsumer(servers, auto_offset_reset="earliest", **theirs) as consumer:
            consumer.assign([TopicPartition("kept", 0)])
            assert [record.value for record in consumer.poll(timeout_ms=20_000)] == [b"1"]
        assert "security.protocol=SSL" in run(["topics", "list"], bootstrap=servers).errors


def test_what_the_page_shows_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [
        line.removeprefix("$ tidelog ")
        for line in PAGE.read_text().splitlines()
        if line.startswith("$ tidelog ")
    ]
    assert shown.pop(0) == "up --secure"
    (tmp_path / "password.txt").write_text("not-told-anywhere\n")
    port = free_port()
    servers = f"127.0.0.1:{port}"
    with installation(tmp_path, port, "--secure") as data:
        (tmp_path / ".tidelog").symlink_to(data)
        for line in shown:
            finished = run(shlex.split(line), bootstrap=servers)
            assert finished.exit_code == 0, (line, finished.errors)
            assert "not-told-anywhere" not in finished.output + finished.errors
        with BlockingProducer(servers, **settings_from_file("shop/shop.properties")) as producer:
            producer.send("orders", value=b"1").wait()
            with pytest.raises(KafkaError) as caught:
                producer.send("salaries", value=b"1").wait()
            assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        again = run(["certificates", "issue", "shop", "--out", "shop"], bootstrap=servers)
        assert (again.exit_code, "--replace" in again.errors) == (1, True), again.errors
        login = Path(".tidelog/security/clients/ui-login.properties")
        asked, group = settings_from_file(login), ConfigResource.group("tidelog-ui")
        door = servers_from_file(login) or ""
        with BlockingAdmin(
            door, **asked, sasl_username="ann", sasl_password="not-told-anywhere"
        ) as admin:
            admin.alter_configs({group: {}}, is_validated_only=True)
            with pytest.raises(KafkaError) as caught:
                admin.describe_configs([ConfigResource.group("billing")])
            assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert "WARNING" not in (data / "logs" / "broker.log").read_text(), (
            "a command's look at the port is no failed handshake"
        )
        with BlockingAdmin(door, **asked, sasl_username="ann", sasl_password="wrong") as admin:
            with pytest.raises(KafkaError) as caught:
                admin.describe_configs([group])
            assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_three_nodes_speak_tls_with_each_other(tmp_path: Path) -> None:
    port = free_port_for(3, 28_000)
    with installation(tmp_path, port, "--secure", "--brokers", "3") as data:
        operator = data / "security" / "clients" / "operator.properties"
        servers = f"127.0.0.1:{port}"
        with BlockingAdmin(servers, **settings_from_file(operator)) as admin:
            admin.create_topics([NewTopic(name="three", partition_count=3, replication_factor=3)])
            assert len(admin.describe_cluster().nodes) == 3
        with BlockingProducer(servers, **settings_from_file(operator)) as producer:
            producer.send("three", value=b"1").wait()
        status = run(["cluster", "status", "--command-config", str(operator)], bootstrap=servers)
        assert status.exit_code == 0, status.errors + status.output
