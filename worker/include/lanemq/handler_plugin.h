/* SPDX-License-Identifier: Apache-2.0
 *
 * A handler in a shared library, in C11: what lanemq::Handler and lanemq::Completion (lanemq/worker.hpp) are
 * in C++.
 *
 *   lanemq-worker --service NAME=plugin:FILE[:ARGUMENT]
 *
 * The library exports lanemq_get_handler_plugin(). The worker creates a handler for each service that names
 * the file, and destroys it when it stops. docs/guides/plugins.md shows a plugin from its first line to its
 * first answer.
 *
 * LANEMQ_HANDLER_PLUGIN_VERSION changes when a plugin has to be compiled anew; the worker refuses any other.
 *
 * Threads. The worker calls all functions of a handler on one thread, its loop, and one at a time; none may
 * block: while one runs no other job goes on and no heartbeat goes out. The functions of lanemq_host may be
 * called from any thread, until destroy() has returned.
 *
 * Times are milliseconds of CLOCK_MONOTONIC. */
#ifndef LANEMQ_HANDLER_PLUGIN_H
#define LANEMQ_HANDLER_PLUGIN_H

#include <lanemq/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LANEMQ_HANDLER_PLUGIN_VERSION 1u

/* One hand-over of a job: its number, and which attempt it is. The number is the broker's; where there are
 * shards, their brokers may give equal ones, and the upper eight bits say which shard it is. */
typedef struct lanemq_lease {
  uint64_t job;
  int64_t attempt;
} lanemq_lease;

/* A job. It is the worker's, and valid until start() returns; the bytes of `body` until the job is answered.
 */
typedef struct lanemq_job {
  size_t size;
  lanemq_lease lease;
  lanemq_bytes service; /* one that this handler was created for */
  lanemq_bytes id;      /* of the client, or of the broker */
  lanemq_bytes lane;
  lanemq_bytes model;  /* empty: the client named none */
  lanemq_bytes client; /* whose job it is */
  lanemq_bytes key;    /* of the upstream, which the broker chose; empty: none */
  lanemq_bytes body;
  lanemq_bytes meta;       /* a msgpack value; empty: none */
  lanemq_bytes trace;      /* a msgpack value; empty: none */
  int64_t deadline;        /* nobody waits for an answer after it; LANEMQ_NONE: no time is set */
  size_t answer_bytes_max; /* a longer answer, or piece of one, is refused */
  bool stream;             /* the client wants pieces: chunk() */
} lanemq_job;

/* The duty to answer one job: with success() or failure(), once. A number, so that a plugin that answers
 * twice or too late does no harm: what is not open any more is ignored. Never 0. */
typedef uint64_t lanemq_completion;

/* How the broker treats a failure. */
typedef enum lanemq_error_class {
  LANEMQ_RETRY = 0,      /* transient: try again later; costs an attempt */
  LANEMQ_LIMITED = 1,    /* the upstream's rate is used up: pause until retry_after; costs no attempt */
  LANEMQ_QUOTA = 2,      /* the key is spent */
  LANEMQ_OVERLOADED = 3, /* the upstream is short of capacity: try again later; costs an attempt */
  LANEMQ_PERMANENT = 4,  /* never retried */
  LANEMQ_DEADLINE = 5,   /* the job's own time was over */
  LANEMQ_RELEASED = 6    /* handed back untouched; costs no attempt */
} lanemq_error_class;

/* What an attempt used; LANEMQ_NONE: not known. */
typedef struct lanemq_usage {
  size_t size;
  int64_t requests, input_tokens, output_tokens, cached_tokens, reasoning_tokens;
} lanemq_usage;
#define LANEMQ_USAGE_UNKNOWN \
  { sizeof(lanemq_usage), LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE }

/* The upstream's limits, as it reported them; LANEMQ_NONE: it did not. */
typedef struct lanemq_limits {
  size_t size;
  int64_t remaining_requests, remaining_tokens, remaining_input_tokens, remaining_output_tokens;
  int64_t reset_requests_ms, reset_tokens_ms, reset_input_tokens_ms, reset_output_tokens_ms; /* from now on */
  int64_t limit_requests, limit_tokens, limit_input_tokens, limit_output_tokens;
  int64_t limit_concurrency;                    /* calls at once */
  int64_t period_requests_ms, period_tokens_ms; /* of the figures; LANEMQ_NONE: a minute */
} lanemq_limits;
#define LANEMQ_LIMITS_UNKNOWN                                                                            \
  {                                                                                                      \
    sizeof(lanemq_limits), LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, \
        LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE, LANEMQ_NONE,       \
        LANEMQ_NONE, LANEMQ_NONE                                                                         \
  }

