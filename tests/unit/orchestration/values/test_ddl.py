"""A topic's schema is read where it is declared, and a typing error in it is named there."""

import pytest
from pyspark.sql import types

from orchestration.topics.spec import TopicSpec
from orchestration.values.ddl import SchemaError, parse_ddl


def test_names_types_and_what_is_required() -> None:
    fields = parse_ddl(
        "id BIGINT NOT NULL, `a b``c`: string COMMENT 'what it\\'s called', place STRUCT<city: STRING, at ARRAY<Decimal(4, 2)>>"
    )
    assert fields == types.StructType(
        [
            types.StructField("id", types.LongType(), nullable=False),
            types.StructField(
                "a b`c", types.StringType(), metadata={"comment": "what it's called"}
            ),
            types.StructField(
                "place",
                types.StructType(
                    [
                        types.StructField("city", types.StringType()),
                        types.StructField("at", types.ArrayType(types.DecimalType(4, 2))),
                    ]
                ),
            ),
        ]
    )


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("", "the end stands where a field has to be"),
        ("id", "field id has no type"),
        ("id BIGINT, amount DUBLE", "field amount: there is no type DUBLE; did you mean DOUBLE?"),
        ("id BIGINT amount INT", "after field id: 'amount' stands where ',' has to be"),
        ("id BIGINT NOT, b INT", "after field id: 'NOT' stands where ',' has to be"),
        ("id BIGINT,", "the end stands where a field has to be"),
        ("id INT, ID STRING", "field ID is declared twice"),
        ("id INT)", "after field id: ')' stands where ',' has to be"),
        ("a ARRAY<INT", "field a: the end stands where '>' has to be"),
        (
            "a MAP<INT, INT>",
            "field a: the keys of a JSON object are texts, so they have to be STRING",
        ),
        ("a STRUCT<b: STRUCT<c: INTT>>", "field a.b.c: there is no type INTT; did you mean INT?"),
        ("a STRUCT<>", "'>' stands where a field of a has to be"),
        (
            "a DECIMAL(39, 2)",
            "field a: a DECIMAL has up to 38 digits, and no more of them behind the point",
        ),
        (
            "a DECIMAL(2, 3)",
            "field a: a DECIMAL has up to 38 digits, and no more of them behind the point",
        ),
        ("a DECIMAL(x)", "field a: 'x' stands where a number of digits has to be"),
        ("a INT; b INT", "nothing can be made of '; b INT'"),
        ("a INT COMMENT b", "field a: a COMMENT is a text in quotes, not 'b'"),
        ("a VARCHAR(3)", "field a: there is no type VARCHAR"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(ddl: str, said: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parse_ddl(ddl)
    assert str(refused.value).startswith(said)


def test_a_topic_with_a_typing_error_is_refused_when_it_is_declared() -> None:
    with pytest.raises(
        ValueError,
        match=r"the schema of topic orders cannot be read: field amount: there is no type DUBLE",
    ):
        TopicSpec(name="orders", schema="id BIGINT, amount DUBLE")
