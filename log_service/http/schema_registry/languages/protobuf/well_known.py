"""Files that every registry knows: Google's well-known types, and those of Confluent.

A schema may import them without a reference. Sources: the descriptors in the library ``protobuf``,
and the names and numbers of fields in Google's and Confluent's public types.
"""

from functools import cache
from importlib import import_module

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from log_service.http.schema_registry.languages.limits import USUAL_LIMITS, Budget
from log_service.http.schema_registry.languages.protobuf.definitions import FileDefinition
from log_service.http.schema_registry.languages.protobuf.descriptor_reader import (
    DescriptorReader,
    no_options,
)
from log_service.http.schema_registry.languages.protobuf.linker import link
from log_service.http.schema_registry.languages.protobuf.option_decoder import OptionDecoder
from log_service.http.schema_registry.languages.protobuf.parser import parse_text
from log_service.http.schema_registry.languages.protobuf.pool import Pool
from log_service.http.schema_registry.languages.protobuf.source import Source
from log_service.http.schema_registry.languages.protobuf.tree import ProtoFile

OPTIONS_FILE = "google/protobuf/descriptor.proto"
GOOGLE_FILES = frozenset(
    f"google/protobuf/{name}.proto"
    for name in (
        "any",
        "api",
        "descriptor",
        "duration",
        "empty",
        "field_mask",
        "source_context",
        "struct",
        "timestamp",
        "type",
        "wrappers",
    )
)
CONFLUENT_TEXTS = {
    "confluent/meta.proto": (
        """
        syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """
    ),
    "confluent/type/decimal.proto": (
        """
        syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; int32 scale = 2; }
    """
    ),
    "confluent/type/variant.proto": (
        """
        syntax = "proto3"; package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }
    """
    ),
}
GOOGLE_TYPES = {
    "calendar_period": (
        """enum CalendarPeriod {
        CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4; QUARTER = 5;
        HALF = 6; YEAR = 7; }"""
    ),
    "color": (
        """import "google/protobuf/wrappers.proto"; message Color {
        float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }"""
    ),
    "date": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "datetime": (
        """import "google/protobuf/duration.proto"; message DateTime {
        int32 year = 1; int32 month = 2; int32 day = 3;
        int32 hours = 4; int32 minutes = 5; int32 seconds = 6; int32 nanos = 7;
        oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }
        message TimeZone { string id = 1; string version = 2; }"""
    ),
    "dayofweek": (
        """enum DayOfWeek {
        DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4;
        FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }"""
    ),
    "decimal": "message Decimal { string value = 1; }",
    "expr": (
        """message Expr {
        string expression = 1; string title = 2; string description = 3; string location = 4; }"""
    ),
    "fraction": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "interval": (
        """import "google/protobuf/timestamp.proto"; message Interval {
        google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }"""
    ),
    "latlng": "message LatLng { double latitude = 1; double longitude = 2; }",
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": (
        """enum Month {
        MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6;
        JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }"""
    ),
    "phone_number": (
        """message PhoneNumber {
        message ShortCode { string region_code = 1; string number = 2; }
        oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }"""
    ),
    "postal_address": (
        """message PostalAddress {
        int32 revision = 1; string region_code = 2; string language_code = 3;
        string postal_code = 4; string sorting_code = 5; string administrative_area = 6;
        string locality = 7; string sublocality = 8; repeated string address_lines = 9;
        repeated string recipients = 10; string organization = 11; }"""
    ),
    "quaternion": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "timeofday": (
        """message TimeOfDay {
        int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }"""
    ),
}
TEXTS = CONFLUENT_TEXTS | {
    f"google/type/{name}.proto": f'syntax = "proto3"; package google.type; {body}'
    for name, body in GOOGLE_TYPES.items()
}


@cache
def well_known_file(path: str) -> FileDefinition | None:
    """Return the well-known file with this path, or None."""
    if path in GOOGLE_FILES:
        return google_file(path)
    if path not in TEXTS:
        return None
    source = Source(path=path, text=TEXTS[path])
    return linked(path, parse_text(source, USUAL_LIMITS, Budget()))


def google_file(path: str) -> FileDefinition:
    """Return a file of the library ``protobuf``.

    Its descriptor is read twice, because ``descriptor.proto`` uses options that it defines itself.
    The first result, without options, has the definitions for the second.
    """
    module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
    proto = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    bare = linked(path, DescriptorReader(proto, no_options, Budget()).file())
    pool = new_pool() if path != OPTIONS_FILE else Pool()
    pool.adopt(bare)
    decoder = OptionDecoder(pool, Budget())
    return linked(path, DescriptorReader(proto, decoder.options, Budget()).file())


def new_pool() -> Pool:
    """Return a pool without files, whose base has the definitions of options."""
    return Pool(options_pool())


@cache
def options_pool() -> Pool:
    """Return a pool of ``descriptor.proto``, which defines all options. It must not be changed."""
    found = well_known_file(OPTIONS_FILE)
    assert found is not None
    pool = Pool()
    pool.adopt(found)
    return pool


def linked(path: str, tree: ProtoFile) -> FileDefinition:
    """Link a file whose imports are all well-known, and return its definitions."""
    pool = Pool()
    for each in tree.imports:
        imported = well_known_file(each.path)
        assert imported is not None
        pool.adopt(imported)
    return link(tree, Source(path=path), pool, Budget(), is_strict=True)
