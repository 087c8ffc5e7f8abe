"""The text format: headings, escaping, numbers, and chunks that stay small."""

from collections.abc import Iterator

from log_service.metrics.exposition import Family, Sample, labels, rendered


def family(*samples: Sample, name: str = "kafka_x", text: str = "What it is.") -> Family:
    return Family(name=name, type="gauge", help=text, samples=samples)


def page(*families: Family) -> str:
    return b"".join(rendered(families)).decode()


def test_a_family_has_one_heading_and_a_line_per_sample() -> None:
    found = page(family(("", labels({"topic": "a"}), 1), ("", labels({"topic": "b"}), 2.5)))
    assert (
        found
        == '# HELP kafka_x What it is.\n# TYPE kafka_x gauge\nkafka_x{topic="a"} 1\nkafka_x{topic="b"} 2.5\n'
    )


def test_a_sample_without_labels_has_no_braces() -> None:
    assert page(family(("_count", "", 3))).splitlines()[-1] == "kafka_x_count 3"


def test_labels_escape_backslash_quote_and_newline() -> None:
    assert labels({"group": 'a"b\\c\nd'}) == 'group="a\\"b\\\\c\\nd"'


def test_help_escapes_backslash_and_newline() -> None:
    assert page(family(("", "", 1), text="a\\b\nc")).splitlines()[0] == "# HELP kafka_x a\\\\b\\nc"


def test_text_that_is_no_unicode_does_not_break_the_page() -> None:
    assert '"\\udcff"' in page(family(("", labels({"group": "\udcff"}), 1)))


def test_numbers_that_are_none_are_spelled_as_prometheus_reads_them() -> None:
    found = page(family(("", "", float("nan")), ("", "", float("inf")), ("", "", float("-inf"))))
    assert [line.split()[-1] for line in found.splitlines()[2:]] == ["NaN", "+Inf", "-Inf"]


def test_a_family_without_samples_is_left_out() -> None:
    assert page(family(), family(("", "", 1), name="kafka_y")).startswith("# HELP kafka_y")


def test_chunks_are_bounded_and_samples_are_made_while_they_are_written() -> None:
    made = 0

    def samples() -> Iterator[Sample]:
        nonlocal made
        for index in range(1_000):
            made += 1
            yield "", labels({"partition": index}), index

    chunks = rendered(
        [Family(name="kafka_x", type="gauge", help="x", samples=samples())], lines_per_chunk=10
    )
    first = next(chunks)
    assert made == 9, "a heading and nine samples"
    assert first.count(b"\n") == 11, "the heading is two lines"
    assert sum(chunk.count(b"kafka_x{") for chunk in (first, *chunks)) == 1_000
