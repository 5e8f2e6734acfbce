/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin of the broker in C. It puts jobs of one client into a lane, refuses bodies that are too long for a model, and
 * counts four bytes as a token.
 *
 * In a clone of the sources; with the package liblanemq-dev no -I is needed:
 *
 *   cc -shared -fPIC -Ibroker/include -Icommon/plugin/include
 *     -o guard.so broker/examples/plugins/guard.c
 *
 * In the broker's file:
 *
 *   [[plugin]]
 *   name = "guard"
 *   file = "/usr/lib/lanemq/guard.so"
 *   [plugin.settings]
 *   client = "nightly"
 *   lane = "batch"
 *   bytes_max = 100000 */
#include <lanemq/broker_plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct guard {
  char client[128], lane[128];
  size_t bytes_max;
};

static int is(lanemq_bytes bytes, const char* text) {
  return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

static void* create(const lanemq_broker_plugin_config* config, char* error, size_t error_size) {
  struct guard* self = calloc(1, sizeof *self);
  if (!self) return NULL;
  self->bytes_max = SIZE_MAX;
  for (size_t i = 0; i < config->settings_count; ++i) {
    const lanemq_bytes key = config->settings[i].key;
    char value[128];
    snprintf(value, sizeof value, "%.*s", (int)config->settings[i].value.size, config->settings[i].value.data);
    if (is(key, "client")) {
      strcpy(self->client, value);
    } else if (is(key, "lane")) {
      strcpy(self->lane, value);
    } else if (is(key, "bytes_max")) {
      self->bytes_max = strtoul(value, NULL, 10);
    } else {
      snprintf(error, error_size, "there is no setting \"%.*s\"; there are client, lane and bytes_max", (int)key.size, key.data);
      free(self);
      return NULL;
    }
  }
  return self;
}

static void destroy(void* plugin) {
  free(plugin);
}

static void admit(void* plugin, const lanemq_submission* submission, lanemq_verdict* verdict) {
  const struct guard* self = plugin;
  if (submission->body.size > self->bytes_max) {
    static const char why[] = "the body is too long for this broker; split it";
    verdict->refuse = true;
    verdict->message = (lanemq_bytes){why, sizeof why - 1};
    return;
  }
  if (self->lane[0] != '\0' && is(submission->client, self->client)) {
    static const lanemq_setting moved = {{"x-moved-by", 10}, {"guard", 5}};
    verdict->lane = (lanemq_bytes){self->lane, strlen(self->lane)};
    verdict->extras = &moved;
    verdict->extras_count = 1;
  }
}

static int64_t count_tokens(void* plugin, lanemq_bytes model, lanemq_bytes body) {
  (void)plugin, (void)model;
  return (int64_t)(body.size / 4 + 1);
}

static const lanemq_broker_plugin plugin = {
    .version = LANEMQ_BROKER_PLUGIN_VERSION,
    .size = sizeof plugin,
    .create = create,
    .destroy = destroy,
    .admit = admit,
    .count_tokens = count_tokens,
};

const lanemq_broker_plugin* lanemq_get_broker_plugin(void) {
  return &plugin;
}
