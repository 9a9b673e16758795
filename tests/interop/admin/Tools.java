import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other in one JVM, since starting a JVM takes longer than most tools.
 *
 * In: a line per command, its words separated by tabs, the main class first. Out: a line "exit-code size", then as many
 * bytes: everything the tool has printed.
 *
 * java -cp "$KAFKA/libs/*" Tools.java
 */
public class Tools {
    private static class Ended extends RuntimeException {
        private final int code;
        private final int printed;

        Ended(int code, int printed) {
            this.code = code;
            this.printed = printed;
        }
    }

    private static final ByteArrayOutputStream printed = new ByteArrayOutputStream();
    private static Ended ended;

    private static void end(int code) {
        if (ended == null) { // some tools catch what leaves them, print it and end once more
            ended = new Ended(code, printed.size());
        }
        throw ended;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out));
        PrintStream aside = System.err;
        System.setOut(aside);
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            printed.reset();
            ended = null;
            PrintStream out = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(out);
            System.setErr(out);
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length), out);
            System.setOut(aside);
            System.setErr(aside);
            int size = ended == null ? printed.size() : ended.printed;
            answers.println((ended == null ? code : ended.code) + " " + size);
            answers.write(printed.toByteArray(), 0, size);
            answers.flush();
        }
    }

    private static int run(String mainClass, String[] words, PrintStream out) {
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) words);
            return 0;
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace(out);
        } catch (ReflectiveOperationException e) {
            e.printStackTrace(out);
        }
        return 1;
    }
}
