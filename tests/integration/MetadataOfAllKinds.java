import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.DelegationTokenNotFoundException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/**
 * Leaves metadata of all kinds in a cluster ("write"), or prints what is there ("describe"): one line for each thing, sorted.
 * Arguments: the mode, a plaintext address, and one with SASL/PLAIN, for tokens are given to users alone.
 */
public class MetadataOfAllKinds {
    public static void main(String[] arguments) throws Exception {
        Properties users = new Properties();
        users.put("bootstrap.servers", arguments[2]);
        users.put("security.protocol", "SASL_PLAINTEXT");
        users.put("sasl.mechanism", "PLAIN");
        users.put("sasl.jaas.config",
            "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"admin\" password=\"secret\";");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[1])); Admin user = Admin.create(users)) {
            if (arguments[0].equals("write")) {
                write(admin, user, arguments[1]);
            } else {
                describe(admin, user).forEach(System.out::println);
            }
        }
    }

    static void write(Admin admin, Admin user, String address) throws Exception {
        admin.createTopics(List.of(
            new NewTopic("orders", 3, (short) 1).configs(Map.of("retention.ms", "86400000")),
            new NewTopic("moving", Map.of(0, List.of(1))),
            new NewTopic("gone", 1, (short) 1))).all().get();
        admin.deleteTopics(List.of("gone")).all().get();
        configure(admin, ConfigResource.Type.TOPIC, "orders", "min.insync.replicas", "2");
        configure(admin, ConfigResource.Type.TOPIC, "orders", "min.insync.replicas", "1");
        configure(admin, ConfigResource.Type.BROKER, "", "log.retention.ms", "1000000");
        configure(admin, ConfigResource.Type.BROKER, "1", "log.cleaner.threads", "2");
        configure(admin, ConfigResource.Type.CLIENT_METRICS, "subscription", "interval.ms", "60000");
        configure(admin, ConfigResource.Type.GROUP, "group", "consumer.session.timeout.ms", "50000");
        admin.alterPartitionReassignments(Map.of(
            new TopicPartition("moving", 0), Optional.of(new NewPartitionReassignment(List.of(1, 2))))).all().get();
        admin.unregisterBroker(3).all().get();
        admin.createAcls(List.of(acl("alice"), acl("bob"))).all().get();
        admin.deleteAcls(List.of(acl("bob").toFilter())).all().get();
        for (Double rate : new Double[] {1024.0, 2048.0}) {
            limit(admin, Map.of("user", "alice", "client-id", "app"), "producer_byte_rate", rate);
        }
        limit(admin, byDefault("user"), "request_percentage", 50.5);
        limit(admin, Map.of("ip", "10.0.0.1"), "connection_creation_rate", 7.0);
        limit(admin, Map.of("user", "bob"), "consumer_byte_rate", 1.0);
        limit(admin, Map.of("user", "bob"), "consumer_byte_rate", null);
        for (ScramMechanism mechanism : List.of(ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)) {
            ScramCredentialInfo info = new ScramCredentialInfo(mechanism, 8192);
            admin.alterUserScramCredentials(List.of(
                new UserScramCredentialUpsertion("alice", info, "password"),
                new UserScramCredentialUpsertion("bob", info, "password"))).all().get();
        }
        // Not bob's: Kafka 4.3.1 loses a mechanism if the first of its changes that a start looks at, in the order of hashes, is a removal.
        admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256))).all().get();
        CreateDelegationTokenOptions options = new CreateDelegationTokenOptions()
            .renewers(List.of(new KafkaPrincipal("User", "carol"))).maxLifetimeMs(86_400_000);
        DelegationToken kept = user.createDelegationToken(options).delegationToken().get();
        onceKnown(() -> user.renewDelegationToken(kept.hmac()).expiryTimestamp());
        DelegationToken gone = user.createDelegationToken(options).delegationToken().get();
        ExpireDelegationTokenOptions atOnce = new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1);
        onceKnown(() -> user.expireDelegationToken(gone.hmac(), atOnce).expiryTimestamp());
        Map<String, Object> properties = Map.of(
            "bootstrap.servers", address,
            "key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
            "value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.send(new ProducerRecord<>("orders", 0, "key", "value")).get();
        }
    }

    /** Do something with a token that was just made: Kafka may not find it yet. */
    static void onceKnown(Supplier<KafkaFuture<Long>> change) throws Exception {
        for (int attempt = 1; ; attempt++) {
            try {
                change.get().get();
                return;
            } catch (ExecutionException error) {
                if (attempt == 50 || !(error.getCause() instanceof DelegationTokenNotFoundException)) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }

    static void configure(Admin admin, ConfigResource.Type type, String name, String key, String value) throws Exception {
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(type, name), List.of(set))).all().get();
    }

    static AclBinding acl(String user) {
        return new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED),
            new AccessControlEntry("User:" + user, "*", AclOperation.READ, AclPermissionType.ALLOW));
    }

    static Map<String, String> byDefault(String type) {
        Map<String, String> entity = new TreeMap<>();
        entity.put(type, null);
        return entity;
    }

    static void limit(Admin admin, Map<String, String> entity, String key, Double value) throws Exception {
        ClientQuotaAlteration.Op change = new ClientQuotaAlteration.Op(key, value);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(change)))).all().get();
    }

    static Collection<String> describe(Admin admin, Admin user) throws Exception {
        Collection<String> lines = new TreeSet<>();
        for (AclBinding found : admin.describeAcls(AclBindingFilter.ANY).values().get()) {
            lines.add("acl " + found);
        }
        admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().forEach((entity, quotas) ->
            lines.add("quota " + new TreeMap<>(entity.entries()) + " " + new TreeMap<>(quotas)));
        admin.describeUserScramCredentials().all().get().forEach((name, found) ->
            found.credentialInfos().forEach(info -> lines.add("scram " + name + " " + info)));
        for (DelegationToken token : user.describeDelegationToken().delegationTokens().get()) {
            lines.add("token " + token.tokenInfo() + " " + token.hmacAsBase64String());
        }
        admin.describeTopics(List.of("orders", "moving")).allTopicNames().get().forEach((name, topic) ->
            lines.add("topic " + name + " " + topic.topicId() + " " + topic.partitions()));
        admin.listPartitionReassignments().reassignments().get().forEach((partition, found) ->
            lines.add("reassignment " + partition + " " + found));
        admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach((name, levels) ->
            lines.add("feature " + name + " " + levels));
        List<ConfigResource> resources = List.of(
            new ConfigResource(ConfigResource.Type.TOPIC, "orders"),
            new ConfigResource(ConfigResource.Type.BROKER, "1"),
            new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "subscription"),
            new ConfigResource(ConfigResource.Type.GROUP, "group"));
        Map<ConfigResource, Config> configs = admin.describeConfigs(resources).all().get();
        configs.forEach((resource, config) -> config.entries().stream()
            .filter(entry -> entry.source().name().startsWith("DYNAMIC"))
            .forEach(entry -> lines.add("config " + resource + " " + entry.name() + "=" + entry.value() + " " + entry.source())));
        return lines;
    }
}
