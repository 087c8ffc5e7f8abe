"""What admins ask and are told, by tidelog as by Apache Kafka: topics, partitions, configuration."""

from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.integration.differential import Duel


def test_a_taken_name_is_refused(duel: Duel) -> None:
    duel.create_topic("taken")
    duel.compare(CreateTopicsRequest(topics=[CreatableTopic(name="taken", num_partitions=1, replication_factor=1)]), 7)
