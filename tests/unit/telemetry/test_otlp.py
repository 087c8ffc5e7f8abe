"""Any pushed bytes give nothing but points or INVALID_RECORD, within bounds."""

from random import Random

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
)

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.compression import Codec, compress
from log_service.telemetry import otlp
from log_service.telemetry.otlp import Point, Pushed, read_push
from tests.unit.telemetry.payloads import CUMULATIVE, counter, gauge, labels, payload

MAX_BYTES = 1 << 20


@pytest.mark.parametrize("codec", Codec)
def test_gauges_and_sums_come_with_the_labels_of_both_levels(codec: Codec) -> None:
    content = payload(
        gauge("a.b", 1.5, topic="t"), counter("c", 3), counter("d", 9, CUMULATIVE), client_rack="r1"
    )
    pushed = read_push(codec, compress(codec, content), MAX_BYTES)
    assert pushed.left_out_count == 0
    assert pushed.points == (
        Point("a.b", (("client_rack", "r1"), ("topic", "t")), 1.5, False, False),
        Point("c", (("client_rack", "r1"),), 3.0, True, True),
        Point("d", (("client_rack", "r1"),), 9.0, True, False),
    )


def test_what_is_not_kept_is_counted() -> None:
    many = NumberDataPoint(
        as_int=1, attributes=labels(**{f"l{number}": "x" for number in range(17)})
    )
    pushed = read_push(
        0,
        payload(
            Metric(name="h", histogram=Histogram(data_points=[HistogramDataPoint(count=1)])),
            Metric(name="empty"),
            gauge("", 1.0),
            gauge("n" * 257, 1.0),
            gauge("nan", float("nan")),
            gauge("inf", float("inf")),
            Metric(name="labels", gauge=Gauge(data_points=[many])),
            gauge("kept", 2.0, long="v" * 300),
        ),
        MAX_BYTES,
    )
    assert [(point.name, point.labels) for point in pushed.points] == [
        ("kept", (("long", "v" * 256),))
    ]
    assert pushed.left_out_count == 7


def test_a_point_has_few_labels_and_little_text_however_they_come() -> None:
    """A push of one megabyte, half labels of all and half points, kept a thread for minutes.

    Kept series could be a gigabyte.
    """
    of_all, of_one = ({f"{letter}{number}": "v" * 100 for number in range(6)} for letter in "ab")
    few = payload(gauge("kept", 1.0, **of_one))
    for content in (
        payload(gauge("text", 1.0, **of_one), **of_all),
        payload(gauge("text", 1.0), **{f"l{number}": "x" for number in range(17)}),
        payload(
            gauge("text", 1.0, **{f"own{number}": "x" for number in range(9)}),
            **{f"l{number}": "x" for number in range(8)},
        ),
    ):
        assert read_push(0, content, MAX_BYTES) == Pushed((), 1)
    assert [point.name for point in read_push(0, few, MAX_BYTES).points] == ["kept"]


def test_texts_are_kept_up_to_their_bounds() -> None:
    """The bounds are sixteen labels, 1024 characters of labels, and 256 characters of a name.

    They hold for all and one point together.
    """
    own, common = ({f"{letter}{number}": "v" * 62 for number in range(8)} for letter in "oc")
    pushed = read_push(0, payload(gauge("n" * 256, 1.0, **own), **common), MAX_BYTES)
    assert [(len(point.name), len(point.labels)) for point in pushed.points] == [(256, 16)]
    assert sum(len(name) + len(value) for name, value in pushed.points[0].labels) == 1_024
    assert read_push(
        0, payload(gauge("n", 1.0, **{**own, "o0": "v" * 63}), **common), MAX_BYTES
    ) == Pushed((), 1)


def test_labels_that_are_no_text_are_shown_as_json_has_them() -> None:
    attributes = [
        KeyValue(key="count", value=AnyValue(int_value=7)),
        KeyValue(key="ratio", value=AnyValue(double_value=0.5)),
        KeyValue(key="is_so", value=AnyValue(bool_value=True)),
        KeyValue(
            key="list", value=AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)]))
        ),
        KeyValue(key="nothing"),
        KeyValue(key="", value=AnyValue(string_value="without a name")),
    ]
    metric = Metric(
        name="labels", gauge=Gauge(data_points=[NumberDataPoint(as_int=1, attributes=attributes)])
    )
    (point,) = read_push(0, payload(metric), MAX_BYTES).points
    assert point.labels == (
        ("count", "7"),
        ("ratio", "0.5"),
        ("is_so", "true"),
        ("list", ""),
        ("nothing", ""),
    ), "a list is not shown"


def test_points_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_POINTS", 10)
    pushed = read_push(0, payload(*(gauge(f"m{number}", 1.0) for number in range(25))), MAX_BYTES)
    assert (len(pushed.points), pushed.left_out_count) == (10, 15)
    none = [
        Metric(
            name="nothing", gauge=Gauge(data_points=[NumberDataPoint(as_double=float("nan"))] * 12)
        ),
        gauge("late", 1.0),
    ]
    assert read_push(0, payload(*none), MAX_BYTES) == Pushed((), 13), (
        "those that are passed over take time to look at, too"
    )
    histograms = [
        Metric(name="h", histogram=Histogram(data_points=[HistogramDataPoint(count=1)]))
    ] * 12
    assert read_push(0, payload(*histograms, gauge("late", 1.0)), MAX_BYTES) == Pushed((), 13), (
        "and so do those of another kind"
    )


@pytest.mark.parametrize(
    ("codec", "content"),
    [
        (0, b"\xff\xff\xff"),
        (0, b"\x0a\xff\xff\xff\xff\x07x"),
        (1, b"no gzip"),
        (4, b"no zstd"),
        (4, compress(Codec.ZSTD, bytes(MAX_BYTES + 1))),
        (1, compress(Codec.GZIP, bytes(MAX_BYTES + 1))),
        (9, b""),
    ],
    ids=[
        "no protobuf",
        "a length without bytes",
        "no gzip",
        "no zstd",
        "a zstd bomb",
        "a gzip bomb",
        "no codec",
    ],
)
def test_what_is_no_metrics_is_refused(codec: int, content: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        read_push(codec, content, MAX_BYTES)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_damaged_pushes_are_points_or_refused() -> None:
    rng = Random(1)
    whole = payload(
        *(gauge(f"m{number}", number, topic="t") for number in range(20)), client_rack="r"
    )
    for _ in range(2_000):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 5)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            read_push(0, bytes(damaged[: rng.randint(0, len(damaged))]), MAX_BYTES)
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_RECORD  # noqa: PT017 - either is right
