// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/broker_host.hpp"

#include <algorithm>
#include <cstdio>

#include <xxhash.h>

#include "broker/config.hpp"

namespace lanemq::sim {
namespace {

constexpr std::size_t kRecentLeasesMax = 200;
/// Of each message of a turn, besides what is sent of it: a batch has its items whole until it is sent, and
/// says what they share once.
constexpr std::size_t kItemBytes = 64;

/// What no configuration may say is no run's: an operator's every change would be refused for it.
void check_allowed(const core::Options& options) {
  Config config;
  config.core = options;
  try {
    check_config(config);
  } catch (const ConfigError& error) {
    violated(std::string("the run drew what the configuration refuses: ") + error.what());
  }
}

}  // namespace

void Trace::add(core::TimePoint when, const std::string& line) {
  char time[32];
  std::snprintf(time, sizeof time, "%12.6f ", static_cast<double>(when.time_since_epoch().count()) / 1e6);
  lines_.push_back(time + line.substr(0, 300));
  if (echo_) std::printf("%s\n", lines_.back().c_str());
  if (lines_.size() > lines_max_) lines_.pop_front();
}

BrokerHost::BrokerHost(const Swarm& swarm, Scheduler& scheduler, Random& random, Trace* trace)
    : swarm_(swarm),
      scheduler_(scheduler),
      random_(random),
      trace_(trace),
      options_(swarm.options),
      file_(swarm.options) {
  check_allowed(swarm.options);
  start();
}

BrokerHost::BrokerHost(const Swarm& swarm, Scheduler& scheduler, Random& random, Trace* trace,
                       Watcher& watcher)
    : swarm_(swarm),
      scheduler_(scheduler),
      random_(random),
      trace_(trace),
      options_(swarm.options),
      file_(swarm.options),
      watcher_(&watcher) {
  check_allowed(swarm.options);
}

void BrokerHost::start() {
  options_ = file_;
  make_broker();
  auditor_ = std::make_unique<Auditor>(options_, edited, *broker_);
  watcher_ = auditor_.get();
}

void BrokerHost::make_broker() {
  const InCore counted;
  broker_ = std::make_unique<core::Broker>(options_, random_.next());
}

void BrokerHost::restart() {
  if (trace_ != nullptr) trace_->add(scheduler_.now(), "the broker is started again");
  dispatches_ += watcher_->dispatches();
  jobs_ += watcher_->jobs();
  lose_broker();
  start();
  change_addresses();
  if (upstreams_ == nullptr) return;
  upstreams_->configured(options_, true, scheduler_.now());
  upstreams_->memory_is_void();
}

void BrokerHost::lose_broker() {
  broker_.reset();
  if (callers_ != nullptr) callers_->broker_is_new(scheduler_.now());
  ++life_;
  inbox_.clear();
  unreachable_.clear();
  turn_at_ = core::kNever;
  last_turn_at_ = core::kNever;
  stands_until_ = {};
}

void BrokerHost::change_addresses() {
  std::vector<Link> links;
  for (const auto& [address, link] : links_)
    links.push_back(link);
  // In an order that does not hang on the hash table's.
  std::sort(links.begin(), links.end(), [](const Link& a, const Link& b) { return a->address < b->address; });
  for (const Link& link : links)
    change_address(link);
}

// ---- the network --------------------------------------------------------------------------------------

std::string BrokerHost::new_address() {
  char text[16];
  std::snprintf(text, sizeof text, "%05llu", static_cast<unsigned long long>(++addresses_));
  return text;
}

Link BrokerHost::connect(core::Peer kind, std::string envelope,
                         std::function<void(const std::string& header, const std::string& body)> receive) {
  auto link = std::make_shared<Connection>(Connection{.kind = kind,
                                                      .address = new_address(),
                                                      .envelope = std::move(envelope),
                                                      .receive = std::move(receive)});
  links_[link->address] = link;
  return link;
}

void BrokerHost::disconnect(Link& link, bool process_ended) {
  if (!link) return;
  link->alive = false;
  links_.erase(link->address);
  if (process_ended) ended_.insert(link->address);
  if (swarm_.tells_unreachable) take_for_gone(link);
  link.reset();
}

void BrokerHost::take_for_gone(const Link& link) {
  scheduler_.after(delay(), [this, kind = link->kind, address = link->address, life = life_] {
    if (life == life_) note_gone(kind, address);
  });
}

/// The broker hears in its next turn that nobody is at the address.
void BrokerHost::note_gone(core::Peer kind, const std::string& address) {
  if (is_down()) return;
  const std::pair gone(kind, address);
  if (std::find(unreachable_.begin(), unreachable_.end(), gone) == unreachable_.end())
    unreachable_.push_back(gone);
  schedule_turn(scheduler_.now() + std::chrono::microseconds(10));
}

void BrokerHost::change_address(const Link& link) {
  links_.erase(link->address);
  link->address = new_address();
  links_[link->address] = link;
}

Duration BrokerHost::delay() {
  return random_.between(swarm_.delay_min, swarm_.delay_max);
}

void BrokerHost::send(const Link& link, std::string_view header, std::string_view body) {
  link->up_at = std::max({link->up_at, scheduler_.now() + delay(), link->stalled_until});
  // What was said from an address that is no more is lost with it.
  scheduler_.at(link->up_at, [this, link, address = link->address, header = std::string(header),
                              body = std::string(body)]() mutable {
    if (!link->alive || link->address != address || is_down()) return;
    inbox_.push_back({link, std::move(header), std::move(body)});
    schedule_turn(scheduler_.now() + random_.between(Duration(0), swarm_.loop_lag));
  });
}

// ---- the loop -----------------------------------------------------------------------------------------

void BrokerHost::schedule_turn(core::TimePoint when) {
  when = std::max({when, scheduler_.now(), stands_until_});
  if (when >= turn_at_) return;
  turn_at_ = when;
  scheduler_.at(when, [this, when, life = life_] {
    if (turn_at_ != when || life != life_) return;
    turn();
  });
}

void BrokerHost::stand_still(Duration time) {
  if (is_down()) return;
  if (trace_ != nullptr)
    trace_->add(scheduler_.now(), "the broker stands still for " + std::to_string(core::to_ms(time)) + "ms");
  stands_until_ = std::max(stands_until_, scheduler_.now() + time);
  watcher_->stands_still(stands_until_);
  if (std::exchange(turn_at_, core::kNever) != core::kNever) schedule_turn(stands_until_);
}

void BrokerHost::go_on() {
  if (!stands_still()) return;
  stands_until_ = scheduler_.now();
  schedule_turn(stands_until_);
}

/// As the loop does: what is missing since the last turn, beyond what was expected, it was not there.
void BrokerHost::note_standstill() {
  constexpr Duration kStandstill = std::chrono::milliseconds(500);
  const core::TimePoint now = scheduler_.now(), before = std::exchange(last_turn_at_, now);
  if (before == core::kNever || now - before < kStandstill || now - before - kStandstill < idle_max_) return;
  const Duration how_long = now - before - idle_max_;
  if (trace_ != nullptr)
    trace_->add(now,
                "the broker knows that it stood still for " + std::to_string(core::to_ms(how_long)) + "ms");
  watcher_->stood_still(how_long, now);
  if (callers_ != nullptr) callers_->stood_still(how_long);
  calling().handle(core::StoodStill{how_long}, now);
  report();
}

void BrokerHost::turn() {
  turn_at_ = core::kNever;
  note_standstill();
  begin_turn();
  for (const Packet& packet : std::exchange(inbox_, {}))
    take(packet);
  for (const auto& [kind, address] : std::exchange(unreachable_, {})) {
    if (trace_ != nullptr) trace_->add(scheduler_.now(), "> " + address + " is unreachable");
    if (kind == core::Peer::client) {
      watcher_->client_unreachable(address, scheduler_.now());
      if (callers_ != nullptr) callers_->unreachable(address, scheduler_.now());
      calling().handle(core::ClientUnreachable{address}, scheduler_.now());
    } else {
      using Process = core::WorkerDisconnected::Process;
      const bool ended = ended_.contains(address);
      const Process process = !random_.percent(50) ? Process::unknown
                              : ended              ? Process::ended
                                                   : Process::lives;
      watcher_->worker_disconnected(address, process, scheduler_.now());
      calling().handle(core::WorkerDisconnected{address, process}, scheduler_.now());
    }
    report();
  }
  watcher_->advancing(scheduler_.now());
  calling().advance(scheduler_.now());
  report();
  send_all();
  if (auditor_) auditor_->check_memory(turn_bytes_);
  if (callers_ != nullptr) callers_->check_answered();
  plan_wakeup();
}

void BrokerHost::plan_wakeup() {
  const auto wakeup = broker_->next_wakeup();
  idle_max_ = Duration::max();
  if (!wakeup) return;
  // As a poll with a timeout in milliseconds does.
  const auto wait =
      std::chrono::ceil<std::chrono::milliseconds>(std::max(*wakeup - scheduler_.now(), Duration(0)));
  idle_max_ = wait;
  schedule_turn(scheduler_.now() + wait);
}

void BrokerHost::take(const Packet& packet) {
  if (trace_ != nullptr)
    trace_->add(scheduler_.now(), (packet.link->kind == core::Peer::client ? "> client " : "> worker ") +
                                      packet.link->address + " " + to_json(packet.header));
  ++messages_;
  if (packet.link->kind == core::Peer::client)
    take_client(packet);
  else
    take_worker(packet);
}

void BrokerHost::take_client(const Packet& packet) {
  Items<wire::ClientRequest> requests;
  if (const DecodeError* error = decoder_.decode(packet.header, {}, requests))
    violated("not decoded: " + error->message);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests.error(i) != nullptr) violated("not decoded: " + requests.error(i)->message);
    take_request(*packet.link, requests[i], packet.body.empty() ? requests.body(i) : packet.body);
    report();
  }
}

