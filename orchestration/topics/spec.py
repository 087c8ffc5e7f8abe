"""Topics as assets: a run of a declared ``TopicSpec`` creates the topic, or brings it up to date.

Decides which changes a declaration needs. It only ever adds missing topics and partitions, and
changes configs that differ. Partitions are never removed, configs that are not declared are left
alone, and nothing is deleted. Knows the log service through ``LogClient``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, get_args

import dagster as dg
from pyspark.sql import types

from log_service.common.counts import agreed, counted
from log_service.common.errors import KafkaError
from log_service.config.topic import validate_topic_configs
from orchestration.formats import AvroSchema, ProtobufSchema, RegistrySchema, ValueFormat, format_of
from orchestration.formats.debezium import Envelope, debezium_format
from orchestration.formats.json_values import has_variant, json_format
from orchestration.formats.keys import KeySchema
from orchestration.formats.registered import UnknownSchema, registered_schema
from orchestration.log_client.protocol import (
    LogClient,
    LogServiceAwayError,
    LogServiceError,
    TopicDescription,
)
from orchestration.resources.log_service import LogServiceResource
from orchestration.retained.archive import Archive, validate_archive
from orchestration.values.ddl import SchemaError, parse_ddl
from orchestration.values.scalars import DecimalForm, EpochUnit, Reading, Rounding

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
TOPIC_METADATA = "tidelog/topic"
TOPIC_PREFIX = "topics"
RECORD_COLUMNS = (
    "_topic_id",
    "_partition",
    "_offset",
    "_timestamp",
    "_key",
    "_headers",
    "_value",
    "_bytes",
)
"""Columns of a record beside the fields of its value, in transforms and in ``topics.NAME``."""
VENDOR_PREFIXES = ("confluent.", "redpanda.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic as declared.

    ``configs`` are Kafka's topic configs by key. Numbers and truth values become the texts that
    Kafka reads. ``key`` is a description of the records' keys for people. ``schema`` is the Spark
    DDL of the JSON in a record's value (see ``orchestration.values.ddl``). A NOT NULL field is
    required. It may also be a result of ``avro_schema``, ``protobuf_schema`` or ``from_registry``.
    Without a schema transforms get the bytes. ``archive`` keeps the records in the lake, too. It is
    True, or an ``Archive`` that says when and how long. ``rounding`` ("half_up", "half_even",
    "down") rounds decimals with more digits than their scale. Without it they are dead letters.
    ``epoch_unit`` ("s", "ms", "us", "ns") is the unit of times that come as numbers. Without it
    they are seconds. ``decimals="base64"`` reads decimals as Debezium and Connect write them, as
    the unscaled bytes in base64. ``key_schema`` is the schema of the records' keys, in the same
    forms as ``schema``. A record without value deletes the row that its key names.

    ``registered`` is the subject of a schema registry that has the schemas of the values, if
    ``schema`` declares the columns itself. A value is decoded with the schema that its prefix or
    its header names, and converted to ``schema``. For Avro and Protobuf this is a schema from a
    file, for JSON it is DDL. ``key_registered`` is the same for keys, whose columns ``key_schema``
    declares. With ``unknown_schema="wait"`` records whose schema the registry does not know are
    read later. Without it they are dead letters.

    ``envelope="debezium"`` reads the row after a change from Debezium's envelope. ``schema`` then
    has the fields of the row in DDL, or is the schema of the envelope in another format.
    """

    name: str
    partitions: int = 1
    replication_factor: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    key_schema: str | AvroSchema | ProtobufSchema | RegistrySchema | None = None
    schema: str | AvroSchema | ProtobufSchema | RegistrySchema | None = None
    description: str = ""
    archive: bool | Archive = False
    rounding: Rounding | None = None
    epoch_unit: EpochUnit | None = None
    decimals: DecimalForm | None = None
    registered: str | None = None
    key_registered: str | None = None
    unknown_schema: UnknownSchema = "dead_letter"
    envelope: Envelope | None = None

    def __post_init__(self) -> None:
        if not TOPIC_NAME.fullmatch(self.name) or self.name in {".", ".."}:
            raise ValueError(
                f"{self.name!r} cannot be a topic's name: up to 249 letters, digits, '.', '_'"
                " and '-'"
            )
        object.__setattr__(
            self, "configs", {key: config_text(value) for key, value in self.configs.items()}
        )
        validate_configs(self.name, self.configs)
        if self.partitions < 1 or self.replication_factor < 1:
            raise ValueError(f"topic {self.name} needs at least one partition and one replica")
        validate_envelope(self.name, self.envelope, self.schema)
        try:
            self.fields  # noqa: B018 - a schema is read when it is declared, so that a typing error is found there
        except SchemaError as error:
            raise ValueError(f"the schema of topic {self.name} cannot be read: {error}") from error
        validate_field_names(self.name, self.fields)
        validate_key_schema(self.name, self.key_schema)
        self._validate_reading()
        self._validate_registered()
        if self.archived is not None:
            validate_archive(self.name, self.archived, self.configs)

    def _validate_reading(self) -> None:
        """Refuse options for JSON values if the topic's values are not JSON with a schema."""
        for name, given in (
            ("rounding", self.rounding),
            ("epoch_unit", self.epoch_unit),
            ("decimals", self.decimals),
            ("envelope", self.envelope if isinstance(self.schema, str) else None),
        ):
            if (
                given is not None
                and json_format(self.fields if isinstance(self.schema, str) else None) is None
            ):
                raise ValueError(
                    f"topic {self.name} has {name}={given!r}, which is for values in JSON with a"
                    " schema that has no VARIANT"
                )

    def _validate_registered(self) -> None:
        """Refuse a registry subject without columns or a format to read its values into."""
        if self.key_registered is not None:
            self._validate_key_registered(self.key_registered)
        if self.registered is None:
            if self.unknown_schema != "dead_letter" and self.key_registered is None:
                raise ValueError(
                    f"topic {self.name} has unknown_schema={self.unknown_schema!r} and no"
                    " registered: name the subject, or give unknown_schema to from_registry"
                )
            return
        if self.envelope is not None and isinstance(self.schema, str):
            raise ValueError(
                f"topic {self.name} has registered={self.registered!r} and"
                f" envelope={self.envelope!r}: declare the whole envelope by avro_schema or"
                " protobuf_schema, or leave registered out"
            )
        if self.schema is None or isinstance(self.schema, RegistrySchema):
            advice = "declare its columns by schema= in DDL, avro_schema or protobuf_schema"
            if self.schema is not None:
                advice = "from_registry names its subject already: leave registered out"
            raise ValueError(f"topic {self.name} has registered={self.registered!r}: {advice}")
        try:
            self.value_format  # noqa: B018 - a subject is read when it is declared, as a schema is
        except ValueError as error:
            raise ValueError(
                f"the schema of topic {self.name} cannot be that of registered="
                f"{self.registered!r}: {error}"
            ) from error

    def _validate_key_registered(self, subject: str) -> None:
        advice = "declare the fields of keys by key_schema="
        if isinstance(self.key_schema, RegistrySchema):
            advice = "from_registry names its subject already: leave key_registered out"
        elif self.key_schema is not None:
            try:
                self.key_format  # noqa: B018 - as of values
            except ValueError as error:
                advice = str(error)
            else:
                return
        raise ValueError(f"topic {self.name} has key_registered={subject!r}: {advice}")

    @property
    def archived(self) -> Archive | None:
        """The rules of the topic's archive, or None if it has none."""
        return (
            self.archive
            if isinstance(self.archive, Archive)
            else Archive()
            if self.archive
            else None
        )

    @property
    def fields(self) -> types.StructType | None:
        """The fields of the schema, None without one."""
        if isinstance(self.schema, str):
            return self._declared_fields(self.schema)
        found = self.value_format
        return None if found is None else found.fields

    @property
    def value_format(self) -> ValueFormat | None:
        """The format of values that are not plain JSON, None if they are plain JSON."""
        if self.schema is None or isinstance(self.schema, str):
            columns = None if self.schema is None else self._declared_fields(self.schema)
            if columns is None or (self.envelope is None and self.registered is None):
                return None
            if self.registered is not None:
                return registered_schema(self.registered, columns, self.unknown_schema)
            return debezium_format(columns)
        values: ValueFormat = self.schema
        if self.registered is not None and not isinstance(self.schema, RegistrySchema):
            values = registered_schema(self.registered, self.schema, self.unknown_schema)
        return values if self.envelope is None else debezium_format(values)

    def _declared_fields(self, ddl: str) -> types.StructType:
        reading = Reading(
            rounding=self.rounding, epoch_unit=self.epoch_unit, decimals=self.decimals
        )
        return _fields_of(ddl, reading)

    @property
    def key_format(self) -> KeySchema | None:
        """The format of keys: the fields of their JSON, or another format.

        It is None if no key schema is declared.
        """
        given = self.key_schema
        declared = parse_ddl(given) if isinstance(given, str) else given
        if self.key_registered is None or declared is None or isinstance(declared, RegistrySchema):
            return declared
        return registered_schema(self.key_registered, declared, self.unknown_schema)

    @property
    def asset_key(self) -> dg.AssetKey:
        """The key of the topic's asset, which also gets the events of high watermarks."""
        return dg.AssetKey([TOPIC_PREFIX, self.name])


