import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;

/**
 * A member of a share group with Apache Kafka's own client, until standard input ends. The arguments (queue BOOTSTRAP TOPIC GROUP) and the
 * lines are those of franz_go/main.go, what it decides is what franz_go/queue.go does.
 */
public class QueueMember {
    private static volatile boolean isOver;

    private static AcknowledgeType verdictOf(ConsumerRecord<String, String> record) {
        if (record.value().startsWith("bad-")) {
            return AcknowledgeType.REJECT;
        }
        boolean isFirst = record.deliveryCount().orElse((short) 0) == 1;
        return record.value().startsWith("second-") && isFirst ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
    }

    private static void decide(KafkaShareConsumer<String, String> consumer, ConsumerRecords<String, String> records) {
        Map<ConsumerRecord<String, String>, String> verdicts = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            AcknowledgeType verdict = verdictOf(record);
            System.out.println("R " + record.partition() + " " + record.offset() + " " + record.deliveryCount().orElse((short) 0) + " " + record.value());
            consumer.acknowledge(record, verdict);
            verdicts.put(record, verdict.name().toLowerCase());
        }
        Map<TopicIdPartition, Optional<KafkaException>> told = consumer.commitSync();
        Map<Integer, Optional<KafkaException>> byPartition = new HashMap<>();
        told.forEach((where, error) -> byPartition.put(where.partition(), error));
        verdicts.forEach((record, verdict) -> {
            Optional<KafkaException> error = byPartition.get(record.partition());
            String what = record.partition() + " " + record.offset() + " " + verdict;
            System.out.println(error != null && error.isEmpty() ? "K " + what : "F " + what + " " + error);
        });
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        String string = "org.apache.kafka.common.serialization.StringDeserializer";
        settings.putAll(Map.of("bootstrap.servers", arguments[1], "group.id", arguments[3], "key.deserializer", string));
        settings.putAll(Map.of("value.deserializer", string, "share.acknowledgement.mode", "explicit", "max.poll.records", "10"));
        Thread ear = new Thread(() -> {
            try {
                System.in.transferTo(java.io.OutputStream.nullOutputStream());
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            } finally {
                isOver = true;
            }
        });
        ear.setDaemon(true);
        ear.start();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            while (!isOver) {
                decide(consumer, consumer.poll(Duration.ofMillis(200)));
                Thread.sleep(20);
            }
        }
    }
}
