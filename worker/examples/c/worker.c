// SPDX-License-Identifier: Apache-2.0
// Serves `echo` and `words` until TERM or Ctrl-C.   worker [ENDPOINT]
#include <ctype.h>
#include <msgpack.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

struct bytes {
  const char* data;
  size_t size;
};

// What is held until the broker has answered its outcome.
struct job {
  struct job* next;
  uint64_t number, attempt;
  char* body;  // owned; pieces and answer lie in it
  struct bytes* pieces;
  size_t count, sent, taken;  // pieces there are, were said, and were taken by a reader as far as known
  struct bytes answer;
  const char *class, *code;  // of the error; null where the outcome is a result
};

static const char* endpoint = "tcp://127.0.0.1:5571";
static void *context, *worker;
static struct job* jobs;
static char session[129];
static int64_t interval = 800;          // all times in milliseconds; until `welcome` says another
static int64_t heard, due, introduced;      // when something was heard, when a heartbeat is due, when `ready` was said
static bool welcomed;                       // whether `ready` was answered
static volatile sig_atomic_t terminated;
static bool drained;                    // by an operator

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000) + time.tv_nsec / 1000000;
}

// ---- saying

static msgpack_sbuffer header;
static msgpack_packer to;

static void pack_text(const char* words) { msgpack_pack_str_with_body(&to, words, strlen(words)); }

static void pack_number(const char* name, uint64_t value) {
  pack_text(name);
  msgpack_pack_uint64(&to, value);
}

static void begin(const char* op, int fields) {
  msgpack_sbuffer_clear(&header);
  msgpack_pack_array(&to, 3);
  pack_text("LMQ1");
  pack_text(op);
  msgpack_pack_map(&to, fields);
}

// The same, about a job.
static void begin_of(const struct job* job, const char* op, int fields) {
  begin(op, fields + 2);
  pack_number("job", job->number);
  pack_number("attempt", job->attempt);
}

static void say(struct bytes body) {
  zmq_send(worker, header.data, header.size, body.size > 0 ? ZMQ_SNDMORE : 0);
  if (body.size > 0) zmq_send(worker, body.data, body.size, 0);
}

static const struct bytes nothing = {"", 0};

static void beat(void) {
  size_t count = 0;
  for (struct job* job = jobs; job; job = job->next) ++count;
  begin("heartbeat", 1);
  pack_text("jobs");
  msgpack_pack_array(&to, count);
  for (struct job* job = jobs; job; job = job->next) {
    msgpack_pack_array(&to, 2);
    msgpack_pack_uint64(&to, job->number);
    msgpack_pack_uint64(&to, job->attempt);
  }
  say(nothing);
  due = now() + interval;
}

static bool window_has_room(const struct job* job) {
  size_t bytes = 0;
  for (size_t i = job->taken; i < job->sent; ++i) bytes += job->pieces[i].size;
  return job->sent - job->taken < 64 && bytes < 262144;
}

// Says the pieces that the window has room for, and behind the last one the outcome.
static void go_on(struct job* job) {
  for (; job->sent < job->count; ++job->sent) {
    if (!window_has_room(job)) return;
    begin_of(job, "chunk", 1);
    pack_number("seq", job->sent);
    say(job->pieces[job->sent]);
  }
  if (!job->class) {
    begin_of(job, "result", 0);
    return say(job->answer);
  }
  begin_of(job, "error", job->code ? 2 : 1);
  pack_text("class");
  pack_text(job->class);
  if (job->code) {
    pack_text("code");
    pack_text(job->code);
  }
  say(nothing);
}

// What a broker hears first, and again when it does not know this worker: who it is, and all that it holds.
static void introduce(void) {
  introduced = now();
  welcomed = false;
  begin("ready", session[0] ? 4 : 3);
  pack_text("services");
  msgpack_pack_array(&to, 2);
  pack_text("echo");
  pack_text("words");
  pack_number("capacity", 4);
  pack_text("resumes");
  msgpack_pack_true(&to);
  if (session[0]) {
    pack_text("session");
    pack_text(session);
  }
  say(nothing);
  beat();
  for (struct job* job = jobs; job; job = job->next) {
    job->sent = job->taken;
    go_on(job);
  }
}

