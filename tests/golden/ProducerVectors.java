import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Utils;

/**
 * Prints the murmur2 hash of 12,000 keys, one a line, then 41 batches as Kafka's producer builds them, in hex, and the
 * configs of a producer as name|type|importance|default.
 * The keys and records come from a generator that tests/clients/producer/producer_vectors.py has too.
 *
 * java -cp "$KAFKA/libs/*" ProducerVectors.java
 */
public class ProducerVectors {
    private static long state = 2026;

    private static int next(int bound) {
        state = state * 6364136223846793005L + 1442695040888963407L;
        return (int) ((state >>> 33) % bound);
    }

    private static byte[] bytes(int length) {
        byte[] made = new byte[length];
        for (int i = 0; i < length; i++)
            made[i] = (byte) next(256);
        return made;
    }

    private static byte[] filled(int length) {
        byte[] made = new byte[length];
        java.util.Arrays.fill(made, (byte) next(256));
        return made;
    }

    public static void main(String[] args) {
        for (int i = 0; i < 12000; i++)
            System.out.println(Integer.toHexString(Utils.murmur2(bytes(i < 11900 ? next(40) : next(2000)))));
        for (int i = 0; i < 40; i++)
            System.out.println(batch(1 + next(8)));
        System.out.println(batch(1500));
        for (ConfigDef.ConfigKey key : new TreeMap<>(ProducerConfig.configDef().configKeys()).values())
            System.out.println(key.name + "|" + key.type + "|" + key.importance
                + "|" + (key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "-"));
    }

    private static String batch(int records) {
        long producerId = next(3) == 0 ? -1 : next(100000);
        short epoch = (short) (producerId < 0 ? -1 : next(100));
        int sequence = producerId < 0 ? -1 : next(1000000);
        boolean isTransactional = producerId >= 0 && next(2) == 0;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), (byte) 2, Compression.NONE,
            TimestampType.CREATE_TIME, 0L, -1L, producerId, epoch, sequence, isTransactional,
            RecordBatch.NO_PARTITION_LEADER_EPOCH);
        for (int i = 0; i < records; i++) {
            long timestamp = 1700000000000L + next(3) * (long) next(2000000) - next(1000);
            byte[] key = next(3) == 0 ? null : filled(next(90));
            byte[] value = next(6) == 0 ? null : filled(next(records > 100 ? 90 : 5000));
            Header[] headers = new Header[next(3) == 0 ? next(4) : 0];
            for (int j = 0; j < headers.length; j++)
                headers[j] = new RecordHeader("größe-" + next(100), next(4) == 0 ? null : filled(next(70)));
            builder.append(timestamp, key, value, headers);
        }
        ByteBuffer built = builder.build().buffer();
        byte[] raw = new byte[built.remaining()];
        built.get(raw);
        return HexFormat.of().formatHex(raw);
    }
}
