// SPDX-License-Identifier: Apache-2.0
#include "broker/io/plugins/broker_plugin.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "common/log/log.hpp"
#include "common/plugin/probe.hpp"

namespace lanemq::io {
namespace {

using Clock = std::chrono::steady_clock;
using Refusal = Authorizer::Refusal;

constexpr plugin::Kind kKind{.header = "lanemq/broker_plugin.h",
                             .symbol = "lanemq_get_broker_plugin",
                             .version = LANEMQ_BROKER_PLUGIN_VERSION,
                             .size_min = offsetof(lanemq_broker_plugin, admit)};

constexpr std::size_t kReasonMax = 512;
constexpr std::size_t kExtrasMax = 16, kExtrasBytesMax = 4096;
/// The largest cost of a job that a plugin may say.
constexpr std::int64_t kTokensMax = 1'000'000'000;

lanemq_broker_plugin complete(const lanemq_broker_plugin& table) {
  if (table.create == nullptr || table.destroy == nullptr)
    throw plugin::PluginError("its table lacks create or destroy");
  if (table.admit == nullptr && table.count_tokens == nullptr)
    throw plugin::PluginError("its table has neither admit nor count_tokens");
  return table;
}

lanemq_bytes bytes_of(std::string_view text) {
  return {text.data(), text.size()};
}

std::string_view view_of(lanemq_bytes bytes) {
  return bytes.data == nullptr ? std::string_view() : std::string_view(bytes.data, bytes.size);
}

/// The codes that a refusal by a plugin may have.
ErrorCode code_of(std::string_view said) {
  for (const ErrorCode code : {ErrorCode::bad_request, ErrorCode::lane_full, ErrorCode::client_full})
    if (said == name_of(code)) return code;
  return ErrorCode::forbidden;
}

/// A text as msgpack, as it stands in a header.
std::string packed(std::string_view text) {
  Buffer buffer;
  DocumentWriter(buffer).text(text);
  return std::string(buffer.view());
}

lanemq_submission submission_of(const wire::Submit& submit, std::string_view body,
                                const core::Identity* sender) {
  const std::optional<wire::Cost>& cost = submit.cost;
  return {.size = sizeof(lanemq_submission),
          .service = bytes_of(submit.service),
          .id = bytes_of(core::own_name(submit.id)),
          .lane = bytes_of(submit.lane),
          .model = bytes_of(submit.model),
          .client = bytes_of(core::own_name(submit.client)),
          .tenant = bytes_of(sender == nullptr ? std::string_view() : core::tenant_of(sender->space)),
          .body = bytes_of(body),
          .meta = bytes_of(submit.meta.bytes),
          .extras = bytes_of(submit.extras.bytes),
          .extras_count = submit.extras.count,
          .input_tokens = cost ? cost->input_tokens.value_or(LANEMQ_NONE) : LANEMQ_NONE,
          .output_tokens = cost ? cost->output_tokens.value_or(LANEMQ_NONE) : LANEMQ_NONE,
          .timeout_ms = submit.timeout_ms.value_or(LANEMQ_NONE),
          .stream = submit.stream};
}

}  // namespace

BrokerPlugin::BrokerPlugin(const PluginOptions& options)
    : options_(options),
      library_(options_.file, kKind),
      plugin_(complete(library_.table<lanemq_broker_plugin>())) {
  std::vector<lanemq_setting> settings;
  for (const auto& [key, value] : options_.settings)
    settings.push_back({bytes_of(key), bytes_of(value)});
  const lanemq_broker_plugin_config config{.size = sizeof config,
                                           .name = bytes_of(options_.name),
                                           .settings = settings.data(),
                                           .settings_count = settings.size()};
  std::array<char, kReasonMax> reason{};
  std::string why;
  try {
    self_ = plugin_.create(&config, reason.data(), reason.size());
  } catch (const std::exception& error) {
    why = std::string("create() threw: ") + error.what();
  } catch (...) {
    why = "create() threw";
  }
  if (self_ != nullptr) return;
  reason.back() = '\0';
  if (why.empty()) why = reason.front() == '\0' ? "create() gave no reason" : reason.data();
  throw plugin::PluginError(printable(why, kReasonMax));
}

BrokerPlugin::~BrokerPlugin() {
  try {
    plugin_.destroy(self_);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the program ends, and nothing is left to be done
  }
}

void BrokerPlugin::switch_on() {
  why_off_.clear();
  speed_ = {};
}

void BrokerPlugin::switch_off(std::string why) {
  if (why_off_.empty())
    log::event(log::Level::warning, "plugin.off",
               {{"plugin", options_.name},
                {"reason", why},
                {"jobs", options_.refuse_when_off ? "are refused" : "go on without it"},
                {"do", "mend it; lanemq plugin " + options_.name + " on asks it again"}});
  why_off_ = std::move(why);
}

template <class Use>
void BrokerPlugin::call(const char* function, const Use& use) {
  const Clock::time_point began = Clock::now();
  try {
    use();
  } catch (const std::exception& error) {
    switch_off(std::string(function) + "() threw: " + printable(error.what(), kReasonMax));
  } catch (...) {
    switch_off(std::string(function) + "() threw");
  }
  const Clock::time_point ended = Clock::now();
  const SpeedWatch::Duration took = ended - began;
  ++counts_.calls;
  counts_.total += took;
  counts_.longest = std::max(counts_.longest, took);
  counts_.slow += took > SpeedWatch::kSlow ? 1 : 0;
  if (speed_.note(took, ended))
    switch_off(std::string(function) + "() takes too long: " +
               std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(took).count()) +
               " us, and the loop waits; more than one call in 100 may not take over 1 ms");
}

