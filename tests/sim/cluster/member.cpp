// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster/member.hpp"

#include <algorithm>
#include <utility>
namespace lanemq::sim {
namespace {

using core::Duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

// As the candidate, the store and the loop have them.
/// As StoreWatch has it.
constexpr milliseconds kStandsStill{500};
constexpr milliseconds kLookPause{500};
constexpr std::int64_t kClocksApartMaxUs = 100'000;
constexpr int kClockTries = 10;
constexpr auto kReadMax = std::chrono::minutes(10);
constexpr auto kNotesEvery = milliseconds(20);
/// From the end of the commits to the loop's.
constexpr Duration kEndMax = milliseconds(50);

/// What was loaded, for the real restore().
class LoadedStore final : public io::Store {
 public:
  LoadedStore(const StoreModel& rows, std::optional<std::int64_t> unix_us) : rows_(rows), unix_us_(unix_us) {}

  std::string_view name() const override { return "loaded"; }
  bool durable() const override { return true; }
  bool shared() const override { return true; }
  std::optional<std::int64_t> unix_us() override { return unix_us_; }
  Result<void> load(io::StoreReader& reader) override {
    const auto loaded = [](const std::string& body) {
      return body.size() <= StoreModel::kBodyReadMax ? std::optional<std::string_view>(body) : std::nullopt;
    };
    for (const auto& [note, record] : rows_.notes())
      if (const auto told = reader.note(note, record); !told) return told;
    for (const auto& [number, job] : rows_.jobs())
      if (const auto told = reader.job(number, job.state, job.record, loaded(job.body), job.body.size());
          !told)
        return told;
    for (const auto& [number, result] : rows_.results())
      if (const auto told = reader.result(number, result.record, loaded(result.body), result.body.size());
          !told)
        return told;
    return {};
  }
  std::uint64_t submit(core::Writes& writes) override {
    submitted.swap(writes);
    return 1;
  }
  std::uint64_t committed() const override { return 0; }
  std::size_t backlog_bytes() const override { return 0; }
  void read(const std::vector<std::uint64_t>&) override {}
  void read_results(const std::vector<std::uint64_t>&) override {}
  void take_bodies(std::vector<io::StoredBody>&) override {}
  io::StoreCondition condition() const override { return io::StoreCondition::good; }
  std::string trouble() const override { return {}; }
  int descriptor() const override { return -1; }
  void clear_signal() override {}
  Result<void> begin_backup(const std::string&) override { return {}; }
  std::optional<Result<void>> take_backup() override { return std::nullopt; }
  void flush() override {}

  core::Writes submitted;

