// SPDX-License-Identifier: Apache-2.0
#include "client/library/fleet.hpp"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

#include <lanemq/text.hpp>

namespace lanemq::client {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kUnknownState = "unknown";

ClientError fleet_error(ErrorCode code, std::string message, const std::string& id) {
  return {.code = std::string(name_of(code)), .message = std::move(message), .id = id, .local = true};
}

std::string comma_list(const std::vector<std::string>& endpoints) {
  std::string text;
  for (const std::string& endpoint : endpoints)
    text += (text.empty() ? "" : ",") + endpoint;
  return text;
}

ClientOptions at_endpoints(ClientOptions options, const std::vector<std::string>& endpoints) {
  options.endpoint = comma_list(endpoints);
  return options;
}

void add(ClientCounters& sum, const ClientCounters& more) {
  sum.sent += more.sent;
  sum.resent += more.resent;
  sum.answered += more.answered;
  sum.expired += more.expired;
  sum.dropped_answers += more.dropped_answers;
  sum.undecodable += more.undecodable;
  sum.reconnected += more.reconnected;
  sum.heard = std::max(sum.heard, more.heard);
}

/// Whether that is the broker's answer about a job which it does not know.
bool is_of_unknown_job(const Outcome& answer) {
  if (!answer) return answer.error().code == name_of(ErrorCode::not_found) && !answer.error().local;
  const auto* const status = std::get_if<JobStatus>(&*answer);
  return status != nullptr && status->state == kUnknownState;
}

bool is_about_job(const Request& request) {
  switch (request.kind) {
    case RequestKind::fetch:
    case RequestKind::status:
    case RequestKind::cancel:
      return true;
    case RequestKind::stream:
      return request.from_seq.has_value();
    default:
      return false;
  }
}

bool is_submit(const Request& request) {
  switch (request.kind) {
    case RequestKind::submit:
    case RequestKind::leave:
      return true;
    case RequestKind::stream:
      return !request.from_seq;
    default:
      return false;
  }
}

}  // namespace

Fleet::Fleet(const ClientOptions& options, RequestDesk& desk)
    : options_(options), desk_(desk), home_(options, desk) {}

// ---- engines ------------------------------------------------------------------------------------------

Fleet::Other* Fleet::other(std::string_view shard) const {
  const auto at =
      std::find_if(others_.begin(), others_.end(), [&](const auto& one) { return one->name == shard; });
  return at == others_.end() ? nullptr : at->get();
}

/// Null: there is none yet.
const Engine* Fleet::known_engine(std::string_view shard) const {
  if (shard.empty() || shard == routes_.home()) return &home_;
  const Other* const known = other(shard);
  return known == nullptr ? nullptr : &known->engine;
}

bool Fleet::answers(std::string_view shard) const {
  const Engine* const engine = known_engine(shard);
  return engine != nullptr && engine->answers();
}

/// The engine of a shard, made where there is none; null: it cannot be made. `endpoints`: where a broker says
/// that the shard is; empty: where the rules say.
Engine* Fleet::engine_of(std::string_view shard, const std::vector<std::string>& endpoints) {
  if (shard.empty() || shard == routes_.home()) return &home_;
  if (Other* const known = other(shard)) {
    known->engine.learn(endpoints);
    return &known->engine;
  }
  const Shard* const rule = routes_.shards().find(shard);
  std::vector<std::string> all = rule != nullptr ? rule->endpoints : std::vector<std::string>();
  for (const std::string& endpoint : endpoints)
    if (std::find(all.begin(), all.end(), endpoint) == all.end()) all.push_back(endpoint);
  return make(std::string(shard), std::move(all));
}

Engine* Fleet::make(const std::string& shard, std::vector<std::string> endpoints) {
  if (endpoints.empty() || others_.size() >= kShardsMax) return nullptr;
  if (endpoints.size() > Endpoints::kEndpointsMax) endpoints.resize(Endpoints::kEndpointsMax);
  try {
    auto made = std::make_unique<Other>(at_endpoints(options_, endpoints), desk_, shard);
    home_.join(made->engine);
    others_.push_back(std::move(made));
  } catch (const std::exception& error) {
    log("cannot connect to shard \"" + printable(shard) + "\": " + error.what());
    return nullptr;
  }
  Engine& engine = others_.back()->engine;
  for (const auto& [ref, watch] : watches_)
    watch_at(engine, ref);
  return &engine;
}

/// By index: what is called may make engines.
template <class Call>
void Fleet::each_engine(Call call) {
  call(home_, routes_.home());
  for (std::size_t i = 0; i < others_.size(); ++i)
    call(others_[i]->engine, others_[i]->name);
}

