"""A component in YAML is the asset that the Python declaration makes.

A mistake is told with file, line and advice.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import dagster as dg
import pytest
from dagster.components.component_scaffolding import scaffold_object
from dagster.components.core.package_entry import discover_package_objects

from orchestration.assembly import assemble
from orchestration.components.loading import load_components
from orchestration.formats import avro_schema, protobuf_schema
from orchestration.marts.mart import mart
from orchestration.project.location import ProjectError
from orchestration.quality import Severity
from orchestration.topics.spec import (
    TopicSpec,
    declare_topic,
    declared_topic,
    forget_declared_topics,
    topic_asset,
    topic_specs,
)
from orchestration.transforms import topic_feeds
from orchestration.transforms.to_lake.kind import LakeKind
from tests.helpers.declared_kinds import declared_as
from tests.helpers.documents import ROOT

TOPIC = """\
type: orchestration.components.TopicComponent
attributes:
  name: payments
  partitions: 4
  configs:
    retention.ms: 604800000
    unclean.leader.election.enable: false
  value_schema: id BIGINT NOT NULL, paid DOUBLE
  archive: true
"""
TABLE = """\
type: orchestration.components.SqlTransformComponent
attributes:
  name: clean_payments
  topic: payments
  sql: |
    SELECT id, paid, _topic_id, _partition, _offset FROM payments
  unique_by: [id]
  rules:
    - name: paid_is_positive
      condition: paid > 0
    - name: paid_is_small
      condition: paid < 1000
      severity: warn
      description: Large payments are looked at
  expectations:
    - type: expect_column_values_to_not_be_null
      arguments: {column: id}
      is_blocking: true
"""
MART = """\
type: orchestration.components.MartComponent
attributes:
  name: revenue
  tables: [clean_payments]
  sql_file: revenue.sql
"""


class Project:
    """A project whose package ``assets`` holds YAML files alone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = ModuleType("assets")
        self.package.__file__ = str(root / "assets" / "__init__.py")
        self.package.__path__ = [str(root / "assets")]

    def write(self, folder: str, text: str, name: str = "defs.yaml") -> Path:
        file = self.root / "assets" / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return file

    def load(self) -> dg.Definitions:
        return assemble(definitions=load_components(self.root, self.package), has_sensors=True)

    def refusal(self) -> str:
        with pytest.raises(ProjectError) as refused:
            self.load()
        return str(refused.value)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    forget_declared_topics()
    yield Project(tmp_path)
    forget_declared_topics()


@pytest.mark.parametrize(
    ("key", "written", "read"),
    [
        ("min.cleanable.dirty.ratio", "0.5", "0.5"),
        ("min.cleanable.dirty.ratio", "0.00001", "0.00001"),
        ("segment.ms", "1.0e+3", "1000"),
        ("max.compaction.lag.ms", "7", "7"),
        ("retention.ms", "-1", "-1"),
        ("preallocate", "true", "true"),
        ("cleanup.policy", "compact", "compact"),
    ],
)
def test_a_config_is_taken_as_kafka_reads_it(
    project: Project, key: str, written: str, read: str
) -> None:
    project.write("topic", TOPIC.replace("retention.ms: 604800000", f"{key}: {written}"))
    assets = project.load().get_repository_def().assets_defs_by_key
    (spec,) = topic_specs(set(assets.values()))
    assert spec.configs[key] == read


def test_a_config_that_is_no_number_is_refused_in_its_file(project: Project) -> None:
    project.write(
        "topic", TOPIC.replace("retention.ms: 604800000", "min.cleanable.dirty.ratio: .inf")
    )
    with pytest.raises(ProjectError, match=r"topic/defs.yaml.*a topic's config cannot be inf"):
        project.load()


def test_schema_files_lie_beside_the_yaml(project: Project) -> None:
    project.write(
        "topic",
        '{"type": "record", "name": "P", "fields": [{"name": "id", "type": "long"}]}',
        "payments.avsc",
    )
    text = TOPIC.replace(
        "value_schema: id BIGINT NOT NULL, paid DOUBLE",
        "avro: {file: payments.avsc, framing: confluent}",
    )
    project.write("topic", text)
    project.load()
    file = project.root / "assets" / "topic" / "payments.avsc"
    assert declared_topic("payments").schema == avro_schema(file, framing="confluent")
    project.write(
        "topic",
        text.replace("archive: true", "protobuf: {file: payments.proto, message: shop.Payment}"),
    )
    assert "avro and protobuf cannot be given together: values have one format" in project.refusal()
    project.write(
        "topic",
        'syntax = "proto3"; package shop; message Payment { int64 id = 1; }',
        "payments.proto",
    )
    project.write(
        "topic",
        TOPIC.replace(
            "value_schema: id BIGINT NOT NULL, paid DOUBLE",
            "protobuf: {file: payments.proto, message: shop.Payment}",
        ),
    )
    project.load()
    assert declared_topic("payments").schema == protobuf_schema(
        file.with_suffix(".proto"), message="shop.Payment"
    )


