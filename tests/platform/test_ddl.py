"""The schema that we read is the one that Spark reads."""

from typing import Any

import pytest

from assets import topics
from orchestration.topics.spec import TopicSpec
from orchestration.values.ddl import TYPES, parse_ddl

pytestmark = pytest.mark.platform
DECLARED = [
    one.schema for one in vars(topics).values() if isinstance(one, TopicSpec) and one.schema
]
SCHEMAS = (
    *DECLARED,
    ", ".join(f"f{number} {kind}" for number, kind in enumerate(TYPES)),
    "a DECIMAL, b DEC(5), c numeric(5, 2) NOT NULL",
    "a array<array<int>>, m MAP<STRING, STRUCT<x: INT NOT NULL, y STRING COMMENT 'why'>> not null",
    '`strange name` INT, `back``quote` STRING COMMENT "it\'s", select INT, from STRING',
    "\n  id BIGINT NOT NULL COMMENT 'the id',\n  s STRUCT<`a b`: DATE>\n",
)


@pytest.mark.parametrize("ddl", SCHEMAS)
def test_spark_reads_the_same_fields(spark: Any, ddl: str) -> None:
    assert parse_ddl(ddl) == spark.createDataFrame([], ddl).schema
