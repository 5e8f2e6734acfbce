// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster/database.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace lanemq::sim {
namespace {

using core::Duration;
using core::TimePoint;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// libpq gives up a host that does not answer.
constexpr Duration kConnectMax = seconds(2);
constexpr Duration kLockMax = seconds(1);
/// As the bank's table sets them for its sessions.
constexpr Duration kBankLockMax = seconds(2), kBankHeldMax = seconds(1);

}  // namespace

Database::Database(Scheduler& scheduler, Random& random, Trace* trace, Watch watch)
    : scheduler_(scheduler), random_(random), trace_(trace), watch_(std::move(watch)), servers_(kServers) {
  servers_[0].is_primary = true;
  for (std::size_t i = 1; i < kServers; ++i)
    servers_[i].follows = 0;
}

void Database::say(const std::string& what) const {
  if (trace_ != nullptr) trace_->add(scheduler_.now(), "database: " + what);
}

Database::Session* Database::session_of(std::uint64_t id) {
  const auto place = sessions_.find(id);
  return place == sessions_.end() ? nullptr : &place->second;
}

io::OwnerRow Database::row_of(const Server& server) const {
  return server.last == nullptr ? io::OwnerRow{} : server.last->row;
}

/// The WHERE of its statement.
bool Database::matches(const Session& session, const io::OwnerRow& row) {
  const bool of_epoch = row.epoch == session.wanted.epoch && row.claim == session.wanted.claim;
  const bool of_ticket = row.ticket == session.wanted.ticket;
  switch (session.kind) {
    case Session::Kind::batch:
      return of_epoch && of_ticket;
    case Session::Kind::take:
      return of_epoch && of_ticket;
    case Session::Kind::give_back:
      return of_epoch;
    case Session::Kind::bank:
    case Session::Kind::none:
      break;
  }
  return false;
}

// ---- connections --------------------------------------------------------------------------------------

void Database::connect(std::shared_ptr<DatabaseWay> way, std::function<void(DatabaseLink)> done) {
  try_next(0, std::move(way), std::move(done));
}

void Database::try_next(std::size_t server, std::shared_ptr<DatabaseWay> way,
                        std::function<void(DatabaseLink)> done) {
  if (server == kServers) return done(nullptr);
  const TimePoint now = scheduler_.now();
  const bool blocked = std::max(way->up_until[server], way->down_until[server]) > now;
  scheduler_.after(blocked ? kConnectMax : latency(), [this, server, way, done, blocked] {
    Server& there = servers_[server];
    if (blocked || !there.up || !there.is_primary) return try_next(server + 1, way, done);
    auto link = std::make_shared<DatabaseConnection>();
    link->server = server;
    link->start = there.start;
    link->session = ++last_session_;
    link->way = way;
    sessions_[link->session].link = link;
    done(link);
  });
}

void Database::up(const DatabaseLink& link, std::function<void()> what) {
  link->up_at = std::max({link->up_at, scheduler_.now() + latency(), link->way->up_until[link->server]});
  scheduler_.at(link->up_at, [this, link, what = std::move(what)] {
    if (!link->up_open) return;
    if (scheduler_.now() < link->way->up_until[link->server]) return up(link, what);
    if (session_of(link->session) == nullptr) return lose(link, latency());
    what();
  });
}

void Database::down(const DatabaseLink& link, std::function<void()> what) {
  link->down_at =
      std::max({link->down_at, scheduler_.now() + latency(), link->way->down_until[link->server]});
  scheduler_.at(link->down_at, [this, link, what = std::move(what)] {
    if (!link->down_open) return;
    if (scheduler_.now() < link->way->down_until[link->server]) return down(link, what);
    what();
  });
}

/// Its client hears that it is gone, behind what is under way to it.
void Database::lose(const DatabaseLink& link, Duration after) {
  scheduler_.after(after, [this, link] {
    down(link, [link] {
      link->down_open = link->up_open = false;
      if (link->on_lost) std::exchange(link->on_lost, nullptr)();
    });
  });
}

void Database::hang_up(const DatabaseLink& link, bool heard) {
  link->down_open = false;
  link->on_lost = nullptr;
  if (heard) up(link, [this, id = link->session] { client_gone(id); });
}

void Database::snap(const DatabaseLink& link) {
  link->up_open = random_.percent(50);
  const bool answers = random_.percent(30);
  link->down_open = answers;
  scheduler_.after(random_.between(Duration(0), seconds(2)), [link] {
    link->up_open = link->down_open = false;
    if (link->on_lost) std::exchange(link->on_lost, nullptr)();
  });
  scheduler_.after(random_.between(Duration(0), seconds(random_.percent(50) ? 1 : 20)),
                   [this, id = link->session] { client_gone(id); });
}

