// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.util.Map;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePackException;
import org.msgpack.value.ArrayValue;
import org.msgpack.value.Value;
import org.msgpack.value.ValueFactory;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;

/** A socket of ZeroMQ's that says and hears LMQ1, for these programs. */
final class Lmq1 implements AutoCloseable {
  private static final int EINTR = 4;
  private static final ZMQ.Context CONTEXT = ZMQ.context(1);
  private final ZMQ.Socket socket;

  /** A message; of its fields those that are nil are absent. */
  record Message(String op, Map<Value, Value> fields, byte[] body) {
    Value field(String name) {
      Value value = fields.get(ValueFactory.newString(name));
      return value == null || value.isNilValue() ? null : value;
    }

    String text(String name) {
      return field(name) == null ? "" : field(name).asStringValue().asString();
    }

    long number(String name) {
      return field(name) == null ? 0 : field(name).asIntegerValue().asLong();
    }

    boolean isError(String code) {
      return op.equals("error") && text("code").equals(code);
    }

    String error() {
      return text("code") + ": " + text("message");
    }
  }

  Lmq1(int kind, String endpoint, int lingerMs) {
    socket = CONTEXT.socket(kind);
    socket.setLinger(lingerMs);
    socket.connect(endpoint);
  }

  /** Fields by turns of a name and what it holds: a text, a number, a flag or a value. */
  static Map<Value, Value> fields(Object... namesAndValues) {
    ValueFactory.MapBuilder map = ValueFactory.newMapBuilder();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      map.put(ValueFactory.newString((String) namesAndValues[i]), value(namesAndValues[i + 1]));
    }
    return map.build().map();
  }

  static Value value(Object held) {
    if (held instanceof String text) return ValueFactory.newString(text);
    if (held instanceof Boolean flag) return ValueFactory.newBoolean(flag);
    if (held instanceof Number number) return ValueFactory.newInteger(number.longValue());
    return (Value) held;
  }

  void say(String op, Map<Value, Value> fields, byte[]... body) throws IOException {
    try (MessageBufferPacker header = MessagePack.newDefaultBufferPacker()) {
      header.packArrayHeader(3 + body.length).packString("LMQ1").packString(op).packValue(ValueFactory.newMap(fields));
      for (byte[] part : body) header.packBinaryHeader(part.length).writePayload(part);
      socket.send(header.toByteArray(), 0);
    }
  }

  /** The next message, or null when there was none for so long. */
  Message hear(long waitMs) throws IOException {
    socket.setReceiveTimeOut((int) waitMs);
    byte[] frame;
    try {
      frame = socket.recv(0);
    } catch (ZMQException exception) {
      if (exception.getErrorCode() != EINTR) throw exception;
      return null;
    }
    if (frame == null) return null;
    byte[] rest = socket.hasReceiveMore() ? socket.recv(0) : new byte[0];
    try {
      ArrayValue header = MessagePack.newDefaultUnpacker(frame).unpackValue().asArrayValue();
      byte[] body = header.size() > 3 ? header.get(3).asBinaryValue().asByteArray() : rest;
      return new Message(header.get(1).asStringValue().asString(), header.get(2).asMapValue().map(), body);
    } catch (MessagePackException exception) {
      return new Message("", Map.of(), rest); // a sign of life that a later version may understand
    }
  }

  @Override
  public void close() {
    socket.close();
  }

  /** Waits for what closed sockets have said and has to leave yet. */
  static void end() {
    CONTEXT.term();
  }
}
