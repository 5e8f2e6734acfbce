// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_gateways.hpp"

#include <algorithm>

namespace lanemq::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// As docs/protocol/client.md and the gateway have them: a `spend` without an answer is lost after so long,
/// and a session whose calls have places is heard of so often.
constexpr Duration kAskAgain = seconds(1), kRenewEvery = seconds(4);
constexpr Duration kTickMax = milliseconds(100);
/// Calls of one key that wait at one gateway.
constexpr std::int64_t kWaitingMax = 5;
/// The jobs of a gateway that died are cancelled after this (`orphan`), and their calls end with that.
constexpr Duration kOrphans = seconds(5);
/// A repeated message is late by so much at most.
constexpr Duration kLateMax = milliseconds(1500);

std::string key_name(std::size_t key) {
  return "caller-" + std::to_string(key);
}

}  // namespace

/// One process, and those that come after it in its place.
class SimGateways::Gateway {
 public:
  explicit Gateway(SimGateways& all) : all_(all), ahead_(all.keys_.size()) { start(); }

  void start();
  void die();
  void reconnect();
  void change_address() {
    if (link_) all_.stage_.host.change_address(link_);
  }
  void seem_gone() {
    if (link_) all_.stage_.host.take_for_gone(link_);
  }
  void ask(std::size_t key, bool for_all);

 private:
  struct Ahead {
    std::int64_t waiting = 0;
    Limits limits;  ///< as it knows them
    bool awaits = false;
    TimePoint asked_at{}, told_at{};
  };
  CallerShare& share(std::size_t key) { return all_.ledger_.share(key_name(key), session_); }
  TimePoint now() const { return all_.stage_.scheduler.now(); }
  void connect();
  void arrive();
  void tick();
  void serve(std::size_t key);
  void begin(std::size_t key);
  void end(std::size_t key);
  void say(const wire::Spend& spend);
  void heard(const std::string& header);

  SimGateways& all_;
  std::vector<Ahead> ahead_;  // by key
  std::string session_;
  Link link_;
  Decoder decoder_;
  int life_ = 0;
};

void SimGateways::Gateway::connect() {
  link_ = all_.stage_.host.connect(core::Peer::client, {},
                                   [this](const std::string& header, const std::string&) { heard(header); });
}

void SimGateways::Gateway::start() {
  session_ = "gateway-" + std::to_string(++all_.sessions_);
  for (std::size_t key = 0; key < ahead_.size(); ++key)
    ahead_[key] = {.limits = all_.keys_[key]};
  ++life_;
  connect();
  arrive();
  tick();
}

/// Without a word. What its calls were to give to others it never says; they end with their jobs.
void SimGateways::Gateway::die() {
  if (!link_) return;
  ++life_;
  for (std::size_t key = 0; key < ahead_.size(); ++key)
    for (std::int64_t i = share(key).places.used; i > 0; --i)
      all_.stage_.scheduler.after(all_.random_.between(Duration(0), kOrphans),
                                  [&ledger = all_.ledger_, key] { ledger.ended(key_name(key)); });
  all_.ledger_.died(session_, now());
  all_.stage_.host.disconnect(link_);
  all_.stage_.scheduler.after(all_.random_.between(Duration(0), all_.trouble_max_), [this, life = life_] {
    if (life == life_ && !all_.stage_.healing) start();
  });
}

void SimGateways::Gateway::reconnect() {
  if (!link_) return;
  all_.stage_.host.disconnect(link_);
  connect();
}

void SimGateways::Gateway::arrive() {
  all_.stage_.scheduler.after(all_.random_.between(Duration(0), all_.arrive_max_), [this, life = life_] {
    if (life != life_ || all_.stage_.healing) return;
    const std::size_t key = all_.random_.below(ahead_.size());
    if (ahead_[key].waiting < kWaitingMax) ++ahead_[key].waiting;
    serve(key);
    arrive();
  });
}

