// SPDX-License-Identifier: Apache-2.0
// A plugin of the broker for tests: the body of a submit says what it does with it.
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include <lanemq/broker_plugin.h>

namespace {

std::string long_name(1000, 'n');
const lanemq_setting kFine = {{"x-judge", 7}, {"seen", 4}};
const lanemq_setting kBare = {{"lane", 4}, {"seen", 4}};

lanemq_bytes bytes(std::string_view text) {
  return {text.data(), text.size()};
}

std::string_view view(lanemq_bytes bytes) {
  return {bytes.data, bytes.size};
}

/// Keeps its caller for so long, as one does that computes.
void take(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void* create(const lanemq_broker_plugin_config* config, char*, size_t) {
  if (config->settings_count > 0 && view(config->settings[0].value) == "crash") std::abort();
  static int self;
  return &self;
}

void admit(void*, const lanemq_submission* submission, lanemq_verdict* verdict) {
  const std::string_view how = view(submission->body);
  if (how == "slow") take(std::chrono::milliseconds(10));
  if (how == "slower") take(std::chrono::milliseconds(300));
  if (how == "throw") throw std::runtime_error("no verdict");
  if (how == "refuse") verdict->refuse = true;
  if (how == "lane_full" || how == "odd_code") {
    verdict->refuse = true;
    verdict->code = bytes(how == "odd_code" ? "worker_lost" : "lane_full");
    verdict->message = bytes("not \x1b today");
  }
  if (how == "batch") verdict->lane = bytes("batch");
  if (how == "unknown_lane") verdict->lane = bytes("nowhere");
  if (how == "model") verdict->model = bytes("small");
  if (how == "service") verdict->service = bytes("other");
  if (how == "long") verdict->lane = bytes(long_name);
  if (how == "no_text") verdict->lane = bytes("\xff\xfe");
  if (how == "cost") verdict->input_tokens = 1234;
  if (how == "absurd") verdict->output_tokens = INT64_MAX;
  if (how == "extra" || how == "bare") {
    verdict->extras = how == "bare" ? &kBare : &kFine;
    verdict->extras_count = 1;
  }
  if (how == "who") verdict->refuse = true, verdict->message = submission->client;
  if (how == "tenant") verdict->refuse = true, verdict->message = submission->tenant;
  if (how == "id") verdict->refuse = true, verdict->message = submission->id;
}

int64_t count_tokens(void*, lanemq_bytes, lanemq_bytes body) {
  return view(body) == "counted" ? 77 : LANEMQ_NONE;
}

const lanemq_broker_plugin kPlugin = {
    .version = LANEMQ_BROKER_PLUGIN_VERSION,
    .size = sizeof(lanemq_broker_plugin),
    .create = create,
    .destroy = [](void*) {},
    .admit = admit,
    .count_tokens = count_tokens,
};

}  // namespace

const lanemq_broker_plugin* lanemq_get_broker_plugin(void) {
  return &kPlugin;
}
