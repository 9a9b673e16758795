import java.util.concurrent.CountDownLatch;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * Runs several of Kafka's nodes in one JVM, since a JVM per node costs more than the nodes do.
 *
 * java -cp "$KAFKA/libs/*" Nodes.java first/server.properties second/server.properties …
 */
public class Nodes {
    public static void main(String[] args) throws Exception {
        CountDownLatch starting = new CountDownLatch(args.length);
        for (String path : args) {
            KafkaConfig config = KafkaConfig.fromProps(Utils.loadProps(path), false);
            new Thread(() -> {
                try {
                    new KafkaRaftServer(config, Time.SYSTEM).startup();
                } catch (Throwable e) {
                    e.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
                starting.countDown();
            }, "start of " + path).start();
        }
        starting.await();
        System.out.println("all nodes started");
        new CountDownLatch(1).await();
    }
}
