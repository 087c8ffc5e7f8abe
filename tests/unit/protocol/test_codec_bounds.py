"""A peer's claims are bounded by the bytes that it sent: counts, lengths, tags, memory.

The error says which field it was.
"""

import tracemalloc
from uuid import UUID

import pytest

from log_service.common.errors import ProtocolError
from log_service.protocol.codec import MAX_REQUEST_ELEMENTS, decode, encode, encode_chunks
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
)
from log_service.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from log_service.protocol.messages.fetch import LeaderIdAndEpoch as FetchLeader
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from log_service.protocol.messages.produce import PartitionProduceResponse as ProducedPartition
from log_service.protocol.messages.produce import TopicProduceResponse as ProducedTopic
from log_service.protocol.schema import Message


def refused(cls: type[Message], version: int, encoded: str | bytes, match: str) -> None:
    with pytest.raises(ProtocolError, match=match):
        decode(cls, version, bytes.fromhex(encoded) if isinstance(encoded, str) else encoded)


def test_ten_bytes_that_claim_four_billion_topics_are_refused() -> None:
    refused(MetadataRequest, 12, "ffffffff0bffffffff0a", "MetadataRequest v12: topics: a list of")


def test_count_is_compared_with_the_least_that_its_elements_take() -> None:
    refused(
        MetadataRequest, 12, "05" + "00" * 30, "topics: a list of 4 elements with 30 bytes left"
    )


@pytest.mark.parametrize(
    ("encoded", "match"),
    [
        ("7fffffff", "topics: a list of 2147483647"),
        ("fffffffe", "topics: a list of -2"),
        ("00000001ffff", "topics.name: null"),
        ("00000001fffe", "topics.name: null is not allowed|topics.name: a length"),
        ("000000017fff", "topics.name: a length of 32767 with 0 bytes left"),
        ("000000010002c328", "not UTF-8"),
    ],
)
def test_old_lengths_are_bounded(encoded: str, match: str) -> None:
    refused(MetadataRequest, 1, encoded, match)


def test_null_where_none_is_allowed_is_refused() -> None:
    refused(MetadataRequest, 0, "ffffffff", "topics: null")
    refused(CreateTopicsRequest, 7, "00", "topics: null")


def test_varint_of_more_than_32_bits_is_refused() -> None:
    refused(MetadataRequest, 12, "ffffffffff01", "32 bits")
    refused(MetadataRequest, 12, "80808080808001", "32 bits")


def test_string_longer_than_the_protocol_allows_is_refused_both_ways() -> None:
    text = "x" * 40000
    refused(ProduceRequest, 9, b"\xc1\xb8\x02" + text.encode(), "at most 32767")
    for version in (8, 9):
        with pytest.raises(ProtocolError):
            encode(ProduceRequest(transactional_id=text), version)


@pytest.mark.parametrize(
    ("tags", "match"),
    [
        ("0205000300", "tag 3 after tag 5"),
        ("0205000500", "tag 5 after tag 5"),
        ("0105ff", "end inside"),
        ("0105057777", "tag 5: a length of 5 with 2 bytes left"),
        ("ffffffff07", "a list of"),
    ],
)
def test_unknown_tags_are_ordered_and_bounded(tags: str, match: str) -> None:
    refused(MetadataRequest, 12, "010100" + tags, match)


def test_unknown_tags_are_stepped_over() -> None:
    message, end = decode(MetadataRequest, 12, bytes.fromhex("010100" + "02050277770900"))
    assert message == MetadataRequest(
        topics=[], allow_auto_topic_creation=True, include_topic_authorized_operations=False
    )
    assert end == 10


def fetch_request(tags: str) -> bytes:
    return encode(FetchRequest(), 15)[:-1] + bytes.fromhex(tags)


def test_known_tag_must_fill_its_size() -> None:
    state = "00000001" + "0000000000000002" + "00"
    message, _ = decode(FetchRequest, 15, fetch_request("01010d" + state))
    assert message.replica_state == ReplicaState(replica_id=1, replica_epoch=2)
    refused(
        FetchRequest, 15, fetch_request("01010e" + state + "00"), "tag 1 does not hold the 14 bytes"
    )
    refused(FetchRequest, 15, fetch_request("01010c" + state), "tag 1 does not hold the 12 bytes")
    refused(
        FetchRequest,
        15,
        fetch_request("0201" + "0d" + state + "01" + "0d" + state),
        "tag 1 after tag 1",
    )


def test_fields_inside_a_tag_end_with_the_tag() -> None:
    refused(
        FetchRequest,
        12,
        fetch_request_with_cluster("01000564" + "61" * 9),
        "cluster_id: a length of 99 with 4 bytes left",
    )


def fetch_request_with_cluster(tags: str) -> bytes:
    return encode(FetchRequest(), 12)[:-1] + bytes.fromhex(tags)


