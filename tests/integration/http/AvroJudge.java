import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaCompatibility.Incompatibility;
import org.apache.avro.SchemaNormalization;

/**
 * Asks Apache Avro's own library: one question per line of standard input, as JSON, and one answer per line of output.
 *
 * <p>A question is a reader, and may have a writer. Each is a text with the texts that it refers to.
 */
public class AvroJudge {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** A schema beside those that its text refers to by name. */
    private record Parsed(Schema schema, List<Schema> references) {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
        answers.flush();
    }

    private static Map<String, Object> answer(JsonNode question) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            Parsed reader = parsed(question.get("reader"));
            answer.put("canonical", reader.schema.toString(reader.references, false));
            answer.put("resolved", reader.schema.toString());
            answer.put("parsing_form", SchemaNormalization.toParsingForm(reader.schema));
            if (question.has("writer")) {
                answer.put("differences", differences(reader.schema, parsed(question.get("writer")).schema));
            }
        } catch (Exception | StackOverflowError refusal) {
            answer.put("refusal", String.valueOf(refusal));
        }
        return answer;
    }

    private static Parsed parsed(JsonNode asked) {
        boolean isNew = asked.get("is_new").asBoolean();
        Schema.Parser parser = new Schema.Parser(isNew ? NameValidator.STRICT_VALIDATOR : NameValidator.NO_VALIDATION);
        parser.setValidateDefaults(isNew);
        List<Schema> references = new ArrayList<>();
        asked.get("dependencies").forEach(text -> references.add(parser.parse(text.asText())));
        return new Parsed(parser.parse(asked.get("text").asText()), references);
    }

    private static List<List<String>> differences(Schema reader, Schema writer) {
        List<List<String>> differences = new ArrayList<>();
        for (Incompatibility each : SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()) {
            differences.add(List.of(each.getType().toString(), each.getLocation(), each.getMessage()));
        }
        return differences;
    }
}