/// Asks where something is due: for calls that wait, ahead, for what others may have again, or to be heard
/// of.
void SimGateways::Gateway::tick() {
  all_.stage_.scheduler.after(all_.random_.between(Duration(0), kTickMax), [this, life = life_] {
    if (life != life_) return;
    for (std::size_t key = 0; key < ahead_.size(); ++key) {
      Ahead& its = ahead_[key];
      if (all_.random_.percent(5)) its.waiting = 0;  // their callers have left
      const bool renews = share(key).places.used > 0 && now() - its.told_at >= kRenewEvery;
      if (its.waiting > 0 || renews || (!all_.stage_.healing && all_.random_.percent(20))) ask(key, false);
    }
    const bool holds = std::any_of(ahead_.begin(), ahead_.end(), [&](const Ahead& its) {
      return share(static_cast<std::size_t>(&its - ahead_.data())).places.used > 0;
    });
    if (!all_.stage_.healing || holds) tick();
  });
}

void SimGateways::Gateway::serve(std::size_t key) {
  const Limits& limits = ahead_[key].limits;
  const CallerShare& its = share(key);
  const auto has = [](std::int64_t limit, const CallerShare::Part& part) {
    return limit == 0 || part.held() >= 1;
  };
  while (ahead_[key].waiting > 0 && has(limits.requests, its.requests) && has(limits.tokens, its.tokens) &&
         has(limits.places, its.places)) {
    --ahead_[key].waiting;
    begin(key);
  }
}

void SimGateways::Gateway::begin(std::size_t key) {
  all_.ledger_.changing(key_name(key), now());
  CallerShare& its = share(key);
  ++its.requests.used;
  ++its.places.used;
  all_.ledger_.used(key_name(key), 1, 0, 0);
  all_.ledger_.began(key_name(key));
  all_.stage_.scheduler.after(all_.random_.between(Duration(0), all_.call_max_), [this, key, life = life_] {
    if (life == life_) end(key);
  });
}

/// Its tokens are known now; some were counted too high before.
void SimGateways::Gateway::end(std::size_t key) {
  all_.ledger_.changing(key_name(key), now());
  CallerShare& its = share(key);
  --its.places.used;
  all_.ledger_.ended(key_name(key));
  std::int64_t tokens = all_.random_.between(0, all_.tokens_max_);
  if (all_.random_.percent(10)) tokens = -std::min(tokens, its.tokens.used);
  const std::int64_t beyond =
      std::clamp<std::int64_t>(-(its.tokens.held() - tokens), 0, std::max<std::int64_t>(tokens, 0));
  its.tokens.used += tokens;
  all_.ledger_.used(key_name(key), 0, tokens, beyond);
  if (its.tokens.held() < 0 && ahead_[key].limits.tokens > 0) ask(key, false);
}

void SimGateways::Gateway::ask(std::size_t key, bool for_all) {
  Random& random = all_.random_;
  Ahead& its = ahead_[key];
  if (!link_ || (its.awaits && now() - its.asked_at < kAskAgain)) return;
  if (random.percent(30)) its.limits = all_.keys_[key];
  all_.ledger_.changing(key_name(key), now());
  CallerShare& mine = share(key);
  const bool idle = all_.stage_.healing || random.percent(15);
  const auto ahead = [&](std::int64_t limit, std::int64_t least) {
    if (for_all) return limit;
    return limit == 0 ? 0 : least + (idle ? 0 : limit / all_.slices_);
  };
  const std::string name = key_name(key);
  wire::Spend spend{.key = name,
                    .session = session_,
                    .requests_per_minute = its.limits.requests,
                    .tokens_per_minute = its.limits.tokens,
                    .concurrency = its.limits.places,
                    .requests = mine.requests.used,
                    .requests_ahead = ahead(its.limits.requests, its.waiting),
                    .tokens = mine.tokens.used,
                    .tokens_ahead = ahead(its.limits.tokens, its.waiting > 0 ? 1 : 0),
                    .places = mine.places.used,
                    .places_ahead = ahead(its.limits.places, its.waiting),
                    .ref = {}};
  mine.tokens.said = mine.tokens.used;
  // What it does not want any more it does not use any more.
  const auto want = [](CallerShare::Part& part, std::int64_t wanted) {
    part.granted = std::min(part.granted, wanted);
  };
  want(mine.requests, spend.requests + spend.requests_ahead);
  want(mine.tokens, spend.tokens + spend.tokens_ahead);
  want(mine.places, spend.places + spend.places_ahead);
  Buffer ref_bytes;
  mine.last_ref = all_.stage_.next_ref++;
  mine.places.on_way = 0;
  spend.ref = number_ref(mine.last_ref, ref_bytes);
  its.awaits = true;
  its.asked_at = now();
  say(spend);
}