def config_text(value: str | float | bool) -> str:  # noqa: FBT001 - as people give it
    """Return a topic config as text that Kafka reads.

    Numbers have no exponent, and whole numbers have no decimal point, because many configs need
    that.

    :raises ValueError: the value is not a number that Kafka could read.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, float):
        return str(value)
    if not isfinite(value):
        raise ValueError(f"a topic's config cannot be {value}: it has to be a number")
    return str(int(value)) if value.is_integer() else format(Decimal(repr(value)), "f")


def validate_configs(topic: str, configs: Mapping[str, str]) -> None:
    """Refuse topic configs that no broker knows, and values that a broker would refuse.

    Configs of other vendors' brokers are not checked.

    :raises ValueError: names the topic and the config.
    """
    left = {"remote.storage.enable"} | {key for key in configs if key.startswith(VENDOR_PREFIXES)}
    try:
        validate_topic_configs({key: value for key, value in configs.items() if key not in left})
    except KafkaError as error:
        raise ValueError(f"the configs of topic {topic} cannot be used: {error}") from error


def validate_field_names(topic: str, fields: types.StructType | None) -> None:
    """Refuse fields with the name of a column that the records of every topic have.

    :raises ValueError: names the topic and its fields.
    """
    taken = [
        one for one in (fields.names if fields is not None else []) if one.lower() in RECORD_COLUMNS
    ]
    if taken:
        raise ValueError(
            f"the schema of topic {topic} cannot have a field called {', '.join(taken)}: "
            f"each record brings columns called {', '.join(RECORD_COLUMNS)}. "
            "Leave the field out of the schema, or rename it in the producer"
        )


def validate_envelope(topic: str, envelope: str | None, schema: str | ValueFormat | None) -> None:
    """Refuse an unknown ``envelope``, and a schema that does not fit it.

    :raises ValueError: names the topic.
    """
    if envelope is None:
        return
    if envelope not in get_args(Envelope):
        known = ", ".join(map(repr, get_args(Envelope)))
        raise ValueError(f"topic {topic} has envelope={envelope!r}: it is {known}, or left out")
    if schema is None:
        raise ValueError(
            f"topic {topic} has envelope={envelope!r} and no schema: declare the fields of the row"
        )
    if isinstance(schema, str):
        return
    try:
        debezium_format(schema)
    except ValueError as error:
        raise ValueError(
            f"the schema of topic {topic} is not that of Debezium's envelope: {error}. Declare the"
            " schema of whole values, or leave envelope out where they are flattened rows"
        ) from error


def validate_key_schema(topic: str, key_schema: str | ValueFormat | None) -> None:
    """Refuse a schema of keys that cannot be read.

    :raises ValueError: names the topic.
    """
    if not isinstance(key_schema, str):
        return
    try:
        fields = parse_ddl(key_schema)
    except SchemaError as error:
        raise ValueError(f"the key_schema of topic {topic} cannot be read: {error}") from error
    if has_variant(fields):
        raise ValueError(f"the key_schema of topic {topic} has a VARIANT: no key column can be one")


@lru_cache
def _fields_of(ddl: str, reading: Reading) -> types.StructType:
    return reading.declared_in(parse_ddl(ddl))


def validate_topic(name: str, topic: object) -> None:
    """Refuse an input or target of ``name`` that is not a topic.

    :raises ValueError: names the given value.
    """
    if isinstance(topic, TopicSpec):
        return
    told = (
        f"the asset {topic.key.to_user_string()}"
        if isinstance(topic, dg.AssetsDefinition)
        else repr(topic)
    )
    raise ValueError(
        f"{name} wants a topic, and was given {told}: give the TopicSpec that says what the"
        " topic is"
    )


def validate_takes_rows(name: str, topic: TopicSpec) -> None:
    """Refuse a topic with an ``envelope`` of changes as the target of ``name``, which sends rows.

    :raises ValueError: names both.
    """
    if topic.envelope is not None:
        raise ValueError(
            f"{name} sends rows, and the topic {topic.name} has envelope={topic.envelope!r}: its"
            " values are changes. Declare another topic for the rows, without envelope"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChanges:
    """The changes that bring a topic up to its declaration.

    ``notes`` name the differences that are left alone.
    """

    is_new: bool
    partitions: int | None
    configs: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        """Return whether anything has to be changed."""
        return self.is_new or self.partitions is not None or bool(self.configs)

    @property
    def summary(self) -> str:
        """One sentence for the run's log."""
        if self.is_new:
            return "created"
        parts = [f"partitions raised to {self.partitions}"] if self.partitions else []
        parts += [f"{key} set to {value}" for key, value in self.configs.items()]
        return ", ".join(parts) or "as declared"


