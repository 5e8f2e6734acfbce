// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster/cluster_peers.hpp"

#include <algorithm>

namespace lanemq::sim {
namespace {

using core::Duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kPendingMax = 6;
/// As long may a broker say nothing to a client.
constexpr Duration kSilenceMax = seconds(3);
constexpr Duration kOwnerLookEvery = milliseconds(250);
constexpr Duration kAgainMax = seconds(1);
constexpr Duration kWorkMax = seconds(3);
/// The part of a job's body that comes back.
constexpr std::size_t kEchoed = 20;

}  // namespace

// ---- clients ------------------------------------------------------------------------------------------

ClusterClient::ClusterClient(ClusterStage& stage) : stage_(stage) {
  look();
  think();
}

std::size_t ClusterClient::pending() const {
  return static_cast<std::size_t>(
      std::count_if(tasks_.begin(), tasks_.end(), [](const auto& task) { return task.second.durable; }));
}

void ClusterClient::think() {
  stage_.scheduler.after(stage_.random.between(milliseconds(50), milliseconds(2500)), [this] {
    if (stage_.healing) return;
    Random& random = stage_.random;
    if (tasks_.size() < kPendingMax) {
      const std::uint64_t number = stage_.next_task++;
      const auto& lanes = stage_.plan.swarm.options.lanes;
      const core::LaneOptions& lane = lanes[random.below(lanes.size())];
      Task task{.body = "q" + std::to_string(number) + ".", .lane = lane.name, .durable = lane.durable};
      if (stage_.plan.tokens_most > 0) task.tokens = random.between(std::int64_t{1}, stage_.plan.tokens_most);
      // Large ones are not loaded with their jobs.
      if (random.percent(20)) task.body.resize(StoreModel::kBodyReadMax + 100, 'x');
      const std::string id = "job-" + std::to_string(number);
      tasks_[id] = task;
      submit(id);
    } else if (random.percent(20)) {
      const auto place = std::next(tasks_.begin(), static_cast<std::ptrdiff_t>(random.below(tasks_.size())));
      Buffer ref;
      stage_.witness.cancels(place->first);
      say(wire::Cancel{.id = place->first, .ref = number_ref(stage_.next_ref++, ref)});
    }
    think();
  });
}

/// Whether the broker is there, as the transport and its silence tell.
void ClusterClient::look() {
  Member& member = *stage_.members[at_];
  const core::TimePoint now = stage_.scheduler.now();
  if (link_ && member.serves() && !member.is_stopped()) alive_at_ = now;
  const bool refused = !member.serves();
  if (refused || now - alive_at_ > kSilenceMax)
    follow((at_ + 1) % stage_.members.size());
  else if (life_ != member.life())
    follow(at_);
  stage_.scheduler.after(kOwnerLookEvery, [this] { look(); });
}

void ClusterClient::follow(std::size_t at) {
  if (link_) stage_.members[at_]->disconnect(link_);
  at_ = at;
  Member& member = *stage_.members[at];
  if (!member.serves()) return;
  life_ = member.life();
  alive_at_ = stage_.scheduler.now();
  link_ = member.connect(core::Peer::client, {},
                         [this](const std::string& header, const std::string& body) { heard(header, body); });
  asked_.clear();
  for (const auto& [id, task] : tasks_)
    submit(id);
}

void ClusterClient::submit(const std::string& id) {
  const Task& task = tasks_[id];
  const std::uint64_t ref = stage_.next_ref++;
  stage_.witness.asks(ref, id, task.durable, task.tokens);
  asked_[ref] = id;
  Buffer ref_bytes;
  if (task.fetches)
    return say(wire::Fetch{.id = id, .wait_ms = 60'000, .from_seq = {}, .ref = number_ref(ref, ref_bytes)});
  wire::Submit message;
  message.service = "ask";
  message.id = id;
  message.lane = task.lane;
  message.client = "somebody";
  message.reply = "both";
  message.cost = wire::Cost{.input_tokens = task.tokens, .output_tokens = 0};
  message.ref = number_ref(ref, ref_bytes);
  say(message, task.body);
}

void ClusterClient::fetch(const std::string& id) {
  tasks_[id] = {.body = {}, .lane = {}, .durable = true, .fetches = true};
  submit(id);
}

template <class Message>
void ClusterClient::say(const Message& message, std::string_view body) {
  if (!link_) return;
  Buffer out;
  const bool inside = !body.empty() && body.size() <= limits::inline_bytes_max;
  if (inside)
    encode(message, body, out);
  else
    encode(message, out);
  stage_.members[at_]->send(link_, out.view(), inside ? std::string_view{} : body);
}

void ClusterClient::heard(const std::string& header, const std::string& body) {
  Items<wire::ClientReply> replies;
  if (const DecodeError* error = decoder_.decode(header, {}, replies))
    violated("a client cannot read: " + error->message);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const std::string_view said = body.empty() ? replies.body(i) : std::string_view(body);
    if (const auto* result = std::get_if<wire::JobResult>(&replies[i])) {
      const std::uint64_t ref = ref_number(result->ref).value_or(0);
      const auto asked = asked_.find(ref);
      const auto task = asked == asked_.end() ? tasks_.end() : tasks_.find(asked->second);
      if (task != tasks_.end() && !task->second.fetches &&
          said != "A:" + task->second.body.substr(0, kEchoed))
        violated("a client heard \"" + std::string(said) + "\" of " + asked->second);
      over(ref, "");
    } else if (const auto* error = std::get_if<wire::ErrorReply>(&replies[i])) {
      over(ref_number(error->ref).value_or(0), error->code);
    } else if (const auto* status = std::get_if<wire::StatusReply>(&replies[i])) {
      over(ref_number(status->ref).value_or(0), "waited in vain");
    }
  }
}

void ClusterClient::over(std::uint64_t ref, std::string_view code) {
  const auto asked = asked_.extract(ref);
  if (asked.empty()) return;
  const std::string id = asked.mapped();
  if (code.empty() || code == "cancelled" || code == "worker_lost" || code == "upstream_failed") {
    tasks_.erase(id);
    return;
  }
  stage_.scheduler.after(stage_.random.between(milliseconds(100), kAgainMax), [this, id] {
    if (tasks_.contains(id)) submit(id);
  });
}

// ---- workers ------------------------------------------------------------------------------------------

ClusterWorker::ClusterWorker(ClusterStage& stage, std::size_t number)
    : stage_(stage), name_("worker-" + std::to_string(number)), at_(number % stage.members.size()) {
  start();
}

void ClusterWorker::start() {
  ++life_;
  bodies_.clear();
  wakeup_at_ = core::kNever;
  worker::SessionOptions options;
  options.name = name_;
  options.version = "1";
  options.capacity = static_cast<std::size_t>(stage_.random.between(1, 8));
  options.services = {"ask"};
  session_ = std::make_unique<worker::Session>(std::move(options));
  connect();
  session_->connected(now());
  flush();
}

void ClusterWorker::crash() {
  ++life_;
  session_.reset();
  for (const Lease& lease : calls_)
    stage_.witness.call_ends(lease.first, lease.second, stage_.scheduler.now());
  calls_.clear();
  if (link_) stage_.members[linked_at_]->disconnect(link_, true);
  stage_.scheduler.after(stage_.random.between(Duration(0), seconds(3)), [this, life = life_] {
    if (life == life_) start();
  });
}

void ClusterWorker::connect() {
  if (link_) stage_.members[linked_at_]->disconnect(link_);
  linked_at_ = at_;
  link_ = stage_.members[at_]->connect(
      core::Peer::worker, {},
      [this](const std::string& header, const std::string& body) { heard(header, body); });
}

void ClusterWorker::heard(const std::string& header, const std::string& body) {
  Items<wire::WorkerCommand> commands;
  if (const DecodeError* error = decoder_.decode(header, {}, commands))
    violated("a worker cannot read: " + error->message);
  for (std::size_t i = 0; i < commands.size() && session_; ++i) {
    if (commands.error(i) != nullptr) violated("a worker cannot read: " + commands.error(i)->message);
    if (const auto* offer = std::get_if<wire::JobOffer>(&commands[i]))
      bodies_[{offer->job, offer->attempt}] = body.empty() ? std::string(commands.body(i)) : body;
    worker::Effects effects;
    session_->receive(commands[i], now(), effects);
    act_on(effects);
  }
  flush();
}

void ClusterWorker::act_on(const worker::Effects& effects) {
  for (const worker::Effect& effect : effects) {
    if (const auto* begin = std::get_if<worker::StartJob>(&effect)) {
      stage_.witness.calls(begin->lease.job, begin->lease.attempt, stage_.scheduler.now());
      calls_.insert({begin->lease.job, begin->lease.attempt});
      stage_.scheduler.after(stage_.random.between(milliseconds(10), kWorkMax),
                             [this, life = life_, lease = begin->lease] {
                               if (life == life_) finish(lease);
                             });
    } else if (const auto* cancel = std::get_if<worker::CancelJob>(&effect)) {
      stage_.scheduler.after(milliseconds(1), [this, life = life_, lease = cancel->lease] {
        if (life == life_) finish(lease);
      });
    } else if (std::holds_alternative<worker::Reconnect>(effect)) {
      at_ = (at_ + 1) % stage_.members.size();
      connect();
      session_->connected(now());
    }
  }
}

void ClusterWorker::finish(wire::Lease lease) {
  if (calls_.erase({lease.job, lease.attempt}) > 0)
    stage_.witness.call_ends(lease.job, lease.attempt, stage_.scheduler.now());
  const auto body = bodies_.extract(Lease(lease.job, lease.attempt));
  if (body.empty() || !session_) return;
  worker::Effects effects;
  if (stage_.random.percent(10))
    session_->finish(lease,
                     worker::JobOutcome::failure(
                         {.error_class = ErrorClass::retry, .code = "failed", .message = "as drawn"}),
                     now(), effects);
  else
    session_->finish(lease,
                     worker::JobOutcome::success(Blob::copy("A:" + body.mapped().substr(0, kEchoed)),
                                                 std::nullopt, std::nullopt),
                     now(), effects);
  act_on(effects);
  flush();
}

void ClusterWorker::flush() {
  if (!session_ || !link_) return;
  worker::Outbox& outbox = session_->outbox();
  for (; !outbox.empty(); outbox.pop()) {
    const worker::Outbox::Message message = outbox.front();
    const std::string_view body = message.body != nullptr ? message.body->bytes() : std::string_view{};
    stage_.members[linked_at_]->send(link_, message.header, body);
  }
  plan_wakeup();
}

void ClusterWorker::plan_wakeup() {
  const lanemq::TimePoint due = session_->next_wakeup();
  if (due == lanemq::TimePoint::max()) return;
  const auto when = std::max(core::TimePoint(std::chrono::ceil<core::Duration>(due.time_since_epoch())),
                             stage_.scheduler.now());
  if (when >= wakeup_at_ && wakeup_at_ > stage_.scheduler.now()) return;
  wakeup_at_ = when;
  stage_.scheduler.at(when, [this, life = life_, when] {
    if (life != life_ || wakeup_at_ != when || !session_) return;
    wakeup_at_ = core::kNever;
    worker::Effects effects;
    session_->advance(now(), effects);
    act_on(effects);
    flush();
  });
}

}  // namespace lanemq::sim
