// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/stage.hpp"

#include <algorithm>
#include <utility>

#include "broker/config/settings.hpp"
#include "broker/core/budgets/shared/bank.hpp"

namespace lanemq::scenario {
namespace {

/// The envelope of a REQ as the adapter packs it: one empty frame.
const std::string kReqEnvelope(2, '\0');

Words without_first(Words words, std::size_t count) {
  words.words.erase(words.words.begin(),
                    words.words.begin() + static_cast<std::ptrdiff_t>(std::min(count, words.words.size())));
  return words;
}

/// Sets a thing's keys as the configuration does.
template <class Set>
void set_all(Words& words, Set set) {
  for (const auto& [key, value] : std::exchange(words.fields, {}))
    try {
      set(key, value);
    } catch (const ConfigError& error) {
      throw TranscriptError(key + "=" + value + ": " + error.what());
    }
}

}  // namespace

// ---- set-up -------------------------------------------------------------------------------------------

void Stage::add_lane(Words words) {
  core::LaneOptions lane{.name = words.word(1)};
  lane.is_default = words.word(2) == "default";
  set_all(words, [&](const auto& key, const auto& value) { config::set_lane_key(lane, key, value); });
  options_.lanes.push_back(std::move(lane));
}

/// A key of the last budget, with limits of its own.
void Stage::add_key(Words words) {
  if (options_.budgets.empty()) throw TranscriptError("a key belongs to the budget before it");
  core::KeyOptions key{.name = words.word(1)};
  set_all(words, [&](const auto& name, const auto& value) { config::set_key_key(key, name, value); });
  options_.budgets.back().keys.push_back(std::move(key));
}

void Stage::add_client(Words words) {
  core::ClientOptions client{.name = words.word(1)};
  set_all(words, [&](const auto& key, const auto& value) { config::set_client_key(client, key, value); });
  options_.clients.push_back(std::move(client));
}

void Stage::add_shard(Words words) {
  core::ShardOptions shard{.name = words.word(1)};
  set_all(words, [&](const auto& key, const auto& value) {
    settings::set_one(config::shard_table(), shard, "key of a shard", key, value);
  });
  options_.shards.push_back(std::move(shard));
}

void Stage::add_budget(Words words) {
  core::BudgetOptions budget;
  budget.name = words.word(1);
  set_all(words, [&](const auto& key, const auto& value) { config::set_budget_key(budget, key, value); });
  options_.budgets.push_back(std::move(budget));
}

void Stage::set_option(Words words) {
  if (const auto value = words.take("store")) {
    options_.store_durable = *value != "memory";
    options_.store_shared = *value == "shared";
  }
  if (words.take("bank")) banked_ = true;
  Config config{.core = std::move(options_)};
  set_all(words, [&](const auto& key, const auto& value) {
    settings::set_one(option_table(), config, "key", key, value, {"store"});
  });
  options_ = std::move(config.core);
}

void Stage::start() {
  if (options_.lanes.empty()) options_.lanes = core::default_lanes();
  if (banked_) {
    Config config{.core = std::move(options_), .bank = "the stage's"};
    config::share_budgets(config);
    options_ = std::move(config.core);
  }
  options_.shard_epoch = lives_ + 1;
  broker_ = std::make_unique<core::Broker>(options_, ++lives_);
  crashed_ = false;
  if (options_.store_durable) committed_.restore(*broker_, now_, clock_set_);
}

/// A new broker: that knows nothing, or what was committed. `clock=1h`: the wall clock was set forward while
/// it was down; `-1h`: back.
void Stage::restart(Words words) {
  const std::string clock = words.take("clock").value_or("0s");
  words.require_all_taken();
  const bool back = clock.starts_with('-');
  const core::Duration jump = (back ? -1 : 1) * parse_duration(back ? clock.substr(1) : clock);
  options_.wall_ms += core::to_ms(jump);
  clock_set_ += jump;
  waiting_.clear();
  written_ = committed_;
  uncommitted_ = false;
  notes_watched_ = false;
  if (options_.lanes.empty()) options_.lanes = core::default_lanes();
  options_.shard_epoch = lives_ + 1;
  broker_ = std::make_unique<core::Broker>(options_, ++lives_);
  crashed_ = false;
  if (!options_.store_durable) return;
  committed_.restore(*broker_, now_, clock_set_);
  turn();
}

/// While commits are off, the disk is busy: what waits for it stays.
void Stage::set_commits(bool on) {
  commits_ = on;
  if (!on) return;
  commit();
  for (Sent& sent : std::exchange(waiting_, {}))
    deliver(std::move(sent));
  if (!void_.empty()) turn();
}

/// The end of a turn as the adapter has it: what was written goes to the store.
void Stage::write() {
  core::Outbox& outbox = broker_->outbox();
  std::vector<std::uint64_t> results;
  for (const core::BodyWanted& wanted : std::exchange(outbox.reads, {})) {
    if (wanted.of_result)
      results.push_back(wanted.number);
    else if (wanted.awaited)
      broker_->handle(core::BodyRead{wanted.number, written_.body(wanted.number)}, now_);
  }
  if (!outbox.writes.empty() || broker_->has_notes()) {
    notes_watched_ = broker_->write_notes() || notes_watched_;
    written_.apply(outbox.writes);
    uncommitted_ = true;
  }
  for (const std::uint64_t number : results)
    broker_->handle(written_.result(number), now_);
  if (!commits_ || !uncommitted_) return;
  commit();
}

void Stage::commit() {
  committed_ = written_;
  uncommitted_ = false;
  if (std::exchange(notes_watched_, false)) broker_->notes_saved();
}

core::Broker& Stage::broker() {
  if (!broker_) start();
  return *broker_;
}

void Stage::direct(Words words) {
  const std::string verb = words.word(0);
  const bool set_up = verb == "lane" || verb == "budget" || verb == "key" || verb == "client" ||
                      verb == "shard" || verb == "option";
  if (set_up && broker_) throw TranscriptError("\"" + verb + "\" must stand before the first event");
  if (verb == "lane") return add_lane(std::move(words));
  if (verb == "budget") return add_budget(std::move(words));
  if (verb == "key") return add_key(std::move(words));
  if (verb == "client") return add_client(std::move(words));
  if (verb == "shard") return add_shard(std::move(words));
  if (verb == "option") return set_option(std::move(words));
  if (verb == "advance") return advance_to(now_ + parse_duration(words.word(1)));
  if (verb == "restart") return restart(std::move(words));
  if (verb == "commits") return set_commits(words.word(1) == "on");
  if (verb == "crash") {
    broker_.reset();
    crashed_ = true;
    return;
  }
  if (verb == "together") {
    together_ = true;
    return;
  }
  if (verb == "done") {
    together_ = false;
    return turn();
  }
  if (verb != "beats" && verb != "silent") throw TranscriptError("\"" + verb + "\" is no directive");
  for (std::size_t i = 1; i < words.words.size(); ++i) {
    if (verb == "beats")
      beating_.insert(words.word(i));
    else
      beating_.erase(words.word(i));
  }
}

// ---- events -------------------------------------------------------------------------------------------

void Stage::happen(Words words) {
  broker();
  const std::string who = words.word(0);
  if (who == "client" || who == "req" || who == "admin")
    client_says(who, without_first(std::move(words), 1));
  else if (who == "worker")
    worker_says(without_first(std::move(words), 1));
  else if (who == "drain")
    broker_->handle(core::DrainAsked{}, now_);
  else if (who == "disk")
    disk_is(words.word(1));
  else if (who == "bank")
    bank_happens(words);
  else if (who == "stood_still")
    stand_still(parse_duration(words.word(1)));
  else if (who == "give_up_running")
    broker_->give_up_running(now_);
  else
    throw TranscriptError(
        "events are of a client, a req, an admin, a worker, the disk or the bank, drain or stood_still; not "
        "\"" +
        who + "\"");
  if (!together_) turn();
}

/// `good` ends all that may be wrong with it.
void Stage::disk_is(const std::string& how) {
  const auto is = [&](std::string_view name) { return how == name; };
  if (!is("full") && !is("behind") && !is("stalled") && !is("away") && !is("unsafe") && !is("good"))
    throw TranscriptError("a disk is full, behind, stalled, away, unsafe or good; not \"" + how + "\"");
  if (is("full") || is("good")) broker_->handle(core::StoreFull{is("full")}, now_);
  if (is("behind") || is("good")) broker_->handle(core::StoreBehind{is("behind")}, now_);
  if (is("stalled") || is("good")) broker_->handle(core::StoreStalled{is("stalled")}, now_);
  if (is("away") || is("good")) broker_->handle(core::StoreAway{is("away")}, now_);
  if (is("unsafe") || is("good")) broker_->handle(core::StoreUnsafe{is("unsafe")}, now_);
}

/// The process was stopped: time went on, and no turn came.
void Stage::stand_still(core::Duration how_long) {
  now_ += how_long;
  broker_->handle(core::StoodStill{how_long}, now_);
}

void Stage::client_says(const std::string& kind, Words words) {
  const std::string address = words.word(0);
  if (words.word(1) == "unreachable") return broker_->handle(core::ClientUnreachable{address}, now_);
  const std::string frame = client_frame(without_first(std::move(words), 1), names_);
  wire::ClientRequest request;
  if (const DecodeError* error = decoder_.decode(frame, request)) throw TranscriptError(error->message);
  const bool req = kind == "req";
  const core::Origin from{.address = address,
                          .envelope = req ? kReqEnvelope : std::string_view{},
                          .one_answer = req,
                          .peer = kind == "admin" ? core::Peer::admin : core::Peer::client};
  if (const auto* submit = std::get_if<wire::Submit>(&request))
    broker_->handle(core::Submitted{from, submit, Blob::borrow(decoder_.body())}, now_);
  else if (const auto* cancel = std::get_if<wire::Cancel>(&request))
    broker_->handle(core::CancelAsked{from, cancel}, now_);
  else if (const auto* status = std::get_if<wire::StatusQuery>(&request))
    broker_->handle(core::StatusAsked{from, status}, now_);
  else if (const auto* fetch = std::get_if<wire::Fetch>(&request))
    broker_->handle(core::FetchAsked{from, fetch}, now_);
  else if (const auto* seen = std::get_if<wire::Seen>(&request))
    broker_->handle(core::SeenSaid{from, seen}, now_);
  else if (const auto* spend = std::get_if<wire::Spend>(&request))
    broker_->handle(core::SpendAsked{from, spend}, now_);
  else if (const auto* watch = std::get_if<wire::Watch>(&request))
    broker_->handle(core::WatchAsked{from, watch}, now_);
  else if (const auto* admin = std::get_if<wire::AdminQuery>(&request))
    broker_->handle(core::AdminAsked{from, admin, &edit_}, now_);
}

void Stage::worker_says(Words words) {
  const std::string address = words.word(0), op = words.word(1);
  if (op == "unreachable") return broker_->handle(core::WorkerUnreachable{address}, now_);
  if (op == "disconnected") {
    using Process = core::WorkerDisconnected::Process;
    const std::string process = words.take("process").value_or("");
    return broker_->handle(core::WorkerDisconnected{address, process == "ended"   ? Process::ended
                                                             : process == "lives" ? Process::lives
                                                                                  : Process::unknown},
                           now_);
  }
  if (const auto session = words.take("session"))
    words.add("session", session->starts_with('@') ? sessions_[session->substr(1)] : *session);
  if (const auto seqs = op == "chunks" ? words.take("seq") : std::nullopt) {
    // Many of them at once: seq=0-63.
    const std::size_t dash = std::min(seqs->find('-'), seqs->size());
    words.words[1] = "chunk";
    for (std::int64_t seq = parse_number(seqs->substr(0, dash)); seq <= parse_number(seqs->substr(dash + 1));
         ++seq) {
      Words one = words;
      one.add("seq", std::to_string(seq));
      worker_says(std::move(one));
    }
    return;
  }
  if (op == "noise") return broker_->handle(core::WorkerHeard{address}, now_);
  const std::string frame = worker_frame(without_first(std::move(words), 1), names_);
  wire::WorkerReport report;
  if (const DecodeError* error = decoder_.decode(frame, report)) throw TranscriptError(error->message);
  const auto forget = [&](const wire::Lease& lease) { std::erase(held_[address], lease); };
  if (const auto* ready = std::get_if<wire::Ready>(&report)) {
    broker_->handle(core::WorkerReady{address, ready}, now_);
  } else if (const auto* chunk = std::get_if<wire::Chunk>(&report)) {
    broker_->handle(core::ChunkReported{address, chunk, Blob::borrow(decoder_.body())}, now_);
  } else if (const auto* progress = std::get_if<wire::Progress>(&report)) {
    broker_->handle(core::ProgressReported{address, progress}, now_);
  } else if (const auto* outcome = std::get_if<wire::Outcome>(&report)) {
    forget({outcome->job, outcome->attempt});
    broker_->handle(core::OutcomeReported{address, outcome, Blob::borrow(decoder_.body())}, now_);
  } else if (const auto* failure = std::get_if<wire::Failure>(&report)) {
    forget({failure->job, failure->attempt});
    broker_->handle(core::FailureReported{address, failure, Blob::borrow(decoder_.body())}, now_);
  } else if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&report)) {
    broker_->handle(core::HeartbeatHeard{address, heartbeat}, now_);
  } else if (std::holds_alternative<wire::Bye>(report)) {
    held_.erase(address);
    broker_->handle(core::WorkerLeaving{address}, now_);
  }
}