/* Why a job failed. Begin with LANEMQ_FAILURE, and set what you know. */
typedef struct lanemq_failure {
  size_t size;
  int32_t error_class;         /* of lanemq_error_class */
  lanemq_bytes code;           /* for programs, 1..100 bytes: `upstream_503` */
  lanemq_bytes message;        /* for people, callers among them */
  lanemq_bytes detail;         /* for the worker's log alone */
  lanemq_bytes body;           /* what the upstream said, if anything */
  int64_t retry_after_ms;      /* LANEMQ_NONE: the broker's own time */
  int32_t upstream_status;     /* the HTTP status; 0: the upstream did not answer */
  const lanemq_usage* usage;   /* null: not known */
  const lanemq_limits* limits; /* null: not known */
  /* Of LANEMQ_LIMITED, which kind of limit refused: `rate`, `concurrency`, `slope` or `day`; empty: not
   * known. */
  lanemq_bytes limited_by;
} lanemq_failure;
#define LANEMQ_FAILURE                                                                                      \
  {                                                                                                         \
    sizeof(lanemq_failure), LANEMQ_RETRY, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, LANEMQ_NONE, 0, NULL, \
        NULL, {                                                                                             \
      NULL, 0                                                                                               \
    }                                                                                                       \
  }

/* What the worker does for a handler. It is the worker's, and valid until destroy() has returned; all
 * functions copy what they are given. Thread-safe, but for calls for the same completion: those come one
 * after the other. */
typedef struct lanemq_host lanemq_host;
struct lanemq_host {
  uint32_t version;
  size_t size;
  /* Sends a piece of a streamed answer. Only for jobs with `stream`; after the first piece the job is never
   * retried. False: the reader is behind, send no more until resume() (pieces sent nevertheless go later; far
   * more than a window of them ends the job as `stream_overrun`). */
  bool (*chunk)(const lanemq_host* host, lanemq_completion done, const char* data, size_t size);
  /* Ends the job with its answer; of a stream, with the rest of it, mostly nothing. `usage` and `limits` may
   * be null. */
  void (*success)(const lanemq_host* host, lanemq_completion done, const char* data, size_t size,
                  const lanemq_usage* usage, const lanemq_limits* limits);
  /* Ends the job without an answer. */
  void (*failure)(const lanemq_host* host, lanemq_completion done, const lanemq_failure* failure);
  /* Writes a line to the worker's log (`plugin.says`); the level is of lanemq_log_level. */
  void (*log)(const lanemq_host* host, int32_t level, const char* text, size_t size);
  const void* context; /* the worker's own */
  /* Says how far the job is, for who asks the broker: `percent` of 0 to 100, negative: not known; and a
   * note for people of up to 256 bytes, or none. From the first call on the broker ends the attempt where
   * neither this nor a chunk comes for its lane's stall_timeout. Older workers do not have it: call it where
   * `size` >= LANEMQ_HOST_WITH_PROGRESS. */
  void (*progress)(const lanemq_host* host, lanemq_completion done, int32_t percent, const char* note,
                   size_t note_size);
};
#define LANEMQ_HOST_WITH_PROGRESS (offsetof(lanemq_host, progress) + sizeof(void*))

/* What a handler is created from. Valid until create() returns. */
typedef struct lanemq_plugin_config {
  size_t size;
  lanemq_bytes service;
  lanemq_bytes argument;          /* what stands behind FILE: */
  const lanemq_setting* settings; /* of the service's table, [service.plugin] */
  size_t settings_count;
  size_t capacity; /* jobs that the worker holds at once, of all services */
} lanemq_plugin_config;

/* The functions of a plugin; static, for as long as the library is loaded. Those marked optional may be null.
 */
typedef struct lanemq_handler_plugin {
  uint32_t version; /* LANEMQ_HANDLER_PLUGIN_VERSION */
  size_t size;      /* sizeof(lanemq_handler_plugin) */
  const char* name; /* for the log; ends with a NUL */

  /* Makes a handler. Null: it cannot be; the reason, ended by a NUL, stands in error[0..error_size). May take
   * 5 s. Before the worker makes a handler it tries create() and destroy() in a process that it throws away.
   */
  void* (*create)(const lanemq_host* host, const lanemq_plugin_config* config, char* error,
                  size_t error_size);
  /* Ends a handler. When it returns no thread of the plugin runs any more. Jobs that are not answered go to
   * other workers. */
  void (*destroy)(void* handler);
  /* Takes a job. `done` may be used before this returns, or later from any thread. */
  void (*start)(void* handler, const lanemq_job* job, lanemq_completion done);
  /* Optional. The answer is not needed any more: end the job soon, with any outcome (which settles the
   * usage). */
  void (*cancel)(void* handler, lanemq_lease lease);
  /* Optional. The reader of a job whose chunk() returned false has caught up. It may come while another
   * thread is still inside that chunk(). */
  void (*resume)(void* handler, lanemq_lease lease);
  /* Optional. A descriptor that the loop watches, an epoll descriptor perhaps; negative: none. Asked once; it
   * is the plugin's. */
  int (*descriptor)(void* handler);
  /* Optional. The descriptor is readable; called until it no longer is. */
  void (*on_readable)(void* handler);
  /* Optional. When advance() is wanted; LANEMQ_NONE: it is not. */
  int64_t (*next_wakeup)(void* handler);
  /* Optional. Does what is due by `now`. Called once a turn of the loop. */
  void (*advance)(void* handler, int64_t now);
} lanemq_handler_plugin;

/* The one symbol that the library exports. */
LANEMQ_PLUGIN_EXPORT const lanemq_handler_plugin* lanemq_get_handler_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
