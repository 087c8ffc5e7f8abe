"""Only who may alter the cluster has a broker look at the files that a change of certificates
names.
"""

from pathlib import Path

from log_service.common.access import AclOperation
from log_service.metadata.image import ResourceType
from log_service.protocol.messages.alter_configs import AlterableConfig as LegacyConfig
from log_service.protocol.messages.alter_configs import AlterConfigsRequest
from log_service.protocol.messages.alter_configs import AlterConfigsResource as LegacyResource
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.helpers.authority import Authority
from tests.unit.broker.authorization.acl_story import (
    CLUSTER,
    CLUSTER_NAME,
    CONTROLLER_PORT,
    AclStory,
    tell_with_acls,
)
from tests.unit.broker.context import HOST, PORT

TRUST_STORE, KEY_STORE = (
    "listener.name.ssl.ssl.truststore.location",
    "listener.name.ssl.ssl.keystore.location",
)
NOT_THERE = "/nowhere/at/all"


def naming_a_file(key: str = TRUST_STORE) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(
        resource_type=ResourceType.BROKER,
        resource_name="1",
        configs=[AlterableConfig(name=key, config_operation=0, value=NOT_THERE)],
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def naming_a_file_in_an_old_way() -> AlterConfigsRequest:
    configs = [LegacyConfig(name=TRUST_STORE, value=NOT_THERE)]
    return AlterConfigsRequest(
        resources=[
            LegacyResource(resource_type=ResourceType.BROKER, resource_name="1", configs=configs)
        ]
    )


def test_others_learn_nothing_of_the_files_of_a_broker(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("node")

    async def story(node: AclStory) -> None:
        (refused,) = (await node.ask(naming_a_file(), 1)).responses
        assert refused.error_code == 31
        assert NOT_THERE not in (refused.error_message or "")
        await node.allow((AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME))
        for key in (TRUST_STORE, KEY_STORE):
            (refused,) = (await node.ask(naming_a_file(key), 1)).responses
            assert (refused.error_code, NOT_THERE in (refused.error_message or "")) == (31, False)
        await node.allow(
            (AclOperation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME),
            (AclOperation.ALTER, CLUSTER, CLUSTER_NAME),
        )
        (judged,) = (await node.ask(naming_a_file(), 1)).responses
        assert judged.error_code == 42
        assert f"names {NOT_THERE}, which cannot be read" in judged.error_message
        (legacy,) = (await node.ask(naming_a_file_in_an_old_way(), 2)).responses
        assert (legacy.error_code, legacy.error_message) == (42, judged.error_message)
        await node.forget_acls()
        (legacy,) = (await node.ask(naming_a_file_in_an_old_way(), 2)).responses
        assert legacy.error_code == 31

    secure = {
        "listeners": f"PLAINTEXT://{HOST}:{PORT},SSL://{HOST}:9095,CONTROLLER://{HOST}:{CONTROLLER_PORT}",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": issued.key_text,
        "ssl_keystore_certificate_chain": issued.chain_text,
    }
    tell_with_acls(story, **secure)