// ---- time ---------------------------------------------------------------------------------------------

void Stage::advance_to(core::TimePoint end) {
  if (crashed_) {
    now_ = end;
    return;
  }
  broker();
  // As the loop does it: the broker is looked after when it asks for it, and at no other time.
  while (true) {
    const auto wakeup = broker_->next_wakeup();
    if (!wakeup || *wakeup > end) break;
    if (*wakeup <= turned_at_)
      throw TranscriptError("the broker wants to be woken for a time that it has had");
    now_ = std::max(*wakeup, now_);
    turn();
  }
  now_ = end;
}

/// The end of a turn, and the turns in which those workers that beat answer the broker's heartbeat.
void Stage::turn() {
  turned_at_ = now_;
  broker_->advance(now_);
  take_outbox();
  while (!beats_due_.empty()) {
    for (const std::string& worker : std::exchange(beats_due_, {})) {
      const wire::Heartbeat inventory{held_[worker]};
      broker_->handle(core::HeartbeatHeard{worker, &inventory}, now_);
    }
    broker_->advance(now_);
    take_outbox();
  }
  while (take_void() || draw()) {
    broker_->advance(now_);
    take_outbox();
  }
}

// ---- the bank of budgets that shards share --------------------------------------------------------------

/// `away`, `good`; or `SHARD wants=20`: another shard draws so many requests from the budget of that name.
void Stage::bank_happens(const Words& said) {
  Words words = said;
  const std::string what = words.word(1);
  if (what == "away" || what == "good") {
    bank_away_ = what == "away";
    return;
  }
  const std::string budget = words.take("budget").value_or("");
  const auto options = std::find_if(options_.budgets.begin(), options_.budgets.end(),
                                    [&](const core::BudgetOptions& one) { return one.name == budget; });
  if (options == options_.budgets.end()) throw TranscriptError("there is no budget \"" + budget + "\"");
  core::LaneWant want{.lane = static_cast<std::size_t>(parse_number(words.take("lane").value_or("0"))),
                      .jobs = parse_number(words.take("wants").value_or("1"))};
  words.require_all_taken();
  want.all.requests = want.jobs;
  core::Draw draw{.shard = what, .epoch = 1, .number = ++other_draws_[what], .wants = {want}};
  for (const core::ShardOptions& shard : options_.shards)
    draw.shards.push_back(shard.name);
  static_cast<void>(draw_from(*options, draw));
}

