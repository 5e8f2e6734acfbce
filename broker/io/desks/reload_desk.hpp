// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/io/base/options.hpp"
#include "broker/io/desks/key_desk.hpp"
#include "broker/io/desks/service_watch.hpp"

namespace lanemq::io {

/// A configuration that was read again.
struct Reloaded {
  core::Options options;  ///< what counts now
  std::vector<PeerKey> keys;
  std::vector<OptionChange> changes;
};

/// Changes that the log, or an answer, has of one reload.
inline constexpr std::size_t kChangesTold = 100;

std::string_view name_of(OptionChange::How how);

/// Whether a reload is carried out.
enum class ReloadMode : unsigned char { apply, try_only };

/// Why a core that runs cannot have these options; empty: it can.
using Objection = std::function<std::string(const core::Options& wanted)>;

/// Reads the configuration again. `running`: the core's options, an operator's changes included. Applies what
/// is not the core's, and logs, unless it only tries. An error says what cannot be used, and nothing has
/// changed.
using Reload = std::function<Result<Reloaded>(const core::Options& running, const Objection& objection,
                                              ReloadMode mode)>;

/// Reloads of the configuration, asked for by a signal or an operator. Not thread-safe; belongs to the loop.
class ReloadDesk {
 public:
  /// All outlive it. The service manager hears of each reload.
  ReloadDesk(core::Broker& broker, KeyDesk& keys, ServiceWatch& service_watch, Reload reload)
      : broker_(broker), keys_(keys), service_watch_(service_watch), reload_(std::move(reload)) {}

  /// SIGHUP.
  void asked_by_signal(core::TimePoint now);
  /// Answers an operator with what changed, or with what is wrong.
  void asked(const core::Origin& from, const wire::AdminQuery& query, std::string_view who,
             core::TimePoint now);

 private:
  Result<Reloaded> read(ReloadMode mode);
  Result<Reloaded> apply(core::TimePoint now);

  core::Broker& broker_;
  KeyDesk& keys_;
  ServiceWatch& service_watch_;
  Reload reload_;
};

}  // namespace lanemq::io
