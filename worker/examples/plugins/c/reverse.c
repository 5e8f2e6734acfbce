/* SPDX-License-Identifier: Apache-2.0
 *
 * A handler in C: answers each job with its body, last byte first. Does its work at once, on the worker's loop, so
 * it needs neither thread nor descriptor.
 *
 * In a clone of the sources; with the package liblanemq-dev no -I is needed:
 *
 *   cc -shared -fPIC -Iworker/include -Icommon/plugin/include
 *     -o reverse.so worker/examples/plugins/c/reverse.c
 *   lanemq-worker --service reverse=plugin:./reverse.so */
#include <lanemq/handler_plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reverse {
  const lanemq_host* host;
};

static void* create(const lanemq_host* host, const lanemq_plugin_config* config, char* error, size_t error_size) {
  if (config->settings_count > 0) {
    snprintf(error, error_size, "there is no setting \"%.*s\"; reverse has none", (int)config->settings[0].key.size,
             config->settings[0].key.data);
    return NULL;
  }
  struct reverse* self = malloc(sizeof *self);
  if (self) self->host = host;
  else snprintf(error, error_size, "no memory");
  return self;
}

static void destroy(void* handler) {
  free(handler);
}

static void start(void* handler, const lanemq_job* job, lanemq_completion done) {
  const lanemq_host* host = ((struct reverse*)handler)->host;
  char* answer = malloc(job->body.size + 1);
  if (!answer) {
    lanemq_failure failure = LANEMQ_FAILURE;
    failure.code = (lanemq_bytes){"no_memory", strlen("no_memory")};
    host->failure(host, done, &failure);
    return;
  }
  for (size_t i = 0; i < job->body.size; ++i) answer[i] = job->body.data[job->body.size - 1 - i];
  host->success(host, done, answer, job->body.size, NULL, NULL);
  free(answer);
}

static const lanemq_handler_plugin plugin = {
    .version = LANEMQ_HANDLER_PLUGIN_VERSION,
    .size = sizeof plugin,
    .name = "reverse",
    .create = create,
    .destroy = destroy,
    .start = start,
};

const lanemq_handler_plugin* lanemq_get_handler_plugin(void) {
  return &plugin;
}
