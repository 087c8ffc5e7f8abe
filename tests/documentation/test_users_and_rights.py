"""One node runs the commands of docs/security.md on users, tokens, rights and the audit log."""

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    BlockingShareConsumer,
    ConfigResource,
    ErrorCode,
    KafkaError,
    TopicPartition,
    settings_from_file,
)
from log_service.client.settings_files import read_settings_file
from log_service.config.client import AdminConfig
from log_service.config.properties import parse_properties
from log_service.config.server import parse_server_properties
from log_service.security.login import ClientLogin
from tests.documentation.running import run_python
from tests.helpers.authority import Authority
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.documents import ROOT, Block, blocks_of
from tests.helpers.ports import free_port
from tests.integration.command_line import run
from tests.unit.security.sasl.issuer import jwk, key_set, token

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
PAGE = ROOT / "docs" / "security.md"
SERVERS, CERTIFICATES = "node1:9095", "/etc/tidelog"
PATIENCE_S = 60.0
PASSWORDS = {
    "node": "node-secret",
    "operator": "operator-secret",
    "ann": "first-secret",
    "ann-new": "second-secret",
}
FIRST_USERS = [
    word
    for name in ("node", "operator")
    for word in ("--add-scram", f"SCRAM-SHA-512=[name={name},passwordfile={name}.txt]")
]


def shown(first: str, last: str) -> list[Block]:
    """The blocks between two headings."""
    text = PAGE.read_text()
    lines = [text.partition(f"## {heading}")[0].count("\n") + 1 for heading in (first, last)]
    return [block for block in blocks_of(PAGE) if lines[0] < block.line < lines[1]]


STEPS = shown("Users with passwords", "From plaintext to mTLS")
PROPERTIES = [block.text for block in STEPS if block.language == "properties"]
OF_NODES = [text for text in PROPERTIES if not text.startswith("security.protocol=")]
(OF_CLIENT,) = set(PROPERTIES) - set(OF_NODES)


class Reader:
    """The reader follows the page: a node as it says, and files where its commands look for them."""

    def __init__(self, broker: BrokerProcess, directory: Path) -> None:
        self.broker = broker
        self.directory = directory

    def run(self, command: str) -> str:
        finished = run(shlex.split(command)[1:], bootstrap=self.broker.bootstrap)
        assert finished.exit_code == 0, (command, finished.errors)
        return finished.output

    def settings_file(self, name: str, password: str) -> None:
        jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{name}" password="{password}";'
        settings = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "authority.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": jaas,
        }
        (self.directory / f"{name}.properties").write_text(
            "".join(f"{key}={value}\n" for key, value in settings.items())
        )

    def token_of(self, name: str) -> dict[str, Any]:
        """Return the settings of a client that the issuer has given a token."""
        now_s = int(time.time())
        claims: dict[str, Any] = {
            "sub": name,
            "aud": "logs",
            "iss": "https://issuer.example",
            "iat": now_s,
            "exp": now_s + 300,
        }
        (self.directory / f"{name}.jwt").write_text(token("rsa", **claims))
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token": str(self.directory / f"{name}.jwt"),
            "ssl_ca": str(self.directory / "authority.pem"),
        }


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A node with all that the page's properties say, and a first user."""
    monkeypatch.chdir(tmp_path)
    for name, password in PASSWORDS.items():
        (tmp_path / f"{name}.txt").write_text(f"{password}\n")
    (tmp_path / "keys.json").write_bytes(key_set(jwk("rsa")))
    authority = Authority(tmp_path)
    (tmp_path / "authority.pem").write_bytes(authority.truststore.read_bytes())
    port = free_port()
    texts = parse_properties("".join(OF_NODES).replace(CERTIFICATES, str(tmp_path)))
    properties = (
        texts
        | authority.issue("node", ("127.0.0.1", "localhost")).properties()
        | {"ssl.client.auth": "none"}
    )
    properties |= {
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL",
    }
    broker = BrokerProcess(tmp_path / "node", port=port, properties=properties)
    file = tmp_path / "server.properties"
    file.write_text(
        "".join(
            f"{key}={value}\n"
            for key, value in {
                "node.id": "1",
                "log.dirs": broker.directory / "data",
                **properties,
            }.items()
        )
    )
    formatted = run(
        [
            "storage",
            "format",
            "--config",
            str(file),
            "--cluster-id",
            "cluster-of-the-page-00",
            "--standalone",
            *FIRST_USERS,
        ]
    )
    assert formatted.exit_code == 0, formatted.errors
    with broker:
        reader = Reader(broker, tmp_path)
        reader.settings_file("operator", PASSWORDS["operator"])
        yield reader


def test_nodes_log_in_as_the_properties_of_the_cluster_say(tmp_path: Path) -> None:
    """The first block is whole: without the tokens of an issuer, which the next one adds."""
    own = {
        "node.id": "1",
        "controller.quorum.voters": "2@node2:9096",
        "controller.listener.names": "QUORUM",
    }
    protocols = {
        "process.roles": "broker",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,QUORUM:SSL",
    }
    issued = Authority(tmp_path).issue("node")
    config, _ = parse_server_properties(
        parse_properties(STEPS[0].text) | issued.properties() | own | protocols
    )
    assert config.inter_broker_login is not None
    assert ClientLogin(config.inter_broker_login, Random(1)).user == "node"