// ---- requests -----------------------------------------------------------------------------------------

/// Where a new job goes. The rules lead astray where brokers alone know the client's tenant; another shard
/// would say so, but not one that is silent. So one that answers is asked in its place: it takes the job or
/// says whose it is, be it that of the silent one.
std::string_view Fleet::of_new(const std::string& service, const std::string& client) const {
  const std::string_view by_rules = routes_.of_new(service, client);
  if (client.empty() || by_rules.empty()) return by_rules;
  const Engine* const engine = known_engine(by_rules);
  if (engine == nullptr || !engine->is_silent()) return by_rules;
  const std::vector<std::string_view> others = routes_.others_of_new(service, client);
  for (const std::string_view shard : others)
    if (answers(shard)) return shard;
  if (others.empty()) return by_rules;
  for (const Shard& shard : routes_.shards().all())
    if (answers(shard.name)) return shard.name;
  return by_rules;
}

std::string_view Fleet::shard_of(const std::string& service, const std::string& client,
                                 const std::string& id) const {
  const std::string_view remembered = id.empty() ? std::string_view() : routes_.of_job(id);
  return remembered.empty() ? of_new(service, client) : remembered;
}

void Fleet::begin(Request&& request) {
  if (home_.has_word()) learn();  // a callback asks right behind the pong
  if (request.kind == RequestKind::watch) return begin_watch(std::move(request));
  if (alone() && request.shard.empty()) {
    if (options_.follow_shards && !home_.has_spoken() && is_about_job(request))
      return begin_early(std::move(request));
    return home_.begin(std::move(request));
  }
  if (is_submit(request)) {
    const std::string_view shard = of_new(request.service, request.client);
    if (!shard.empty()) routes_.remember(request.id, shard);
    return begin_at(shard, std::move(request));
  }
  switch (request.kind) {
    case RequestKind::spend:
      return begin_at(routes_.of_spend(), std::move(request));
    case RequestKind::stats:
    case RequestKind::ping:
    case RequestKind::admin: {
      const std::string shard = request.shard;
      return begin_at(shard, std::move(request));
    }
    default:
      return begin_about_job(std::move(request));
  }
}

void Fleet::begin_at(std::string_view shard, Request request) {
  if (Engine* const engine = engine_of(shard)) return engine->begin(std::move(request));
  const std::string why = "shard \"" + printable(shard) + "\" cannot be reached: " +
                          (routes_.shards().find(shard) == nullptr
                               ? "the broker at " + printable(options_.endpoint) + " names no such shard"
                               : "the broker tells of no endpoint of it, or it cannot be connected to");
  ClientError error = fleet_error(ErrorCode::unavailable, why, request.id);
  finish_later(std::move(request), std::move(error));
}

/// Ends a request that no engine has. Called inside another one's handler.
void Fleet::finish(Request request, Outcome outcome) {
  desk_.give_back(request.body_bytes);
  request.handler(std::move(outcome));
}

/// The same from anywhere.
void Fleet::finish_later(Request request, Outcome outcome) {
  desk_.give_back(request.body_bytes);
  home_.end(std::move(request.handler), std::move(outcome));
}

// ---- requests about a job -----------------------------------------------------------------------------

void Fleet::begin_about_job(Request request) {
  const std::string_view remembered = routes_.of_job(request.id);
  if (!remembered.empty() && (remembered == routes_.home() || other(remembered) != nullptr ||
                              routes_.shards().find(remembered) != nullptr)) {
    const std::string shard(remembered);
    return begin_at(shard, std::move(request));
  }
  if (request.service.empty()) return seek(std::move(request));
  const std::string_view shard = of_new(request.service, request.client);
  begin_at(shard, std::move(request));
}

/// Asks the home broker, and where it does not know the job whether there are other shards: so that a client
/// that has just begun finds a job of theirs, and one without shards has its answer as soon as ever.
void Fleet::begin_early(Request request) {
  const std::uint64_t ref = request.ref;
  Request copy = request;
  copy.takes_place = false;
  copy.handler = [this, ref](Outcome&& answer) { answered_early(ref, std::move(answer)); };
  early_.emplace(ref, Early{.request = std::move(request)});
  home_.begin(std::move(copy));
}

void Fleet::answered_early(std::uint64_t ref, Outcome&& answer) {
  Early& early = early_.at(ref);
  if (is_of_unknown_job(answer)) {
    Request question = desk_.question_of_shards(early.request);
    question.handler = [this, ref](Outcome&& pong) { told_of_shards(ref, pong); };
    early.answer = std::move(answer);
    return home_.begin(std::move(question));
  }
  Request request = std::move(early.request);
  early_.erase(ref);
  finish(std::move(request), std::move(answer));
}