void BrokerHost::take_request(const Connection& link, const wire::ClientRequest& request,
                              std::string_view body) {
  const core::TimePoint now = scheduler_.now();
  const core::Origin from{
      .address = link.address, .envelope = link.envelope, .one_answer = !link.envelope.empty()};
  watcher_->client_says(link.address, request, body, link.envelope.size(), now);
  const auto* const spend = std::get_if<wire::Spend>(&request);
  if (spend != nullptr) {
    callers_->asked(link.address, *spend, now);
    return calling().handle(core::SpendAsked{from, spend}, now);
  }
  if (const auto* submit = std::get_if<wire::Submit>(&request))
    calling().handle(core::Submitted{from, submit, Blob::borrow(body)}, now);
  else if (const auto* cancel = std::get_if<wire::Cancel>(&request))
    calling().handle(core::CancelAsked{from, cancel}, now);
  else if (const auto* status = std::get_if<wire::StatusQuery>(&request))
    calling().handle(core::StatusAsked{from, status}, now);
  else if (const auto* fetch = std::get_if<wire::Fetch>(&request))
    calling().handle(core::FetchAsked{from, fetch}, now);
  else if (const auto* watch = std::get_if<wire::Watch>(&request))
    calling().handle(core::WatchAsked{from, watch}, now);
  else if (const auto* seen = std::get_if<wire::Seen>(&request))
    calling().handle(core::SeenSaid{from, seen}, now);
}