def test_keys_have_a_schema_of_their_own(project: Project) -> None:
    project.write(
        "topic",
        '{"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}',
        "key.avsc",
    )
    project.write("topic", TOPIC.replace("archive: true", "key_avro: {file: key.avsc}"))
    project.load()
    assert declared_topic("payments").key_schema == avro_schema(
        project.root / "assets" / "topic" / "key.avsc"
    )
    project.write("topic", TOPIC.replace("archive: true", "key_schema: id BIGINT"))
    project.load()
    assert declared_topic("payments").key_schema == "id BIGINT"
    project.write(
        "topic",
        TOPIC.replace("archive: true", "key_schema: id BIGINT\n  key_avro: {file: key.avsc}"),
    )
    assert (
        "key_schema and key_avro cannot be given together: keys have one format"
        in project.refusal()
    )


def test_a_schema_file_that_is_not_there_is_told_with_its_line(project: Project) -> None:
    file = project.write(
        "topic",
        TOPIC.replace(
            "value_schema: id BIGINT NOT NULL, paid DOUBLE", "avro: {file: payments.avsc}"
        ),
    )
    refusal = project.refusal()
    assert refusal.startswith(f"{file}, line "), refusal
    assert (
        f"the schema file {file.parent / 'payments.avsc'} cannot be read: No such file or directory"
        in refusal
    )


def test_yaml_makes_what_python_makes(project: Project) -> None:
    # The table's folder comes before the topic's: the order of files does not matter.
    project.write("a_table", TABLE)
    project.write("b_mart", MART)
    project.write("b_mart", "SELECT sum(paid) AS revenue FROM clean_payments;\n", "revenue.sql")
    project.write("c_topic", TOPIC)
    repository = project.load().get_repository_def()
    assets = repository.assets_defs_by_key
    by_hand = topic_asset(
        TopicSpec(
            name="payments",
            partitions=4,
            configs={"retention.ms": "604800000", "unclean.leader.election.enable": "false"},
            schema="id BIGINT NOT NULL, paid DOUBLE",
            archive=True,
        )
    )
    assert topic_specs(set(assets.values())) == topic_specs([by_hand])
    (feed,) = (one for one in topic_feeds(set(assets.values())) if one.table == "clean_payments")
    kind = declared_as(LakeKind, "clean_payments")
    assert (feed.table, feed.topic, kind.is_replayable) == ("clean_payments", "payments", True)
    table = kind.table
    assert table.unique_by == ("id",)
    assert [(rule.name, rule.severity) for rule in table.rules] == [
        ("paid_is_positive", Severity.QUARANTINE),
        ("paid_is_small", Severity.WARN),
    ]
    assert [one.check_name for one in table.suite.expectations if one.is_blocking] == [
        "id_column_values_to_not_be_null"
    ]
    assert "SELECT id, paid" in str(table.function.__doc__)
    built, expected = (
        assets[dg.AssetKey(["marts", "revenue"])],
        mart(
            "revenue",
            sql="SELECT sum(paid) AS revenue FROM clean_payments",
            tables=["clean_payments"],
        ),
    )
    key = expected.key
    assert (
        built.asset_deps[key]
        == expected.asset_deps[key]
        == {dg.AssetKey(["lake", "clean_payments"])}
    )
    assert built.descriptions_by_key[key] == expected.descriptions_by_key[key]
    assert built.automation_conditions_by_key[key] == expected.automation_conditions_by_key[key]
    assert {"history/clean_payments_by_day", "lake/dead_letters"} <= {
        one.to_user_string() for one in assets
    }
    assert repository.has_job("replay_clean_payments")


def test_several_components_lie_in_one_file_and_templates_and_post_processing_work(
    project: Project,
) -> None:
    project.write("all", TOPIC.replace("partitions: 4", "partitions: '{{ 2 + 1 }}'") + "---\n" + TABLE + "post_processing:\n  assets:\n"
                  "    - attributes:\n        tags: {team: sales}\n")  # fmt: skip
    assets = project.load().get_repository_def().assets_defs_by_key
    assert topic_specs(set(assets.values()))[0].partitions == 3
    key = dg.AssetKey(["lake", "clean_payments"])
    assert assets[key].tags_by_key[key]["team"] == "sales"
    assert "dagster/code_references" in assets[key].metadata_by_key[key]


def test_a_table_from_tables_and_a_topic_of_python(project: Project) -> None:
    declare_topic(TopicSpec(name="payments", schema="id BIGINT"))
    project.write("one", TABLE.replace("paid, ", "").split("  rules:")[0])
    project.write(
        "two",
        """\
        type: orchestration.components.SqlTransformComponent
        attributes:
          name: totals
          tables: [clean_payments]
          sql: SELECT count(*) AS payments FROM clean_payments
        """,
    )
    assets = project.load().get_repository_def().assets_defs_by_key
    key = dg.AssetKey(["lake", "totals"])
    assert assets[key].asset_deps[key] == {dg.AssetKey(["lake", "clean_payments"])}
    assert assets[key].automation_conditions_by_key[key] is not None