 private:
  const StoreModel& rows_;
  const std::optional<std::int64_t> unix_us_;
};

}  // namespace

Member::Member(const ClusterPlan& plan, std::size_t number, Scheduler& scheduler, Random& random,
               Trace* trace, Database& database, ClusterWitness& witness, std::uint64_t& batches)
    : BrokerHost(plan.swarm, scheduler, random, trace, witness),
      plan_(plan),
      database_(database),
      witness_(witness),
      batches_(batches),
      process_(scheduler, random.between(900, 1100)),
      instance_("broker-" + std::to_string(number)),
      way_(std::make_shared<DatabaseWay>(Database::kServers)),
      bank_way_(std::make_shared<DatabaseWay>(Database::kServers)) {}

void Member::say(const std::string& what) {
  if (trace_ != nullptr) trace_->add(scheduler_.now(), instance_ + " " + what);
}

// ---- the process --------------------------------------------------------------------------------------

void Member::start() {
  if (!is_down_) return;
  is_down_ = false;
  say("starts");
  watch_.emplace(instance_, true, std::chrono::duration_cast<milliseconds>(plan_.lease));
  look();
}

void Member::end(const std::string& why) {
  say("ends: " + why);
  if (commits_ && commits_->link()) database_.hang_up(commits_->link(), true);
  if (draws_ && draws_->link()) database_.hang_up(draws_->link(), true);
  for (DatabaseLink* link : {&looks_, &reads_})
    if (*link) database_.hang_up(std::exchange(*link, nullptr), true);
  if (broker_) lose_broker();
  process_.end();
  gate_.reset();
  draws_.reset();
  bank_answers_.clear();
  loading_.reset();
  commits_.reset();
  waiting_.clear();
  reading_.clear();
  read_.clear();
  reads_now_ = false;
  watched_notes_ = 0;
  submitted_ = committed_ = 0;
  is_down_ = true;
}

void Member::restart_later() {
  scheduler_.after(random_.between(Duration(0), plan_.restart_max), [this] { start(); });
}

void Member::kill(bool machine) {
  if (is_down_) return;
  // Nobody at the database hears of a machine that is gone.
  if (machine)
    for (const DatabaseLink& link : links())
      if (link) link->up_open = false;
  end(machine ? "its machine dies" : "killed");
  restart_later();
}

void Member::stop(Duration time, bool sleeps) {
  if (is_down_) return;
  say("is stopped for " + std::to_string(core::to_ms(time)) + "ms" + (sleeps ? ", asleep" : ""));
  process_.stop(time, sleeps);
  stand_still(time);
}

void Member::go_on() {
  process_.go_on();
  BrokerHost::go_on();
}

void Member::leave() {
  if (!broker_ || is_stopped()) return;
  say("leaves");
  // The last turn is over; what it waits for is committed.
  lose_broker();
  commits_->end();
}

void Member::cut(core::TimePoint until, bool up, bool down) {
  say("is cut off from the database");
  for (std::size_t server = 0; server < Database::kServers; ++server) {
    if (up) way_->up_until[server] = until;
    if (down) way_->down_until[server] = until;
  }
  cut_bank(until, up, down);
}

void Member::cut_bank(core::TimePoint until, bool up, bool down) {
  say("is cut off from the bank");
  for (std::size_t server = 0; server < Database::kServers; ++server) {
    if (up) bank_way_->up_until[server] = until;
    if (down) bank_way_->down_until[server] = until;
  }
}

void Member::snap_bank() {
  if (draws_ && draws_->link()) database_.snap(draws_->link());
}

void Member::mend() {
  for (DatabaseWay* const way : {way_.get(), bank_way_.get()}) {
    std::fill(way->up_until.begin(), way->up_until.end(), core::TimePoint{});
    way->down_until = way->up_until;
  }
}

/// Its connections to the database; null: it has none of that kind.
std::array<DatabaseLink, 4> Member::links() const {
  return {looks_, reads_, commits_ ? commits_->link() : nullptr, draws_ ? draws_->link() : nullptr};
}

void Member::snap() {
  say("loses its connections to the database");
  for (const DatabaseLink& link : links())
    if (link) database_.snap(link);
}

void Member::heal() {
  mend();
  go_on();
  start();
}

std::int64_t Member::wall_us() const {
  return Database::kUnixUs + (scheduler_.now().time_since_epoch() + wall_).count();
}

// ---- the candidate ------------------------------------------------------------------------------------

void Member::look() {
  ++look_;
  if (looks_) return read_row();
  database_.connect(way_, process_.called<DatabaseLink>([this](DatabaseLink link) {
    if (!link) return lose_sight();
    looks_ = std::move(link);
    read_row();
  }));
}

void Member::look_again() {
  ++look_;
  process_.after(kLookPause, [this] { look(); });
}

/// Nobody saw meanwhile whether the owner is alive.
void Member::lose_sight() {
  watch_->blind();
  if (looks_) database_.hang_up(std::exchange(looks_, nullptr), true);
  look_again();
}

void Member::read_row() {
  const std::uint64_t now_looks = ++look_;
  const auto lost = [this, now_looks] {
    if (now_looks == look_) lose_sight();
  };
  looks_->on_lost = process_.called<>(lost);
  process_.after(kStatementMax, lost);
  database_.read_row(looks_, process_.called<const io::OwnerRow&>(
                                 [this, now_looks, asked = process_.steady()](const io::OwnerRow& row) {
                                   if (now_looks != look_) return;
                                   watch_->may_take(row, asked) ? take(row) : look_again();
                                 }));
}

void Member::take(const io::OwnerRow& seen) {
  const std::uint64_t now_looks = ++look_;
  const auto lost = [this, now_looks] {
    if (now_looks == look_) lose_sight();
  };
  looks_->on_lost = process_.called<>(lost);
  process_.after(kStatementMax, lost);
  const io::OwnerRow mine{.epoch = seen.epoch + 1,
                          .ticket = 0,
                          .instance = instance_,
                          .claim = static_cast<std::int64_t>(random_.next() >> 1)};
  database_.take(looks_, seen, mine, process_.called<Committed>([this, now_looks, mine](Committed answer) {
    if (now_looks != look_) return;
    if (answer == Committed::warned) return lose_sight();
    if (answer == Committed::yes) return own(mine);
    if (answer != Committed::locked) return look_again();
    database_.end_idle_holder(looks_, process_.called<>([this, now_looks] {
      if (now_looks == look_) look_again();
    }));
  }));
}

// ---- the owner begins ---------------------------------------------------------------------------------

void Member::own(io::OwnerRow row) {
  say("owns the store, epoch " + std::to_string(row.epoch));
  ++look_;
  database_.hang_up(std::exchange(looks_, nullptr), true);
  owned_ = row;
  witness_.owns(row.epoch, scheduler_.now());
  commits_ = std::make_unique<OwnerCommits>(
      process_, database_, random_, way_, batches_, row, plan_.lease, plan_.away_max,
      OwnerCommits::Calls{
          .committed = [this](std::size_t turns, std::uint64_t batch) { committed(turns, batch); },
          .over = [this](OwnerCommits::End why) { commits_over(why); }});
  if (!plan_.swarm.options.budgets.front().shared) return load(0);
  find_epoch(0);
}

/// Of this owner of the shard, for banks, as Server has it: by the store's clock.
void Member::find_epoch(int tries) {
  connect_reads([this, tries](bool there) {
    const auto none = [this, tries] {
      if (tries + 1 < kClockTries) return find_epoch(tries + 1);
      end("the store's clock cannot be read");
      restart_later();
    };
    if (!there) return none();
    const std::uint64_t asked = ++look_;
    const auto lost = [this, asked, none] {
      if (asked != look_) return;
      ++look_;
      database_.hang_up(std::exchange(reads_, nullptr), true);
      none();
    };
    reads_->on_lost = process_.called<>(lost);
    process_.after(kStatementMax, lost);
    // A connection that has just been made may break.
    if (random_.percent(10)) database_.snap(reads_);
    database_.read_clock(reads_, process_.called<std::int64_t>([this, asked](std::int64_t us) {
      if (asked != look_) return;
      ++look_;
      shard_epoch_us_ = us;
      load(0);
    }));
  });
}

void Member::connect_reads(std::function<void(bool)> done) {
  if (reads_) return done(true);
  database_.connect(way_, process_.called<DatabaseLink>([this, done = std::move(done)](DatabaseLink link) {
    reads_ = std::move(link);
    done(reads_ != nullptr);
  }));
}

/// The clocks first, as the real restore() reads them.
void Member::load(int tries) {
  connect_reads([this, tries](bool there) {
    const auto none = [this, tries] {
      if (tries < kClockTries) return load(tries + 1);
      end("the store cannot be read");
      restart_later();
    };
    if (!there) return none();
    const io::ClockReading machine = clock();
    const std::uint64_t asked = ++look_;
    const auto lost = [this, asked, none] {
      if (asked != look_) return;
      database_.hang_up(std::exchange(reads_, nullptr), true);
      none();
    };
    reads_->on_lost = process_.called<>(lost);
    process_.after(kStatementMax, lost);
    database_.read_clock(reads_,
                         process_.called<std::int64_t>([this, asked, machine, tries](std::int64_t us) {
                           if (asked != look_) return;
                           const std::int64_t apart_us = uptime_us() - machine.uptime_us;
                           if (apart_us > kClocksApartMaxUs && tries < kClockTries) return load(tries + 1);
                           load_rows(machine, us);
                         }));
  });
}

void Member::load_rows(io::ClockReading machine, std::optional<std::int64_t> unix_us) {
  ++look_;
  connect_reads([this, machine, unix_us](bool there) {
    const auto fail = [this] {
      end("the store cannot be read");
      restart_later();
    };
    const auto again = [this, machine, unix_us] {
      if (reads_) database_.hang_up(std::exchange(reads_, nullptr), true);
      process_.after(kRetryPause, [this, machine, unix_us] { load_rows(machine, unix_us); });
    };
    if (!there) return again();
    const std::uint64_t asked = ++look_;
    const auto lost = [this, asked, fail] {
      if (asked == look_) fail();
    };
    reads_->on_lost = process_.called<>(lost);
    process_.after(kStatementMax, lost);
    database_.load(reads_, process_.called<const io::OwnerRow&, std::shared_ptr<const StoreModel>>(
                               [this, asked, machine, unix_us, again](
                                   const io::OwnerRow& row, std::shared_ptr<const StoreModel> rows) {
                                 if (asked != look_) return;
                                 ++look_;
                                 if (!row.is_of(owned_)) return again();
                                 process_.after(
                                     random_.between(Duration(0), plan_.load_max),
                                     [this, machine, unix_us, rows] { restore(machine, unix_us, *rows); });
                               }));
  });
}

/// The machine's clock as it is read for a life that begins: by it the core's time goes on, whatever is set
/// later.
io::ClockReading Member::clock() {
  wall_at_start_ = wall_;
  return {.unix_us = wall_us(), .uptime_us = uptime_us(), .boot = 1};
}

std::int64_t Member::uptime_us() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(process_.boot()).count() + 1;
}