/// The server hears that nobody is there any more: it undoes what it is in the middle of. What it has begun
/// to commit it ends.
void Database::client_gone(std::uint64_t id) {
  Session* const session = session_of(id);
  if (session == nullptr) return;
  session->client_there = false;
  if (session->phase == Session::Phase::commits || session->phase == Session::Phase::waits_for_standby)
    return;
  const std::size_t server = session->link->server, row = place_of(*session);
  sessions_.erase(id);
  release_row(server, row, id);
}

// ---- statements ---------------------------------------------------------------------------------------

void Database::begin(const DatabaseLink& link, const LogEntry& entry, std::function<void(Committed)> done) {
  up(link, [this, link, entry, done = std::move(done)] {
    Session& session = *session_of(link->session);
    session.commit_asked = false;
    // There may be no room even for what a transaction begins with.
    if (full_ && entry.batch != 0 && random_.percent(50)) {
      session.done = done;
      return answer(session, Committed::no_room);
    }
    io::OwnerRow wanted = entry.row;
    --wanted.ticket;
    execute(link->session, Session::Kind::batch, wanted, entry, done);
  });
}

void Database::commit(const DatabaseLink& link) {
  up(link, [this, id = link->session] {
    Session& session = *session_of(id);
    session.commit_asked = true;
    if (session.phase == Session::Phase::waits_for_client) write(id);
  });
}

void Database::take(const DatabaseLink& link, const io::OwnerRow& seen, const io::OwnerRow& owner,
                    std::function<void(Committed)> done) {
  up(link, [this, link, seen, owner, done = std::move(done)] {
    LogEntry entry;
    entry.row = owner;
    entry.takes = true;
    execute(link->session, Session::Kind::take, seen, entry, done);
    Session* const session = session_of(link->session);
    if (session == nullptr || session->phase != Session::Phase::waits_for_row) return;
    scheduler_.after(kLockMax, [this, link, statement = session->statement] {
      Session* const waiting = session_of(link->session);
      if (waiting == nullptr || waiting->statement != statement ||
          waiting->phase != Session::Phase::waits_for_row)
        return;
      std::erase(servers_[link->server].locked[kOwnerRow].waiters, link->session);
      answer(*waiting, Committed::locked);
    });
  });
}

void Database::give_back(const DatabaseLink& link, const io::OwnerRow& owner,
                         std::function<void(Committed)> done) {
  up(link, [this, link, owner, done = std::move(done)] {
    LogEntry entry;
    entry.row = owner;
    entry.row.instance.clear();
    execute(link->session, Session::Kind::give_back, owner, entry, done);
  });
}

void Database::execute(std::uint64_t id, Session::Kind kind, const io::OwnerRow& wanted, LogEntry entry,
                       std::function<void(Committed)> done) {
  Session& session = *session_of(id);
  Server& server = servers_[session.link->server];
  session.kind = kind;
  session.wanted = wanted;
  session.entry = std::move(entry);
  session.done = std::move(done);
  ++session.statement;
  // A row that is not wanted is not waited for.
  if (!matches(session, row_of(server))) return answer(session, Committed::no_row);
  LockedRow& locked = server.locked[kOwnerRow];
  if (locked.holder == 0) return got_row(id);
  session.phase = Session::Phase::waits_for_row;
  locked.waiters.push_back(id);
}

/// Its statement sees the row as it is now.
void Database::got_row(std::uint64_t id) {
  Session& session = *session_of(id);
  if (session.kind == Session::Kind::bank) return got_bank(id);
  Server& server = servers_[session.link->server];
  const io::OwnerRow row = row_of(server);
  if (!matches(session, row)) return answer(session, Committed::no_row);
  if (session.kind == Session::Kind::batch) {
    session.entry.by = session.entry.row.epoch;
    session.entry.row.epoch = row.epoch;
    session.entry.row.instance = row.instance;
    session.entry.row.claim = row.claim;
  }
  if (session.kind == Session::Kind::give_back) session.entry.row.ticket = row.ticket;
  server.locked[kOwnerRow].holder = id;
  session.phase = Session::Phase::waits_for_client;
  if (session.kind != Session::Kind::batch || session.commit_asked) write(id);
}

