// Confluent's client of a registry for JavaScript, its serializers and its rules, unchanged.
// node confluent.js URL TOPIC DESCRIPTORS: DESCRIPTORS is a FileDescriptorSet with shop.Click.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const {
  create,
  createFileRegistry,
  createMutableRegistry,
  fromBinary,
} = require("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
const sr = require("@confluentinc/schemaregistry");
const { tell } = require("./stories");
const { HeaderSchemaIdSerializer, SerdeType, SubjectNameStrategyType } = sr;

const [url, topic, descriptors] = process.argv.slice(2);
const newClient = () => new sr.SchemaRegistryClient({ baseURLs: [url], maxRetries: 0 });
const record = (name, ...fields) => ({
  schemaType: "AVRO",
  schema: JSON.stringify({ type: "record", name, fields }),
});
const NAME = { name: "name", type: "string" };
const AGE = { name: "age", type: "int", default: 7 };
const LATEST = { useLatestVersion: true, autoRegisterSchemas: false };

async function refused(promise, status, code, text) {
  await assert.rejects(promise, (error) => {
    assert.deepEqual([error.status, error.errorCode], [status, code], String(error));
    assert.match(error.message, text);
    return true;
  });
}

const stories = {
  async "the client registers and finds"(subject) {
    const client = newClient();
    const schema = record("Person", NAME);
    const id = await client.register(subject, schema);
    const made = await client.registerFullResponse(subject, schema);
    assert.deepEqual([made.id, made.version, made.schemaType ?? "AVRO"], [id, 1, "AVRO"]);
    client.clearCaches();
    assert.equal(await client.getId(subject, schema, true), id);
    assert.equal(await client.getVersion(subject, schema), 1);
    const found = [
      await client.getBySubjectAndId(subject, id),
      await client.getByGuid(made.guid),
      await client.getLatestSchemaMetadata(subject),
      await client.getSchemaMetadata(subject, 1),
    ];
    for (const each of found) assert.deepEqual(JSON.parse(each.schema), JSON.parse(schema.schema));
    assert.deepEqual(await client.getAllVersions(subject), [1]);
    assert.ok((await client.getAllSubjects()).includes(subject));
  },

  async "the client is refused with codes"(subject) {
    const client = newClient();
    await client.register(subject, record("Person", NAME));
    const wider = record("Person", NAME, { name: "age", type: "int" });
    await refused(client.register(subject, wider), 409, 409, /incompatible with an earlier schema/);
    await refused(
      client.register(subject, { schemaType: "AVRO", schema: "{" }),
      422,
      42201,
      /Invalid schema/,
    );
    await refused(client.getAllVersions(`${subject}-none`), 404, 40401, /Subject '.*' not found/);
    await refused(client.getSchemaMetadata(subject, 9), 404, 40402, /Version 9 not found/);
    await refused(client.getBySubjectAndId(subject, 999999), 404, 40403, /Schema 999999 not found/);
    const asked = [topic, "-", "topic", ["value"], null, 0, -1];
    await refused(client.getAssociationsByResourceName(...asked), 404, 40410, /not found/);
    assert.equal(await client.testSubjectCompatibility(subject, record("Person", NAME, AGE)), true);
    assert.equal(await client.testCompatibility(subject, 1, wider), false);
  },

  async "the client changes settings and deletes"(subject) {
    const client = newClient();
    await client.register(subject, {
      ...record("Person", NAME),
      metadata: { properties: { major: "1" } },
    });
    assert.equal(await client.updateCompatibility(subject, "FULL"), "FULL");
    assert.equal(await client.getCompatibility(subject), "FULL");
    assert.equal(await client.getDefaultCompatibility(), "BACKWARD");
    await client.updateConfig(subject, { compatibilityGroup: "major", normalize: true });
    const config = await client.getConfig(subject);
    assert.deepEqual(
      [config.compatibilityLevel, config.compatibilityGroup, config.normalize],
      ["FULL", "major", true],
    );
    assert.equal((await client.getDefaultConfig()).compatibilityLevel, "BACKWARD");
    assert.equal((await client.getLatestWithMetadata(subject, { major: "1" })).version, 1);
    assert.equal(await client.deleteSubjectVersion(subject, 1), 1);
    assert.equal((await client.getSchemaMetadata(subject, 1, true)).version, 1);
    assert.deepEqual(await client.deleteSubject(subject, true), [1]);
    assert.ok(!(await client.getAllSubjects()).includes(subject));
  },

  async "Avro comes back by id and by guid"(subject) {
    const client = newClient();
    const part = {
      schemaType: "AVRO",
      schema: JSON.stringify({ type: "record", name: "Part", fields: [NAME] }),
    };
    await client.register(`${subject}-part`, part);
    const references = [{ name: "Part", subject: `${subject}-part`, version: 1 }];
    await client.register(`${subject}-value`, {
      ...record("Whole", { name: "part", type: "Part" }, AGE),
      references,
    });
    for (const conf of [LATEST, { ...LATEST, schemaIdSerializer: HeaderSchemaIdSerializer }]) {
      const headers = {};
      const value = { part: { name: "abc" }, age: 3 };
      const data = await new sr.AvroSerializer(newClient(), SerdeType.VALUE, conf).serialize(
        subject,
        value,
        headers,
      );
      assert.equal("__value_schema_id" in headers, "schemaIdSerializer" in conf);
      const found = await new sr.AvroDeserializer(newClient(), SerdeType.VALUE, {}).deserialize(
        subject,
        data,
        headers,
      );
      assert.deepEqual(JSON.parse(JSON.stringify(found)), value);
    }
  },

  async "Avro is registered from a value, under each name"(subject) {
    const strategies = {
      ASSOCIATED: `${subject}-value`,
      TOPIC: `${subject}-value`,
      TOPIC_RECORD: `${subject}-Record1`,
    };
    for (const [name, expected] of Object.entries(strategies)) {
      const client = newClient();
      const conf = {
        autoRegisterSchemas: true,
        subjectNameStrategyType: SubjectNameStrategyType[name],
      };
      await new sr.AvroSerializer(client, SerdeType.VALUE, conf).serialize(subject, {
        a: 1,
        b: "x",
      });
      assert.deepEqual(await client.getAllVersions(expected), [1]);
    }
  },

  async "JSON comes back, and is validated"(subject) {
    const client = newClient();
    const part = {
      $id: "http://example.com/part.json",
      type: "object",
      properties: { price: { type: "number" } },
      required: ["price"],
    };
    await client.register(`${subject}-part`, { schemaType: "JSON", schema: JSON.stringify(part) });
    const whole = {
      $id: "http://example.com/whole.json",
      type: "object",
      properties: { part: { $ref: "http://example.com/part.json" } },
    };
    const references = [
      { name: "http://example.com/part.json", subject: `${subject}-part`, version: 1 },
    ];
    await client.register(`${subject}-value`, {
      schemaType: "JSON",
      schema: JSON.stringify(whole),
      references,
    });
    const serializer = new sr.JsonSerializer(newClient(), SerdeType.VALUE, {
      ...LATEST,
      validate: true,
    });
    const value = { part: { price: 12.5 } };
    const data = await serializer.serialize(subject, value);
    const deserializer = new sr.JsonDeserializer(newClient(), SerdeType.VALUE, { validate: true });
    assert.deepEqual(await deserializer.deserialize(subject, data), value);
    await assert.rejects(serializer.serialize(subject, { part: {} }), /[Ii]nvalid/);
  },

  async "Protobuf comes back, with imports and maps"(subject) {
    const files = createFileRegistry(
      fromBinary(FileDescriptorSetSchema, fs.readFileSync(descriptors)),
    );
    for (const name of ["shop.Click", "shop.First.Inner"]) {
      const message = files.getMessage(name);
      const value = create(
        message,
        name === "shop.Click"
          ? { tags: ["x"], common: { id: "c", counts: { a: 1n } } }
          : { data: new Uint8Array([1]) },
      );
      const registry = createMutableRegistry(message);
      for (const conf of [{ autoRegisterSchemas: true }, { autoRegisterSchemas: false }]) {
        const client = newClient();
        const serializer = new sr.ProtobufSerializer(client, SerdeType.VALUE, {
          ...conf,
          registry,
        });
        const data = await serializer.serialize(`${subject}-${name}`, value);
        const found = await new sr.ProtobufDeserializer(
          newClient(),
          SerdeType.VALUE,
          {},
        ).deserialize(`${subject}-${name}`, data);
        assert.equal(found.$typeName, name);
        assert.deepEqual(found.common?.counts, value.common?.counts);
        assert.deepEqual(Buffer.from(found.data ?? []), Buffer.from(value.data ?? []));
        assert.deepEqual(await client.getAllVersions(`${subject}-${name}-value`), [1]);
      }
    }
  },

  async "rules in CEL run"(subject) {
    sr.CelExecutor.register();
    sr.CelFieldExecutor.register();
    const domainRules = [
      {
        name: "hasName",
        kind: "CONDITION",
        mode: "WRITE",
        type: "CEL",
        expr: "message.name != ''",
      },
      {
        name: "shout",
        kind: "TRANSFORM",
        mode: "READ",
        type: "CEL_FIELD",
        expr: "value + '!'",
        tags: ["PII"],
      },
    ];
    const tagged = { ...NAME, "confluent:tags": ["PII"] };
    await newClient().register(`${subject}-value`, {
      ...record("Ruled", tagged, { name: "note", type: "string" }),
      ruleSet: { domainRules },
    });
    const serializer = new sr.AvroSerializer(newClient(), SerdeType.VALUE, LATEST);
    const data = await serializer.serialize(subject, { name: "ann", note: "quiet" });
    const found = await new sr.AvroDeserializer(newClient(), SerdeType.VALUE, {}).deserialize(
      subject,
      data,
    );
    assert.deepEqual({ ...found }, { name: "ann!", note: "quiet" });
    await assert.rejects(serializer.serialize(subject, { name: "", note: "" }), /hasName|[Rr]ule/);
  },

  async "rules in JSONata migrate between groups"(subject) {
    sr.JsonataExecutor.register();
    const client = newClient();
    await client.updateConfig(`${subject}-value`, { compatibilityGroup: "major" });
    const of = (major, field, ruleSet) => ({
      ...record("Moved", { name: field, type: "string" }),
      metadata: { properties: { major } },
      ruleSet,
    });
    const migrationRules = [
      {
        name: "up",
        kind: "TRANSFORM",
        mode: "UPGRADE",
        type: "JSONATA",
        expr: "{'state': status}",
      },
      {
        name: "down",
        kind: "TRANSFORM",
        mode: "DOWNGRADE",
        type: "JSONATA",
        expr: "{'status': state}",
      },
    ];
    await client.register(`${subject}-value`, of("1", "status"));
    await client.register(`${subject}-value`, of("2", "state", { migrationRules }));
    const write = (major) =>
      new sr.AvroSerializer(newClient(), SerdeType.VALUE, {
        useLatestWithMetadata: { major },
        autoRegisterSchemas: false,
      });
    const read = (major) =>
      new sr.AvroDeserializer(newClient(), SerdeType.VALUE, { useLatestWithMetadata: { major } });
    const old = await write("1").serialize(subject, { status: "x" });
    assert.deepEqual({ ...(await read("2").deserialize(subject, old)) }, { state: "x" });
    const young = await write("2").serialize(subject, { state: "x" });
    assert.deepEqual({ ...(await read("1").deserialize(subject, young)) }, { status: "x" });
  },
};

tell(stories, topic);
