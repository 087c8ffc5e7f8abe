"""The component of a topic, the YAML form of ``TopicSpec`` and ``topic_asset``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import dagster as dg
from pydantic import BaseModel, Field

from orchestration.components.attributes import (
    Declaration,
    Made,
    example,
    folder_of,
    refusals_placed,
)
from orchestration.formats import (
    AvroSchema,
    ProtobufSchema,
    RegistrySchema,
    avro_schema,
    from_registry,
    protobuf_schema,
)
from orchestration.formats.debezium import Envelope
from orchestration.formats.registered import UnknownSchema
from orchestration.topics.spec import TopicSpec, config_text, declare_topic, topic_asset
from orchestration.values.scalars import DecimalForm, EpochUnit, Rounding


def _example(name: str) -> Mapping[str, Any]:
    return {"name": name, "partitions": 1, "value_schema": "id BIGINT NOT NULL, amount DOUBLE"}


class AvroAttributes(dg.Resolvable, dg.Model):
    """A schema of Avro."""

    file: str = Field(description="The name of a schema file beside this one, e.g. orders.avsc")
    framing: Literal["plain", "confluent"] = Field(
        default="plain", description="What comes before a value"
    )
    older: list[str] = Field(
        default=[],
        description="Files of schemas by which records were written before, beside this one",
    )
    leave_out: list[str] = Field(
        default=[], description="Fields that become no columns, e.g. lines[].tree"
    )
    depth: int = Field(default=0, description="How often a record may be within itself")


class ProtobufAttributes(dg.Resolvable, dg.Model):
    """A message of Protobuf."""

    file: str = Field(
        description=(
            "The name of a set of descriptors or a .proto file beside this one, e.g. orders.desc"
        )
    )
    message: str = Field(description="The message, with its package")
    framing: Literal["plain", "confluent"] = Field(
        default="plain", description="What comes before a value"
    )
    leave_out: list[str] = Field(
        default=[], description="Fields that become no columns, e.g. lines[].tree"
    )
    depth: int = Field(default=0, description="How often a message may be within itself")


class RegistryAttributes(dg.Resolvable, dg.Model):
    """A subject of a schema registry: the topic's columns, and the schemas of its records."""

    subject: str = Field(description="The subject, e.g. orders-value")
    version: int | None = Field(
        default=None, description="The version that has the columns; without: the latest"
    )
    message: str | None = Field(
        default=None, description="The message of a Protobuf file; without: its first one"
    )
    unknown_schema: UnknownSchema = Field(
        default="dead_letter",
        description="wait: records wait until the registry knows their schema",
    )
    leave_out: list[str] = Field(
        default=[], description="Fields that become no columns, e.g. lines[].tree"
    )
    depth: int = Field(default=0, description="How often a record may be within itself")