void Database::write(std::uint64_t id) {
  session_of(id)->phase = Session::Phase::commits;
  scheduler_.after(work(), [this, id] {
    Session* const session = session_of(id);
    if (session == nullptr) return;
    const std::size_t at = session->link->server, row = place_of(*session);
    if (full_ && (session->entry.batch != 0 || row == kBankRow)) {
      answer(*session, Committed::no_room);
      return release_row(at, row, id);
    }
    session->phase = Session::Phase::waits_for_standby;
    append(at, std::make_shared<const LogEntry>(session->entry));
    session->log_end = servers_[at].log.size();
    for (std::size_t standby = 0; standby < kServers; ++standby)
      feed(standby);
  });
}

void Database::append(std::size_t server, std::shared_ptr<const LogEntry> entry) {
  // Whoever had the row before has let go of it: what it left is visible.
  if (!entry->bank) watch_(server, servers_[server].last.get(), *entry);
  servers_[server].log.push_back(std::move(entry));
}

/// What changed the row up to that end of the log is seen by others.
void Database::make_visible(Server& server, std::size_t row, std::size_t log_end) {
  std::size_t& visible = server.locked[row].visible;
  for (; visible < log_end; ++visible) {
    const LogEntry& entry = *server.log[visible];
    if ((row == kBankRow) != (entry.bank != nullptr)) continue;
    if (entry.bank) {
      server.bank = entry.bank;
      continue;
    }
    server.last = server.log[visible];
    if (!entry.turns) continue;
    for (const core::Writes& turn : *entry.turns) {
      try {
        server.rows.apply(turn);
      } catch (const std::logic_error& error) {
        violated("transaction " + std::to_string(entry.row.ticket) + " of epoch " +
                 std::to_string(entry.row.epoch) + " does not fit what is in the database: " + error.what());
      }
    }
  }
}

/// All that is in the log is seen by others.
void Database::make_all_visible(Server& server) {
  for (std::size_t row = 0; row < kRows; ++row)
    make_visible(server, row, server.log.size());
}

void Database::answer(Session& session, Committed answer) {
  if (trace_ != nullptr && session.kind != Session::Kind::bank) say_answer(session, answer);
  session.phase = Session::Phase::idle;
  session.kind = Session::Kind::none;
  down(session.link, [done = std::exchange(session.done, nullptr), answer] { done(answer); });
}

void Database::say_answer(const Session& session, Committed answer) {
  static constexpr std::array<std::string_view, 5> kAnswers{"yes", "warned", "no row", "no room", "locked"};
  const LogEntry& entry = session.entry;
  say("server " + std::to_string(session.link->server) + " answers " +
      std::string(kAnswers[static_cast<std::size_t>(answer)]) + " to ticket " +
      std::to_string(entry.row.ticket) + " of epoch " + std::to_string(entry.row.epoch) +
      (entry.batch == 0 ? std::string() : ", batch " + std::to_string(entry.batch)));
}

/// Whoever waits for the row gets it, unless it is not what was wanted any more.
void Database::release_row(std::size_t at, std::size_t row, std::uint64_t id) {
  LockedRow& locked = servers_[at].locked[row];
  std::erase(locked.waiters, id);
  if (locked.holder == id) locked.holder = 0;
  while (locked.holder == 0 && !locked.waiters.empty()) {
    const std::uint64_t next = locked.waiters.front();
    locked.waiters.pop_front();
    if (session_of(next) != nullptr) got_row(next);
  }
}

/// The server ends a session that waits for its client's next word.
void Database::end_session(std::uint64_t id) {
  const DatabaseLink ended = session_of(id)->link;
  client_gone(id);
  lose(ended, latency());
}

void Database::end_idle_holder(const DatabaseLink& link, std::function<void()> done) {
  up(link, [this, link, done = std::move(done)] {
    const std::uint64_t holder = servers_[link->server].locked[kOwnerRow].holder;
    Session* const session = session_of(holder);
    if (session != nullptr && session->phase == Session::Phase::waits_for_client) {
      say("the session that holds the row is ended");
      end_session(holder);
    }
    down(link, done);
  });
}

void Database::read_row(const DatabaseLink& link, std::function<void(const io::OwnerRow&)> done) {
  up(link, [this, link, done = std::move(done)] {
    down(link, [done, row = row_of(servers_[link->server])] { done(row); });
  });
}

void Database::read_clock(const DatabaseLink& link, std::function<void(std::int64_t)> done) {
  up(link, [this, link, done = std::move(done)] {
    down(link, [done, us = kUnixUs + scheduler_.now().time_since_epoch().count()] { done(us); });
  });
}

