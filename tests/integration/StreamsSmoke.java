import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers;
import org.apache.kafka.streams.tests.SmokeTestClient;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/**
 * Kafka Streams' own smoke test (org.apache.kafka.streams.tests), in sizes of our choice:
 *
 *   drive BOOTSTRAP KEYS RECORDS SECONDS             sends so many records of each key, verifies their totals
 *   work BOOTSTRAP NAME PROTOCOL THREADS DIRECTORY   an instance with exactly_once_v2, its state in memory, until standard input ends
 *
 * Among the lines of the smoke test itself are "G", all is sent, "V passed" or "V failed", and "L error", a thread of
 * an instance was given up for a new one.
 */
public class StreamsSmoke {
    private static final List<String> TOPICS = List.of("echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw",
            "sws-suppressed", "cnt", "avg", "tagg");
    private static final long QUIET_MS = 10_000;  // longer than a member that was killed is waited for
    private static final long PATIENCE_MS = 180_000;

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String isolation) {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "isolation.level", isolation),
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /**
     * The driver asks for the ends of all records, and after that for those of committed ones: a transaction that is committed in
     * between makes these larger, which it takes for a fault. So wait until nothing has been written for a while, and all is committed.
     */
    private static void waitUntilQuiet(String bootstrap) throws InterruptedException {
        try (KafkaConsumer<byte[], byte[]> all = consumer(bootstrap, "read_uncommitted");
                KafkaConsumer<byte[], byte[]> committed = consumer(bootstrap, "read_committed")) {
            List<TopicPartition> partitions = TOPICS.stream().flatMap(topic -> all.partitionsFor(topic).stream())
                    .map(one -> new TopicPartition(one.topic(), one.partition())).toList();
            long begun = System.currentTimeMillis();
            long since = begun;
            Map<TopicPartition, Long> last = Map.of();
            while (System.currentTimeMillis() - since < QUIET_MS && System.currentTimeMillis() - begun < PATIENCE_MS) {
                Thread.sleep(500);
                try {
                    Map<TopicPartition, Long> ends = all.endOffsets(partitions);
                    if (!ends.equals(last) || !ends.equals(committed.endOffsets(partitions))) {
                        since = System.currentTimeMillis();
                    }
                    last = ends;
                } catch (RetriableException away) {
                    since = System.currentTimeMillis();
                }
            }
        }
    }

    private static void drive(String bootstrap, int keys, int records, int seconds) throws InterruptedException {
        Map<String, Set<Integer>> sent = SmokeTestDriver.generate(bootstrap, keys, records, Duration.ofSeconds(seconds));
        System.out.println("G");
        waitUntilQuiet(bootstrap);
        System.out.println(SmokeTestDriver.verify(bootstrap, sent, records, true).passed() ? "V passed" : "V failed");
    }

    private static void work(String bootstrap, String name, String protocol, String threads, String directory) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", "smoke-test");
        settings.put("group.protocol", protocol);
        settings.put("num.stream.threads", threads);
        settings.put("state.dir", directory);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("dsl.store.suppliers.class", InMemoryDslStoreSuppliers.class.getName());
        settings.put("auto.offset.reset", "earliest");
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "1000");
        }
        KafkaStreams streams = new KafkaStreams(new SmokeTestClient(name).getTopology(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("L " + String.valueOf(error).replace('\n', ' '));
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        System.in.transferTo(java.io.OutputStream.nullOutputStream());
        streams.close(Duration.ofSeconds(60));
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("drive")) {
            drive(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]));
        } else {
            work(words[1], words[2], words[3], words[4], words[5]);
        }
    }
}
