import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Reads lines "package name version hex", lets Kafka's own class decode the bytes, and writes lines
 * "name version hex json": the bytes as Kafka writes the same message, and what it understood.
 *
 * java -cp "$KAFKA/libs/*" GoldenVectors.java vectors.txt messages.txt
 */
public class GoldenVectors {
    public static void main(String[] args) throws Exception {
        List<String> out = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] words = line.split(" ", -1);
            String name = words[1];
            short version = Short.parseShort(words[2]);
            boolean isRpc = name.endsWith("Request") || name.endsWith("Response");
            Class<?> type = Class.forName(words[0] + "." + name + (isRpc ? "Data" : ""));
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
            Message message = (Message) type.getConstructor().newInstance();
            message.read(new ByteBufferAccessor(bytes), version);
            if (bytes.hasRemaining()) {
                throw new IllegalStateException(bytes.remaining() + " bytes left: " + line);
            }
            Class<?> converter = Class.forName(type.getName() + "JsonConverter");
            Method write = converter.getMethod("write", type, short.class, boolean.class);
            JsonNode json = (JsonNode) write.invoke(null, message, version, true);
            ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] raw = new byte[written.remaining()];
            written.get(raw);
            out.add(name + " " + version + " " + HexFormat.of().formatHex(raw) + " " + json);
        }
        Files.write(Path.of(args[1]), out);
    }
}
