import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Apache Kafka's own client, which writes or reads a topic until standard input ends, and tells what the cluster told it. The arguments
 * and the lines are those of franz_go/main.go.
 */
public class ClusterClient {
    private static final String STRING = "org.apache.kafka.common.serialization.String";
    private static volatile boolean isOver;

    private static synchronized void tell(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ").append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    private static Properties settings(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", STRING + "Serializer");
        settings.put("value.serializer", STRING + "Serializer");
        settings.put("key.deserializer", STRING + "Deserializer");
        settings.put("value.deserializer", STRING + "Deserializer");
        return settings;
    }

    private static void write(String bootstrap, String topic, int partitions, int pauseMs) throws InterruptedException {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(bootstrap))) {
            for (int number = 1; !isOver; number++) {
                int partition = number % partitions;
                String value = "java:" + partition + ":" + number + ":";
                tell("S", topic, partition, value);
                producer.send(new ProducerRecord<>(topic, partition, null, value), (told, error) -> {
                    if (error != null) {
                        tell("E", value, error);
                    } else {
                        tell("A", told.topic(), told.partition(), told.offset(), value);
                    }
                });
                Thread.sleep(pauseMs);
            }
            producer.flush();
        }
    }

    private static void read(String bootstrap, String topic, String group) {
        Properties settings = settings(bootstrap);
        settings.put("group.id", group);
        settings.put("group.protocol", System.getProperty("group.protocol", "classic"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    tell("N");
                }

                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    tell("N");
                }
            });
            while (!isOver) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    tell("R", record.topic(), record.partition(), record.offset(), record.value());
                    positions.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                try {
                    if (!positions.isEmpty()) {
                        consumer.commitSync(positions);
                        positions.forEach((where, position) -> tell("C", where.topic(), where.partition(), position.offset()));
                    }
                } catch (KafkaException error) {
                    continue; // the group has moved on, or its coordinator has: nothing was promised
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException error) {
                tell("E", error);
            }
            isOver = true;
        });
        input.setDaemon(true);
        input.start();
        try {
            if (arguments[0].equals("read")) {
                read(arguments[1], arguments[2], arguments[3]);
            } else {
                write(arguments[1], arguments[2], Integer.parseInt(arguments[3]), Integer.parseInt(arguments[4]));
            }
        } catch (KafkaException error) {
            tell("E", error);
            System.exit(1);
        }
    }
}