def _partitions(spec: TopicSpec, existing: TopicDescription) -> str:
    declared = f"{spec.partitions} {agreed(spec.partitions, 'is', 'are')} declared"
    return f"topic {spec.name} has {counted(existing.partitions, 'partition')}, {declared}"


def plan_changes(
    spec: TopicSpec, existing: TopicDescription | None, configs: Mapping[str, str]
) -> TopicChanges:
    """Return the changes from an existing topic to ``spec``.

    ``configs`` are the topic's configs in force.
    """
    if existing is None:
        return TopicChanges(is_new=True, partitions=None, configs={}, notes=())
    notes = []
    if existing.partitions > spec.partitions:
        notes.append(f"{_partitions(spec, existing)}; partitions are never removed")
    if existing.replication_factor != spec.replication_factor:
        notes.append(
            f"topic {spec.name} has replication factor {existing.replication_factor},"
            f" {spec.replication_factor} is declared; moving replicas is not this asset's work"
        )
    return TopicChanges(
        is_new=False,
        partitions=spec.partitions if existing.partitions < spec.partitions else None,
        configs={key: value for key, value in spec.configs.items() if configs.get(key) != value},
        notes=tuple(notes),
    )


def reconcile(client: LogClient, spec: TopicSpec) -> TopicChanges:
    """Create the topic or bring it up to ``spec``, and return the changes."""
    return _bring_up(client, spec, client.describe_topic(spec.name))


