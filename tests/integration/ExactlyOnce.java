import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Apache Kafka's own clients that work exactly once, until standard input ends. The arguments are the bootstrap servers and jobs, each
 * on a thread of its own:
 *
 *   copy IN OUT ID PROTOCOL          a transactional producer behind a member of group ID, of group.protocol PROTOCOL
 *   total IN OUT ID DIRECTORY        an instance of Kafka Streams with processing.guarantee=exactly_once_v2
 *   newer-total IN OUT ID DIRECTORY  the same, of group.protocol=streams
 *
 * Lines: "T ID" a transaction was committed, "B ID error" one was aborted, "L ID error" a client was given up for a new one,
 * "E error" a job ended for good.
 */
public class ExactlyOnce {
    private static final String STRING = "org.apache.kafka.common.serialization.String";
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static volatile boolean isOver;

    private static synchronized void tell(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ").append(String.valueOf(word).replace('\n', ' '));
        }
        System.out.println(line);
        System.out.flush();
    }

    private static Properties settings(String... pairs) {
        Properties settings = new Properties();
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put(pairs[index], pairs[index + 1]);
        }
        return settings;
    }

    // Consume, produce, and commit both

    private static void copyForEver(String bootstrap, String in, String out, String id, String protocol) throws InterruptedException {
        while (!isOver) {
            Properties writing = settings("bootstrap.servers", bootstrap, "transactional.id", id, "transaction.timeout.ms", "15000",
                "key.serializer", STRING + "Serializer", "value.serializer", STRING + "Serializer");
            Properties reading = settings("bootstrap.servers", bootstrap, "group.id", id, "group.protocol", protocol,
                "isolation.level", "read_committed", "auto.offset.reset", "earliest", "enable.auto.commit", "false",
                "key.deserializer", STRING + "Deserializer", "value.deserializer", STRING + "Deserializer");
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(writing);
                 KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading)) {
                producer.initTransactions();
                consumer.subscribe(List.of(in));
                while (!isOver) {
                    copy(consumer, producer, out, id);
                }
            } catch (KafkaException error) {
                tell("L", id, error);
                Thread.sleep(200);
            }
        }
    }

    private static void copy(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer, String out, String id) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return;
        }
        try {
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                producer.send(new ProducerRecord<>(out, record.partition(), record.key(), record.value()));
                positions.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
            producer.commitTransaction();
            tell("T", id);
        } catch (KafkaException error) {
            tell("B", id, error);
            producer.abortTransaction();
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment(), PATIENCE);
            for (TopicPartition partition : consumer.assignment()) {
                OffsetAndMetadata position = committed.get(partition);
                consumer.seek(partition, position == null ? 0 : position.offset());
            }
        }
    }

    // Count and sum, of each key and of all

    private static Topology totals(String in, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> numbers = builder.stream(in);
        numbers.groupByKey().aggregate(() -> "0:0", ExactlyOnce::add, Materialized.as(Stores.inMemoryKeyValueStore("by-key")))
            .toStream().to(out);
        numbers.map((key, value) -> KeyValue.pair("all", value)).groupByKey(Grouped.as("all"))
            .aggregate(() -> "0:0", ExactlyOnce::add, Materialized.as(Stores.inMemoryKeyValueStore("of-all")))
            .toStream().to(out);
        return builder.build();
    }

    private static String add(String key, String number, String total) {
        String[] parts = total.split(":");
        return (Long.parseLong(parts[0]) + 1) + ":" + (Long.parseLong(parts[1]) + Long.parseLong(number));
    }

    private static KafkaStreams startTotals(boolean isNewer, String bootstrap, String in, String out, String id, String directory) {
        Properties settings = settings("bootstrap.servers", bootstrap, "application.id", id, "state.dir", directory,
            "processing.guarantee", "exactly_once_v2", "statestore.cache.max.bytes", "0", "auto.offset.reset", "earliest",
            "default.key.serde", Serdes.StringSerde.class.getName(), "default.value.serde", Serdes.StringSerde.class.getName(),
            "repartition.purge.interval.ms", "1000");
        settings.putAll(isNewer ? settings("group.protocol", "streams")
            : settings("session.timeout.ms", "6000", "heartbeat.interval.ms", "1000"));
        KafkaStreams streams = new KafkaStreams(totals(in, out), settings);
        streams.setUncaughtExceptionHandler(error -> {
            tell("L", id, error, error.getCause());
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        return streams;
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> copiers = new ArrayList<>();
        List<KafkaStreams> running = new ArrayList<>();
        for (int at = 1; at < arguments.length; at += 5) {
            String[] job = java.util.Arrays.copyOfRange(arguments, at, at + 5);
            if (job[0].endsWith("total")) {
                running.add(startTotals(job[0].startsWith("newer"), arguments[0], job[1], job[2], job[3], job[4]));
                continue;
            }
            Thread copier = new Thread(() -> {
                try {
                    copyForEver(arguments[0], job[1], job[2], job[3], job[4]);
                } catch (Exception error) {
                    tell("E", error);
                }
            });
            copiers.add(copier);
            copier.start();
        }
        while (System.in.read() >= 0) {
            continue;
        }
        isOver = true;
        for (Thread copier : copiers) {
            copier.join();
        }
        for (KafkaStreams streams : running) {
            streams.close(PATIENCE);
        }
    }
}
