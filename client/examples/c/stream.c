// SPDX-License-Identifier: Apache-2.0
// Prints the pieces of a job's answer as they come, a line each.   stream [ENDPOINT [SERVICE [BODY]]]
#include <msgpack.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

static const char *endpoint = "tcp://127.0.0.1:5570", *service = "words", *text = "one two three";
static char id[33];
static void *context, *client;
static int silences, waited;  // seconds without any word; without one about the job
static unsigned long long taken;  // how many pieces have come, which is the number of the next one

// ---- saying

static msgpack_sbuffer header;
static msgpack_packer to;

static void pack_text(const char* words) { msgpack_pack_str_with_body(&to, words, strlen(words)); }

// Begins a message about the job, with so many fields besides its id.
static void begin(const char* op, int fields) {
  msgpack_sbuffer_clear(&header);
  msgpack_pack_array(&to, 3);
  pack_text("LMQ1");
  pack_text(op);
  msgpack_pack_map(&to, fields + 1);
  pack_text("id");
  pack_text(id);
}

static void pack_number(const char* name, unsigned long long value) {
  pack_text(name);
  msgpack_pack_uint64(&to, value);
}

static void submit(void) {
  begin("submit", 2);
  pack_text("service");
  pack_text(service);
  pack_text("stream");
  msgpack_pack_true(&to);
  zmq_send(client, header.data, header.size, ZMQ_SNDMORE);
  zmq_send(client, text, strlen(text), 0);
}

static void fetch(void) {
  begin("fetch", 2);
  pack_number("from_seq", taken);
  pack_number("wait_ms", 1000);
  zmq_send(client, header.data, header.size, 0);
}

static void seen(unsigned long long seq) {
  begin("seen", 1);
  pack_number("seq", seq);
  zmq_send(client, header.data, header.size, 0);
}

// The job may take long: is the broker there?
static void ping(void) {
  begin("ping", 0);
  zmq_send(client, header.data, header.size, 0);
}

// Makes a new connection, and asks by it for the pieces that have not come yet.
static void reconnect(void) {
  if (client) zmq_close(client);
  client = zmq_socket(context, ZMQ_DEALER);
  zmq_setsockopt(client, ZMQ_LINGER, &(int){0}, sizeof(int));
  zmq_setsockopt(client, ZMQ_RCVTIMEO, &(int){1000}, sizeof(int));
  if (getenv("LANEMQ_BROKER_KEY")) {
    zmq_setsockopt(client, ZMQ_CURVE_SERVERKEY, getenv("LANEMQ_BROKER_KEY"), 41);
    zmq_setsockopt(client, ZMQ_CURVE_PUBLICKEY, getenv("LANEMQ_PUBLIC_KEY"), 41);
    zmq_setsockopt(client, ZMQ_CURVE_SECRETKEY, getenv("LANEMQ_SECRET_KEY"), 41);
  }
  zmq_connect(client, endpoint);
  taken ? fetch() : submit();
}

// ---- hearing

struct bytes {
  const char* data;
  size_t size;
};

static bool is(struct bytes some, const char* words) {
  return some.size == strlen(words) && memcmp(some.data, words, some.size) == 0;
}

static struct bytes bytes_of(const msgpack_object* value) {
  return value ? (struct bytes){value->via.str.ptr, value->via.str.size} : (struct bytes){"", 0};
}

// The value of a map's key, or null: a field that is nil is absent.
static const msgpack_object* field(const msgpack_object* map, const char* name) {
  for (uint32_t i = 0; i < map->via.map.size; ++i) {
    const msgpack_object* value = &map->via.map.ptr[i].val;
    if (is(bytes_of(&map->via.map.ptr[i].key), name) && value->type != MSGPACK_OBJECT_NIL) return value;
  }
  return NULL;
}

static unsigned long long number(const msgpack_object* fields, const char* name) {
  const msgpack_object* value = field(fields, name);
  return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : 0;
}

static void print_line(struct bytes line) {
  fwrite(line.data, 1, line.size, stdout);
  putchar('\n');
  fflush(stdout);
}

static void hear(struct bytes op, const msgpack_object* fields, struct bytes body) {
  if (!is(op, "pong")) waited = 0;
  const struct bytes code = bytes_of(field(fields, "code"));
  if (is(op, "chunk")) {
    const unsigned long long seq = number(fields, "seq");
    if (seq > taken) reconnect();  // this client was too slow for what is missing
    if (seq != taken) return;
    print_line(body);
    seen(taken++);
  } else if (is(op, "status")) {
    fetch();  // nothing new for a second; the job goes on
  } else if ((is(op, "result") && number(fields, "chunks") > taken) || (is(op, "error") && is(code, "slow_reader"))) {
    reconnect();
  } else if (is(op, "result")) {
    if (body.size > 0) print_line(body);
    exit(0);
  } else if (is(op, "error")) {
    const struct bytes message = bytes_of(field(fields, "message"));
    fprintf(stderr, "%.*s: %.*s\n", (int)code.size, code.data, (int)message.size, message.data);
    exit(1);
  }
}

static bool is_message(const msgpack_object* header) {
  const msgpack_object* part = header->via.array.ptr;
  return header->type == MSGPACK_OBJECT_ARRAY && header->via.array.size >= 3 && part[1].type == MSGPACK_OBJECT_STR &&
         part[2].type == MSGPACK_OBJECT_MAP;
}

// Reads a message and acts on it; false where the broker is silent.
static bool receive(void) {
  zmq_msg_t frame, rest;
  zmq_msg_init(&frame);
  zmq_msg_init(&rest);
  if (zmq_msg_recv(&frame, client, 0) < 0) return false;
  if (zmq_msg_more(&frame)) zmq_msg_recv(&rest, client, 0);
  msgpack_unpacked said;
  msgpack_unpacked_init(&said);
  // What cannot be read a later version may say.
  if (msgpack_unpack_next(&said, zmq_msg_data(&frame), zmq_msg_size(&frame), NULL) == MSGPACK_UNPACK_SUCCESS &&
      is_message(&said.data)) {
    const msgpack_object* part = said.data.via.array.ptr;
    struct bytes body = {zmq_msg_data(&rest), zmq_msg_size(&rest)};
    if (said.data.via.array.size > 3) body = bytes_of(&part[3]);
    hear(bytes_of(&part[1]), &part[2], body);
  }
  msgpack_unpacked_destroy(&said);
  zmq_msg_close(&rest);
  zmq_msg_close(&frame);
  return true;
}

int main(int argc, char** argv) {
  if (argc > 1) endpoint = argv[1];
  if (argc > 2) service = argv[2];
  if (argc > 3) text = argv[3];
  unsigned long long random[2];
  if (getrandom(random, sizeof random, 0) < 0) return 3;
  snprintf(id, sizeof id, "%016llx%016llx", random[0], random[1]);
  msgpack_sbuffer_init(&header);
  msgpack_packer_init(&to, &header, msgpack_sbuffer_write);
  context = zmq_ctx_new();
  reconnect();
  while (silences < 20) {
    if (receive()) {
      silences = 0;
      continue;
    }
    ++silences;
    ++waited;
    silences % 2 == 0 || waited % 8 == 0 ? reconnect() : ping();
  }
  fprintf(stderr, "no answer\n");
  return 3;
}