def _bring_up(
    client: LogClient, spec: TopicSpec, existing: TopicDescription | None
) -> TopicChanges:
    changes = plan_changes(
        spec, existing, client.topic_configs(spec.name) if existing and spec.configs else {}
    )
    if changes.is_new:
        client.create_topic(
            spec.name,
            partitions=spec.partitions,
            replication_factor=spec.replication_factor,
            configs=dict(spec.configs),
        )
    if changes.partitions:
        client.add_partitions(spec.name, changes.partitions)
    if changes.configs:
        client.alter_topic_configs(spec.name, changes.configs)
    return changes


def reconcile_all(client: LogClient, specs: Iterable[TopicSpec]) -> dict[str, TopicChanges]:
    """Bring every topic up to its declaration, and return the changes by topic.

    If the log service refuses to describe or change one topic, the others are still handled. The
    refusal is in the ``notes`` of that topic's changes.

    :raises LogServiceAwayError: the log service does not respond at all.
    """
    return {spec.name: _brought_up(client, spec) for spec in specs}


def _brought_up(client: LogClient, spec: TopicSpec) -> TopicChanges:
    what = "looked at"
    try:
        existing = client.describe_topic(spec.name)
        what = "created" if existing is None else "brought up to its declaration"
        return _bring_up(client, spec, existing)
    except LogServiceAwayError:
        raise
    except LogServiceError as error:
        note = f"the topic {spec.name} could not be {what}: {error}"
        return TopicChanges(is_new=False, partitions=None, configs={}, notes=(note,))


def differences(client: LogClient, specs: Iterable[TopicSpec]) -> dict[str, tuple[str, ...]]:
    """Return the differences between topics and their declarations, by topic. Changes nothing.

    For a topic that the log service refuses to describe, the refusal is returned instead.

    :raises LogServiceAwayError: the log service does not respond at all.
    """
    return {spec.name: _differences(client, spec) for spec in specs}


def _differences(client: LogClient, spec: TopicSpec) -> tuple[str, ...]:
    advice = f"a run of {TOPIC_PREFIX}/{spec.name} brings it up to its declaration"
    try:
        existing = client.describe_topic(spec.name)
        configs = client.topic_configs(spec.name) if existing and spec.configs else {}
    except LogServiceAwayError:
        raise
    except LogServiceError as error:
        return (f"the topic {spec.name} could not be looked at: {error}",)
    if existing is None:
        return (f"topic {spec.name} is declared and is not there: {advice}",)
    changes = plan_changes(spec, existing, configs)
    found = [*changes.notes]
    if changes.partitions:
        found.append(f"{_partitions(spec, existing)}: {advice}")
    found += [
        f"topic {spec.name} has {key}={configs.get(key)}, {value} is declared: {advice}"
        for key, value in changes.configs.items()
    ]
    return tuple(found)


