// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <lanemq/broker_plugin.h>
#include <lanemq/messages.hpp>

#include "broker/core/base/identity.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/peers/authorizer.hpp"
#include "broker/io/plugins/speed_watch.hpp"
#include "common/plugin/library.hpp"

namespace lanemq::io {

/// One loaded plugin: asks it about submits, and switches it off where it breaks a rule of
/// lanemq/broker_plugin.h or is too slow. Not thread-safe; belongs to the loop.
class BrokerPlugin {
 public:
  /// The plugins' answers about a submit; its views point here. Held until the next submit.
  struct Said {
    std::string service, lane, model, extras;
    void clear() { service.clear(), lane.clear(), model.clear(), extras.clear(); }
  };
  struct Counts {
    std::uint64_t calls = 0, refused = 0, slow = 0;
    SpeedWatch::Duration longest{}, total{};
  };

  /// Loads it and makes what it works with. Throws plugin::PluginError.
  explicit BrokerPlugin(const PluginOptions& options);
  ~BrokerPlugin();
  BrokerPlugin(const BrokerPlugin&) = delete;
  BrokerPlugin& operator=(const BrokerPlugin&) = delete;

  /// Why the submit is refused; none: it goes on, with what the plugin has changed in it. `sender`: by its
  /// key; null: the broker asks for none.
  std::optional<Authorizer::Refusal> judge(wire::Submit& submit, std::string_view body,
                                           const core::Identity* sender, Said& said);

  const std::string& name() const { return options_.name; }
  const PluginOptions& options() const { return options_; }
  bool admits() const { return plugin_.admit != nullptr; }
  bool counts_tokens() const { return plugin_.count_tokens != nullptr; }
  bool is_on() const { return why_off_.empty(); }
  /// Empty: it is on.
  const std::string& why_off() const { return why_off_; }
  const Counts& counts() const { return counts_; }

  void switch_on();
  void switch_off(std::string why);

 private:
  /// Calls a function of the plugin, catches what it throws, and measures how long it takes.
  template <class Use>
  void call(const char* function, const Use& use);
  std::optional<Authorizer::Refusal> admit(wire::Submit& submit, std::string_view body,
                                           const core::Identity* sender, Said& said);
  std::optional<Authorizer::Refusal> obey(const lanemq_verdict& verdict, wire::Submit& submit, Said& said);
  std::optional<Authorizer::Refusal> add_extras(const lanemq_verdict& verdict, wire::Submit& submit,
                                                Said& said);
  bool take_name(const char* field, lanemq_bytes name, std::string& place, std::string_view& target);
  void count_tokens(wire::Submit& submit, std::string_view body);

  const PluginOptions options_;
  const plugin::Library library_;
  const lanemq_broker_plugin plugin_;  ///< its functions; null: one that it does not have
  void* self_ = nullptr;               ///< the plugin's
  std::string why_off_;
  Counts counts_;
  SpeedWatch speed_;
};

/// Tries a plugin in a process that is thrown away. Returns why it cannot be used; none: it can. Requires:
/// the process has one thread.
std::optional<std::string> why_no_plugin(const PluginOptions& options);

}  // namespace lanemq::io