@pytest.mark.parametrize(
    ("changed", "line", "told"),
    [
        (
            ("partitions: 4", "partitons: 4"),
            4,
            "partitons is not known here: did you mean partitions?",
        ),
        (("  name: payments\n", ""), 2, "name is missing: add it"),
        (("partitions: 4", "partitions: 0"), 3, "topic payments needs at least one partition"),
        (("partitions: 4", "partitions: many"), 4, "partitions is 'many': "),
        (
            ("id BIGINT NOT NULL", "id BIGINTEGER"),
            8,
            "the schema of topic payments cannot be read: ",
        ),
        (("TopicComponent", "TopikComponent"), 1, "there is no such component: "),
        (("partitions: 4", "partitions: [4"), 5, "this is not YAML: "),
        (("attributes:", "attribute:"), 2, "attribute is not known here"),
    ],
    ids=lambda value: value[1].strip() if isinstance(value, tuple) else None,
)
def test_a_mistake_in_a_topic_is_told_with_its_line(
    project: Project, changed: tuple[str, str], line: int, told: str
) -> None:
    file = project.write("topic", TOPIC.replace(*changed))
    refusal = project.refusal()
    assert refusal.startswith(f"{file}, line {line}: "), refusal
    assert told in refusal


@pytest.mark.parametrize(
    ("changed", "line", "told"),
    [
        (
            ("topic: payments", "topic: orders"),
            4,
            "no topic orders is declared (declared: payments): declare it with a TopicComponent",
        ),
        (
            ("_offset FROM", "_Offset FROM"),
            5,
            "sql does not select _offset: every row has to say which record it came from",
        ),
        (("FROM payments", "FROM orders"), 5, "sql does not read payments: write FROM payments"),
        (("severity: warn", "severity: loud"), 13, "severity is 'loud': "),
        (
            ("condition: paid > 0", "conditions: paid > 0"),
            10,
            "conditions is not known here: did you mean condition?",
        ),
        (("  topic: payments\n", ""), 3, "a table comes either from a topic or from tables"),
        (
            ("name: clean_payments", "name: clean-payments"),
            3,
            "'clean-payments' cannot be a table's name",
        ),
        (
            ("unique_by: [id]", "unique_by: [ids]"),
            7,
            "unique_by of table clean_payments names ids, which the result does not have: did you mean id?",
        ),
        (
            ("unique_by: [id]", "latest_by: [paid_]"),
            7,
            "latest_by of table clean_payments names paid_, which the result does not have: did you mean paid?",
        ),
        (
            ("condition: paid > 0", "condition: payed > 0"),
            3,
            "the rule paid_is_positive of table clean_payments names payed, which the result does not have: it has id, paid, ",
        ),
        (
            ("condition: paid > 0", "condition: paid >"),
            3,
            "rule paid_is_positive cannot be read as SQL, 'paid >': nothing is behind >",
        ),
        (
            ("  unique_by: [id]\n", "  unique_by: [id]\n  latest_by: [id]\n"),
            7,
            "cannot have both: unique_by keeps the first row",
        ),
        (("  sql: |", "  description: |"), 3, "give the statement either as sql or as sql_file"),
    ],
    ids=lambda value: value[1].strip() if isinstance(value, tuple) else None,
)
def test_a_mistake_in_a_transform_is_told_with_its_line(
    project: Project, changed: tuple[str, str], line: int, told: str
) -> None:
    project.write("topic", TOPIC)
    file = project.write("table", TABLE.replace(*changed))
    refusal = project.refusal()
    assert refusal.startswith(f"{file}, line {line}: "), refusal
    assert told in refusal


def test_a_statement_that_lies_in_no_file_is_told(project: Project) -> None:
    file = project.write("mart", MART)
    assert project.refusal().startswith(
        f"{file}, line 5: sql_file {file.parent / 'revenue.sql'} cannot be read: "
    )


def test_dg_finds_the_components_and_what_it_scaffolds_loads(project: Project) -> None:
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "dagster_dg_cli.registry_modules"
    ]["tidelog"]
    found = {key.name for key in discover_package_objects([entry])}
    assert found == {"MartComponent", "SqlTransformComponent", "TopicComponent"}
    for name, folder in (
        ("TopicComponent", "orders"),
        ("SqlTransformComponent", "clean-orders"),
        ("MartComponent", "totals"),
    ):
        scaffold_object(
            project.root / "assets" / folder, f"{entry}.{name}", None, "yaml", project.root
        )
    keys = {key.to_user_string() for key in project.load().get_repository_def().assets_defs_by_key}
    assert {"topics/orders", "lake/clean_orders", "marts/totals"} <= keys