@dg.scaffold_with(example(_example))
class TopicComponent(Declaration, dg.Resolvable, dg.Model):
    """A topic of the log service, as declared.

    A run of its asset creates it or brings it up to date.
    """

    name: str = Field(description="The topic's name")
    partitions: int = Field(
        default=1, description="How many partitions it has at least; partitions are never removed"
    )
    replication_factor: int = Field(default=1, description="How many replicas each partition has")
    configs: dict[str, str | int | float | bool] = Field(
        default={}, description="Kafka's topic configs, e.g. retention.ms"
    )
    key: str | None = Field(default=None, description="What records are keyed by, for readers")
    key_schema: str | None = Field(
        default=None,
        description="The fields of the JSON in a record's key, as Spark DDL; without: a text",
    )
    key_avro: AvroAttributes | None = Field(
        default=None, description="The schema of keys in Avro, in the place of key_schema"
    )
    key_protobuf: ProtobufAttributes | None = Field(
        default=None, description="The schema of keys in Protobuf, in its place"
    )
    key_registry: RegistryAttributes | None = Field(
        default=None, description="The subject that has the schema of keys, in its place"
    )
    value_schema: str | None = Field(
        default=None,
        description="The fields of the JSON in a record's value, as Spark DDL; without: bytes",
    )
    avro: AvroAttributes | None = Field(
        default=None, description="The schema of values in Avro, in the place of value_schema"
    )
    protobuf: ProtobufAttributes | None = Field(
        default=None, description="The schema of values in Protobuf, in its place"
    )
    registry: RegistryAttributes | None = Field(
        default=None, description="The subject that has the schema of values, in its place"
    )
    rounding: Rounding | None = Field(
        default=None, description="How decimals with more digits than their scale are rounded"
    )
    epoch_unit: EpochUnit | None = Field(
        default=None, description="The unit of times that come as numbers; without: s"
    )
    decimals: DecimalForm | None = Field(
        default=None, description="base64: decimals come as the base64 of their unscaled bytes"
    )
    envelope: Envelope | None = Field(
        default=None, description="debezium: values are changes, and value_schema is that of rows"
    )
    archive: bool = Field(
        default=False, description="Whether the records are kept in the lake, too"
    )
    registered: str | None = Field(
        default=None,
        description="The subject of a schema registry that has the schemas of values",
    )
    key_registered: str | None = Field(
        default=None,
        description="The subject of a schema registry that has the schemas of keys",
    )
    unknown_schema: UnknownSchema = Field(
        default="dead_letter",
        description="wait: with registered, records wait until the registry knows their schema",
    )
    description: str = Field(default="", description="What the topic is about")
    group_name: str = Field(default="topics", description="Dagster's group")

    @classmethod
    def load(
        cls, attributes: BaseModel | None, context: dg.ComponentLoadContext
    ) -> "TopicComponent":
        """Return the component, and remember its topic.

        Transforms may then name the topic in any file.
        """
        component = super().load(attributes, context)
        with refusals_placed(context):
            declare_topic(component.spec(folder_of(context)))
        return component

    def spec(self, folder: Path | None = None) -> TopicSpec:
        """Return the topic's declaration. Paths of schema files are relative to ``folder``.

        :raises ValueError: the attributes cannot be used.
        """
        return TopicSpec(
            name=self.name,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            configs={key: config_text(value) for key, value in self.configs.items()},
            key=self.key,
            schema=self._schema(folder or Path(), "value_schema", "avro", "protobuf", "registry"),
            key_schema=self._schema(
                folder or Path(), "key_schema", "key_avro", "key_protobuf", "key_registry"
            ),
            archive=self.archive,
            rounding=self.rounding,
            epoch_unit=self.epoch_unit,
            decimals=self.decimals,
            registered=self.registered,
            key_registered=self.key_registered,
            unknown_schema=self.unknown_schema,
            envelope=self.envelope,
            description=self.description,
        )

    def _schema(
        self, folder: Path, *names: str
    ) -> str | AvroSchema | ProtobufSchema | RegistrySchema | None:
        """Return the schema that is given by one of the attributes ``names``."""
        given = {name: one for name in names if (one := getattr(self, name)) is not None}
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} cannot be given together:"
                f" {'keys' if 'key' in names[0] else 'values'} have one format"
            )
        for one in given.values():
            if isinstance(one, AvroAttributes):
                older = [folder / file for file in one.older]
                return avro_schema(
                    folder / one.file,
                    framing=one.framing,
                    older=older,
                    leave_out=one.leave_out,
                    depth=one.depth,
                )
            if isinstance(one, ProtobufAttributes):
                return protobuf_schema(
                    folder / one.file,
                    message=one.message,
                    framing=one.framing,
                    leave_out=one.leave_out,
                    depth=one.depth,
                )
            if isinstance(one, RegistryAttributes):
                return from_registry(**one.model_dump())
            return str(one)
        return None

    def declare(self, context: dg.ComponentLoadContext) -> Made:
        """Return the topic's asset."""
        return topic_asset(self.spec(folder_of(context)), group_name=self.group_name)
