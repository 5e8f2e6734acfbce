// SPDX-License-Identifier: Apache-2.0
// Has one job done and prints its answer.   request [ENDPOINT [SERVICE [BODY]]]
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

static void pack_text(msgpack_packer* to, const char* text) { msgpack_pack_str_with_body(to, text, strlen(text)); }

static void* connect_to(void* context, const char* endpoint) {
  void* client = zmq_socket(context, ZMQ_REQ);
  zmq_setsockopt(client, ZMQ_LINGER, &(int){0}, sizeof(int));
  zmq_setsockopt(client, ZMQ_RCVTIMEO, &(int){2000}, sizeof(int));
  if (getenv("LANEMQ_BROKER_KEY")) {
    zmq_setsockopt(client, ZMQ_CURVE_SERVERKEY, getenv("LANEMQ_BROKER_KEY"), 41);
    zmq_setsockopt(client, ZMQ_CURVE_PUBLICKEY, getenv("LANEMQ_PUBLIC_KEY"), 41);
    zmq_setsockopt(client, ZMQ_CURVE_SECRETKEY, getenv("LANEMQ_SECRET_KEY"), 41);
  }
  zmq_connect(client, endpoint);
  return client;
}

// The value of a map's key, or null: a field that is nil is absent.
static const msgpack_object* field(const msgpack_object* map, const char* name) {
  for (uint32_t i = 0; i < map->via.map.size; ++i) {
    const msgpack_object_str* key = &map->via.map.ptr[i].key.via.str;
    const msgpack_object* value = &map->via.map.ptr[i].val;
    if (key->size == strlen(name) && memcmp(key->ptr, name, key->size) == 0 && value->type != MSGPACK_OBJECT_NIL) return value;
  }
  return NULL;
}

// Prints the answer, and returns the program's exit code.
static int show(void* client, zmq_msg_t* frame) {
  msgpack_unpacked header;
  msgpack_unpacked_init(&header);
  msgpack_unpack_next(&header, zmq_msg_data(frame), zmq_msg_size(frame), NULL);
  const msgpack_object* part = header.data.via.array.ptr;
  if (part[1].via.str.size == 5 && memcmp(part[1].via.str.ptr, "error", 5) == 0) {
    const msgpack_object *code = field(&part[2], "code"), *message = field(&part[2], "message");
    fprintf(stderr, "%.*s: %.*s\n", (int)code->via.str.size, code->via.str.ptr, message ? (int)message->via.str.size : 0,
            message ? message->via.str.ptr : "");
    return 1;
  }
  if (header.data.via.array.size > 3) fwrite(part[3].via.bin.ptr, 1, part[3].via.bin.size, stdout);
  if (zmq_msg_more(frame)) {  // the body has a frame of its own
    zmq_msg_recv(frame, client, 0);
    fwrite(zmq_msg_data(frame), 1, zmq_msg_size(frame), stdout);
  }
  putchar('\n');
  return 0;
}

int main(int argc, char** argv) {
  const char* endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5570";
  const char* service = argc > 2 ? argv[2] : "echo";
  const char* text = argc > 3 ? argv[3] : "hello";
  unsigned long long random[2];
  char id[33];
  if (getrandom(random, sizeof random, 0) < 0) return 3;
  snprintf(id, sizeof id, "%016llx%016llx", random[0], random[1]);

  msgpack_sbuffer submit;
  msgpack_sbuffer_init(&submit);
  msgpack_packer to;
  msgpack_packer_init(&to, &submit, msgpack_sbuffer_write);
  msgpack_pack_array(&to, 4);
  pack_text(&to, "LMQ1");
  pack_text(&to, "submit");
  msgpack_pack_map(&to, 2);
  pack_text(&to, "service");
  pack_text(&to, service);
  pack_text(&to, "id");
  pack_text(&to, id);
  msgpack_pack_bin_with_body(&to, text, strlen(text));

  void* context = zmq_ctx_new();
  for (int attempt = 0; attempt < 10; ++attempt) {
    void* client = connect_to(context, endpoint);
    zmq_send(client, submit.data, submit.size, 0);
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, client, 0) >= 0) return show(client, &frame);
    zmq_close(client);  // Silence: ask again by a new socket. The id is the same, so the work is not done twice.
    fprintf(stderr, "no answer yet\n");
  }
  fprintf(stderr, "no answer\n");
  return 3;
}
