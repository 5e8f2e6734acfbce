// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/io/store/postgres/database/owner_row.hpp"
#include "tests/sim/broker_host.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/scheduler.hpp"
#include "tests/support/store_model.hpp"

namespace lanemq::sim {

/// A transaction as the servers' logs have it. Each changes the owner's row or the bank's, whose lock it
/// holds to its end: so those of one row follow each other.
struct LogEntry {
  io::OwnerRow row;         ///< as it leaves it
  std::int64_t by = 0;      ///< the epoch of which its maker takes itself for the owner
  std::uint64_t batch = 0;  ///< which changes are in it; 0: none
  std::shared_ptr<const std::vector<core::Writes>> turns;
  bool takes = false;                       ///< a candidate has made itself the owner
  std::shared_ptr<const std::string> bank;  ///< the bank's row as it leaves it; null: it is not of the bank
};

/// The bank's row, locked, and the clock of its server.
struct BankSeen {
  std::string row;
  core::BankClock clock;
};

/// The network between one process and each of the servers: nothing arrives before these times.
struct DatabaseWay {
  explicit DatabaseWay(std::size_t servers) : up_until(servers), down_until(servers) {}

  std::vector<core::TimePoint> up_until, down_until;  ///< to the server, from the server
};

/// A connection, as both ends have it. In order both ways; what is under way may be lost when it breaks.
struct DatabaseConnection {
  std::size_t server = 0;
  std::uint64_t start = 0;  ///< of the server: it tells one life of it from another
  std::uint64_t session = 0;
  std::shared_ptr<DatabaseWay> way;
  bool up_open = true, down_open = true;
  core::TimePoint up_at{}, down_at{};
  std::function<void()> on_lost{};  ///< its client has heard that it is gone
};
using DatabaseLink = std::shared_ptr<DatabaseConnection>;

/// A server's answer to a transaction.
enum class Committed : std::uint8_t {
  yes,
  warned,  ///< its wait for a standby was cancelled
  no_row,  ///< the row is not as the statement wants it
  no_room,
  locked,  ///< another transaction holds the row for too long
};

/// Servers as PostgreSQL has them, written from its documentation and from what was measured of it: it shares
/// no rule with the brokers. A primary has a log, of which the standbys have a prefix. A transaction is
/// answered, and seen by others, once one standby has it (synchronous_commit = on, ANY 1): or when an
/// operator cancels that wait, or the server starts again. A promoted standby knows what it had received,
/// the old primary may live on.
class Database {
 public:
  static constexpr std::size_t kServers = 3;
  /// Some day in November 2026: where all clocks begin.
  static constexpr std::int64_t kUnixUs = 1'795'000'000'000'000;

  /// Is told of each transaction that enters a log.
  using Watch = std::function<void(std::size_t server, const LogEntry* before, const LogEntry& entry)>;

  Database(Scheduler& scheduler, Random& random, Trace* trace, Watch watch);

  // ---- clients ----

  /// Tries the servers in their order and takes the first that accepts writes. Null: there is none.
  void connect(std::shared_ptr<DatabaseWay> way, std::function<void(DatabaseLink)> done);
  /// The client closes it, or its process ends. `heard`: the server hears of that.
  void hang_up(const DatabaseLink& link, bool heard);
  /// The network breaks it: what is under way to the server is lost or not, what is under way to the client
  /// is. Each end hears of that by itself.
  void snap(const DatabaseLink& link);

  /// The first part of a transaction: BEGIN and the fence. `done` hears how all of it ended.
  void begin(const DatabaseLink& link, const LogEntry& entry, std::function<void(Committed)> done);
  /// The rest of it, up to COMMIT.
  void commit(const DatabaseLink& link);
  /// Makes `owner` the row, from exactly the row `seen`. Waits for the row's lock for a
  /// second.
  void take(const DatabaseLink& link, const io::OwnerRow& seen, const io::OwnerRow& owner,
            std::function<void(Committed)> done);
  void give_back(const DatabaseLink& link, const io::OwnerRow& owner, std::function<void(Committed)> done);
  /// Ends the session that holds the row, if it waits for its client's next word.
  void end_idle_holder(const DatabaseLink& link, std::function<void()> done);
  void read_row(const DatabaseLink& link, std::function<void(const io::OwnerRow&)> done);
  void read_clock(const DatabaseLink& link, std::function<void(std::int64_t unix_us)> done);
  /// A snapshot of everything, with the owner's row.
  void load(const DatabaseLink& link,
            std::function<void(const io::OwnerRow&, std::shared_ptr<const StoreModel>)> done);
  void read_body(const DatabaseLink& link, std::uint64_t number,
                 std::function<void(const io::OwnerRow&, std::optional<Blob>)> done);

  /// Locks the bank's row and reads it. None: another session holds it for too long. A client that says
  /// nothing more for a second is ended.
  void lock_bank(const DatabaseLink& link, std::function<void(const std::optional<BankSeen>&)> done);
  /// Writes the bank's row and commits. Requires: the session has locked it.
  void commit_bank(const DatabaseLink& link, std::string row, std::function<void(Committed)> done);

  // ---- trouble ----