void Member::restore(const io::ClockReading& machine, std::optional<std::int64_t> unix_us,
                     const StoreModel& rows) {
  LoadedStore store(rows, unix_us);
  const core::TimePoint now = scheduler_.now();
  options_ = file_;
  options_.store_durable = store.durable();
  options_.store_shared = store.shared();
  options_.wall_ms = Database::kUnixUs / 1000 + core::to_ms(wall_at_start_);
  options_.shard = "own";
  options_.shard_epoch = static_cast<std::uint64_t>(shard_epoch_us_ / 1000);
  loading_ = std::make_unique<core::Broker>(options_, random_.next());
  const auto restored = io::restore(
      *loading_, store,
      {.now = [now] { return now; }, .progress = [](std::size_t) {}, .clock = [&] { return machine; }});
  if (!restored) violated(instance_ + ": " + restored.error().message);
  // Nobody is served before this life's beginning is committed.
  submit(store.submitted);
}

void Member::serve() {
  say("serves");
  broker_ = std::move(loading_);
  gate_ = std::make_unique<io::HandoverGate>(*broker_, [this] { return scheduler_.now(); });
  draws_ = std::make_unique<BankDraws>(
      process_, database_, bank_way_,
      [this](std::size_t budget, const std::optional<core::Drawn>& drawn) {
        bank_answers_.push_back({budget, drawn});
        if (broker_) schedule_turn(scheduler_.now());
      },
      [this](const std::string& what) { say(what); });
  noted_at_ = {};
  away_ = stalled_ = false;
  change_addresses();
  schedule_turn(scheduler_.now());
}

