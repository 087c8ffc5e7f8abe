"""Names of records in the text of a schema."""

import pytest

from log_service.broker.schema_validation.record_names import record_names

PROTO = """
// message Comment {}
syntax = "proto3";
package shop.v1; /* message Other { */
option java_package = "message Quoted {";
message Order {
  message Line { string name = 1; map<string, int32> counts = 2; }
  oneof kind { string a = 3; }
  enum State { NONE = 0; }
  repeated Line lines = 4;
}
service Orders { rpc Get (Order) returns (Order) { } }
message Refund { extensions 100 to 199; }
"""


@pytest.mark.parametrize(
    ("schema_type", "schema", "names"),
    [
        (
            "AVRO",
            '{"type": "record", "name": "Order", "namespace": "shop", "fields": []}',
            {"shop.Order"},
        ),
        (
            "AVRO",
            '{"type": "record", "name": "shop.Order", "namespace": "other", "fields": []}',
            {"shop.Order"},
        ),
        ("AVRO", '{"type": "record", "name": "Order", "fields": []}', {"Order"}),
        ("AVRO", '"string"', set()),
        ("AVRO", '["null", "string"]', set()),
        ("AVRO", "{", set()),
        ("AVRO", "[" * 100_000, set()),
        ("JSON", '{"title": "Order", "type": "object"}', {"Order"}),
        ("JSON", '{"title": 7}', set()),
        ("JSON", "true", set()),
        ("PROTOBUF", PROTO, {"shop.v1.Order", "shop.v1.Order.Line", "shop.v1.Refund"}),
        ("PROTOBUF", "message A {}", {"A"}),
        ("PROTOBUF", "message A {" * 1_000, None),
        ("PROTOBUF", "}}} message", set()),
    ],
)
def test_names(schema_type: str, schema: str, names: set[str] | None) -> None:
    found = record_names(schema, schema_type)
    assert names is None or found == names