static void reconnect(void) {
  if (worker) zmq_close(worker);
  worker = zmq_socket(context, ZMQ_DEALER);
  zmq_setsockopt(worker, ZMQ_LINGER, &(int){1000}, sizeof(int));
  if (getenv("LANEMQ_BROKER_KEY")) {
    zmq_setsockopt(worker, ZMQ_CURVE_SERVERKEY, getenv("LANEMQ_BROKER_KEY"), 41);
    zmq_setsockopt(worker, ZMQ_CURVE_PUBLICKEY, getenv("LANEMQ_PUBLIC_KEY"), 41);
    zmq_setsockopt(worker, ZMQ_CURVE_SECRETKEY, getenv("LANEMQ_SECRET_KEY"), 41);
  }
  zmq_connect(worker, endpoint);
  heard = now();
  introduce();
}

// ---- hearing

static bool is(struct bytes some, const char* words) {
  return some.size == strlen(words) && memcmp(some.data, words, some.size) == 0;
}

static struct bytes bytes_of(const msgpack_object* value) {
  return value ? (struct bytes){value->via.str.ptr, value->via.str.size} : nothing;
}

// The value of a map's key, or null: a field that is nil is absent.
static const msgpack_object* field(const msgpack_object* map, const char* name) {
  for (uint32_t i = 0; i < map->via.map.size; ++i) {
    const msgpack_object* value = &map->via.map.ptr[i].val;
    if (is(bytes_of(&map->via.map.ptr[i].key), name) && value->type != MSGPACK_OBJECT_NIL) return value;
  }
  return NULL;
}

static uint64_t number(const msgpack_object* fields, const char* name) {
  const msgpack_object* value = field(fields, name);
  return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : 0;
}

// Where the list points to the job, or to its end.
static struct job** place_of(uint64_t job, uint64_t attempt) {
  struct job** place = &jobs;
  while (*place && ((*place)->number != job || (*place)->attempt != attempt)) place = &(*place)->next;
  return place;
}

static void forget(uint64_t number, uint64_t attempt) {
  struct job **place = place_of(number, attempt), *job = *place;
  if (!job) return;
  *place = job->next;
  free(job->pieces);
  free(job->body);
  free(job);
}

// Makes pieces of the answer: its words, or its lines with their ends.
static void divide(struct job* job, bool words) {
  job->pieces = calloc(job->answer.size + 1, sizeof(struct bytes));
  const char *at = job->answer.data, *end = at + job->answer.size;
  while (at < end) {
    const char* from = at;
    while (at < end && !(words ? isspace((unsigned char)*at) : *at == '\n')) ++at;
    const size_t size = at - from + (!words && at < end);
    if (size > 0) job->pieces[job->count++] = (struct bytes){from, size};
    ++at;
  }
  job->answer = nothing;
}

static void take(const msgpack_object* fields, struct bytes body) {
  struct job* job = calloc(1, sizeof *job);
  job->number = number(fields, "job");
  job->attempt = number(fields, "attempt");
  job->body = malloc(body.size + 1);
  memcpy(job->body, body.data, body.size);
  job->answer = (struct bytes){job->body, body.size};
  const msgpack_object* stream = field(fields, "stream");
  if (terminated || drained)
    job->class = "released";
  else if (stream && stream->via.boolean)
    divide(job, is(bytes_of(field(fields, "service")), "words"));
  for (struct job *held = jobs, *next; held; held = next) {
    next = held->next;
    if (held->number == job->number) forget(held->number, held->attempt);  // an older attempt, which is over
  }
  *place_of(job->number, job->attempt) = job;
  go_on(job);
}