void Database::load(const DatabaseLink& link,
                    std::function<void(const io::OwnerRow&, std::shared_ptr<const StoreModel>)> done) {
  up(link, [this, link, done = std::move(done)] {
    const Server& server = servers_[link->server];
    down(link, [done, row = row_of(server), rows = std::make_shared<const StoreModel>(server.rows)] {
      done(row, rows);
    });
  });
}

void Database::read_body(const DatabaseLink& link, std::uint64_t number,
                         std::function<void(const io::OwnerRow&, std::optional<Blob>)> done) {
  up(link, [this, link, number, done = std::move(done)] {
    const Server& server = servers_[link->server];
    down(link, [done, row = row_of(server), body = server.rows.body(number)] { done(row, body); });
  });
}

// ---- the bank -----------------------------------------------------------------------------------------

void Database::lock_bank(const DatabaseLink& link, std::function<void(const std::optional<BankSeen>&)> done) {
  up(link, [this, link, done = std::move(done)] {
    const std::uint64_t id = link->session;
    Session& session = *session_of(id);
    LockedRow& locked = servers_[link->server].locked[kBankRow];
    session.kind = Session::Kind::bank;
    session.locked = done;
    ++session.statement;
    if (locked.holder == 0) return got_bank(id);
    session.phase = Session::Phase::waits_for_row;
    locked.waiters.push_back(id);
    scheduler_.after(kBankLockMax, [this, link, id, statement = session.statement] {
      Session* const waiting = session_of(id);
      if (waiting == nullptr || waiting->statement != statement ||
          waiting->phase != Session::Phase::waits_for_row)
        return;
      std::erase(servers_[link->server].locked[kBankRow].waiters, id);
      waiting->phase = Session::Phase::idle;
      down(link, [refused = std::exchange(waiting->locked, nullptr)] { refused(std::nullopt); });
    });
  });
}

void Database::got_bank(std::uint64_t id) {
  Session& session = *session_of(id);
  Server& server = servers_[session.link->server];
  server.locked[kBankRow].holder = id;
  session.phase = Session::Phase::waits_for_client;
  const BankSeen seen{.row = server.bank == nullptr ? std::string() : *server.bank,
                      .clock = {.now = scheduler_.now() + std::chrono::microseconds(kUnixUs) +
                                       bank_ahead_[session.link->server],
                                .server = 1000 * server.start + session.link->server}};
  down(session.link, [done = std::exchange(session.locked, nullptr), seen] { done(seen); });
  scheduler_.after(kBankHeldMax, [this, id, statement = session.statement] {
    const Session* const holder = session_of(id);
    if (holder == nullptr || holder->statement != statement ||
        holder->phase != Session::Phase::waits_for_client)
      return;
    say("a session that stands still with the bank's row is ended");
    end_session(id);
  });
}

void Database::commit_bank(const DatabaseLink& link, std::string row, std::function<void(Committed)> done) {
  up(link, [this, id = link->session, row = std::make_shared<const std::string>(std::move(row)),
            done = std::move(done)] {
    Session& session = *session_of(id);
    session.entry = {};
    session.entry.bank = row;
    session.done = done;
    write(id);
  });
}

// ---- replication --------------------------------------------------------------------------------------

/// Something goes to a standby, one after the other.
void Database::feed(std::size_t at) {
  Server& standby = servers_[at];
  const auto can = [this, at] {
    const Server& to = servers_[at];
    if (to.is_primary || !to.up || to.follows == kServers || holds_replication_) return false;
    const Server& from = servers_[to.follows];
    return from.up && from.is_primary && to.log.size() < from.log.size();
  };
  if (standby.receives || !can()) return;
  standby.receives = true;
  scheduler_.after(latency() + work(), [this, at, can] {
    Server& to = servers_[at];
    to.receives = false;
    if (!can()) return;
    const std::size_t from = to.follows;
    to.log.push_back(servers_[from].log[to.log.size()]);
    make_all_visible(to);
    scheduler_.after(latency(), [this, from] { check_acknowledged(from); });
    feed(at);
  });
}

/// One standby that has all is enough.
void Database::check_acknowledged(std::size_t at) {
  const Server& server = servers_[at];
  if (!server.up || !server.is_primary || holds_replication_) return;
  std::size_t most = 0;
  for (const Server& one : servers_)
    if (!one.is_primary && one.up && one.follows == at) most = std::max(most, one.log.size());
  for (std::size_t row = 0; row < kRows; ++row) {
    const Session* const session = waiting_for_standby(at, row);
    if (session != nullptr && session->log_end <= most) finish_wait(at, row, Committed::yes);
  }
}