void BrokerHost::take_worker(const Packet& packet) {
  Items<wire::WorkerReport> reports;
  if (const DecodeError* error = decoder_.decode(packet.header, {}, reports))
    violated("not decoded: " + error->message);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports.error(i) != nullptr) violated("not decoded: " + reports.error(i)->message);
    take_worker_report(packet.link->address, reports[i], packet.body.empty() ? reports.body(i) : packet.body);
    report();
  }
}

void BrokerHost::take_worker_report(const std::string& address, const wire::WorkerReport& report,
                                    std::string_view body) {
  const core::TimePoint now = scheduler_.now();
  watcher_->worker_says(address, report, body, now);
  if (upstreams_ != nullptr) {
    if (const auto* outcome = std::get_if<wire::Outcome>(&report))
      upstreams_->told({outcome->job, outcome->attempt}, outcome->usage, false, now);
    if (const auto* failure = std::get_if<wire::Failure>(&report))
      upstreams_->told({failure->job, failure->attempt}, failure->usage, failure->error_class == "quota",
                       now);
  }
  if (const auto* ready = std::get_if<wire::Ready>(&report))
    calling().handle(core::WorkerReady{address, ready}, now);
  else if (const auto* chunk = std::get_if<wire::Chunk>(&report))
    calling().handle(core::ChunkReported{address, chunk, Blob::borrow(body)}, now);
  else if (const auto* progress = std::get_if<wire::Progress>(&report))
    calling().handle(core::ProgressReported{address, progress}, now);
  else if (const auto* outcome = std::get_if<wire::Outcome>(&report))
    calling().handle(core::OutcomeReported{address, outcome, Blob::borrow(body)}, now);
  else if (const auto* failure = std::get_if<wire::Failure>(&report))
    calling().handle(core::FailureReported{address, failure, Blob::borrow(body)}, now);
  else if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&report))
    calling().handle(core::HeartbeatHeard{address, heartbeat}, now);
  else if (std::holds_alternative<wire::Bye>(report))
    calling().handle(core::WorkerLeaving{address}, now);
}

