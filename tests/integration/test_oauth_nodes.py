"""Three nodes log in to each other, brokers and controllers, by tokens.

An issuer's endpoint gives them to each node.
"""

from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.helpers.authority import Authority
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import NODE_IDS
from tests.integration.login_frames import PACKAGE
from tests.integration.oauth_issuer import SECRET, oauth_issuer
from tests.integration.secure_nodes import SecureNodes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def test_nodes_are_a_cluster_by_tokens_of_an_endpoint(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "issuer")
    with oauth_issuer(authority) as issuer:
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{authority.truststore}"'
        module = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required"
        by_tokens = {
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.mechanism.controller.protocol": "OAUTHBEARER",
            "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.controller.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.clients.oauthbearer.sasl.jaas.config": f"{module} {trust};",
            "listener.name.controller.oauthbearer.sasl.jaas.config": f'{module} clientId="service" clientSecret="{SECRET}" {trust};',
            "listener.name.clients.oauthbearer.sasl.oauthbearer.client.credentials.client.id": "service",
            "listener.name.clients.oauthbearer.sasl.oauthbearer.client.credentials.client.secret": SECRET,
            "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.base}/keys",
            "sasl.oauthbearer.token.endpoint.url": f"{issuer.base}/token",
            "sasl.oauthbearer.allowed.urls": f"{issuer.base}/keys,{issuer.base}/token",
            "sasl.oauthbearer.expected.audience": "logs",
            "super.users": "User:service",
        }
        nodes = SecureNodes(TIDELOG, tmp_path)
        for node_id in NODE_IDS:
            nodes.properties[node_id] |= by_tokens
        settings = {
            "security_protocol": "SASL_SSL",
            "ssl_ca": str(nodes.authority.truststore),
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": f"{issuer.base}/token",
            "sasl_oauthbearer_client_credentials_client_id": "service",
            "sasl_oauthbearer_client_credentials_client_secret": SECRET,
            "sasl_oauthbearer_ca": str(authority.truststore),
        }
        nodes.login = settings
        with nodes:
            with BlockingAdmin(nodes.bootstrap, **settings) as admin:
                admin.create_topics([NewTopic(name="t", partition_count=3, replication_factor=3)])
            with BlockingProducer(nodes.bootstrap, **settings) as producer:
                for partition in range(3):
                    producer.send("t", value=b"1", partition=partition).wait()
    asked = [request.path for request in issuer.asked]
    assert asked.count("/token") >= 2 * len(NODE_IDS), (
        "each node has a token for each of its listeners"
    )
    assert all(SECRET.encode() not in log.read_bytes() for log in tmp_path.rglob("*.log"))
