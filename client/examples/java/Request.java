// SPDX-License-Identifier: Apache-2.0
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import org.msgpack.value.Value;
import org.zeromq.ZMQ;

/** Has one job done and prints its answer. Request [ENDPOINT [SERVICE [BODY]]] */
final class Request {
  public static void main(String[] arguments) throws Exception {
    String endpoint = arguments.length > 0 ? arguments[0] : "tcp://127.0.0.1:5570";
    String service = arguments.length > 1 ? arguments[1] : "echo";
    String text = arguments.length > 2 ? arguments[2] : "hello";
    Map<Value, Value> submit = Lmq1.fields("service", service, "id", UUID.randomUUID().toString());
    for (int attempt = 0; attempt < 10; ++attempt) {
      try (Lmq1 client = new Lmq1(ZMQ.REQ, endpoint, 0)) {
        client.say("submit", submit, text.getBytes(StandardCharsets.UTF_8));
        Lmq1.Message answer = client.hear(2000);
        if (answer == null) { // Silence: ask again by a new socket. The id is the same, so the work is not done twice.
          System.err.println("no answer yet");
          continue;
        }
        if (answer.op().equals("error")) {
          System.err.println(answer.error());
          System.exit(1);
        }
        System.out.write(answer.body());
        System.out.println();
        System.exit(0);
      }
    }
    System.err.println("no answer");
    System.exit(3);
  }
}
