// SPDX-License-Identifier: Apache-2.0
#include "broker/io/plugins/plugin_desk.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

#include "broker/core/desks/document_answer.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

std::int64_t microseconds(SpeedWatch::Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

core::DocumentMap row_of(const BrokerPlugin& plugin) {
  const BrokerPlugin::Counts& counts = plugin.counts();
  const auto calls = static_cast<std::int64_t>(counts.calls);
  core::DocumentMap row;
  row.text("name", plugin.name())
      .text("state", plugin.is_on() ? "on" : "off")
      .text("does", !plugin.counts_tokens() ? "admit"
                    : plugin.admits()       ? "admit, count_tokens"
                                            : "count_tokens")
      .integer("calls", calls)
      .integer("refused", static_cast<std::int64_t>(counts.refused))
      .integer("slow", static_cast<std::int64_t>(counts.slow))
      .integer("mean_us", calls == 0 ? 0 : microseconds(counts.total) / calls)
      .integer("longest_us", microseconds(counts.longest))
      .text_if_any("reason", plugin.why_off());
  return row;
}

}  // namespace

PluginDesk::PluginDesk(const std::vector<PluginOptions>& options) {
  for (const PluginOptions& one : options)
    try {
      plugins_.push_back(std::make_unique<BrokerPlugin>(one));
    } catch (const plugin::PluginError& error) {
      throw plugin::PluginError("plugin \"" + one.name + "\": " + error.what());
    }
}

std::optional<Authorizer::Refusal> PluginDesk::judge(wire::Submit& submit, std::string_view body,
                                                     const core::Identity* sender) {
  for (const auto& plugin : plugins_)
    if (auto refusal = plugin->judge(submit, body, sender, said_)) return refusal;
  return std::nullopt;
}

void PluginDesk::asked(const core::Origin& from, const wire::AdminQuery& query, std::string_view who,
                       core::Outbox& outbox) {
  const auto refuse = [&](ErrorCode code, std::string message) {
    core::refuse(outbox, from, query.ref.bytes, {code, std::move(message)});
  };
  const auto named = std::find_if(plugins_.begin(), plugins_.end(),
                                  [&](const auto& plugin) { return plugin->name() == query.name; });
  const bool switches = !query.value.empty();
  if (!query.name.empty() && named == plugins_.end())
    return refuse(ErrorCode::not_found, "there is no plugin \"" + printable(query.name) +
                                            "\"; do \"plugin\" without a name lists them");
  if (switches && (query.name.empty() || (query.value != "on" && query.value != "off")))
    return refuse(ErrorCode::bad_request, "field \"value\" is on or off, of the plugin that \"name\" names");
  if (switches && !query.dry_run) {
    query.value == "on" ? (*named)->switch_on()
                        : (*named)->switch_off("operator " + std::string(who) + " switched it off");
    log::event(log::Level::info, "admin.plugin", {{"name", query.name}, {"value", query.value}, {"by", who}});
  }
  core::DocumentPage rows(std::nullopt);
  for (const auto& plugin : plugins_)
    if (query.name.empty() || plugin->name() == query.name) rows.add(row_of(*plugin));
  core::DocumentMap document;
  document.rows("plugin", rows);
  if (query.dry_run) document.flag("dry_run", true);
  core::answer(outbox, from, query.ref.bytes, document);
}

}  // namespace lanemq::io
