"""Other people's clients speak TLS with client certificates to one node.

They are librdkafka, kafka-python, aiokafka, Java's and OpenSSL's own.
"""

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.admin as librdkafka_admin
import kafka
import kafka.errors
import pytest

from log_service.client import BlockingAdmin, ErrorCode, KafkaError
from tests.helpers.authority import PASSWORD, Authority, Issued
from tests.helpers.broker_process import BrokerProcess
from tests.integration.confluent import WAIT_SECONDS, wait_until
from tests.integration.kafka_node import java, skip_unless_kafka_is_there

TOPIC = "secret"
librdkafka: Any = librdkafka_admin  # it does not say which names are its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A node whose clients show certificates, who signs them, and one of them."""

    broker: BrokerProcess
    authority: Authority
    client: Issued
    directory: Path

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.broker.port}"

    def of_librdkafka(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.truststore),
            "ssl.certificate.location": str(self.client.chain),
            "ssl.key.location": str(self.client.key),
            **more,
        }

    def of_python(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SSL",
            "ssl_cafile": str(self.authority.truststore),
            "ssl_certfile": str(self.client.chain),
            "ssl_keyfile": str(self.client.key),
        }

    def context(self, *, is_known: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.truststore))
        if is_known:
            context.load_cert_chain(self.client.chain, self.client.key)
        return context


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    authority = Authority(directory / "authority")
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "advertised.listeners": "SSL://localhost:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(authority.issue("node").keystore_p12),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(authority.truststore_p12),
        "ssl.truststore.password": PASSWORD,
    }
    client = authority.issue("orders", sans=())
    with BrokerProcess(directory, properties=properties) as broker:
        running = Guarded(broker=broker, authority=authority, client=client, directory=directory)
        admin = librdkafka.AdminClient(running.of_librdkafka())
        admin.create_topics([librdkafka.NewTopic(TOPIC, 1)])[TOPIC].result(WAIT_SECONDS)
        yield running


def test_librdkafka(guarded: Guarded) -> None:
    delivered: list[Any] = []
    producer = confluent_kafka.Producer(guarded.of_librdkafka())
    large = bytes(700_000)
    for value in (b"one", large):
        producer.produce(
            TOPIC,
            value,
            on_delivery=lambda error, record: delivered.append((error, record.offset())),
        )
        assert producer.flush(WAIT_SECONDS) == 0
    assert [error for error, _ in delivered] == [None, None]
    consumer = confluent_kafka.Consumer(
        guarded.of_librdkafka(**{"group.id": "librdkafka", "enable.auto.commit": False})
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, delivered[0][1])])
    records = consumer.consume(2, WAIT_SECONDS)
    assert [record.value() for record in records] == [b"one", large]
    consumer.close()


def test_kafka_python(guarded: Guarded) -> None:
    producer = kafka.KafkaProducer(**guarded.of_python())
    try:
        assert producer.send(TOPIC, b"kafka-python").get(WAIT_SECONDS).topic == TOPIC
    finally:
        producer.close(WAIT_SECONDS)


def test_aiokafka(guarded: Guarded) -> None:
    async def main() -> None:
        settings = {
            "bootstrap_servers": guarded.bootstrap,
            "security_protocol": "SSL",
            "ssl_context": guarded.context(),
        }
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        try:
            sent = await producer.send_and_wait(TOPIC, b"aiokafka")
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
            consumer.seek(aiokafka.TopicPartition(TOPIC, 0), sent.offset)
            assert (await consumer.getone()).value == b"aiokafka"
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(main(), WAIT_SECONDS))


def test_java_with_pkcs12_stores(guarded: Guarded) -> None:
    skip_unless_kafka_is_there()
    file = guarded.directory / "java.properties"
    stores = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(guarded.client.keystore_p12),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(guarded.authority.truststore_p12),
        "ssl.truststore.password": PASSWORD,
    }
    file.write_text("".join(f"{name}={text}\n" for name, text in stores.items()))
    arguments = ["--bootstrap-server", guarded.bootstrap, "--command-config", str(file), "--list"]
    told = java("org.apache.kafka.tools.TopicCommand", *arguments, cwd=guarded.directory)
    assert TOPIC in told.split()


