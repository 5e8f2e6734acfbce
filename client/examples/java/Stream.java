// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.zeromq.ZMQ;

/** Prints the pieces of a job's answer as they come, a line each. Stream [ENDPOINT [SERVICE [BODY]]] */
final class Stream {
  private final String endpoint, service, text, id = UUID.randomUUID().toString();
  private Lmq1 client;
  private long taken; // how many pieces have come, which is the number of the next one

  Stream(String endpoint, String service, String text) {
    this.endpoint = endpoint;
    this.service = service;
    this.text = text;
  }

  public static void main(String[] arguments) throws Exception {
    String endpoint = arguments.length > 0 ? arguments[0] : "tcp://127.0.0.1:5570";
    String service = arguments.length > 1 ? arguments[1] : "words";
    String text = arguments.length > 2 ? arguments[2] : "one two three";
    new Stream(endpoint, service, text).run();
  }

  private void run() throws IOException {
    connect();
    int silences = 0, waited = 0; // seconds without any word; without one about the job
    while (silences < 20) {
      Lmq1.Message message = client.hear(1000);
      silences = message == null ? silences + 1 : 0;
      if (message == null) ++waited;
      else if (!message.op().equals("pong")) waited = 0;
      if (message != null) hear(message);
      else if (silences % 2 == 0 || waited % 8 == 0) connect();
      else client.say("ping", Lmq1.fields()); // the job may take long: is the broker there?
    }
    System.err.println("no answer");
    System.exit(3);
  }

  /** Makes a new connection, and asks by it for the pieces that have not come yet. */
  private void connect() throws IOException {
    if (client != null) client.close();
    client = new Lmq1(ZMQ.DEALER, endpoint, 0);
    if (taken > 0) fetch();
    else client.say("submit", Lmq1.fields("id", id, "service", service, "stream", true), text.getBytes(StandardCharsets.UTF_8));
  }

  private void fetch() throws IOException {
    client.say("fetch", Lmq1.fields("id", id, "from_seq", taken, "wait_ms", 1000));
  }

  private void hear(Lmq1.Message message) throws IOException {
    switch (message.op()) {
      case "chunk" -> {
        if (message.number("seq") > taken) connect(); // this client was too slow for what is missing
        if (message.number("seq") != taken) return;
        print(message.body());
        client.say("seen", Lmq1.fields("id", id, "seq", taken++));
      }
      case "status" -> fetch(); // nothing new for a second; the job goes on
      case "result" -> {
        if (message.number("chunks") > taken) {
          connect();
          return;
        }
        if (message.body().length > 0) print(message.body());
        System.exit(0);
      }
      case "error" -> {
        if (message.isError("slow_reader")) {
          connect();
          return;
        }
        System.err.println(message.error());
        System.exit(1);
      }
      default -> { }
    }
  }

  private static void print(byte[] line) throws IOException {
    System.out.write(line);
    System.out.println();
    System.out.flush();
  }
}
