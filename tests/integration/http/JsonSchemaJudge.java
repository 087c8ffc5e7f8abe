import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.everit.json.schema.ArraySchema;
import org.everit.json.schema.BooleanSchema;
import org.everit.json.schema.CombinedSchema;
import org.everit.json.schema.ConditionalSchema;
import org.everit.json.schema.ConstSchema;
import org.everit.json.schema.EmptySchema;
import org.everit.json.schema.EnumSchema;
import org.everit.json.schema.FalseSchema;
import org.everit.json.schema.NotSchema;
import org.everit.json.schema.NullSchema;
import org.everit.json.schema.NumberSchema;
import org.everit.json.schema.ObjectSchema;
import org.everit.json.schema.ReferenceSchema;
import org.everit.json.schema.Schema;
import org.everit.json.schema.StringSchema;
import org.everit.json.schema.TrueSchema;
import org.everit.json.schema.loader.SchemaLoader;
import org.json.JSONObject;
import org.json.JSONTokener;

/**
 * Asks Java's libraries for JSON and JSON Schema: one question per line of standard input, and one answer per line of output.
 *
 * <p>A question is a "text" of JSON to print, a "schema" to load, or an "old" and a "new" schema of objects.
 */
public class JsonSchemaJudge {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ObjectMapper EXACT =
            new ObjectMapper()
                    .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
                    .setNodeFactory(JsonNodeFactory.withExactBigDecimals(true));

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
        answers.flush();
    }

    private static Map<String, Object> answer(JsonNode question) {
        try {
            if (question.has("text")) {
                return printed(question.get("text").asText());
            }
            if (question.has("old")) {
                return order(properties(question.get("old")), properties(question.get("new")));
            }
            return Map.of("shape", shape(loaded(question.get("schema").asText()), question.get("depth").asInt()));
        } catch (Exception | StackOverflowError refusal) {
            return Map.of("refusal", String.valueOf(refusal));
        }
    }

    private static Map<String, Object> printed(String text) throws Exception {
        JsonNode value = EXACT.readTree(text);
        String sorted =
                EXACT.writer(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS)
                        .writeValueAsString(EXACT.treeToValue(value, Object.class));
        return Map.of("printed", EXACT.writeValueAsString(value), "sorted", sorted);
    }

    /** The order in which sets have the names of an old object, and of both. */
    private static Map<String, Object> order(Set<String> old, Set<String> young) {
        Set<String> both = new HashSet<>(old);
        both.addAll(young);
        return Map.of("old", List.copyOf(old), "both", List.copyOf(both));
    }

    private static Set<String> properties(JsonNode schema) {
        return ((ObjectSchema) loaded(schema.asText())).getPropertySchemas().keySet();
    }

    private static Schema loaded(String text) {
        return SchemaLoader.builder()
                .useDefaults(true)
                .draftV7Support()
                .schemaClient(url -> {
                    throw new UncheckedIOException("nothing is fetched: " + url, new java.io.IOException());
                })
                .schemaJson(new JSONTokener(text).nextValue())
                .build()
                .load()
                .build();
    }

    /** What a schema says, down to a depth. */
    private static Map<String, Object> shape(Schema schema, int depth) {
        Map<String, Object> shape = new LinkedHashMap<>();
        shape.put("title", schema.getTitle());
        shape.put("description", schema.getDescription());
        shape.put("has_default", schema.hasDefaultValue());
        if (depth == 0) {
            shape.put("kind", "DEEP");
        } else if (schema instanceof ObjectSchema each) {
            put(shape, each, depth - 1);
        } else if (schema instanceof ArraySchema each) {
            put(shape, each, depth - 1);
        } else if (schema instanceof NumberSchema each) {
            put(shape, each);
        } else if (schema instanceof StringSchema each) {
            shape.put("kind", "STRING");
            shape.put("min", each.getMinLength());
            shape.put("max", each.getMaxLength());
            shape.put("pattern", each.getPattern() == null ? null : each.getPattern().pattern());
        } else if (schema instanceof CombinedSchema each) {
            shape.put("kind", "COMBINED");
            shape.put("criterion", each.getCriterion().toString());
            shape.put("parts", each.getSubschemas().stream().map(part -> shape(part, depth - 1)).toList());
        } else if (schema instanceof EnumSchema each) {
            shape.put("kind", "ENUM");
            shape.put("values", each.getPossibleValues().stream().map(JSONObject::valueToString).toList());
        } else if (schema instanceof ConstSchema each) {
            shape.put("kind", "CONST");
            shape.put("values", List.of(JSONObject.valueToString(each.getPermittedValue())));
        } else if (schema instanceof NotSchema each) {
            shape.put("kind", "NOT");
            shape.put("schema", shape(each.getMustNotMatch(), depth - 1));
        } else if (schema instanceof ReferenceSchema each) {
            shape.put("kind", "REFERENCE");
            shape.put("schema", shape(each.getReferredSchema(), depth - 1));
        } else {
            shape.put("kind", simpleKind(schema));
        }
        return shape;
    }

    private static String simpleKind(Schema schema) {
        if (schema instanceof FalseSchema) {
            return "FALSE";
        }
        if (schema instanceof TrueSchema) {
            return "TRUE";
        }
        if (schema instanceof EmptySchema) {
            return "ANYTHING";
        }
        if (schema instanceof BooleanSchema) {
            return "BOOLEAN";
        }
        if (schema instanceof NullSchema) {
            return "NULL";
        }
        return schema instanceof ConditionalSchema ? "CONDITIONAL" : schema.getClass().getName();
    }

    private static void put(Map<String, Object> shape, ObjectSchema schema, int depth) {
        shape.put("kind", "OBJECT");
        shape.put("properties", shapes(schema.getPropertySchemas(), depth));
        shape.put("required", new TreeSet<>(schema.getRequiredProperties()));
        Map<String, Schema> patterns = new LinkedHashMap<>();
        schema.getPatternProperties().forEach((Pattern pattern, Schema each) -> patterns.put(pattern.pattern(), each));
        shape.put("patterns", shapes(patterns, depth));
        shape.put("permits_additional", schema.permitsAdditionalProperties());
        shape.put("additional", schema.getSchemaOfAdditionalProperties() == null ? null : shape(schema.getSchemaOfAdditionalProperties(), depth));
        Map<String, Object> needs = new LinkedHashMap<>();
        schema.getPropertyDependencies().forEach((name, names) -> needs.put(name, new TreeSet<>(names)));
        shape.put("required_by", needs);
        shape.put("schema_by", shapes(schema.getSchemaDependencies(), depth));
        shape.put("min", schema.getMinProperties());
        shape.put("max", schema.getMaxProperties());
    }

    private static void put(Map<String, Object> shape, ArraySchema schema, int depth) {
        shape.put("kind", "ARRAY");
        shape.put("every_item", schema.getAllItemSchema() == null ? null : shape(schema.getAllItemSchema(), depth));
        List<Object> items = new ArrayList<>();
        if (schema.getItemSchemas() != null) {
            schema.getItemSchemas().forEach(each -> items.add(shape(each, depth)));
        }
        shape.put("items", items);
        shape.put("permits_additional", schema.permitsAdditionalItems());
        shape.put("additional", schema.getSchemaOfAdditionalItems() == null ? null : shape(schema.getSchemaOfAdditionalItems(), depth));
        shape.put("min", schema.getMinItems());
        shape.put("max", schema.getMaxItems());
        shape.put("is_unique", schema.needsUniqueItems());
    }

    private static void put(Map<String, Object> shape, NumberSchema schema) {
        shape.put("kind", "NUMBER");
        shape.put("minimum", number(schema.getMinimum()));
        shape.put("maximum", number(schema.getMaximum()));
        shape.put("exclusive_minimum", number(schema.getExclusiveMinimumLimit()));
        shape.put("exclusive_maximum", number(schema.getExclusiveMaximumLimit()));
        shape.put("multiple_of", number(schema.getMultipleOf()));
        shape.put("is_integer", schema.requiresInteger());
    }

    private static Map<String, Object> shapes(Map<String, Schema> schemas, int depth) {
        return schemas.entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, each -> shape(each.getValue(), depth)));
    }

    private static String number(Number value) {
        return value == null ? null : new BigDecimal(value.toString()).stripTrailingZeros().toPlainString();
    }
}