// ---- commits ------------------------------------------------------------------------------------------

void Member::submit(core::Writes& writes) {
  ++submitted_;
  commits_->submit(std::move(writes));
  writes.clear();
}

void Member::committed(std::size_t turns, std::uint64_t batch) {
  witness_.told(batch);
  committed_ += turns;
  if (loading_) return serve();
  if (!broker_) return;
  if (watched_notes_ != 0 && watched_notes_ <= committed_) {
    watched_notes_ = 0;
    broker_->notes_saved();
  }
  while (!waiting_.empty() && waiting_.front().number <= committed_) {
    const Waiting turn = std::move(waiting_.front());
    waiting_.pop_front();
    release(*turn.outbox, true, turn.decided_at);
  }
  read_next();
}

void Member::commits_over(OwnerCommits::End why) {
  process_.after(random_.between(Duration(0), kEndMax), [this, why] {
    end(why == OwnerCommits::End::deposed        ? "deposed"
        : why == OwnerCommits::End::commits_lost ? "the database has lost commits"
                                                 : "in good order");
    restart_later();
  });
}

// ---- turns --------------------------------------------------------------------------------------------

void Member::begin_turn() {
  for (const Body& read : std::exchange(read_, {}))
    broker_->handle(core::BodyRead{read.number, read.body}, scheduler_.now());
  tell_store(scheduler_.now());
  take_bank();
}