void Fleet::told_of_shards(std::uint64_t ref, const Outcome& pong) {
  Early early = std::move(early_.at(ref));
  early_.erase(ref);
  learn();
  if (!pong) early.answer = pong.error();
  if (!alone() && pong) return seek(std::move(early.request));
  finish(std::move(early.request), std::move(early.answer));
}

/// Asks all shards for the job's state: also those that have left the rules, which may have it still.
void Fleet::seek(Request request) {
  std::vector<std::string> shards{routes_.home()};
  const auto add_shard = [&shards](const std::string& name) {
    if (std::find(shards.begin(), shards.end(), name) == shards.end()) shards.push_back(name);
  };
  for (const Shard& shard : routes_.shards().all())
    add_shard(shard.name);
  for (const auto& one : others_)
    add_shard(one->name);
  if (shards.size() == 1) return home_.begin(std::move(request));

  const std::uint64_t ref = request.ref;
  const Request question = desk_.question_of_state(request);
  const auto time = std::chrono::duration_cast<milliseconds>(*question.deadline - request.asked);
  sought_.emplace(ref, Sought{std::move(request), JobSearch(shards.size(), time)});
  for (const std::string& shard : shards) {
    Engine* const engine = engine_of(shard);
    if (engine == nullptr) {
      found(ref, shard, fleet_error(ErrorCode::unavailable, "it cannot be reached", {}));
      continue;
    }
    Request asked = question;
    asked.handler = [this, ref, shard](Outcome&& answer) { found(ref, shard, std::move(answer)); };
    engine->begin(std::move(asked));
  }
}

/// A shard has answered, or its time is over.
void Fleet::found(std::uint64_t ref, const std::string& shard, Outcome&& answer) {
  const auto at = sought_.find(ref);
  if (at == sought_.end()) return;
  const JobSearch::State state = at->second.search.hear(shard, answer);
  if (state == JobSearch::State::open) return;
  Sought over = std::move(at->second);
  sought_.erase(at);
  each_engine([ref](Engine& engine, const std::string&) { engine.drop(ref); });
  Request& request = over.request;
  if (state == JobSearch::State::found) routes_.remember(request.id, shard);
  if (state == JobSearch::State::unsure) {
    ClientError error = over.search.why_unsure(request.id);
    return finish_later(std::move(request), std::move(error));
  }
  if (request.kind == RequestKind::status) return finish_later(std::move(request), std::move(answer));
  // What nobody knows is answered by the home broker, as each of them would.
  begin_at(state == JobSearch::State::found ? std::string_view(shard) : std::string_view(),
           std::move(request));
}

bool Fleet::seen(const std::string& id, std::int64_t seq) {
  bool changed = false;
  each_engine([&](Engine& engine, const std::string&) { changed |= engine.seen(id, seq); });
  return changed;
}

// ---- watches ------------------------------------------------------------------------------------------

void Fleet::begin_watch(Request request) {
  for (const Shard& shard : routes_.shards().all())
    static_cast<void>(engine_of(shard.name));
  const std::uint64_t ref = request.ref;
  request.takes_place = false;  // watch_ended() gives it back
  watches_.emplace(ref, std::move(request));
  each_engine([this, ref](Engine& engine, const std::string&) { watch_at(engine, ref); });
}

void Fleet::watch_at(Engine& engine, std::uint64_t ref) {
  Request copy = watches_.at(ref);
  copy.handler = [this, ref](Outcome&& outcome) { watch_ended(ref, std::move(outcome)); };
  engine.begin(std::move(copy));
}

/// Where one shard refuses it, or the client is closed, it is over at all of them.
void Fleet::watch_ended(std::uint64_t ref, Outcome&& outcome) {
  const auto at = watches_.find(ref);
  if (at == watches_.end()) return;
  Request request = std::move(at->second);
  watches_.erase(at);
  each_engine([ref](Engine& engine, const std::string&) { engine.drop(ref); });
  desk_.give_back(request.body_bytes);
  request.handler(std::move(outcome));
}

// ---- turns --------------------------------------------------------------------------------------------

void Fleet::process() {
  home_.process();
  learn();
  if (others_.empty() && !home_.has_moved()) return;
  for (std::size_t i = 0; i < others_.size(); ++i)
    others_[i]->engine.process();
  each_engine([this](Engine& engine, const std::string& shard) { move(engine, shard); });
  let_go();
}