std::optional<Refusal> BrokerPlugin::judge(wire::Submit& submit, std::string_view body,
                                           const core::Identity* sender, Said& said) {
  if (!is_on()) {
    if (!options_.refuse_when_off || !admits()) return std::nullopt;
    ++counts_.refused;
    return Refusal{.code = ErrorCode::paused,
                   .message = "the plugin \"" + options_.name + "\", which judges submits, is switched off"};
  }
  if (admits()) {
    std::optional<Refusal> refusal = admit(submit, body, sender, said);
    if (refusal) ++counts_.refused;
    if (refusal) return refusal;
  }
  if (counts_tokens() && is_on() && !(submit.cost && submit.cost->input_tokens)) count_tokens(submit, body);
  return std::nullopt;
}

std::optional<Refusal> BrokerPlugin::admit(wire::Submit& submit, std::string_view body,
                                           const core::Identity* sender, Said& said) {
  const lanemq_submission submission = submission_of(submit, body, sender);
  lanemq_verdict verdict{};
  verdict.size = sizeof verdict;
  verdict.input_tokens = verdict.output_tokens = LANEMQ_NONE;
  bool returned = false;
  call("admit", [&] {
    plugin_.admit(self_, &submission, &verdict);
    returned = true;
  });
  if (!returned) return std::nullopt;
  return obey(verdict, submit, said);
}

/// Puts a name that the plugin says into the submit. False: it cannot be one.
bool BrokerPlugin::take_name(const char* field, lanemq_bytes name, std::string& place,
                             std::string_view& target) {
  if (name.data == nullptr) return true;
  if (name.size > limits::name_bytes_max || !is_utf8(view_of(name))) {
    switch_off(std::string("admit() says a ") + field + " that is no name of at most " +
               std::to_string(limits::name_bytes_max) + " bytes");
    return false;
  }
  place.assign(name.data, name.size);
  target = place;
  return true;
}

std::optional<Refusal> BrokerPlugin::obey(const lanemq_verdict& verdict, wire::Submit& submit, Said& said) {
  if (verdict.refuse) {
    const std::string_view message = view_of(verdict.message).substr(0, kReasonMax);
    return Refusal{.code = code_of(view_of(verdict.code).substr(0, kReasonMax)),
                   .message = message.empty() ? "refused by the plugin \"" + options_.name + '"'
                                              : printable(message, kReasonMax)};
  }
  if (!take_name("service", verdict.service, said.service, submit.service) ||
      !take_name("lane", verdict.lane, said.lane, submit.lane) ||
      !take_name("model", verdict.model, said.model, submit.model))
    return std::nullopt;
  const auto known = [](std::int64_t tokens) { return std::clamp<std::int64_t>(tokens, 0, kTokensMax); };
  if (verdict.input_tokens >= 0 || verdict.output_tokens >= 0) {
    if (!submit.cost) submit.cost.emplace();
    const auto put = [&](std::optional<std::int64_t>& tokens, std::int64_t counted, std::int64_t bit) {
      if (counted < 0) return;
      tokens = known(counted);
      submit.cost->certain = submit.cost->certain.value_or(0) | bit;
    };
    put(submit.cost->input_tokens, verdict.input_tokens, wire::Cost::kInput);
    put(submit.cost->output_tokens, verdict.output_tokens, wire::Cost::kOutput);
  }
  return verdict.extras_count > 0 ? add_extras(verdict, submit, said) : std::nullopt;
}

std::optional<Refusal> BrokerPlugin::add_extras(const lanemq_verdict& verdict, wire::Submit& submit,
                                                Said& said) {
  std::string fields(submit.extras.bytes);
  const std::size_t before = fields.size();
  for (std::size_t i = 0; i < std::min(verdict.extras_count, kExtrasMax); ++i) {
    const std::string_view name = view_of(verdict.extras[i].key), value = view_of(verdict.extras[i].value);
    const bool fits = name.size() <= limits::name_bytes_max && value.size() <= kExtrasBytesMax &&
                      fields.size() - before + name.size() + value.size() <= kExtrasBytesMax;
    if (!name.starts_with("x-") || !fits || !is_utf8(name) || !is_utf8(value)) {
      switch_off("admit() says a field that does not begin with x-, is no text, or is too long");
      return std::nullopt;
    }
    // A worker must be able to tell what the broker's plugin says from what a client says.
    if (submit.extras.bytes.find(packed(name)) != std::string_view::npos)
      return Refusal{.code = ErrorCode::bad_request,
                     .message = "field \"" + printable(name) + "\" is the broker's own here; leave it out"};
    fields += packed(name) + packed(value);
    ++submit.extras.count;
  }
  said.extras = std::move(fields);
  submit.extras.bytes = said.extras;
  return std::nullopt;
}

void BrokerPlugin::count_tokens(wire::Submit& submit, std::string_view body) {
  std::int64_t tokens = LANEMQ_NONE;
  call("count_tokens", [&] { tokens = plugin_.count_tokens(self_, bytes_of(submit.model), bytes_of(body)); });
  if (tokens < 0) return;
  if (!submit.cost) submit.cost.emplace();
  submit.cost->input_tokens = std::min(tokens, kTokensMax);
  submit.cost->certain = submit.cost->certain.value_or(0) | wire::Cost::kInput;
}

std::optional<std::string> why_no_plugin(const PluginOptions& options) {
  return plugin::why_not([&] { const BrokerPlugin tried(options); });
}

}  // namespace lanemq::io