def test_list_of_cheap_elements_is_bounded_in_memory() -> None:
    count = 3_000_000
    encoded = bytes(
        [
            0x80 | (count + 1) & 0x7F,
            0x80 | (count + 1) >> 7 & 0x7F,
            0x80 | (count + 1) >> 14 & 0x7F,
            (count + 1) >> 21,
        ]
    )
    encoded += b"\x01" * count + b"\x00"
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="more than one frame may carry"):
            decode(ListGroupsRequest, 4, encoded)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_request_full_of_the_emptiest_topics_costs_tens_of_megabytes() -> None:
    topics = encode(CreateTopicsRequest(topics=[CreatableTopic()] * 8000), 7)
    tracemalloc.start()
    try:
        decode(CreateTopicsRequest, 7, topics, max_elements=MAX_REQUEST_ELEMENTS)
        each_bytes = tracemalloc.get_traced_memory()[1] / 8000
    finally:
        tracemalloc.stop()
    assert each_bytes * MAX_REQUEST_ELEMENTS < 100_000_000


def test_budget_of_elements_is_one_for_the_whole_message() -> None:
    topics = [
        TopicProduceData(name="t", partition_data=[PartitionProduceData(index=i) for i in range(5)])
        for _ in range(3)
    ]
    encoded = encode(ProduceRequest(topic_data=topics), 9)
    assert decode(ProduceRequest, 9, encoded, max_elements=18)[0].topic_data == topics
    with pytest.raises(ProtocolError):
        decode(ProduceRequest, 9, encoded, max_elements=17)


def test_records_are_a_view_of_the_input_and_all_else_is_not() -> None:
    batch = b"\x07" * 300
    topics = [
        TopicProduceData(name="flights", partition_data=[PartitionProduceData(records=batch)])
    ]
    buffer = bytearray(encode(ProduceRequest(topic_data=topics), 9))
    decoded, _ = decode(ProduceRequest, 9, buffer)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == batch
    buffer[:] = bytes(len(buffer))
    assert records == bytes(300)
    assert decoded.topic_data[0].name == "flights"


def test_value_that_a_version_has_no_field_for_is_dropped_only_if_ignorable() -> None:
    topic = ProducedTopic(
        name="t", partition_responses=[ProducedPartition(error_message="why", log_start_offset=9)]
    )
    old, _ = decode(ProduceResponse, 3, encode(ProduceResponse(responses=[topic]), 3))
    assert old.responses[0].partition_responses[0] == ProducedPartition()
    topic.partition_responses[0].current_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    assert encode(ProduceResponse(responses=[topic]), 10)
    with pytest.raises(
        ProtocolError, match=r"ProduceResponse v9: responses.partition_responses.current_leader"
    ):
        encode(ProduceResponse(responses=[topic]), 9)


def test_value_at_its_default_is_never_in_the_way() -> None:
    partition = PartitionData(
        current_leader=FetchLeader(leader_id=-1, leader_epoch=-1), records=b""
    )
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    plain = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(records=b"")])]
    )
    assert [encode(response, version) for version in (11, 12)] == [
        encode(plain, version) for version in (11, 12)
    ]


def test_null_that_a_version_cannot_carry_is_refused() -> None:
    with pytest.raises(ProtocolError, match="topics: null"):
        encode(MetadataRequest(topics=None), 0)
    assert encode(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"


def test_number_outside_its_wire_type_is_refused() -> None:
    with pytest.raises(ProtocolError, match="ProduceRequest v9: a value does not fit"):
        encode(ProduceRequest(acks=2**15), 9)


def test_text_that_has_no_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError):
        encode(ProduceRequest(transactional_id="\ud800"), 9)


@pytest.mark.parametrize("version", [-1, 2, 14, 99])
def test_version_that_is_not_spoken_is_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match="versions are 3-13"):
        decode(ProduceRequest, version, b"")
    with pytest.raises(ProtocolError, match="versions are 3-13"):
        encode(ProduceRequest(), version)


def test_nullable_struct_has_a_byte_before_it() -> None:
    without = DescribeTopicPartitionsRequest(response_partition_limit=1)
    having = DescribeTopicPartitionsRequest(
        response_partition_limit=1, cursor=RequestCursor(topic_name="t", partition_index=2)
    )
    assert encode(without, 0).hex() == "0100000001ff00"
    assert encode(having, 0).hex() == "010000000101027400000002" + "0000"
    assert [
        decode(DescribeTopicPartitionsRequest, 0, encode(each, 0))[0] for each in (without, having)
    ] == [without, having]


def test_uuid_zero_and_others_come_back_equal() -> None:
    for topic_id in (UUID(int=0), UUID(int=2**128 - 1)):
        response = FetchResponse(responses=[FetchableTopicResponse(topic_id=topic_id)])
        assert decode(FetchResponse, 13, encode(response, 13))[0] == response


def test_chunks_go_on_behind_the_given_prefix() -> None:
    assert encode_chunks(MetadataRequest(topics=None), 1, b"head") == [
        bytearray(b"head\xff\xff\xff\xff")
    ]