def topic_asset(spec: TopicSpec, *, group_name: str = "topics") -> dg.AssetsDefinition:
    """Return the asset whose run creates or reconciles the topic of ``spec``."""
    declare_topic(spec)

    @dg.asset(
        key=spec.asset_key,
        kinds={"kafka"},
        group_name=group_name,
        description=spec.description or f"The topic {spec.name}",
        metadata=_declaration(spec),
        retry_policy=dg.RetryPolicy(max_retries=2, delay=2),
    )
    def reconcile_topic(
        context: dg.AssetExecutionContext, log_service: LogServiceResource
    ) -> dg.MaterializeResult[None]:
        with log_service.open() as client:
            changes = reconcile(client, spec)
            offsets = client.partition_offsets(spec.name)
        for note in changes.notes:
            context.log.warning(note)
        context.log.info("topic %s: %s", spec.name, changes.summary)
        return dg.MaterializeResult(
            metadata={
                "changes": changes.summary,
                "partitions": len(offsets),
                "high_watermark": sum(one.high_watermark for one in offsets),
                "records_retained": sum(
                    one.high_watermark - one.log_start_offset for one in offsets
                ),
                **schema_metadata(spec),
            }
        )

    return reconcile_topic


def schema_metadata(spec: TopicSpec) -> dict[str, Any]:
    """Return the metadata of a topic whose schemas are in a registry: subject, version and id."""
    found = spec.value_format
    return found.metadata() if isinstance(found, RegistrySchema) else {}


_declared: dict[str, TopicSpec] = {}


def declare_topic(spec: TopicSpec) -> None:
    """Remember ``spec`` by its name, for declarations that name their topic by a text.

    These are in ``orchestration.components``.
    """
    _declared[spec.name] = spec


def declared_topic(name: str) -> TopicSpec:
    """Return the topic that was declared last under ``name``.

    :raises KeyError: there is none.
    """
    return _declared[name]


def declared_topics() -> list[str]:
    """Return the names of all topics that were declared."""
    return sorted(_declared)


def forget_declared_topics() -> None:
    """Forget all declared topics, because the project is loaded anew and may declare others."""
    _declared.clear()


def topic_specs(assets: Iterable[dg.AssetsDefinition]) -> tuple[TopicSpec, ...]:
    """Return the topics that ``assets`` declare, in the order of their names."""
    found = [
        _declared_spec(declared.value)
        for asset in assets
        for metadata in asset.metadata_by_key.values()
        if isinstance(declared := metadata.get(TOPIC_METADATA), dg.JsonMetadataValue)
        and isinstance(declared.value, dict)
    ]
    return tuple(sorted(found, key=lambda spec: spec.name))


def _declared_spec(declared: Mapping[str, Any]) -> TopicSpec:
    archive = declared.get("archive")
    schemas = {
        name: format_of(one) if isinstance(one := declared.get(name), Mapping) else one
        for name in ("schema", "key_schema")
    }
    return TopicSpec(**{**declared, **schemas, "archive": Archive(**archive) if archive else False})


def _declaration(spec: TopicSpec) -> dict[str, Any]:
    declared = {
        "name": spec.name,
        "partitions": spec.partitions,
        "replication_factor": spec.replication_factor,
        "configs": dict(spec.configs),
        "key": spec.key,
        "schema": _declared_schema(spec.schema),
        "key_schema": _declared_schema(spec.key_schema),
        "description": spec.description,
        "archive": None if spec.archived is None else asdict(spec.archived),
        "rounding": spec.rounding,
        "epoch_unit": spec.epoch_unit,
        "decimals": spec.decimals,
        "registered": spec.registered,
        "key_registered": spec.key_registered,
        "unknown_schema": spec.unknown_schema,
        "envelope": spec.envelope,
    }
    columns = {} if spec.fields is None else {"dagster/column_schema": column_schema(spec.fields)}
    return {TOPIC_METADATA: dg.MetadataValue.json(declared), **columns}


def _declared_schema(schema: str | ValueFormat | None) -> str | Mapping[str, Any] | None:
    return schema if schema is None or isinstance(schema, str) else schema.declared()


def column_schema(fields: types.StructType) -> dg.TableSchema:
    """Return fields in the form in which Dagster shows columns."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                field.name,
                field.dataType.simpleString(),
                description=field.metadata.get("comment"),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in fields
        ]
    )
