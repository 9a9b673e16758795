import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringSerializer;

/** Makes a running Kafka write one of each kind of metadata record, and one topic of batches in every compression. */
public class GoldenLog {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(
                new NewTopic("plain", 3, (short) 1),
                new NewTopic("with-config", Optional.of(2), Optional.of((short) 1))
                    .configs(Map.of("retention.ms", "60000", "min.insync.replicas", "1")),
                new NewTopic("doomed", 1, (short) 1),
                new NewTopic("batches", 1, (short) 1))).all().get();
            admin.createPartitions(Map.of("plain", NewPartitions.increaseTo(5))).all().get();
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "plain");
            admin.incrementalAlterConfigs(Map.of(topic, List.of(
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SET)))).all().get();
            admin.incrementalAlterConfigs(Map.of(topic, List.of(
                new AlterConfigOp(new ConfigEntry("cleanup.policy", ""), AlterConfigOp.OpType.DELETE)))).all().get();
            AclBinding acl = new AclBinding(
                new ResourcePattern(ResourceType.TOPIC, "plain", PatternType.LITERAL),
                new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
            AclBinding other = new AclBinding(
                new ResourcePattern(ResourceType.GROUP, "team-", PatternType.PREFIXED),
                new AccessControlEntry("User:bob", "127.0.0.1", AclOperation.DESCRIBE, AclPermissionType.DENY));
            admin.createAcls(List.of(acl, other)).all().get();
            admin.deleteAcls(List.of(other.toFilter())).all().get();
            admin.alterUserScramCredentials(List.of(
                new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"),
                new UserScramCredentialUpsertion("bob", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), "secret"))).all().get();
            admin.alterUserScramCredentials(List.of(
                new UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512))).all().get();
            Map<String, String> entity = new HashMap<>();
            entity.put(ClientQuotaEntity.USER, "alice");
            entity.put(ClientQuotaEntity.CLIENT_ID, null);
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(
                new ClientQuotaAlteration.Op("producer_byte_rate", 1024.0))))).all().get();
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity), List.of(
                new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get();
            admin.deleteTopics(List.of("doomed")).all().get();
            for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                produce(bootstrap, compression, Map.of());
            }
            produce(bootstrap, "none", Map.of("transactional.id", "golden"));
            System.out.println("done " + admin.describeMetadataQuorum().quorumInfo().get().highWatermark());
        }
    }

    private static void produce(String bootstrap, String compression, Map<String, Object> extra) throws Exception {
        Map<String, Object> config = new HashMap<>(extra);
        config.put("bootstrap.servers", bootstrap);
        config.put("compression.type", compression);
        config.put("linger.ms", 200);
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            boolean isTransactional = config.containsKey("transactional.id");
            if (isTransactional) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (int n = 0; n < 20; n++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(
                    "batches", 0, 1000L + n, n % 3 == 0 ? null : "key-" + n, n == 5 ? null : compression + "-" + "v".repeat(n * 10));
                record.headers().add("codec", compression.getBytes());
                if (n == 7) {
                    record.headers().add("nothing", null);
                }
                producer.send(record);
            }
            producer.flush();
            if (isTransactional) {
                producer.commitTransaction();
            }
        }
    }
}
