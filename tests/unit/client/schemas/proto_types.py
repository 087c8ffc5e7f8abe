"""Message classes of two files with nested types, an import, well-known types, maps and oneofs."""

from base64 import b64decode
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MESSAGE, STRING, INT64, BOOL, DOUBLE, BYTES, ENUM = 11, 9, 3, 8, 1, 12, 14
WELL_KNOWN = (
    "google/protobuf/timestamp.proto",
    "google/protobuf/any.proto",
    "google/protobuf/struct.proto",
    "google/protobuf/wrappers.proto",
)


def field(
    name: str, number: int, kind: int, type_name: str = "", *, is_repeated: bool = False
) -> descriptor_pb2.FieldDescriptorProto:
    label = 3 if is_repeated else 1
    return descriptor_pb2.FieldDescriptorProto(
        name=name, number=number, type=kind, type_name=type_name or None, label=label
    )


def message(
    name: str, *fields: Any, nested: tuple[Any, ...] = (), **options: Any
) -> descriptor_pb2.DescriptorProto:
    return descriptor_pb2.DescriptorProto(name=name, field=fields, nested_type=nested, **options)


def common_file() -> descriptor_pb2.FileDescriptorProto:
    """Return the file that the other one imports."""
    way = descriptor_pb2.EnumDescriptorProto(
        name="Way", value=[{"name": "CARD", "number": 0}, {"name": "CASH", "number": 1}]
    )
    payment = message("Payment", field("way", 1, ENUM, ".shop.Way"), field("amount", 2, DOUBLE))
    return descriptor_pb2.FileDescriptorProto(
        name="shop/common.proto",
        package="shop",
        syntax="proto3",
        message_type=[payment],
        enum_type=[way],
    )


def orders_file() -> descriptor_pb2.FileDescriptorProto:
    """Return a file with four messages at the top, some of which hold others."""
    entry = message(
        "LabelsEntry",
        field("key", 1, STRING),
        field("value", 2, INT64),
        options={"map_entry": True},
    )
    leaf = message("Leaf", field("text", 1, STRING))
    item = message(
        "Item",
        field("sku", 1, STRING),
        field("leaf", 2, MESSAGE, ".shop.Order.Item.Leaf"),
        nested=(message("Other"), leaf),
    )
    order = message(
        "Order",
        field("id", 1, INT64),
        field("items", 2, MESSAGE, ".shop.Order.Item", is_repeated=True),
        field("labels", 3, MESSAGE, ".shop.Order.LabelsEntry", is_repeated=True),
        field("placed", 4, MESSAGE, ".google.protobuf.Timestamp"),
        field("paid", 5, MESSAGE, ".shop.Payment"),
        field("note", 6, MESSAGE, ".google.protobuf.StringValue"),
        field("rest", 7, MESSAGE, ".google.protobuf.Struct"),
        field("anything", 8, MESSAGE, ".google.protobuf.Any"),
        field("raw", 9, BYTES, is_repeated=True),
        nested=(entry, item),
    )
    zed, alpha = (
        message("Zed", field("order", 1, MESSAGE, ".shop.Order")),
        message("Alpha", field("is_true", 1, BOOL)),
    )
    return descriptor_pb2.FileDescriptorProto(
        name="shop/orders.proto",
        package="shop",
        syntax="proto3",
        dependency=["shop/common.proto", *WELL_KNOWN],
        message_type=[zed, order, alpha, message("Last", nested=(message("Deep"),))],
    )


def classes() -> dict[str, Any]:
    """Return the classes of all messages by full name, out of a pool of their own."""
    pool = descriptor_pool.DescriptorPool()
    for name in WELL_KNOWN:
        _add_known(pool, name)
    pool.Add(common_file())
    pool.Add(orders_file())
    names = (
        "Zed",
        "Order",
        "Order.Item",
        "Order.Item.Leaf",
        "Order.Item.Other",
        "Alpha",
        "Last",
        "Last.Deep",
        "Payment",
    )
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
        for name in names
    }


def _add_known(pool: Any, name: str) -> None:
    __import__(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    file = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
    pool.Add(file)


def decoded(text: str) -> descriptor_pb2.FileDescriptorProto:
    """Return the file whose descriptor a schema's text is."""
    return descriptor_pb2.FileDescriptorProto.FromString(b64decode(text))
