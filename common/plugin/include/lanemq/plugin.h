/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kinds of plugins share: lanemq/handler_plugin.h (workers) and lanemq/broker_plugin.h (brokers).
 *
 * Structs of a version only grow at their end: `size` is sizeof the struct where it was made, and what lies
 * behind it does not exist. Texts are UTF-8 without a NUL at their end. */
#ifndef LANEMQ_PLUGIN_H
#define LANEMQ_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No number is known; no time is set. */
#define LANEMQ_NONE INT64_C(-1)

/* Bytes of somebody else. `data` may be null where `size` is 0. */
typedef struct lanemq_bytes {
  const char* data;
  size_t size;
} lanemq_bytes;

/* A key of the plugin's own table in the configuration, and its value as text. Keys of tables in it are
 * joined by dots, and a list is its key once for each item. */
typedef struct lanemq_setting {
  lanemq_bytes key, value;
} lanemq_setting;

typedef enum lanemq_log_level {
  LANEMQ_DEBUG = 0,
  LANEMQ_INFO = 1,
  LANEMQ_WARNING = 2,
  LANEMQ_ERROR = 3
} lanemq_log_level;

#if defined(__GNUC__)
#define LANEMQ_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define LANEMQ_PLUGIN_EXPORT
#endif

#endif
