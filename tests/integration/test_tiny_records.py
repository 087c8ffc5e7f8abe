"""One Produce request has very many tiny records for a compacted topic.

Other clients are served beside it, and the node stops when told.
"""

import threading

import pytest

from log_service.protocol.messages.api_versions import ApiVersionsRequest
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from tests.helpers.broker_process import BrokerProcess
from tests.integration.wire import Wire

PARTITIONS = 4
VERSION = 9
COUNTS = {Codec.NONE: 100_000, Codec.GZIP: 400_000}


def attack(codec: Codec) -> ProduceRequest:
    """As many records as a batch of 1 MiB has room for."""
    records = build_batch(
        ((1_700_000_000_000, b"", b"") for _ in range(COUNTS[codec])), codec=codec
    )
    data = [PartitionProduceData(index=index, records=records) for index in range(PARTITIONS)]
    return ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="tiny", partition_data=data)]
    )


def create_topic(wire: Wire) -> None:
    configs = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topic = CreatableTopic(
        name="tiny", num_partitions=PARTITIONS, replication_factor=1, configs=configs
    )
    assert (
        wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7).topics[0].error_code == 0
    )


@pytest.mark.parametrize("codec", list(COUNTS))
def test_others_are_served_while_tiny_records_are_checked_and_a_stop_is_heeded(
    broker: BrokerProcess, codec: Codec
) -> None:
    request = attack(codec)
    with Wire(broker.bootstrap) as attacker, Wire(broker.bootstrap) as other:
        create_topic(other)
        answers = []
        sending = threading.Thread(target=lambda: answers.append(attacker.ask(request, VERSION)))
        sending.start()
        served_count = 0
        while sending.is_alive():
            other.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3)
            other.ask(MetadataRequest(topics=[MetadataRequestTopic(name="tiny")]), 9)
            served_count += 1
        sending.join()
        assert [each.error_code for each in answers[0].responses[0].partition_responses] == [
            0
        ] * PARTITIONS
        assert served_count >= PARTITIONS
        attacker.send(request, VERSION)
        other.ask(MetadataRequest(topics=[MetadataRequestTopic(name="tiny")]), 9)
        assert broker.stop() == 0
