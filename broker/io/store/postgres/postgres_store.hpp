// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "broker/io/store/postgres/database/owner_row.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/postgres/database/postgres_schema.hpp"
#include "broker/io/store/postgres/postgres_bodies.hpp"
#include "broker/io/store/postgres/postgres_commits.hpp"
#include "broker/io/store/postgres/postgres_reads.hpp"
#include "broker/io/store/store.hpp"
#include "broker/io/store/store_exchange.hpp"

namespace lanemq::io {

/// Keeps jobs in tables of PostgreSQL, which several brokers may wait for and one owns. One thread commits in
/// one transaction what was submitted during the last commit (PostgresCommits); another one reads bodies back
/// and removes dead rows (PostgresReads), and a third puts large bodies in
/// ahead of their turns (PostgresBodies). The constructor and all of Store belong to the loop's thread.
class PostgresStore final : public Store {
 public:
  /// The text for people where the database is there and its store cannot be used.
  static Error cannot_be_used(const PostgresPlace& place, const postgres::Fault& fault);
  /// Waits until this process owns the store, and reads nothing before. `options.waiting` is asked twice a
  /// second whether to go on.
  static Result<std::unique_ptr<Store>> open(const StoreOptions& options);
  /// Commits what was submitted, unless the store has failed or the server does not answer for kEndMax. Gives
  /// the store back.
  ~PostgresStore() override;
  PostgresStore(const PostgresStore&) = delete;
  PostgresStore& operator=(const PostgresStore&) = delete;

  static constexpr std::chrono::seconds kEndMax{5};

  std::string_view name() const override { return "postgres"; }
  bool durable() const override { return true; }
  bool shared() const override { return true; }
  bool away() const override { return commits_.away(); }
  std::optional<StoreOwnership> ownership() const override;
  StorePromise promise() const override { return reads_.seen().promise(); }
  std::string promise_trouble() const override { return reads_.seen().promise_trouble(); }
  std::optional<std::int64_t> unix_us() override;
  Result<void> load(StoreReader& reader) override;
  void begin() override { start_threads(); }
  std::uint64_t submit(core::Writes& writes) override;
  std::uint64_t committed() const override { return exchange_.committed(); }
  std::size_t backlog_bytes() const override { return exchange_.backlog_bytes(); }
  void read(const std::vector<std::uint64_t>& numbers) override { ask(numbers, false); }
  void read_results(const std::vector<std::uint64_t>& numbers) override { ask(numbers, true); }
  void take_bodies(std::vector<StoredBody>& bodies) override { exchange_.take_bodies(bodies); }
  bool wants_ahead(std::size_t body_bytes) const override { return body_bytes > kPartsFromBytes; }
  void put_ahead(const Blob& body) override;
  void take_put(std::vector<Blob>& bodies) override { bodies_.take_put(bodies); }
  void drop_put(const Blob& body) override { bodies_.discard(body); }
  std::size_t put_bytes() const override { return bodies_.put_bytes(); }
  std::uint64_t pulse() const override { return commits_.pulse(); }
  StoreCondition condition() const override { return exchange_.condition(); }
  std::string trouble() const override { return exchange_.trouble(); }
  std::string take_remark() override { return exchange_.take_remark(); }
  int descriptor() const override { return exchange_.descriptor(); }
  void clear_signal() override { exchange_.clear_signal(); }
  Result<void> begin_backup(const std::string& path) override;
  std::optional<Result<void>> take_backup() override { return std::nullopt; }
  void hand_over_at_end(std::function<void(std::string_view successor)> told) override {
    handed_over_ = std::move(told);
  }
  void flush() override;

 private:
  PostgresStore(PostgresPlace place, OwnerRow owned, const StoreOptions& options);
  void ask(const std::vector<std::uint64_t>& numbers, bool of_result);
  void start_threads();

  const PostgresPlace place_;
  const std::string instance_;
  const std::int64_t epoch_;
  const Replication replication_;
  StoreExchange exchange_;
  PostgresBodies bodies_;
  PostgresCommits commits_;
  PostgresReads reads_;
  std::thread committer_, reader_, putter_;
  std::function<void(std::string_view successor)> handed_over_;  ///< empty: this is no handover
};

}  // namespace lanemq::io
