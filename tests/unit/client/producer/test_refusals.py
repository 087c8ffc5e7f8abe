"""The text of a refused batch has each reason once."""

from log_service.client.producer.sender import refusal_text
from log_service.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
)


def refused(message: str | None, *reasons: str) -> PartitionProduceResponse:
    """Return the response of a broker that refuses records of a batch."""
    errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in enumerate(reasons)
    ]
    return PartitionProduceResponse(
        index=0, error_code=87, base_offset=-1, error_message=message, record_errors=errors
    )


def test_a_reason_that_the_message_has_is_not_repeated() -> None:
    """The brokers' message ends with the first reason, and it was told twice in one sentence."""
    text = "2 records of the batch were refused, the first because: no schema"
    assert refusal_text(refused(text, "no schema")) == text
    assert refusal_text(refused(text, "no schema", "id 9")) == f"{text} (record 1: id 9)"


def test_reasons_of_a_broker_whose_message_has_none_are_told() -> None:
    """Apache Kafka's brokers send such a message."""
    assert refusal_text(refused("rejected", "a", "b")) == "rejected (record 0: a; record 1: b)"
    assert refusal_text(refused(None, "a")) == "INVALID_RECORD (record 0: a)"
