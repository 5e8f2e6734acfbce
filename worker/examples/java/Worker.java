// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.msgpack.value.Value;
import org.msgpack.value.ValueFactory;
import org.zeromq.ZMQ;
import sun.misc.Signal;
import sun.misc.SignalHandler;

/** Serves `echo` and `words` until TERM or Ctrl-C. Worker [ENDPOINT] */
final class Worker {
  record Lease(long job, long attempt) {}

  /** What is held until the broker has answered its outcome. */
  private static final class Job {
    List<byte[]> pieces = List.of();
    int sent, taken; // pieces that were said, and that a reader has taken as far as known
    String op = "result";
    Object[] fields = {};
    byte[] body = {};

    boolean goesOn() {
      return sent < pieces.size();
    }

    boolean windowHasRoom() {
      int bytes = pieces.subList(taken, sent).stream().mapToInt(piece -> piece.length).sum();
      return sent - taken < 64 && bytes < 262144;
    }

    void fail(Object... how) {
      pieces = pieces.subList(0, sent);
      op = "error";
      fields = how;
      body = new byte[0];
    }
  }

  private final String endpoint;
  private final Map<Lease, Job> jobs = new LinkedHashMap<>();
  private Lmq1 socket;
  private String session; // null until a broker has said one
  private long intervalMs = 800; // until `welcome` says another
  private long heard, due, introduced; // when something was heard, a heartbeat is due, `ready` was said
  private boolean welcomed; // whether `ready` was answered
  private volatile boolean terminated; // by a signal
  private boolean drained; // by an operator

  Worker(String endpoint) {
    this.endpoint = endpoint;
  }

  public static void main(String[] arguments) throws Exception {
    new Worker(arguments.length > 0 ? arguments[0] : "tcp://127.0.0.1:5571").run();
  }

  private static long now() {
    return System.nanoTime() / 1_000_000;
  }

  private void run() throws IOException {
    for (String name : List.of("TERM", "INT")) {
      Signal.handle(new Signal(name), signal -> {
        terminated = true;
        Signal.handle(signal, SignalHandler.SIG_DFL); // a second one ends it at once
      });
    }
    connect();
    while (!jobs.isEmpty() || !terminated) {
      Lmq1.Message message = socket.hear(Math.max(0, due - now()));
      if (message != null) {
        heard = now();
        hear(message);
      }
      if (now() > heard + 3 * intervalMs) {
        System.err.println("the broker is silent");
        connect();
      } else if (now() >= due) {
        if (welcomed) beat();
        else introduce();
      }
    }
    socket.say("bye", Lmq1.fields());
    socket.close();
    Lmq1.end();
  }

  private void connect() throws IOException {
    if (socket != null) socket.close();
    socket = new Lmq1(ZMQ.DEALER, endpoint, 1000);
    heard = now();
    introduce();
  }

  /** What a broker hears first, and again when it does not know this worker: who it is, and all that it holds. */
  private void introduce() throws IOException {
    introduced = now();
    welcomed = false;
    Value services = ValueFactory.newArray(Lmq1.value("echo"), Lmq1.value("words"));
    Value known = session == null ? ValueFactory.newNil() : Lmq1.value(session);
    socket.say("ready", Lmq1.fields("services", services, "capacity", 4, "resumes", true, "session", known));
    beat();
    for (Map.Entry<Lease, Job> held : jobs.entrySet()) {
      held.getValue().sent = held.getValue().taken;
      goOn(held.getKey(), held.getValue());
    }
  }

  private void beat() throws IOException {
    Value[] held = jobs.keySet().stream().map(lease -> ValueFactory.newArray(Lmq1.value(lease.job()), Lmq1.value(lease.attempt())))
        .toArray(Value[]::new);
    socket.say("heartbeat", Lmq1.fields("jobs", ValueFactory.newArray(held)));
    due = now() + intervalMs;
  }

  /** Says the pieces that the window has room for, and behind the last one the outcome. */
  private void goOn(Lease lease, Job job) throws IOException {
    for (; job.goesOn(); ++job.sent) {
      if (!job.windowHasRoom()) return;
      socket.say("chunk", about(lease, "seq", job.sent), job.pieces.get(job.sent));
    }
    socket.say(job.op, about(lease, job.fields), job.body);
  }

  private static Map<Value, Value> about(Lease lease, Object... fields) {
    Object[] named = Arrays.copyOf(fields, fields.length + 4);
    System.arraycopy(new Object[] {"job", lease.job(), "attempt", lease.attempt()}, 0, named, fields.length, 4);
    return Lmq1.fields(named);
  }

  private void hear(Lmq1.Message message) throws IOException {
    switch (message.op()) {
      case "welcome" -> {
        session = message.field("session") == null ? null : message.text("session");
        intervalMs = message.number("heartbeat_ms");
        welcomed = true;
        drained = false;
        beat();
      }
      case "drain" -> drained = true;
      case "bye" -> connect();
      case "job" -> {
        Lease lease = leaseOf(message);
        if (jobs.containsKey(lease)) return;
        jobs.keySet().removeIf(held -> held.job() == lease.job()); // an older attempt, which is over
        Job job = take(message);
        jobs.put(lease, job);
        goOn(lease, job);
      }
      case "window", "cancel" -> tell(leaseOf(message), message);
      case "acked" -> {
        for (Value acked : message.field("jobs").asArrayValue()) {
          jobs.remove(new Lease(number(acked, 0), number(acked, 1)));
        }
      }
      case "error" -> {
        if (message.isError("stale")) jobs.remove(leaseOf(message));
        else if (!message.isError("unknown_session")) System.err.println(message.error());
        else if (welcomed || now() > introduced + intervalMs) introduce(); // else the answer to `ready` is on its way
      }
      default -> { }
    }
  }

  /** What the broker says of a job that may be held: `window` or `cancel`. */
  private void tell(Lease lease, Lmq1.Message message) throws IOException {
    Job job = jobs.get(lease);
    if (job == null) return;
    if (message.op().equals("window")) job.taken = (int) Math.max(job.taken, message.number("seq") + 1);
    if (!job.goesOn()) return; // its outcome is on the way
    if (message.op().equals("cancel")) job.fail("class", "retry", "code", "cancelled");
    goOn(lease, job);
  }

  private Job take(Lmq1.Message message) {
    Job job = new Job();
    Value stream = message.field("stream");
    if (terminated || drained) {
      job.fail("class", "released");
    } else if (stream != null && stream.asBooleanValue().getBoolean()) {
      Matcher pieces = Pattern.compile(message.text("service").equals("words") ? "\\S+" : "[^\n]*\n|[^\n]+")
          .matcher(new String(message.body(), StandardCharsets.ISO_8859_1));
      job.pieces = pieces.results().map(piece -> piece.group().getBytes(StandardCharsets.ISO_8859_1)).toList();
    } else {
      job.body = message.body();
    }
    return job;
  }

  private static Lease leaseOf(Lmq1.Message message) {
    return new Lease(message.number("job"), message.number("attempt"));
  }

  private static long number(Value list, int place) {
    return list.asArrayValue().get(place).asIntegerValue().asLong();
  }
}
