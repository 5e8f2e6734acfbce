// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <lanemq/blob.hpp>

#include "broker/core/base/writes.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/postgres/net_writes.hpp"
#include "broker/io/store/store_exchange.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// Puts large bodies into the database before the turns that need them, part by part by a connection of its
/// own: in a turn's transaction one of 64 MiB holds all others up for a second.
///
/// Each attempt has a key of its own, which no other one ever has: below zero, and by epochs of owners. So
/// what is in doubt is put again, and what nobody refers to harms nobody: a later owner removes it. A body
/// that the database refuses goes with its turn, as one that was not put; so does one that finds no
/// connection for kNowhereMax while commits go on, as where the role may have no more of them.
///
/// It follows commits to another server: what is put at a former primary, which may live on, is put again. A
/// body that was in by then goes with its turn (name_in_turn()).
///
/// run() belongs to one thread, name_parts(), name_in_turn() and committed() to the one that commits, all
/// else to the loop's.
class PostgresBodies {
 public:
  /// What the commits tell. Any thread may ask.
  struct Commits {
    std::function<std::uint64_t()> connections;  ///< PostgresCommits::connections()
    std::function<bool()> away;                  ///< PostgresCommits::away()
  };
  /// `place` and `exchange` outlive it. `epoch`: of the owner.
  PostgresBodies(const PostgresPlace& place, StoreExchange& exchange, std::int64_t epoch, Commits commits)
      : place_(place),
        exchange_(exchange),
        commits_(std::move(commits)),
        first_own_key_(-(epoch << kKeyBits) - 1),
        next_key_(first_own_key_) {}

  /// As Store::put_ahead(), take_put() and drop_put().
  void put(const Blob& body);
  void take_put(std::vector<Blob>& bodies);
  void discard(const Blob& body);
  /// Bytes of bodies that are in and whose turn is not. Any thread may ask.
  std::size_t put_bytes() const { return put_bytes_.load(std::memory_order_relaxed); }

  /// Says of new jobs and results with large bodies where the parts of these are, or are to be.
  void name_parts(NetWrites& net);
  /// The server has not what name_parts() took for put: all these bodies go with their turn, by new keys. The
  /// parts that were put stay for a later owner to remove, since an earlier sending of the turn that refers
  /// to them may be in, after all.
  void name_in_turn(NetWrites& net);
  /// A transaction with these writes, of which name_parts() was told, is in.
  void committed(const core::Writes& writes);

  /// All keys of parts that rows name, as a load has found them: what else earlier owners have left is
  /// removed, since no row comes to name it any more. Requires: before run().
  void loaded(const std::vector<std::int64_t>& keys) { of_others_.emplace(keys.begin(), keys.end()); }
  /// Puts what it is given until the exchange ends, and removes what earlier owners and discard() have left.
  /// Work that the server has not answered by then is given up.
  void run();
  static constexpr std::chrono::seconds kNowhereMax{2};

 private:
  using Clock = postgres::Clock;
  /// Bits of a key for the bodies of one owner; the epoch has the other bits, and may be a time in seconds
  /// (--fence).
  static constexpr int kKeyBits = 31;

  struct Body {
    Blob body;
    std::optional<std::int64_t> key{};  ///< by which it is in; none: it is to be put
    bool named = false;                 ///< by the row of a job or a result
  };
  struct Shared {
    /// By where their bytes are: a body that is kept stays where it is.
    absl::flat_hash_map<const char*, Body> bodies;
    std::deque<const char*> to_put;  ///< in order
    std::vector<Blob> put;           ///< not taken
    std::vector<std::int64_t> to_remove;
  };

  std::int64_t new_key() { return next_key_.fetch_sub(1, std::memory_order_relaxed); }
  void name_parts(std::string_view body, NetWrites::Parts& parts);
  postgres::Outcome<void> find_of_others(std::vector<std::int64_t>& keys);
  bool is_elsewhere() const;
  postgres::Outcome<void> connect();
  postgres::Outcome<void> put_parts(std::int64_t key, std::string_view body);
  void put_next(StoreExchange::Lock& lock);
  postgres::Outcome<void> remove(std::int64_t key);
  void remove_next(StoreExchange::Lock& lock);
  void give(const char* at);
  bool gets_nowhere() const;
  void failed(const std::string& why);

  const PostgresPlace& place_;
  StoreExchange& exchange_;
  const Commits commits_;
  const std::int64_t first_own_key_;  ///< above are earlier owners', below the others of this one
  std::atomic<std::int64_t> next_key_;
  postgres::Connection connection_;
  std::uint64_t reached_ = 0;  ///< connections of the commits, when this one was made
  struct {
    std::optional<Clock::time_point> since;  ///< none: the last one did not
    Clock::time_point again_at{};
    bool told = false;
  } fails_;                        ///< what was put, for want of a server
  Clock::time_point remove_at_{};  ///< not sooner
  /// Keys that rows name. None: nobody has loaded, or what earlier owners have left is to be removed.
  std::optional<absl::flat_hash_set<std::int64_t>> of_others_;
  Shared shared_;  ///< under the exchange's lock
  std::atomic<std::size_t> put_bytes_{0};
};

}  // namespace lanemq::io
