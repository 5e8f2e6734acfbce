// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Keeps nothing: jobs end with the broker. When it drains clients get their queued jobs back.
class MemoryStore : public Store {
 public:
  std::string_view name() const override { return "memory"; }
  bool durable() const override { return false; }
  Result<void> load(StoreReader&) override { return {}; }
  std::uint64_t submit(core::Writes& writes) override {
    writes.clear();
    return ++committed_;
  }
  std::uint64_t committed() const override { return committed_; }
  std::size_t backlog_bytes() const override { return 0; }
  void read(const std::vector<std::uint64_t>& numbers) override {
    for (const std::uint64_t number : numbers)
      bodies_.push_back({.number = number, .body = {}});
  }
  void read_results(const std::vector<std::uint64_t>& numbers) override {
    for (const std::uint64_t number : numbers)
      bodies_.push_back({.number = number, .body = {}, .of_result = true});
  }
  void take_bodies(std::vector<StoredBody>& bodies) override {
    bodies.insert(bodies.end(), bodies_.begin(), bodies_.end());
    bodies_.clear();
  }
  StoreCondition condition() const override { return StoreCondition::good; }
  std::string trouble() const override { return {}; }
  int descriptor() const override { return -1; }
  void clear_signal() override {}
  Result<void> begin_backup(const std::string&) override {
    return failure(ErrorCode::bad_request,
                   "the store is memory: there is nothing on disk to back up; start the broker with --store "
                   "sqlite:PATH");
  }
  std::optional<Result<void>> take_backup() override { return std::nullopt; }
  void flush() override {}

 private:
  std::uint64_t committed_ = 0;
  std::vector<StoredBody> bodies_;
};

}  // namespace lanemq::io