static void hear_error(const msgpack_object* fields) {
  const struct bytes code = bytes_of(field(fields, "code")), message = bytes_of(field(fields, "message"));
  if (is(code, "stale")) return forget(number(fields, "job"), number(fields, "attempt"));
  if (!is(code, "unknown_session")) {
    fprintf(stderr, "%.*s: %.*s\n", (int)code.size, code.data, (int)message.size, message.data);
  } else if (welcomed || now() > introduced + interval) {  // else the answer to `ready` is on its way
    introduce();
  }
}

static void hear(struct bytes op, const msgpack_object* fields, struct bytes body) {
  struct job* job = *place_of(number(fields, "job"), number(fields, "attempt"));
  const bool going_on = job && job->sent < job->count;
  if (is(op, "welcome")) {
    const struct bytes name = bytes_of(field(fields, "session"));
    snprintf(session, sizeof session, "%.*s", (int)name.size, name.data);
    interval = number(fields, "heartbeat_ms");
    welcomed = true;
    drained = false;
    beat();
  } else if (is(op, "drain")) {
    drained = true;
  } else if (is(op, "bye")) {
    reconnect();
  } else if (is(op, "job") && !job) {
    take(fields, body);
  } else if (is(op, "window") && job) {
    const size_t taken = number(fields, "seq") + 1;
    if (taken > job->taken) job->taken = taken;
    if (going_on) go_on(job);
  } else if (is(op, "cancel") && going_on) {
    job->count = job->sent;
    job->class = "retry";
    job->code = "cancelled";
    go_on(job);
  } else if (is(op, "acked")) {
    const msgpack_object_array* acked = &field(fields, "jobs")->via.array;
    for (uint32_t i = 0; i < acked->size; ++i)
      forget(acked->ptr[i].via.array.ptr[0].via.u64, acked->ptr[i].via.array.ptr[1].via.u64);
  } else if (is(op, "error")) {
    hear_error(fields);
  }
}

static bool is_message(const msgpack_object* header) {
  const msgpack_object* part = header->via.array.ptr;
  return header->type == MSGPACK_OBJECT_ARRAY && header->via.array.size >= 3 && part[1].type == MSGPACK_OBJECT_STR &&
         part[2].type == MSGPACK_OBJECT_MAP;
}

// Reads a message, where one comes before the next heartbeat is due, and acts on it.
static void receive(void) {
  const int64_t wait = due - now();
  zmq_setsockopt(worker, ZMQ_RCVTIMEO, &(int){wait > 0 ? wait : 0}, sizeof(int));
  zmq_msg_t frame, rest;
  zmq_msg_init(&frame);
  zmq_msg_init(&rest);
  if (zmq_msg_recv(&frame, worker, 0) < 0) return;
  heard = now();
  if (zmq_msg_more(&frame)) zmq_msg_recv(&rest, worker, 0);
  msgpack_unpacked said;
  msgpack_unpacked_init(&said);
  // What cannot be read is a sign of life all the same.
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
}

static void terminate(int number) {
  (void)number;
  terminated = 1;
}

int main(int argc, char** argv) {
  if (argc > 1) endpoint = argv[1];
  const struct sigaction once = {.sa_handler = terminate, .sa_flags = SA_RESETHAND};  // a second one ends it at once
  sigaction(SIGTERM, &once, NULL);
  sigaction(SIGINT, &once, NULL);
  msgpack_sbuffer_init(&header);
  msgpack_packer_init(&to, &header, msgpack_sbuffer_write);
  context = zmq_ctx_new();
  reconnect();
  while (!terminated || jobs) {
    receive();
    if (now() > heard + 3 * interval) {
      fprintf(stderr, "the broker is silent\n");
      reconnect();
    } else if (now() >= due) {
      welcomed ? beat() : introduce();
    }
  }
  begin("bye", 0);
  say(nothing);
  zmq_close(worker);
  zmq_ctx_term(context);
}
