"""Keys and values of version 3: their types, and the schemas that they name.

A key or value of type ``BINARY``, ``JSON`` or ``STRING`` has no schema. Otherwise it has the schema
that it names, or else the latest version of its subject. Confluent's proxy refuses a type together
with the id or version of a schema. Here the type is compared with the schema, because such a
request is not wrong.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from log_service.client import SchemaRegistryError
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.bodies import as_object, number_of, refuse_unknown, text_of
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.formats import (
    BAD_REQUEST,
    SCHEMA_TYPES,
    STRATEGIES,
    TOPIC_NAME,
    binary_to_bytes,
    json_to_bytes,
    string_to_bytes,
)

if TYPE_CHECKING:
    from log_service.http.rest_proxy.schemas import PartEncoder, SchemaChoice

PARTS: Final = ("key", "value")
PLAIN: Final = MappingProxyType(
    {"BINARY": binary_to_bytes, "JSON": json_to_bytes, "STRING": string_to_bytes}
)
FORMAT_OF: Final = MappingProxyType({name.upper(): name for name in SCHEMA_TYPES})
TYPE_OF: Final = MappingProxyType({kind: name.upper() for name, kind in SCHEMA_TYPES.items()})
"""The type here of each language of the registry."""
TYPES: Final = (*PLAIN, *FORMAT_OF)
SUBJECT_FIELDS: Final = ("subject_name_strategy", "subject")
CHOICE_FIELDS: Final = ("schema_id", "schema_version", "schema")
SCHEMA_FIELDS: Final = (*SUBJECT_FIELDS, *CHOICE_FIELDS)
MAX_NUMBER: Final = 2**31 - 1

RecordEncoders = Mapping[str, "PartEncoder"]
"""The encoders of the parts of a record that have a schema."""
KnownEncoders = dict["SchemaChoice", "PartEncoder | RestError"]
"""Encoders that a request has asked for. A failed lookup is not repeated."""


async def find_encoders(
    call: Call, topic: str, fields: Mapping[str, Any], known: KnownEncoders
) -> RecordEncoders:
    """Validate the key and value of a record, and return the encoders of those with a schema.

    Raises:
        RestError: a key or value is not valid, or its schema cannot be used.
    """
    found: dict[str, PartEncoder] = {}
    for name in PARTS:
        if fields.get(name) is None:
            continue
        part = as_object(fields[name], name)
        kind = valid_type(part, name)
        if kind not in PLAIN and part.get("data") is not None:
            found[name] = await _encoder(call, topic, name, part, known)
    return found


def valid_type(part: Mapping[str, Any], name: str) -> str | None:
    """Return the type of a key or value if its fields fit together, None if it names no type.

    Raises:
        RestError: a field is unknown, or two fields contradict each other.
    """
    refuse_unknown(part, ("type", "data", *SCHEMA_FIELDS), name)
    given = [each for each in SCHEMA_FIELDS if part.get(each) is not None]
    for excluding in (SUBJECT_FIELDS, CHOICE_FIELDS):
        if sum(each in given for each in excluding) > 1:
            *others, last = (f"'{each}'" for each in excluding)
            text = f"Only one of {', '.join(others)} or {last} can be used."
            raise RestError(BAD_REQUEST, text)
    if part.get("type") is None:
        if "schema" in given:
            advice = f"name its type, which may be {', '.join(FORMAT_OF)}"
            raise RestError(BAD_REQUEST, f"{name} has the text of a schema: {advice}.")
        return None
    kind = text_of(part, "type").upper()
    if kind not in TYPES:
        raise RestError(422, f"type of {name} is {kind[:30]}; it may be {', '.join(TYPES)}.")
    if kind in PLAIN and given:
        raise RestError(BAD_REQUEST, f"'type={kind}' cannot be used with '{given[0]}'.")
    return kind


async def _encoder(
    call: Call, topic: str, name: str, part: Mapping[str, Any], known: KnownEncoders
) -> "PartEncoder":
    if not call.context.settings.registry_url:
        raise errors.no_registry_for(name)
    from log_service.http.rest_proxy.schemas import (  # noqa: PLC0415 - an extra
        SchemaChoice,
        codecs_of,
    )

    given = {each: part.get(each) for each in SCHEMA_FIELDS}
    kind = text_of(part, "type").upper() if part.get("type") is not None else None
    choice = SchemaChoice(
        topic=topic,
        part=name,
        record_format=None if kind is None else FORMAT_OF[kind],
        subject=None if given["subject"] is None else text_of(part, "subject"),
        strategy=_strategy(part),
        schema_id=_number(part, "schema_id"),
        version=_number(part, "schema_version"),
        text=None if given["schema"] is None else text_of(part, "schema"),
    )
    if choice not in known:
        try:
            known[choice] = await (await codecs_of(call, str(kind))).encoder(choice)
        except SchemaRegistryError as error:
            known[choice] = refusal_of_registry(error, choice)
        except RestError as error:
            known[choice] = error
    found = known[choice]
    if isinstance(found, RestError):
        raise found
    if kind not in {None, TYPE_OF[found.schema_type]}:
        text = f"type of {name} is {kind}, and its schema is {TYPE_OF[found.schema_type]}."
        raise RestError(BAD_REQUEST, text)
    return found


def _strategy(part: Mapping[str, Any]) -> str:
    given = text_of(part, "subject_name_strategy", default=TOPIC_NAME).upper()
    if given not in STRATEGIES:
        text = f"subject_name_strategy is {given[:30]}; it may be {', '.join(STRATEGIES)}."
        raise RestError(422, text)
    return given


def _number(part: Mapping[str, Any], name: str) -> int | None:
    if part.get(name) is None:
        return None
    return number_of(part, name, at_least=1, at_most=MAX_NUMBER)


def refusal_of_registry(error: SchemaRegistryError, choice: "SchemaChoice") -> RestError:
    """Return the error that Confluent's proxy has for a schema that is refused or missing."""
    refusal = errors.of_registry(error)
    if refusal.code in {errors.UNAUTHENTICATED, errors.FORBIDDEN}:
        return refusal
    kind, subject = str(choice.record_format).upper(), choice.subject
    if subject is None and choice.strategy == TOPIC_NAME:
        subject = choice.subject_of(None)
    about = "" if subject is None else f", subject = {subject}"
    code = errors.SCHEMA_FAILED
    if choice.schema_id is not None:
        text = f"Error when fetching schema by id. schemaId = {choice.schema_id}{about}"
    elif choice.version is not None:
        text = f"Error when fetching schema by version. version = {choice.version}{about}"
    elif choice.text is None:
        text = f"Error when fetching latest schema version. subject = {subject}"
    elif error.status == errors.UNPROCESSABLE:
        code = errors.INVALID_SCHEMA
        text = f"Error when parsing raw schema. format = {kind}"
    else:
        text = f"Error when registering schema. format = {kind}{about}"
    return RestError(code, f"{text}: {error}"[:2_000])