def test_client_that_fetches_its_tokens_is_configured_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "issuer.pem").write_bytes(Authority(tmp_path).truststore.read_bytes())
    file = tmp_path / "shop.properties"
    file.write_text(OF_CLIENT.replace(CERTIFICATES, str(tmp_path)))
    settings, _, warning = read_settings_file(file)
    assert warning is None
    login = AdminConfig.of(SERVERS, settings).security().login
    assert login is not None
    assert login.endpoint is not None
    assert (login.endpoint.client_id, login.endpoint.scope) == ("shop", "logs")
    assert "issuer.example" in repr(ClientLogin(login, Random(1))._endpoint)


def is_refused(servers: str, file: Path) -> bool:
    try:
        with BlockingAdmin(servers, **settings_from_file(file)) as admin:
            admin.list_topics()
    except KafkaError as error:
        return error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    return False


def test_the_page_runs_as_it_is_printed(reader: Reader) -> None:
    directory, servers = reader.directory, reader.broker.bootstrap
    reader.settings_file("ann", PASSWORDS["ann-new"])
    commands = 0
    for block in (block for block in STEPS if block.language in {"console", "python"}):
        if block.language == "python":
            reader.run(
                "tidelog acls add --allow-principal shop --producer --topic orders --command-config operator.properties"
            )
            reader.run("tidelog topics create orders ledger --command-config operator.properties")
            reader.token_of("shop")
            here = Block(
                document=block.document,
                line=block.line,
                language="python",
                text=block.text.replace(SERVERS, servers),
            )
            run_python(here, servers, directory)
            continue
        for command in block.commands:
            reader.run(command)
            commands += 1
        if "a share group" in block.text:
            check_rights(reader)
        if "users list" in block.text:
            assert not is_refused(servers, directory / "ann.properties")
        if "tokens list" in block.text and "--owner" not in block.text:
            assert (directory / "job.properties").stat().st_mode & 0o077 == 0
            assert not is_refused(servers, directory / "job.properties")
    assert commands == 15
    assert is_refused(servers, directory / "ann.properties"), "ann has left"
    with (
        pytest.raises(KafkaError) as caught,
        BlockingAdmin(servers, **settings_from_file(directory / "job.properties")) as admin,
    ):
        admin.describe_topics(["orders"])
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED, (
        "her token is denied what she is denied"
    )
    check_audit_log(reader)


def check_rights(reader: Reader) -> None:
    """Each kind of client does its work with the ACLs that the page gives it, and not that of
    another.
    """
    servers = reader.broker.bootstrap
    with BlockingConsumer(
        servers, group_id="billing", auto_offset_reset="earliest", **reader.token_of("billing")
    ) as consumer:
        consumer.subscribe(["orders"])
        assert [record.value for record in polled(consumer)] == [b"1"]
        consumer.commit()
    with BlockingProducer(
        servers, transactional_id="ledger", **reader.token_of("ledger")
    ) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("ledger", value=b"1")
        with pytest.raises(KafkaError) as caught, producer.transaction():
            producer.send("orders", value=b"2").wait()
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    operator = settings_from_file(reader.directory / "operator.properties")
    with BlockingAdmin(servers, **operator) as admin:
        earliest = {"share.auto.offset.reset": "earliest"}
        admin.alter_configs({ConfigResource.group("packers"): earliest})
    with BlockingShareConsumer(servers, group_id="packers", **reader.token_of("packer")) as packer:
        packer.subscribe(["orders"])
        assert [record.value for record in polled(packer)] == [b"1"]
    with BlockingConsumer(servers, group_id="packers", **reader.token_of("billing")) as consumer:
        consumer.subscribe(["orders"])
        with pytest.raises(KafkaError) as caught:
            polled(consumer)
    assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


DENIED = "Principal = User:ann is Denied"


def polled(consumer: BlockingConsumer | BlockingShareConsumer) -> list[Any]:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := list(consumer.poll(timeout_ms=1_000))):
        assert time.monotonic() < deadline
    return found


def check_audit_log(reader: Reader) -> None:
    """The file and the topic have what ann was denied, in the forms that the page shows."""
    directory, servers = reader.directory, reader.broker.bootstrap
    line, record = (block.text for block in STEPS if block.language == "text")
    deadline = time.monotonic() + PATIENCE_S
    while not (
        about := [
            text
            for text in (directory / "authorizer.log").read_text().splitlines()
            if DENIED in text
        ]
    ):
        assert time.monotonic() < deadline  # lines are written beside the responses
        time.sleep(0.1)
    assert shape(about[0]) == shape(line.strip())
    operator = settings_from_file(directory / "operator.properties")
    with BlockingConsumer(servers, auto_offset_reset="earliest", **operator) as consumer:
        consumer.assign([TopicPartition("audit", 0)])
        deadline, found = time.monotonic() + PATIENCE_S, list[dict[str, object]]()
        while not [one for one in found if one["principal"] == "User:ann"]:
            assert time.monotonic() < deadline, found
            found += [json.loads(each.value or b"") for each in consumer.poll(timeout_ms=1_000)]
    assert all(one.keys() == json.loads(record).keys() and not one["allowed"] for one in found)


def shape(line: str) -> tuple[str, ...]:
    """The words of a line that are the same in all of them."""
    words = (
        "INFO",
        "Principal",
        "is",
        "Denied",
        "operation",
        "from",
        "host",
        "on",
        "resource",
        "for",
        "request",
        "with",
        "based",
        "rule",
    )
    return (
        line[0],
        line[24:26],
        *(word for word in line.split() if word in words),
        line.rpartition(" ")[2],
    )
