/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin of the broker, in C11: it sees each submit before the broker does, and may refuse it, change where
 * it goes, or say what it costs.
 *
 *   [[plugin]]
 *   name = "guard"
 *   file = "/usr/lib/lanemq/guard.so"
 *
 * The library exports lanemq_get_broker_plugin(). docs/guides/plugins.md shows one.
 *
 * Everything is called on the broker's loop, one call at a time: while a function runs no job goes anywhere.
 * Each call is timed, and a plugin that takes too long is switched off (docs/guides/plugins.md says when).
 *
 * LANEMQ_BROKER_PLUGIN_VERSION changes when a plugin has to be compiled anew; the broker refuses any other.
 */
#ifndef LANEMQ_BROKER_PLUGIN_H
#define LANEMQ_BROKER_PLUGIN_H

#include <lanemq/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LANEMQ_BROKER_PLUGIN_VERSION 1u

/* A submit, by what its client said; empty, or LANEMQ_NONE: it said nothing. Ids and clients stand as the
 * client's tenant knows them. All is the broker's, and valid until the call returns. */
typedef struct lanemq_submission {
  size_t size;
  lanemq_bytes service;
  lanemq_bytes id;
  lanemq_bytes lane;
  lanemq_bytes model;
  lanemq_bytes client; /* of the sender's key, where the broker asks for keys */
  lanemq_bytes tenant; /* of the sender's key */
  lanemq_bytes body;
  lanemq_bytes meta;                   /* a msgpack value */
  lanemq_bytes extras;                 /* the x- fields: keys and values in turn, each as msgpack */
  size_t extras_count;                 /* pairs */
  int64_t input_tokens, output_tokens; /* the stated cost */
  int64_t timeout_ms;
  bool stream;
} lanemq_submission;

/* What becomes of a submit. It comes as "goes on as it is"; the plugin changes what it wants to. Bytes that
 * it names stay valid until its next call. */
typedef struct lanemq_verdict {
  size_t size;
  bool refuse;
  lanemq_bytes
      code; /* of a refusal: forbidden (also where it is empty), bad_request, lane_full or client_full */
  lanemq_bytes message; /* of a refusal, for people; at most 512 bytes are told */
  /* Null `data`: as the client said. The sender's key, lanes and bounds are judged after this. */
  lanemq_bytes service, lane, model;
  int64_t input_tokens, output_tokens; /* the cost; LANEMQ_NONE: as the client said */
  /* x- fields that the worker gets besides the client's; at most 16, of 4096 bytes. A client that sends one
   * of the same name is refused. */
  const lanemq_setting* extras;
  size_t extras_count;
} lanemq_verdict;

/* What a plugin is created from. Valid until create() returns. */
typedef struct lanemq_broker_plugin_config {
  size_t size;
  lanemq_bytes name;              /* of the plugin, in the configuration */
  const lanemq_setting* settings; /* of its table, [plugin.settings] */
  size_t settings_count;
} lanemq_broker_plugin_config;

/* The functions of a plugin; static, for as long as the library is loaded. Those marked optional may be null.
 */
typedef struct lanemq_broker_plugin {
  uint32_t version; /* LANEMQ_BROKER_PLUGIN_VERSION */
  size_t size;      /* sizeof(lanemq_broker_plugin) */
  /* Makes what the other functions get. Null: it cannot be; the reason, ended by a NUL, stands in
   * error[0..error_size). May take 5 s; the broker tries create() and destroy() in a process that it throws
   * away first. */
  void* (*create)(const lanemq_broker_plugin_config* config, char* error, size_t error_size);
  void (*destroy)(void* plugin);
  /* Optional: admission. */
  void (*admit)(void* plugin, const lanemq_submission* submission, lanemq_verdict* verdict);
  /* Optional: an estimator. Returns the input tokens of a body, or LANEMQ_NONE: the broker guesses. Asked for
   * jobs that state no cost. */
  int64_t (*count_tokens)(void* plugin, lanemq_bytes model, lanemq_bytes body);
} lanemq_broker_plugin;

/* The one symbol that the library exports. */
LANEMQ_PLUGIN_EXPORT const lanemq_broker_plugin* lanemq_get_broker_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
