// The client of a registry that comes from the makers of KafkaJS, unchanged.
// node kafkajs.js URL TOPIC.
"use strict";

const assert = require("node:assert/strict");
const { COMPATIBILITY, SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");
const { tell } = require("./stories");

const [url, topic] = process.argv.slice(2);
const newRegistry = () => new SchemaRegistry({ host: url, retry: { retries: 0 } });
const NAME = { name: "name", type: "string" };

const stories = {
  async "Avro comes back to another reader"(subject) {
    const registry = newRegistry();
    const schema = JSON.stringify({ type: "record", name: "Person", fields: [NAME] });
    const { id } = await registry.register({ type: SchemaType.AVRO, schema }, { subject });
    const data = await registry.encode(id, { name: "ann" });
    assert.deepEqual([data[0], data.readInt32BE(1)], [0, id]);
    assert.deepEqual({ ...(await newRegistry().decode(data)) }, { name: "ann" });
    const wider = {
      type: "record",
      name: "Person",
      fields: [NAME, { name: "age", type: "int", default: 7 }],
    };
    const found = await newRegistry().decode(data, { [SchemaType.AVRO]: { readerSchema: wider } });
    assert.deepEqual({ ...found }, { name: "ann", age: 7 });
    assert.equal(await registry.getRegistryId(subject, 1), id);
    assert.equal(await registry.getLatestSchemaId(subject), id);
    assert.equal(
      await registry.getRegistryIdBySchema(subject, { type: SchemaType.AVRO, schema }),
      id,
    );
  },

  async "a level is set with the first version, and held"(subject) {
    const registry = newRegistry();
    const schema = JSON.stringify({ type: "record", name: "Level", fields: [NAME] });
    await registry.register(
      { type: SchemaType.AVRO, schema },
      { subject, compatibility: COMPATIBILITY.FULL },
    );
    await registry.register(
      { type: SchemaType.AVRO, schema },
      { subject, compatibility: COMPATIBILITY.FULL },
    );
    const other = registry.register(
      { type: SchemaType.AVRO, schema },
      { subject, compatibility: COMPATIBILITY.NONE },
    );
    await assert.rejects(other, /Compatibility does not match the configuration \(NONE != FULL\)/);
    const wider = JSON.stringify({
      type: "record",
      name: "Level",
      fields: [NAME, { name: "age", type: "int" }],
    });
    const refused = registry.register(
      { type: SchemaType.AVRO, schema: wider },
      { subject, compatibility: COMPATIBILITY.FULL },
    );
    await assert.rejects(refused, /incompatible with an earlier schema/);
  },

  async "JSON comes back, and is validated"(subject) {
    const registry = newRegistry();
    const schema = JSON.stringify({
      type: "object",
      properties: { price: { type: "number" } },
      required: ["price"],
    });
    const { id } = await registry.register({ type: SchemaType.JSON, schema }, { subject });
    const data = await registry.encode(id, { price: 1.5 });
    assert.deepEqual(await newRegistry().decode(data), { price: 1.5 });
    await assert.rejects(registry.encode(id, {}));
  },

  async "Protobuf comes back"(subject) {
    const registry = newRegistry();
    const schema =
      'syntax = "proto3"; package shop; message Order { int32 id = 1; map<string, int32> counts = 2; repeated string tags = 3; }';
    const { id } = await registry.register({ type: SchemaType.PROTOBUF, schema }, { subject });
    const value = { id: 3, counts: { a: 1 }, tags: ["x"] };
    const found = await newRegistry().decode(await registry.encode(id, value));
    assert.deepEqual(JSON.parse(JSON.stringify(found)), value);
  },

  async "references of three languages are resolved"(subject) {
    const parts = [
      [
        SchemaType.AVRO,
        "Part",
        '{"type":"record","name":"Part","fields":[{"name":"n","type":"int"}]}',
        '{"type":"record","name":"Whole","fields":[{"name":"part","type":"Part"}]}',
      ],
      [
        SchemaType.JSON,
        "https://example.com/part.json",
        '{"$id":"https://example.com/part.json","type":"object","properties":{"n":{"type":"integer"}}}',
        '{"$id":"https://example.com/whole.json","type":"object","properties":{"part":{"$ref":"https://example.com/part.json"}}}',
      ],
      [
        SchemaType.PROTOBUF,
        "part.proto",
        'syntax = "proto3"; package p; message Part { int32 n = 1; }',
        'syntax = "proto3"; package p; import "part.proto"; message Whole { Part part = 1; }',
      ],
    ];
    for (const [type, name, part, whole] of parts) {
      const registry = newRegistry();
      await registry.register({ type, schema: part }, { subject: `${subject}-${type}-part` });
      const references = [{ name, subject: `${subject}-${type}-part`, version: 1 }];
      const { id } = await registry.register(
        { type, schema: whole, references },
        { subject: `${subject}-${type}` },
      );
      const found = await newRegistry().decode(await registry.encode(id, { part: { n: 5 } }));
      assert.deepEqual(JSON.parse(JSON.stringify(found)), { part: { n: 5 } });
    }
  },
};

tell(stories, topic);
