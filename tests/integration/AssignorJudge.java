import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Asks the assignors of Kafka's own client: one question per line of standard input, as JSON, and one answer per line of output. */
public class AssignorJudge {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = JSON.readTree(line);
            Map<String, List<TopicPartition>> assigned =
                named(question.get("assignor").asText()).assignPartitions(partitions(question.get("racks")), members(question.get("members")));
            System.out.println(JSON.writeValueAsString(answer(assigned)));
        }
    }

    private static AbstractPartitionAssignor named(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    /** By topic, one list of racks for each partition: a replica in each, or one that is in no rack. */
    private static Map<String, List<PartitionInfo>> partitions(JsonNode racksByTopic) {
        Map<String, List<PartitionInfo>> partitions = new HashMap<>();
        racksByTopic.fields().forEachRemaining(topic -> {
            List<PartitionInfo> described = new ArrayList<>();
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                racks.forEach(rack -> replicas.add(new Node(replicas.size(), "host", 1, rack.asText())));
                if (replicas.isEmpty()) {
                    replicas.add(new Node(0, "host", 1));
                }
                Node[] nodes = replicas.toArray(new Node[0]);
                described.add(new PartitionInfo(topic.getKey(), described.size(), nodes[0], nodes, nodes));
            }
            partitions.put(topic.getKey(), described);
        });
        return partitions;
    }

    private static Map<String, Subscription> members(JsonNode told) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : told) {
            ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(member.get("subscription").asText()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance").textValue()));
            members.put(member.get("id").asText(), subscription);
        }
        return members;
    }

    private static Map<String, List<List<Object>>> answer(Map<String, List<TopicPartition>> assigned) {
        Map<String, List<List<Object>>> answer = new HashMap<>();
        assigned.forEach((member, partitions) -> {
            List<List<Object>> owned = new ArrayList<>();
            partitions.forEach(each -> owned.add(List.of(each.topic(), each.partition())));
            answer.put(member, owned);
        });
        return answer;
    }
}