/// Makes the draws that are due. Returns whether any was.
bool Stage::draw() {
  const std::vector<core::DrawWanted> draws = broker_->budgets().shared.begin_draws(now_);
  for (const core::DrawWanted& wanted : draws) {
    core::Drawn drawn;
    if (!bank_away_) drawn = draw_from(wanted.options, wanted.draw);
    broker_->handle(core::BankAnswered{wanted.budget, bank_away_ ? nullptr : &drawn}, now_);
  }
  return !draws.empty();
}

core::Drawn Stage::draw_from(const core::BudgetOptions& budget, const core::Draw& draw) {
  core::Bank bank(budget, budget.offline_share);
  std::string& row = bank_rows_[budget.name];
  if (!row.empty())
    if (const auto restored = bank.restore(row); !restored) throw TranscriptError(restored.error().message);
  const core::Drawn drawn =
      bank.draw(draw, {.now = core::TimePoint(std::chrono::hours(24 * 365)) + now_.time_since_epoch()});
  row = bank.save();
  return drawn;
}

/// As the adapter asks when a hand-over leaves.
bool Stage::may_leave(const wire::Lease& lease) {
  const core::Record* const record = broker_->jobs().find(core::JobNumber{lease.job});
  if (record == nullptr || record->is_result) return false;
  const core::Job& job = *record->job();
  if (job.attempt != lease.attempt || job.worker() == nullptr) return false;
  if (broker_->budgets().shared.leaves(job.at_away().reservation, now_)) return true;
  void_.push_back({lease.job, static_cast<std::uint32_t>(lease.attempt)});
  return false;
}

