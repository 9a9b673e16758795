import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * Prints "key version request response" for every API and version: the headers in hex, of a request by client "größe-1"
 * with correlation id 77, of one without a client id, and of the answer to it.
 *
 * java -cp "$KAFKA/libs/*" Headers.java
 */
public class Headers {
    public static void main(String[] args) {
        for (ApiKeys api : ApiKeys.values()) {
            for (short version = api.messageType.lowestSupportedVersion(); version <= api.latestVersion(true); version++) {
                short answered = api.responseHeaderVersion(version);
                System.out.println(api.id + " " + version
                    + " " + request(api, version, "größe-1")
                    + " " + request(api, version, null)
                    + " " + hex(MessageUtil.toByteBufferAccessor(new ResponseHeader(77, answered).data(), answered).buffer()));
            }
        }
    }

    private static String request(ApiKeys api, short version, String clientId) {
        RequestHeader header = new RequestHeader(api, version, clientId, 77);
        return hex(MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion()).buffer());
    }

    private static String hex(ByteBuffer bytes) {
        byte[] raw = new byte[bytes.remaining()];
        bytes.get(raw);
        return HexFormat.of().formatHex(raw);
    }
}
