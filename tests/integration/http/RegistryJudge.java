import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Config;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Metadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Rule;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.RuleKind;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.RuleMode;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.RuleSet;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.formats.avro.registry.confluent.ConfluentSchemaRegistryCoder;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;

/**
 * Tells stories of Confluent's Java client of a registry, as it is inside Apache Flink, unchanged.
 *
 * <p>Arguments: the URL, and a prefix of subjects. Prints a line of JSON for each story: its name,
 * and the error if it failed.
 */
public class RegistryJudge {
    private static final String PERSON =
        "{\"type\":\"record\",\"name\":\"Person\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"}]}";
    private static final String WIDER = PERSON.replace("}]}", "},{\"name\":\"age\",\"type\":\"int\"}]}");

    private interface Story {
        void tell(SchemaRegistryClient client, String subject) throws Exception;
    }

    private interface Call {
        void run() throws Exception;
    }

    private static String url;

    public static void main(String[] arguments) {
        url = arguments[0];
        Map<String, Story> stories = new LinkedHashMap<>();
        stories.put("schemas are registered and found", RegistryJudge::registered);
        stories.put("metadata and rules come back", RegistryJudge::contract);
        stories.put("references are resolved", RegistryJudge::references);
        stories.put("refusals have their codes", RegistryJudge::refusals);
        stories.put("levels, settings and modes are changed", RegistryJudge::settings);
        stories.put("versions and subjects are deleted", RegistryJudge::deletions);
        stories.put("contexts keep schemas apart", RegistryJudge::contexts);
        stories.put("Flink's coder writes and reads ids", RegistryJudge::coder);
        int number = 0;
        for (Map.Entry<String, Story> each : stories.entrySet()) {
            String error = null;
            try {
                each.getValue().tell(client(), arguments[1] + "-" + number++);
            } catch (Throwable raised) {
                StackTraceElement[] trace = raised.getStackTrace();
                error = raised + (trace.length > 0 ? " at " + trace[0] : "");
            }
            System.out.println("{\"story\": " + quoted(each.getKey()) + ", \"error\": " + quoted(error) + "}");
        }
    }

    private static SchemaRegistryClient client() {
        return client(url);
    }

    private static SchemaRegistryClient client(String base) {
        return new CachedSchemaRegistryClient(List.of(base), 100, List.of(new AvroSchemaProvider()), Map.of());
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        String escaped = text.replace("\\", "\\\\").replace("\"", "\\\"");
        return "\"" + escaped.replaceAll("\\p{Cntrl}", " ") + "\"";
    }

    private static void same(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(found + " is not " + expected);
        }
    }

    private static void refused(int status, int code, String text, Call call) throws Exception {
        try {
            call.run();
        } catch (RestClientException refusal) {
            same(List.of(refusal.getStatus(), refusal.getErrorCode()), List.of(status, code));
            same(refusal.getMessage().contains(text), true);
            return;
        }
        throw new AssertionError("it was not refused with " + code);
    }

    private static void registered(SchemaRegistryClient client, String subject) throws Exception {
        AvroSchema schema = new AvroSchema(PERSON);
        int id = client.register(subject, schema);
        same(client.register(subject, schema, true), id);
        SchemaRegistryClient other = client();
        same(other.getId(subject, schema), id);
        same(other.getVersion(subject, schema), 1);
        same(other.getSchemaById(id), schema);
        same(other.getSchemaBySubjectAndId(subject, id), schema);
        same(other.getLatestSchemaMetadata(subject).getId(), id);
        same(other.getSchemaMetadata(subject, 1).getSchema(), schema.canonicalString());
        same(other.getByVersion(subject, 1, false).getSubject(), subject);
        same(other.getAllVersions(subject), List.of(1));
        same(other.getAllSubjects().contains(subject), true);
        same(List.copyOf(other.getAllSubjectsByPrefix(subject)), List.of(subject));
        same(other.getAllSubjectsById(id).contains(subject), true);
        same(other.getAllVersionsById(id).stream().anyMatch(each -> each.getSubject().equals(subject)), true);
        same(other.getSchemas(subject, false, true).size(), 1);
    }

    private static void contract(SchemaRegistryClient client, String subject) throws Exception {
        Metadata metadata = new Metadata(Map.of("Person.name", Set.of("PII")), Map.of("major", "1"), Set.of("key"));
        Rule rule = new Rule(
            "check", "names are there", RuleKind.CONDITION, RuleMode.WRITE, "CEL", Set.of("PII"), Map.of("a", "b"),
            "message.name != ''", "NONE", "DLQ", false);
        RuleSet rules = new RuleSet(new ArrayList<>(), List.of(rule));
        AvroSchema schema = new AvroSchema(PERSON, List.of(), Map.of(), metadata, rules, null, false);
        int id = client.register(subject, schema);
        AvroSchema found = (AvroSchema) client().getSchemaBySubjectAndId(subject, id);
        same(found.metadata(), metadata);
        same(found.ruleSet().getDomainRules(), List.of(rule));
        same(client().getLatestWithMetadata(subject, Map.of("major", "1"), false).getId(), id);
        same(client().getId(subject, schema), id);
    }

    private static void references(SchemaRegistryClient client, String subject) throws Exception {
        client.register(subject + "-part", new AvroSchema("{\"type\":\"record\",\"name\":\"Part\",\"fields\":[]}"));
        String whole = "{\"type\":\"record\",\"name\":\"Whole\",\"fields\":[{\"name\":\"part\",\"type\":\"Part\"}]}";
        List<SchemaReference> references = List.of(new SchemaReference("Part", subject + "-part", 1));
        AvroSchema schema = (AvroSchema) client.parseSchema("AVRO", whole, references).orElseThrow();
        int id = client.register(subject, schema);
        AvroSchema found = (AvroSchema) client().getSchemaById(id);
        same(found.rawSchema().getField("part").schema().getName(), "Part");
        same(found.references(), references);
        refused(422, 42206, "references exist", () -> client.deleteSchemaVersion(subject + "-part", "1"));
    }

    private static void refusals(SchemaRegistryClient client, String subject) throws Exception {
        client.register(subject, new AvroSchema(PERSON));
        String incompatible = "Schema being registered is incompatible with an earlier schema";
        refused(409, 409, incompatible, () -> client.register(subject, new AvroSchema(WIDER)));
        refused(404, 40403, "Schema 999999 not found", () -> client.getSchemaById(999999));
        refused(404, 40401, "not found", () -> client.getAllVersions(subject + "-none"));
        refused(404, 40402, "Version 9 not found", () -> client.getSchemaMetadata(subject, 9));
        refused(404, 40403, "Schema not found", () -> client.getId(subject, new AvroSchema(WIDER)));
        refused(404, 40408, "does not have subject-level compatibility", () -> client.getCompatibility(subject));
        refused(404, 40409, "does not have subject-level mode", () -> client.getMode(subject));
        refused(422, 42203, "Invalid compatibility level", () -> client.updateCompatibility(subject, "WRONG"));
        refused(422, 42204, "Invalid mode", () -> client.setMode("WRONG", subject));
        same(client.testCompatibility(subject, new AvroSchema(WIDER)), false);
        String reason = client.testCompatibilityVerbose(subject, new AvroSchema(WIDER)).get(0);
        same(reason.contains("READER_FIELD_MISSING_DEFAULT_VALUE"), true);
    }

    private static void settings(SchemaRegistryClient client, String subject) throws Exception {
        same(client.updateCompatibility(subject, "FULL"), "FULL");
        same(client.getCompatibility(subject), "FULL");
        Config config = new Config("NONE");
        config.setCompatibilityGroup("major");
        config.setNormalize(true);
        config.setDefaultMetadata(new Metadata(new TreeMap<>(), Map.of("owner", "ann"), null));
        client.updateConfig(subject, config);
        Config found = client().getConfig(subject);
        same(List.of(found.getCompatibilityLevel(), found.getCompatibilityGroup(), found.isNormalize()), List.of("NONE", "major", true));
        same(found.getDefaultMetadata().getProperties(), new TreeMap<>(Map.of("owner", "ann")));
        client.deleteConfig(subject);
        same(client().getCompatibility(null), "BACKWARD");
        same(client.setMode("IMPORT", subject), "IMPORT");
        same(client.register(subject, new AvroSchema(PERSON.replace("Person", "Imported")), 4, 78001), 78001);
        same(client().getAllVersions(subject), List.of(4));
        client.deleteMode(subject);
        same(client.getMode(), "READWRITE");
    }

    private static void deletions(SchemaRegistryClient client, String subject) throws Exception {
        client.register(subject, new AvroSchema(PERSON));
        client.register(subject, new AvroSchema("{\"type\":\"record\",\"name\":\"Person\",\"fields\":[]}"));
        refused(404, 40407, "was not deleted first", () -> client.deleteSchemaVersion(subject, "1", true));
        same(client.deleteSchemaVersion(subject, "1"), 1);
        same(client().getAllVersions(subject), List.of(2));
        same(client().getAllVersions(subject, true), List.of(1, 2));
        same(client.deleteSchemaVersion(subject, "1", true), 1);
        same(client.deleteSubject(subject), List.of(2));
        same(client().getAllSubjects(true).contains(subject), true);
        same(client.deleteSubject(subject, true), List.of(2));
        same(client().getAllSubjects(true).contains(subject), false);
    }

    private static void contexts(SchemaRegistryClient client, String subject) throws Exception {
        String inside = ":." + subject + ":orders";
        int id = client.register(inside, new AvroSchema(PERSON.replace("Person", "Inside")));
        AvroSchema found = (AvroSchema) client().getSchemaBySubjectAndId(inside, id);
        same(found.name(), "Inside");
        SchemaRegistryClient below = client(url + "/contexts/." + subject);
        same(below.getLatestSchemaMetadata("orders").getId(), id);
        same(List.copyOf(below.getAllSubjects()), List.of(inside));
    }

    private static void coder(SchemaRegistryClient client, String subject) throws Exception {
        Schema schema = new Schema.Parser().parse(PERSON.replace("Person", "Coded"));
        ConfluentSchemaRegistryCoder coder = new ConfluentSchemaRegistryCoder(subject, client);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        coder.writeSchema(schema, out);
        ByteBuffer written = ByteBuffer.wrap(out.toByteArray());
        same(List.of(written.get(), written.getInt()), List.of((byte) 0, client.getId(subject, new AvroSchema(schema))));
        ConfluentSchemaRegistryCoder reader = new ConfluentSchemaRegistryCoder(client());
        same(reader.readSchema(new java.io.ByteArrayInputStream(out.toByteArray())), schema);
    }
}