/// Takes in what brokers say of shards. The rules are the home broker's: those of others may differ while an
/// operator changes them, and are not needed, since who takes no job says who does.
void Fleet::learn() {
  if (!options_.follow_shards) return;
  for (const auto& one : others_) {
    const std::optional<ClusterWord> word = one->engine.take_word();
    if (word && !word->shard.empty() && word->shard != one->name)
      log("the broker at " + printable(one->with.endpoint) + " is of shard \"" + printable(word->shard) +
          "\", and not of \"" + printable(one->name) + "\"");
  }
  const std::optional<ClusterWord> word = home_.take_word();
  if (!word) return;
  if (!routes_.learn(*word))
    log("the shards that the broker at " + printable(options_.endpoint) + " tells of cannot be read");
  // What waits at the home engine is its shard's: no broker of another one knows it.
  for (const Shard& shard : routes_.shards().all())
    if (shard.name != routes_.home()) home_.forget(shard.endpoints);
  for (const auto& one : others_) {
    const Shard* const rule = routes_.shards().find(one->name);
    one->gone = rule == nullptr || one->name == routes_.home();
    if (rule != nullptr) one->engine.learn(rule->endpoints);
  }
  if (watches_.empty()) return;
  for (const Shard& shard : routes_.shards().all())
    static_cast<void>(engine_of(shard.name));
}

/// Sends the jobs on that the engine's broker has not taken.
void Fleet::move(Engine& engine, const std::string& shard) {
  if (!engine.has_moved()) return;
  const std::string from = shard;
  for (Moved& moved : engine.take_moved()) {
    Request& request = moved.request;
    if (!options_.follow_shards || ++request.moves > ShardRoutes::kMovesMax) {
      ClientError error = sent_on_too_often(request.id, from, moved.shard);
      finish_later(std::move(request), std::move(error));
      continue;
    }
    routes_.remember(request.id, moved.shard);
    routes_.sent_on(request.service, request.client, moved.shard);
    const Engine* const to = engine_of(moved.shard, moved.endpoints);
    if (request.kind == RequestKind::leave && to != nullptr && to->is_silent()) {
      // Who leaves a job does not wait for long, and is told here that nobody has it.
      ClientError error =
          fleet_error(ErrorCode::unavailable,
                      "shard \"" + printable(moved.shard) + "\" takes the job and does not answer; try again",
                      request.id);
      finish_later(std::move(request), std::move(error));
      continue;
    }
    begin_at(moved.shard, std::move(request));
  }
}

/// Drops the engines of shards that have left the rules, once nothing but watches is pending there.
void Fleet::let_go() {
  std::erase_if(others_, [this](const auto& one) {
    if (!one->gone || one->engine.pending() > watches_.size()) return false;
    add(before_, one->engine.counters());
    home_.leave(one->engine);
    return true;
  });
}

std::optional<TimePoint> Fleet::next_wakeup() const {
  std::optional<TimePoint> next = home_.next_wakeup();
  for (const auto& one : others_)
    if (const std::optional<TimePoint> at = one->engine.next_wakeup())
      next = next ? std::min(*next, *at) : at;
  return next;
}

void Fleet::close() {
  for (auto& [ref, sought] : std::exchange(sought_, {})) {
    ClientError error =
        fleet_error(ErrorCode::cancelled, "the client was closed before the answer came", sought.request.id);
    finish_later(std::move(sought.request), std::move(error));
  }
  for (std::size_t i = 0; i < others_.size(); ++i)
    others_[i]->engine.close();
  home_.close();
}

/// The longest of all engines. The shard of the home engine's brokers is named where no other one's are
/// asked.
std::optional<BrokerSilence> Fleet::silence() const {
  std::optional<BrokerSilence> longest = home_.silence();
  const Shard* const rule = routes_.shards().find(routes_.home());
  if (longest && rule != nullptr && longest->endpoints == comma_list(rule->endpoints))
    longest->shard = rule->name;
  for (const auto& one : others_) {
    std::optional<BrokerSilence> other = one->engine.silence();
    if (other && (!longest || other->since < longest->since)) longest = std::move(other);
  }
  return longest;
}

ClientCounters Fleet::counters() const {
  ClientCounters sum = home_.counters();
  sum.silence = silence();
  if (others_.empty() && !before_.heard) return sum;
  add(sum, before_);
  for (const auto& one : others_)
    add(sum, one->engine.counters());
  return sum;
}

void Fleet::log(const std::string& line) {
  if (options_.log) options_.log(line);
}

}  // namespace lanemq::client