def test_a_client_without_a_certificate_is_refused_with_a_line_that_says_so(
    guarded: Guarded,
) -> None:
    with socket.create_connection(("localhost", guarded.broker.port), WAIT_SECONDS) as raw:
        secured = guarded.context(is_known=False).wrap_socket(raw, server_hostname="localhost")
        with secured, pytest.raises(OSError, match=r"CERTIFICATE_REQUIRED|alert|reset"):
            secured.recv(1)
    wait_until(
        lambda: (
            "the client shows no certificate, and this listener asks for one" in guarded.broker.log
        ),
        "the line is written",
    )


def test_a_client_in_the_clear_is_refused_with_a_line_that_says_so(guarded: Guarded) -> None:
    with socket.create_connection(("localhost", guarded.broker.port), WAIT_SECONDS) as raw:
        raw.sendall(bytes.fromhex("0000000a00120000000000010000"))
        while raw.recv(1_000):
            pass
    wait_until(
        lambda: "the client does not speak TLS on a listener that does" in guarded.broker.log,
        "the line is written",
    )


def test_our_client_without_a_certificate_is_refused_for_good(guarded: Guarded) -> None:
    """TLS 1.3 says so after the handshake."""
    settings: dict[str, Any] = {
        "security_protocol": "SSL",
        "ssl_ca": str(guarded.authority.truststore),
    }
    with BlockingAdmin(guarded.bootstrap, **settings) as admin, pytest.raises(KafkaError) as raised:
        admin.list_topics(timeout_ms=3_000)
    assert raised.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "ssl_keystore_location" in str(raised.value)


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_openssl_agrees_on_either_version_and_renegotiates_never(
    guarded: Guarded, version: str
) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl command")
    command = [
        openssl,
        "s_client",
        "-connect",
        guarded.bootstrap,
        version,
        "-CAfile",
        str(guarded.authority.truststore),
        "-verify_return_error",
    ]
    command += ["-cert", str(guarded.client.chain), "-key", str(guarded.client.key)]
    # R asks for a renegotiation.
    told = subprocess.run(
        command, input=b"R\n", capture_output=True, timeout=WAIT_SECONDS, check=False
    )
    text = (told.stdout + told.stderr).decode(errors="replace")
    assert "Verify return code: 0 (ok)" in text
    assert f"TLSv1.{version[-1]}" in text
    if version == "-tls1_2":
        assert "no renegotiation" in text


def test_other_protocols_than_those_that_are_enabled_are_refused(guarded: Guarded) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl command")
    command = [
        openssl,
        "s_client",
        "-connect",
        guarded.bootstrap,
        "-tls1_1",
        "-cipher",
        "DEFAULT:@SECLEVEL=0",
    ]
    told = subprocess.run(
        command, input=b"", capture_output=True, timeout=WAIT_SECONDS, check=False
    )
    assert told.returncode != 0


def served_serial(guarded: Guarded) -> int:
    """Return the serial number of the certificate that the node shows."""
    raw = socket.create_connection(("localhost", guarded.broker.port), WAIT_SECONDS)
    with guarded.context().wrap_socket(raw, server_hostname="localhost") as secured:
        shown = secured.getpeercert()
    assert shown is not None
    return int(str(shown["serialNumber"]), 16)


def alter_keystore(guarded: Guarded, issued: Issued) -> None:
    admin = librdkafka.AdminClient(guarded.of_librdkafka())
    entry = librdkafka.ConfigEntry(
        "listener.name.ssl.ssl.keystore.location",
        str(issued.keystore_p12),
        incremental_operation=librdkafka.AlterConfigOpType.SET,
    )
    resource = librdkafka.ConfigResource(
        librdkafka.ResourceType.BROKER, "1", incremental_configs=[entry]
    )
    admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)


def test_a_request_changes_the_certificate_while_the_node_runs(guarded: Guarded) -> None:
    before = served_serial(guarded)
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        alter_keystore(guarded, guarded.authority.issue("other"))
    assert "the certificate is of CN=node, the new one of CN=other" in raised.value.args[0].str()
    assert served_serial(guarded) == before
    renewed = guarded.authority.issue("node")
    alter_keystore(guarded, renewed)
    wait_until(
        lambda: served_serial(guarded) == renewed.certificate.serial_number,
        "the new certificate is shown",
    )
