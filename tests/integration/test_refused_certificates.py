"""A client whose certificate a node refuses gets the reason at once.

It does not make many attempts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, ErrorCode, KafkaError
from tests.helpers.authority import Authority
from tests.helpers.broker_process import BrokerProcess

PATIENCE_MS = 600_000
"""Far more than a test may take: who tries again until it is over fails by that."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """A node whose clients show certificates, with names that begin with ``CN=shop``."""
    properties = authority.issue("shop-node").properties() | {
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(shop.*)$/$1/",
    }
    with BrokerProcess(tmp_path_factory.mktemp("node"), properties=properties) as running:
        yield running


def settings(authority: Authority, keystore: Path | None, **more: Any) -> dict[str, Any]:
    own = (
        {}
        if keystore is None
        else {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(keystore)}
    )
    return {"security_protocol": "SSL", "ssl_ca": str(authority.truststore), **own, **more}


TOLD = {
    ("nobody", "TLSv1.2"): "wants a certificate that we do not show",
    ("nobody", "TLSv1.3"): "asks for a certificate, and we show none",
    ("a stranger", "TLSv1.2"): "does not trust the authority that signed our certificate",
    ("a stranger", "TLSv1.3"): "does not trust the authority that signed our certificate",
}


@pytest.mark.parametrize(("whose", "protocol"), TOLD)
def test_certificate_that_is_not_trusted_ends_a_call_at_once(
    broker: BrokerProcess, authority: Authority, tmp_path: Path, whose: str, protocol: str
) -> None:
    keystore = Authority(tmp_path).issue("shop", ()).keystore if whose == "a stranger" else None
    given = settings(
        authority, keystore, ssl_enabled_protocols=protocol, default_api_timeout_ms=PATIENCE_MS
    )
    with pytest.raises(KafkaError) as caught, BlockingAdmin(broker.bootstrap, **given) as admin:
        admin.list_topics()
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert TOLD[whose, protocol] in str(caught.value)
    assert "ssl_keystore_location" in str(caught.value)


def test_a_send_ends_at_once_too(
    broker: BrokerProcess, authority: Authority, tmp_path: Path
) -> None:
    given = settings(
        authority,
        Authority(tmp_path).issue("shop", ()).keystore,
        delivery_timeout_ms=PATIENCE_MS,
        max_block_ms=PATIENCE_MS,
    )
    with (
        pytest.raises(KafkaError, match="does not trust the authority"),
        BlockingProducer(broker.bootstrap, **given) as producer,
    ):
        producer.send("t", value=b"1").wait()


def test_name_that_no_rule_matches(broker: BrokerProcess, authority: Authority) -> None:
    with BlockingAdmin(
        broker.bootstrap, **settings(authority, authority.issue("shop", ()).keystore)
    ) as admin:
        assert admin.list_topics() == []
    given = settings(
        authority, authority.issue("billing", ()).keystore, default_api_timeout_ms=2_000
    )
    with pytest.raises(KafkaError), BlockingAdmin(broker.bootstrap, **given) as admin:
        admin.list_topics()
    assert "ssl.principal.mapping.rules" in broker.log_path.read_text()
