import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints Kafka's config definitions as facts, fields divided by tabs:
 *   K kind name type default importance valid-values internal update-mode    (a default of \N is null, of \R: none)
 *   S kind name synonym*factor …                                             (what stands in for a topic's or group's config)
 *   B name synonym …                                                         (broker settings that mean the same)
 *   X value …                                                                (texts to try)
 *   V kind name verdicts                                                     (one digit a text: 1 allowed, 0 refused)
 *
 * java -cp "$KAFKA/libs/*" ConfigDefinitions.java | gzip -9n > config_definitions.txt.gz
 */
public class ConfigDefinitions {
    static final String[] VALUES = {
        "", " ", "-131073", "-131072", "-3", "-2", "-1", "0", "1", "4", "9", "10", "17", "18", "22", "23", "100", "1048575", "1048576",
        "32767", "32768", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "+5", " 7 ", "007", "1_000",
        "0x10", "1.5", "-0.1", "1e0", "0.5d", "1.0000001", ".5", "5.", "true", "FALSE", " True ", "yes", "compact", "compact,delete",
        "delete , compact", "compact,compact", "compact,", "COMPACT", "gzip", "GZIP", "producer", "none", "CreateTime", "LogAppendTime",
        "createtime", "*", "*,1:1", "1:2", "1:2,3:4", "1:2,", "1:x", "latest", "earliest", "by_duration:PT1H", "by_duration:P1D",
        "by_duration:-PT1H", "by_duration:1h", "read_committed", "required", "classic,share", "broker,controller", "a,b", "a,a", "a,,b",
        "SASL_SSL", "upgrade", "rs256",
    };

    public static void main(String[] args) throws Exception {
        ConfigDef broker = (ConfigDef) Class.forName("kafka.server.KafkaConfig").getMethod("configDef").invoke(null);
        Set<String> dynamic = new HashSet<>(list("ALL_DYNAMIC_CONFIGS"));
        Set<String> perBroker = new HashSet<>(list("PER_BROKER_CONFIGS"));
        Map<String, ConfigDef> kinds = new TreeMap<>(Map.of("broker", broker, "topic", LogConfig.configDefCopy(),
            "client-metrics", ClientMetricsConfigs.configDef(), "group", GroupConfig.CONFIG_DEF));
        print("X", String.join("\t", VALUES));
        for (Map.Entry<String, ConfigDef> kind : kinds.entrySet()) {
            for (ConfigDef.ConfigKey key : new TreeMap<>(kind.getValue().configKeys()).values()) {
                String standard = !key.hasDefault() ? "\\R" : key.defaultValue == null ? "\\N"
                    : ConfigDef.convertToString(key.defaultValue, key.type);
                String valid = key.validator == null ? "" : key.validator.toString();
                String mode = !kind.getKey().equals("broker") ? "cw"
                    : !dynamic.contains(key.name) ? "ro" : perBroker.contains(key.name) ? "pb" : "cw";
                print("K", kind.getKey(), key.name, key.type.toString(), standard, key.importance.toString(), valid,
                    Boolean.toString(key.internalConfig), mode);
                StringBuilder verdicts = new StringBuilder();
                if (key.type != ConfigDef.Type.CLASS) {
                    for (String value : VALUES) verdicts.append(verdict(key, value));
                    print("V", kind.getKey(), key.name, verdicts.toString());
                }
            }
        }
        for (var entry : new TreeMap<>(ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS).entrySet()) {
            List<String> row = new ArrayList<>(List.of("S", "topic", entry.getKey()));
            for (var each : entry.getValue()) row.add(each.name() + "*" + each.converter().apply("1"));
            print(row.toArray(new String[0]));
        }
        for (String name : new TreeMap<>(GroupConfig.CONFIG_DEF.configKeys()).keySet())
            GroupConfig.brokerSynonym(name).ifPresent(synonym -> print("S", "group", name, synonym + "*1"));
        for (String name : new TreeMap<>(broker.configKeys()).keySet()) {
            List<String> row = new ArrayList<>(List.of("B", name));
            row.addAll(DynamicBrokerConfig.brokerConfigSynonyms(name, true));
            if (row.size() > 3) print(row.toArray(new String[0]));
        }
    }

    static String verdict(ConfigDef.ConfigKey key, String value) {
        try {
            Object parsed = ConfigDef.parseType(key.name, value, key.type);
            if (key.validator != null) key.validator.ensureValid(key.name, parsed);
            return "1";
        } catch (ConfigException e) {
            return "0";
        }
    }

    @SuppressWarnings("unchecked")
    static List<String> list(String field) throws Exception {
        var f = DynamicBrokerConfig.class.getDeclaredField(field);
        f.setAccessible(true);
        return new ArrayList<>((java.util.Collection<String>) f.get(null));
    }

    static void print(String... words) { System.out.println(String.join("\t", words)); }
}