bool Stage::take_void() {
  const std::vector<core::HandoverVoid> unsent = std::exchange(void_, {});
  for (const core::HandoverVoid& one : unsent)
    broker_->handle(one, now_);
  return !unsent.empty();
}

void Stage::take_outbox() {
  write();
  core::Outbox& outbox = broker_->outbox();
  for (const core::Send& send : outbox.sends) {
    const std::string address(outbox.address(send));
    if (send.peer != core::Peer::worker) {
      Items<wire::ClientReply> replies;
      const char* const kind = send.peer == core::Peer::admin  ? "admin"
                               : outbox.envelope(send).empty() ? "client"
                                                               : "req";
      note_items(outbox, send, {kind, address}, replies);
    } else {
      Items<wire::WorkerCommand> commands;
      note_items(outbox, send, {"worker", address}, commands);
    }
  }
  outbox.clear();
}

/// Writes down what was sent; the items of a batch are numbered.
template <class Message>
void Stage::note_items(const core::Outbox& outbox, const core::Send& send, std::vector<std::string> to,
                       Items<Message>& items) {
  if (const DecodeError* error = decoder_.decode(outbox.header(send), {}, items))
    throw TranscriptError(error->message);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (const DecodeError* error = items.error(i)) throw TranscriptError(error->message);
    if constexpr (std::is_same_v<Message, wire::WorkerCommand>) {
      if (std::holds_alternative<wire::Heartbeat>(items[i]) && beating_.count(to[1]) != 0) {
        beats_due_.push_back(to[1]);
        continue;
      }
    }
    Sent sent;
    if constexpr (std::is_same_v<Message, wire::WorkerCommand>) {
      if (const auto* welcome = std::get_if<wire::Welcome>(&items[i])) sessions_[to[1]] = welcome->session;
      if (const auto* offer = std::get_if<wire::JobOffer>(&items[i])) {
        sent.worker = to[1];
        sent.lease = {offer->job, offer->attempt};
        sent.checked = send.checked_job != 0;
      }
    }
    Words words = describe(items[i], send.body.empty() ? items.body(i) : send.body.bytes(), names_);
    if (items.is_batch())
      words.words.insert(words.words.begin(), std::to_string(i + 1) + "/" + std::to_string(items.size()));
    words.words.insert(words.words.begin(), to.begin(), to.end());
    sent.words = std::move(words);
    if (send.waits && uncommitted_)
      waiting_.push_back(std::move(sent));
    else
      deliver(std::move(sent));
  }
}