/// Whose transaction has changed the row, and waits; null: none does.
Database::Session* Database::waiting_for_standby(std::size_t at, std::size_t row) {
  Session* const session = session_of(servers_[at].locked[row].holder);
  return session != nullptr && session->phase == Session::Phase::waits_for_standby ? session : nullptr;
}

void Database::finish_wait(std::size_t at, std::size_t row, Committed how) {
  Server& server = servers_[at];
  const std::uint64_t id = server.locked[row].holder;
  Session* const session = waiting_for_standby(at, row);
  if (session == nullptr) return;
  make_visible(server, row, session->log_end);
  if (how == Committed::yes) answered_ = std::max(answered_, session->log_end);
  answer(*session, how);
  if (!session->client_there) sessions_.erase(id);
  release_row(at, row, id);
}

// ---- trouble ------------------------------------------------------------------------------------------

void Database::crash(std::size_t at, bool heard) {
  Server& server = servers_[at];
  if (!server.up) return;
  say("server " + std::to_string(at) + " dies" + (heard ? "" : " without a word"));
  server.up = false;
  for (LockedRow& locked : server.locked) {
    locked.holder = 0;
    locked.waiters.clear();
  }
  std::erase_if(sessions_, [&](const auto& session) {
    if (session.second.link->server != at) return false;
    session.second.link->up_open = false;
    if (heard) lose(session.second.link, latency());
    return true;
  });
}

void Database::start(std::size_t at) {
  Server& server = servers_[at];
  if (server.up) return;
  say("server " + std::to_string(at) + " starts");
  server.up = true;
  ++server.start;
  // What is in the log counts, whoever else has it.
  make_all_visible(server);
  for (std::size_t standby = 0; standby < kServers; ++standby)
    feed(standby);
}

std::optional<std::size_t> Database::best_standby() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < kServers; ++i) {
    const Server& server = servers_[i];
    if (server.is_primary || !server.up || server.follows != primary_) continue;
    if (!best || server.log.size() > servers_[*best].log.size()) best = i;
  }
  return best;
}

bool Database::may_lose_primary() const {
  const std::optional<std::size_t> best = best_standby();
  return best && servers_[*best].log.size() >= answered_;
}

bool Database::promote() {
  if (!may_lose_primary()) return false;
  const std::optional<std::size_t> best = best_standby();
  say("server " + std::to_string(*best) + " is promoted with " + std::to_string(servers_[*best].log.size()) +
      " of " + std::to_string(servers_[primary_].log.size()));
  for (Server& server : servers_)
    if (server.follows == primary_) server.follows = *best;
  servers_[*best].is_primary = true;
  servers_[*best].follows = kServers;
  primary_ = *best;
  for (std::size_t standby = 0; standby < kServers; ++standby)
    feed(standby);
  return true;
}

void Database::rejoin(std::size_t at) {
  Server& server = servers_[at];
  if (at == primary_ || (server.up && !server.is_primary && server.follows == primary_)) return;
  crash(at, true);
  say("server " + std::to_string(at) + " follows the primary");
  const Server& primary = servers_[primary_];
  server.up = true;
  ++server.start;
  server.is_primary = false;
  server.follows = primary_;
  std::size_t log_end = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    server.locked[row].visible = primary.locked[row].visible;
    log_end = std::max(log_end, primary.locked[row].visible);
  }
  server.log.assign(primary.log.begin(), primary.log.begin() + static_cast<std::ptrdiff_t>(log_end));
  server.last = primary.last;
  server.bank = primary.bank;
  server.rows = primary.rows;
  make_all_visible(server);
  feed(at);
}

void Database::hold_replication(bool holds) {
  holds_replication_ = holds;
  if (holds) return;
  for (std::size_t standby = 0; standby < kServers; ++standby)
    feed(standby);
  for (std::size_t at = 0; at < kServers; ++at)
    check_acknowledged(at);
}

void Database::cancel_wait(std::size_t at) {
  for (std::size_t row = 0; row < kRows; ++row) {
    if (waiting_for_standby(at, row) == nullptr) continue;
    say("an operator cancels a wait for a standby");
    finish_wait(at, row, Committed::warned);
  }
}

void Database::heal() {
  slow_ = {};
  full_ = false;
  start(primary_);
  for (std::size_t i = 0; i < kServers; ++i)
    rejoin(i);
  hold_replication(false);
}

}  // namespace lanemq::sim