  /// The clock that the bank reads is ahead by so much, of each server.
  void set_bank_clocks(const std::array<core::Duration, kServers>& ahead) { bank_ahead_ = ahead; }
  std::size_t primary() const { return primary_; }
  bool is_up(std::size_t server) const { return servers_[server].up; }
  /// It dies with all its sessions. `heard`: their clients are told.
  void crash(std::size_t server, bool heard);
  void start(std::size_t server);
  /// Whether a standby has all that was answered. One that was promoted may be the only one, until another
  /// one has caught up: if that dies as well, nothing can be promised.
  bool may_lose_primary() const;
  /// The standby that has most becomes the primary; others follow it. False: none has what was answered.
  bool promote();
  /// A server that is no standby of the primary becomes one, with what that has.
  void rejoin(std::size_t server);
  /// Standbys receive nothing, or do again.
  void hold_replication(bool holds);
  /// An operator cancels what waits for a standby.
  void cancel_wait(std::size_t server);
  void set_slow(core::Duration most) { slow_ = most; }
  void set_full(bool full) { full_ = full; }
  /// All is well: a primary with its standbys, which serve at once.
  void heal();

  const std::vector<std::shared_ptr<const LogEntry>>& log() const { return servers_[primary_].log; }
  const StoreModel& rows() const { return servers_[primary_].rows; }

 private:
  struct Session {
    enum class Kind : std::uint8_t { none, batch, take, give_back, bank };
    enum class Phase : std::uint8_t { idle, waits_for_row, waits_for_client, commits, waits_for_standby };

    DatabaseLink link;
    Kind kind = Kind::none;
    Phase phase = Phase::idle;
    bool client_there = true, commit_asked = false;
    std::uint64_t statement = 0;  ///< counts them
    io::OwnerRow wanted;          ///< the row must be so
    LogEntry entry;
    std::size_t log_end = 0;  ///< of the server's log, behind the entry
    std::function<void(Committed)> done;
    std::function<void(const std::optional<BankSeen>&)> locked;
  };
  /// A row that transactions lock, with those that wait for it in turn.
  struct LockedRow {
    std::uint64_t holder = 0;
    std::deque<std::uint64_t> waiters;
    std::size_t visible = 0;  ///< of the log: what changed the row up to there is seen by others
  };
  static constexpr std::size_t kOwnerRow = 0, kBankRow = 1, kRows = 2;
  struct Server {
    bool up = true, is_primary = false;
    std::uint64_t start = 1;
    std::size_t follows = kServers;  ///< the primary of a standby
    bool receives = false;           ///< something is under way to it
    std::vector<std::shared_ptr<const LogEntry>> log;
    std::array<LockedRow, kRows> locked;
    std::shared_ptr<const LogEntry> last;     ///< of the owner's row, that is visible
    std::shared_ptr<const std::string> bank;  ///< the bank's row, as visible
    StoreModel rows;                          ///< likewise
  };

  void say(const std::string& what) const;
  std::optional<std::size_t> best_standby() const;
  core::Duration latency() { return random_.between(core::Duration(100), core::Duration(2000)); }
  core::Duration work() { return random_.between(core::Duration(50), std::max(slow_, core::Duration(500))); }
  Session* session_of(std::uint64_t id);
  io::OwnerRow row_of(const Server& server) const;
  static std::size_t place_of(const Session& session) {
    return session.kind == Session::Kind::bank ? kBankRow : kOwnerRow;
  }
  static bool matches(const Session& session, const io::OwnerRow& row);
  void try_next(std::size_t server, std::shared_ptr<DatabaseWay> way, std::function<void(DatabaseLink)> done);
  void up(const DatabaseLink& link, std::function<void()> what);
  void down(const DatabaseLink& link, std::function<void()> what);
  void lose(const DatabaseLink& link, core::Duration after);
  void execute(std::uint64_t id, Session::Kind kind, const io::OwnerRow& wanted, LogEntry entry,
               std::function<void(Committed)> done);
  void got_row(std::uint64_t id);
  void got_bank(std::uint64_t id);
  void write(std::uint64_t id);
  void append(std::size_t server, std::shared_ptr<const LogEntry> entry);
  void make_visible(Server& server, std::size_t row, std::size_t log_end);
  void make_all_visible(Server& server);
  void answer(Session& session, Committed answer);
  void say_answer(const Session& session, Committed answer);
  void release_row(std::size_t server, std::size_t row, std::uint64_t id);
  void end_session(std::uint64_t id);
  void client_gone(std::uint64_t id);
  void feed(std::size_t standby);
  void check_acknowledged(std::size_t server);
  Session* waiting_for_standby(std::size_t server, std::size_t row);
  void finish_wait(std::size_t server, std::size_t row, Committed how);

  Scheduler& scheduler_;
  Random& random_;
  Trace* trace_;
  const Watch watch_;
  std::vector<Server> servers_;
  std::size_t primary_ = 0;
  std::size_t answered_ = 0;  ///< of the primary's log, behind a wait for a standby that was not cancelled
  std::map<std::uint64_t, Session> sessions_;
  std::uint64_t last_session_ = 0;
  bool holds_replication_ = false, full_ = false;
  core::Duration slow_{};
  std::array<core::Duration, kServers> bank_ahead_{};
};

}  // namespace lanemq::sim
