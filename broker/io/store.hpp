// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <lanemq/result.hpp>

namespace lanemq::io {

/// Where accepted jobs outlive the broker. A turn commits before it sends: durable before visible.
class Store {
 public:
  virtual ~Store() = default;
  virtual std::string_view name() const = 0;
  /// Whether what was committed outlives a crash; `accepted` says so to clients.
  virtual bool durable() const = 0;
  /// Makes everything that the turn decided last. Called once a turn, before anything of it is sent.
  virtual Result<void> commit() = 0;
};

/// Keeps nothing: what the broker holds ends with it. Drains by handing queued jobs back to their clients.
class MemoryStore final : public Store {
 public:
  std::string_view name() const override { return "memory"; }
  bool durable() const override { return false; }
  Result<void> commit() override { return {}; }
};

/// The store that `specification` names (`memory`); an error says what is known.
Result<std::unique_ptr<Store>> open_store(const std::string& specification);

}  // namespace lanemq::io