void BrokerHost::drain() {
  if (trace_ != nullptr) trace_->add(scheduler_.now(), "drain");
  watcher_->drain_asked(scheduler_.now());
  calling().handle(core::DrainAsked{}, scheduler_.now());
  report();
  schedule_turn(scheduler_.now());
}

void BrokerHost::operate(const wire::AdminQuery& query) {
  if (is_down()) return;
  const core::TimePoint now = scheduler_.now();
  Buffer header;
  encode(query, header);
  if (trace_ != nullptr) trace_->add(now, "> operator " + to_json(header.view()));
  Items<wire::ClientRequest> requests;
  if (const DecodeError* error = decoder_.decode(header.view(), {}, requests))
    violated("not decoded: " + error->message);
  const auto& asked = std::get<wire::AdminQuery>(requests[0]);
  watcher_->operator_asks(asked, now);
  if ((asked.verb == "limit" || asked.verb == "lane") && !asked.dry_run) set(asked);
  const core::Origin from{.address = "operator", .envelope = {}, .peer = core::Peer::admin};
  static const core::OptionEditor kEdit = edited;
  calling().handle(core::AdminAsked{from, &asked, &kEdit}, now);
  report();
  schedule_turn(now);
}

/// What an operator sets counts for the upstreams too, where the configuration could say it.
void BrokerHost::set(const wire::AdminQuery& asked) {
  const bool of_lane = asked.verb == "lane";
  const auto named = [&](const auto& things) {
    return std::any_of(things.begin(), things.end(), [&](const auto& of) { return of.name == asked.name; });
  };
  if (!(of_lane ? named(options_.lanes) : named(options_.budgets))) return;
  const Result<core::Options> wanted =
      edited(options_, {.of = of_lane ? core::OptionEdit::Of::lane : core::OptionEdit::Of::budget,
                        .name = asked.name,
                        .key = asked.key,
                        .setting = asked.setting,
                        .value = asked.value});
  if (!wanted) return;
  options_ = *wanted;
  if (upstreams_ != nullptr) upstreams_->configured(options_, false, scheduler_.now());
}

void BrokerHost::reload() {
  reload(swarm_.options);
}

void BrokerHost::reload(const core::Options& options) {
  if (is_down()) return;
  if (trace_ != nullptr)
    trace_->add(scheduler_.now(), "the configuration is read again\n" + describe_limits(options));
  const std::int64_t wall_ms = options_.wall_ms;
  file_ = options_ = options;
  options_.wall_ms = wall_ms;
  watcher_->reloaded(options_, scheduler_.now());
  if (upstreams_ != nullptr) upstreams_->configured(options_, true, scheduler_.now());
  calling().handle(core::OptionsChanged{&options_}, scheduler_.now());
  report();
  schedule_turn(scheduler_.now());
}

void BrokerHost::give_up_running() {
  if (trace_ != nullptr) trace_->add(scheduler_.now(), "give up what runs");
  watcher_->running_given_up(scheduler_.now());
  calling().give_up_running(scheduler_.now());
  report();
  send_all();
}

void BrokerHost::report() {
  core::Outbox& outbox = broker_->outbox();
  for (; reported_notices_ < outbox.notices.size(); ++reported_notices_)
    watcher_->noticed(outbox.notices[reported_notices_]);
  // A batch may have grown since it was looked at last. The auditor is shown the order of the decisions,
  // which is that of the messages to all peers together.
  struct New {
    std::size_t order, send, item;
  };
  std::vector<New> news;
  reported_.resize(outbox.sends.size());
  for (std::size_t i = 0; i < reported_.size(); ++i) {
    if (reported_[i] == outbox.items(outbox.sends[i])) continue;
    const std::vector<std::size_t> order = outbox.order(outbox.sends[i]);
    for (; reported_[i] < order.size(); ++reported_[i])
      news.push_back({order[reported_[i]], i, reported_[i]});
  }
  std::sort(news.begin(), news.end(), [](const New& a, const New& b) { return a.order < b.order; });
  for (const New& one : news)
    report_item(outbox, outbox.sends[one.send], one.item);
  watcher_->step_over();
}