/// What became of draws, and of hand-overs that came too late for what was drawn.
void Member::take_bank() {
  const core::TimePoint now = scheduler_.now();
  for (const core::HandoverVoid& unsent : gate_->take_void())
    broker_->handle(unsent, now);
  for (const BankAnswer& answer : std::exchange(bank_answers_, {}))
    broker_->handle(core::BankAnswered{answer.budget, answer.drawn ? &*answer.drawn : nullptr}, now);
}

/// As StoreWatch does.
void Member::tell_store(core::TimePoint now) {
  if (committed_ != committed_before_ || committed_ == submitted_) {
    committed_before_ = committed_;
    went_on_at_ = now;
  }
  if ((now - went_on_at_ >= kStandsStill) != stalled_) {
    stalled_ = !stalled_;
    broker_->handle(core::StoreStalled{stalled_}, now);
  }
  if (commits_->away() == away_) return;
  away_ = !away_;
  broker_->handle(core::StoreAway{away_}, now);
}

void Member::send_all() {
  const core::TimePoint now = scheduler_.now();
  core::Outbox& outbox = broker_->outbox();
  draws_->draw(broker_->budgets().shared.begin_draws(now));
  read_bodies();
  if (broker_->has_notes() &&
      (!outbox.writes.empty() || broker_->needs_notes() || now - noted_at_ >= kNotesEvery)) {
    if (broker_->write_notes()) watched_notes_ = submitted_ + 1;
    noted_at_ = now;
  }
  if (broker_->has_notes()) schedule_turn(now + kNotesEvery);
  if (!outbox.writes.empty()) submit(outbox.writes);
  release(outbox, false, now);
  if (committed_ == submitted_) {
    release(outbox, true, now);
  } else if (std::any_of(outbox.sends.begin(), outbox.sends.end(),
                         [](const core::Send& send) { return send.waits; })) {
    waiting_.push_back({submitted_, now, std::make_unique<core::Outbox>()});
    outbox.move_sends(*waiting_.back().outbox);
  }
  outbox.clear();
  read_next();
}

void Member::release(const core::Outbox& outbox, bool waiting, core::TimePoint decided_at) {
  witness_.releasing(decided_at, scheduler_.now(), owned_.epoch);
  for (const core::Send& send : outbox.sends) {
    if (send.waits != waiting || !gate_->may_leave(send)) continue;
    for (std::size_t item = 0; item < outbox.items(send); ++item)
      report_item(outbox, send, item);
    post(outbox, send);
  }
  if (gate_->any_void()) schedule_turn(scheduler_.now());
}

void Member::read_bodies() {
  core::Outbox& outbox = broker_->outbox();
  for (const core::BodyWanted& wanted : std::exchange(outbox.reads, {})) {
    if (!wanted.awaited) continue;
    if (wanted.of_result) violated("a result that no bound put into the store alone");
    witness_.decided(wanted.number, scheduler_.now(), owned_.epoch);
    reading_.push_back({wanted.number, submitted_ + (outbox.writes.empty() ? 0 : 1)});
  }
}

void Member::read_next() {
  if (reads_now_ || reading_.empty() || reading_.front().after > committed_) return;
  reads_now_ = true;
  const auto again = [this] {
    if (reads_) database_.hang_up(std::exchange(reads_, nullptr), true);
    ++look_;
    process_.after(kRetryPause, [this] {
      reads_now_ = false;
      read_next();
    });
  };
  connect_reads([this, again](bool there) {
    if (!there) return again();
    const std::uint64_t asked = ++look_;
    const auto lost = [this, asked, again] {
      if (asked == look_) again();
    };
    reads_->on_lost = process_.called<>(lost);
    process_.after(kReadMax, lost);
    database_.read_body(reads_, reading_.front().number,
                        process_.called<const io::OwnerRow&, std::optional<Blob>>(
                            [this, asked](const io::OwnerRow&, std::optional<Blob> body) {
                              if (asked != look_) return;
                              ++look_;
                              read_.push_back({reading_.front().number, std::move(body)});
                              reading_.pop_front();
                              reads_now_ = false;
                              if (broker_) schedule_turn(scheduler_.now());
                              read_next();
                            }));
  });
}

}  // namespace lanemq::sim
