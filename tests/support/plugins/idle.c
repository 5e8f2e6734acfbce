/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin of the broker that looks at each submit and says nothing: what being asked costs. */
#include <stddef.h>

#include <lanemq/broker_plugin.h>

static void* create(const lanemq_broker_plugin_config* config, char* error, size_t error_size) {
  (void)config, (void)error, (void)error_size;
  static int self;
  return &self;
}

static void destroy(void* plugin) {
  (void)plugin;
}

static void admit(void* plugin, const lanemq_submission* submission, lanemq_verdict* verdict) {
  (void)plugin, (void)submission, (void)verdict;
}

static const lanemq_broker_plugin plugin = {
    .version = LANEMQ_BROKER_PLUGIN_VERSION,
    .size = sizeof plugin,
    .create = create,
    .destroy = destroy,
    .admit = admit,
};

const lanemq_broker_plugin* lanemq_get_broker_plugin(void) {
  return &plugin;
}