void BrokerHost::report_item(const core::Outbox& outbox, const core::Send& send, std::size_t item) {
  const std::string_view header = outbox.header(send);
  const std::string address(outbox.address(send));
  if (trace_ != nullptr)
    trace_->add(scheduler_.now(), (send.peer == core::Peer::client   ? "  < client "
                                   : send.peer == core::Peer::worker ? "  < worker "
                                                                     : "  < ") +
                                      address + " " +
                                      (item > 0 ? "item " + std::to_string(item) + " of " : std::string()) +
                                      to_json(header));
  digest_ =
      XXH3_64bits_withSeed(header.data(), header.size(),
                           digest_ + static_cast<std::uint64_t>(scheduler_.now().time_since_epoch().count()));
  const auto decode = [&](auto& items) {
    if (const DecodeError* error = sent_decoder_.decode(header, {}, items))
      violated("unreadable: " + error->message);
    if (items.error(item) != nullptr) violated("unreadable: " + items.error(item)->message);
    return send.body.empty() ? items.body(item) : send.body.bytes();
  };
  if (send.peer == core::Peer::client) {
    Items<wire::ClientReply> replies;
    const std::string_view body = decode(replies);
    if (const auto* spent = std::get_if<wire::Spent>(&replies[item]))
      callers_->answered(*spent, scheduler_.now());
    watcher_->sent_to_client(address, replies[item], body);
  } else if (send.peer == core::Peer::admin) {
    Items<wire::ClientReply> replies;
    decode(replies);
    watcher_->sent_to_operator(replies[item]);
  } else {
    Items<wire::WorkerCommand> commands;
    const std::string_view body = decode(commands);
    watcher_->sent_to_worker(address, commands[item], body);
    if (const auto* offer = std::get_if<wire::JobOffer>(&commands[item])) note_offer(*offer);
    if (const auto* acked = std::get_if<wire::Acked>(&commands[item]);
        acked != nullptr && upstreams_ != nullptr)
      for (const wire::Lease& lease : acked->jobs)
        upstreams_->acknowledged(lease);
  }
}

void BrokerHost::note_offer(const wire::JobOffer& offer) {
  const auto [place, fresh] = life_of_number_.try_emplace(offer.job, life_);
  if (auditor_ && !fresh && place->second != life_)
    violated("a job has the number of another one before the restart");
  if (upstreams_ != nullptr)
    upstreams_->offered(offer, is_durable(), decided_at(offer.job), scheduler_.now());
  recent_leases_.push_back({offer.job, offer.attempt});
  if (recent_leases_.size() > kRecentLeasesMax) recent_leases_.pop_front();
}

void BrokerHost::send_all() {
  core::Outbox& outbox = broker_->outbox();
  turn_bytes_ = 0;
  for (const core::Send& send : outbox.sends) {
    turn_bytes_ += outbox.header(send).size() + send.body.size() + sizeof send;
    turn_bytes_ += outbox.address(send).size() + outbox.envelope(send).size();
    turn_bytes_ += outbox.items(send) * kItemBytes;
    post(outbox, send);
  }
  outbox.clear();
  reported_.clear();
  reported_notices_ = 0;
}

void BrokerHost::post(const core::Outbox& outbox, const core::Send& send) {
  ++messages_;
  const std::string address(outbox.address(send));
  const auto place = links_.find(address);
  if (place == links_.end()) {
    if (send.peer != core::Peer::admin && swarm_.tells_unreachable) note_gone(send.peer, address);
    return;
  }
  const Link& link = place->second;
  link->down_at = std::max({link->down_at, scheduler_.now() + delay(), link->stalled_until});
  scheduler_.at(link->down_at, [link, address, header = std::string(outbox.header(send)),
                                body = std::string(send.body.bytes())] {
    if (link->alive && link->address == address) link->receive(header, body);
  });
}

}  // namespace lanemq::sim