namespace {

/// Chunks that follow each other and differ in nothing else are shown as one, seq=0-63.
bool joins_chunks(Words& shown, const Words& next) {
  if (shown.words != next.words || next.words.size() < 3 || next.words[2] != "chunk") return false;
  const auto seq_of = [](const Words& words) {
    return std::find_if(words.fields.begin(), words.fields.end(),
                        [](const auto& field) { return field.first == "seq"; });
  };
  const std::string last = seq_of(shown)->second, seq = seq_of(next)->second;
  const std::size_t dash = last.find('-');
  if (parse_number(last.substr(dash == std::string::npos ? 0 : dash + 1)) + 1 != parse_number(seq))
    return false;
  Words same = shown;
  same.fields[static_cast<std::size_t>(seq_of(shown) - shown.fields.begin())].second = seq;
  if (same.fields != next.fields) return false;
  shown.fields[static_cast<std::size_t>(seq_of(shown) - shown.fields.begin())].second =
      last.substr(0, dash) + "-" + seq;
  return true;
}

}  // namespace

void Stage::deliver(Sent sent) {
  if (sent.checked && !may_leave(sent.lease)) return;
  if (!sent.worker.empty()) held_[sent.worker].push_back(sent.lease);
  if (!sent_.empty() && joins_chunks(sent_.back(), sent.words)) return;
  sent_.push_back(std::move(sent.words));
}

}  // namespace lanemq::scenario
