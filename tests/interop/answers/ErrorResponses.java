import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.errors.NotControllerException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Reads lines "apiKey version hex" of request bodies and writes, for each, the hex of the response body by which Kafka's
 * own class answers NOT_CONTROLLER; "-" where Kafka has none.
 *
 * java -cp "$KAFKA/libs/*" ErrorResponses.java requests.txt responses.txt
 */
public class ErrorResponses {
    public static void main(String[] args) throws Exception {
        List<String> out = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] words = line.split(" ", -1);
            short version = Short.parseShort(words[1]);
            ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
            ApiKeys key = ApiKeys.forId(Short.parseShort(words[0]));
            try {
                AbstractRequest request = AbstractRequest.parseRequest(key, version, new ByteBufferAccessor(body)).request;
                AbstractResponse response = request.getErrorResponse(0, new NotControllerException("why"));
                ByteBuffer written = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
                byte[] raw = new byte[written.remaining()];
                written.get(raw);
                out.add(HexFormat.of().formatHex(raw));
            } catch (RuntimeException e) {
                out.add("- " + e.toString().replace('\n', ' '));
            }
        }
        Files.write(Path.of(args[1]), out);
    }
}
