import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.datatype.guava.GuavaModule;
import com.fasterxml.jackson.datatype.jdk8.Jdk8Module;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;

/**
 * Reads answers of the REST API into the models of Confluent's REST proxy and compares what they contain with the
 * answers.
 *
 * <p>Arguments: the API's address, a token, then pairs of a path and a class of io.confluent.kafkarest.entities.v3.
 * Prints a line for each difference.
 */
public class Decode {
  public static void main(String[] arguments) throws Exception {
    ObjectMapper mapper =
        new ObjectMapper()
            .registerModule(new GuavaModule())
            .registerModule(new Jdk8Module())
            .registerModule(new JavaTimeModule())
            .configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    HttpClient client = HttpClient.newHttpClient();
    for (int i = 2; i < arguments.length; i += 2) {
      String path = arguments[i];
      HttpRequest request =
          HttpRequest.newBuilder(URI.create(arguments[0] + path))
              .header("Authorization", "Bearer " + arguments[1])
              .build();
      HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
      List<String> differences = new ArrayList<>();
      if (answer.statusCode() != 200) {
        differences.add("status " + answer.statusCode() + " " + answer.body());
      } else {
        Class<?> model = Class.forName("io.confluent.kafkarest.entities.v3." + arguments[i + 1]);
        Object read = mapper.readValue(answer.body(), model);
        compare(mapper.valueToTree(read), mapper.readTree(answer.body()), "", differences);
      }
      for (String each : differences) {
        System.out.println(path + ": " + each);
      }
    }
  }

  /** Add what a model contains and the answer does not, or has otherwise. */
  private static void compare(JsonNode read, JsonNode given, String path, List<String> differences) {
    if (given == null) {
      if (!read.isNull()) {
        differences.add(path + " is missing");
      }
    } else if (read.isObject()) {
      read.fields()
          .forEachRemaining(
              field ->
                  compare(field.getValue(), given.get(field.getKey()), path + "." + field.getKey(), differences));
    } else if (read.isArray() && read.size() == given.size()) {
      for (int i = 0; i < read.size(); i++) {
        compare(read.get(i), given.get(i), path + "[" + i + "]", differences);
      }
    } else if (!read.asText().equals(given.asText()) || read.isArray()) {
      differences.add(path + ": " + given + " is read as " + read);
    }
  }
}