/// Some of it twice, and some again when something else was said since.
void SimGateways::Gateway::say(const wire::Spend& spend) {
  Buffer out;
  encode(spend, out);
  Random& random = all_.random_;
  all_.stage_.host.send(link_, out.view(), {});
  if (!all_.repeats_ || !random.percent(15)) return;
  if (random.percent(50)) return all_.stage_.host.send(link_, out.view(), {});
  all_.stage_.scheduler.after(random.between(Duration(0), kLateMax),
                              [this, life = life_, message = std::string(out.view())] {
                                if (life == life_ && link_) all_.stage_.host.send(link_, message, {});
                              });
}

void SimGateways::Gateway::heard(const std::string& header) {
  Items<wire::ClientReply> replies;
  if (const DecodeError* error = decoder_.decode(header, {}, replies))
    violated("a gateway cannot read: " + error->message);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const auto* const spent = std::get_if<wire::Spent>(&replies[i]);
    if (spent == nullptr) violated("a gateway heard something else than what it may use");
    for (std::size_t key = 0; key < ahead_.size(); ++key) {
      if (spent->key != key_name(key)) continue;
      // An answer to an earlier ask says nothing any more, nor does a second one.
      if (ref_number(spent->ref) != share(key).last_ref || !ahead_[key].awaits) continue;
      all_.ledger_.changing(key_name(key), now());
      CallerShare& its = share(key);
      ahead_[key].awaits = false;
      ahead_[key].told_at = now();
      its.requests.granted = spent->requests;
      its.tokens.granted = spent->tokens;
      its.places.granted = spent->places;
      its.places.on_way = 0;
      serve(key);
    }
  }
}

// ---- all of them --------------------------------------------------------------------------------------

SimGateways::SimGateways(Stage& stage, CallerLedger& ledger, std::uint64_t seed)
    : stage_(stage), ledger_(ledger), random_(seed) {
  keys_.resize(static_cast<std::size_t>(random_.between(1, 3)));
  for (Limits& limits : keys_)
    draw_limits(limits);
  arrive_max_ = random_.one_of<Duration>({milliseconds(100), milliseconds(500), seconds(3)});
  call_max_ = random_.one_of<Duration>({milliseconds(200), seconds(3), seconds(20)});
  trouble_max_ = random_.one_of<Duration>({seconds(2), seconds(10), seconds(40)});
  slices_ = random_.one_of<std::int64_t>({16, 16, 4, 1});
  tokens_max_ = random_.one_of<std::int64_t>({10, 300, 4000});
  changes_ = random_.percent(30);
  repeats_ = random_.percent(50);
  for (std::int64_t i = random_.between(1, 4); i > 0; --i)
    gateways_.push_back(std::make_unique<Gateway>(*this));
  start_trouble();
}

SimGateways::~SimGateways() = default;

void SimGateways::draw_limits(Limits& limits) {
  limits.requests = random_.one_of<std::int64_t>({0, random_.between(1, 15), random_.between(16, 600)});
  limits.tokens = random_.one_of<std::int64_t>({0, random_.between(1, 300), random_.between(300, 20'000)});
  limits.places = random_.one_of<std::int64_t>({0, random_.between(1, 4), random_.between(4, 40)});
}

void SimGateways::start_trouble() {
  stage_.scheduler.after(random_.between(Duration(0), trouble_max_), [this] {
    if (stage_.healing) return;
    make_trouble();
    start_trouble();
  });
}

void SimGateways::make_trouble() {
  Gateway& gateway = *gateways_[random_.below(gateways_.size())];
  switch (random_.below(5)) {
    case 0:
      return gateway.die();
    case 1:
      return gateway.reconnect();
    case 2:
      return gateway.change_address();
    case 3:
      return gateway.seem_gone();
    default:
      break;
  }
  if (!changes_) return;
  Limits& limits = keys_[random_.below(keys_.size())];
  const auto change = [&](std::int64_t& limit) {
    if (limit > 0) limit = std::max<std::int64_t>(limit * random_.between(20, 300) / 100, 1);
  };
  change(limits.requests);
  change(limits.tokens);
  change(limits.places);
}

void SimGateways::ask_for_all() {
  gateways_.push_back(std::make_unique<Gateway>(*this));
  for (std::size_t key = 0; key < keys_.size(); ++key)
    gateways_.back()->ask(key, true);
}

}  // namespace lanemq::sim
