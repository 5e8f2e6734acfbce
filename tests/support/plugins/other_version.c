/* SPDX-License-Identifier: Apache-2.0
 * A plugin of another time: in its version the table is not what this header says. */
#include <lanemq/handler_plugin.h>

static const lanemq_handler_plugin plugin = {.version = 99, .size = sizeof(uint32_t)};

const lanemq_handler_plugin* lanemq_get_handler_plugin(void) {
  return &plugin;
}
