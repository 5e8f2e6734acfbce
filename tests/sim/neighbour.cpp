// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/neighbour.hpp"

#include <algorithm>
#include <array>

#include "tests/sim/measure.hpp"
#include "worker/session/session.hpp"

namespace lanemq::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::array<const char*, kNuisances> kNuisanceNames = {
    "floods",  "delays",  "cancels",  "deadlines",  "costs", "uses",   "waits", "asks",    "keeps",
    "streams", "rubbish", "releases", "crowds_out", "fails", "models", "lanes", "limited", "lies"};

constexpr const char* kNoisy = "noisy";
/// The upstream's limits: ten times what the three others want.
constexpr std::int64_t kRequestsPerMinute = 6000, kTokensPerMinute = 600'000;
/// What a job of the others costs, how often one of them submits one, and how long a call takes.
constexpr std::size_t kLaneDepth = 400;
constexpr std::int64_t kCost = 50;
constexpr Duration kEvery = milliseconds(100), kCall = milliseconds(100);

/// Its models are refused from then on: where nobody was answered yet, two of them speak for all.
constexpr core::TimePoint kModelsFailFrom{seconds(1)};

// The bounds of README.md, "A noisy neighbour".

/// From a submit to its hand-over, in runs in which the neighbour's jobs are as large as the budget's burst,
/// a tenth of a minute, or use more than they said: one of them, or what those under way use, may come first.
constexpr Duration kWaitMax = seconds(8);
/// Likewise where its calls fail, too: such a one keeps all that it was expected to use. The next large one
/// may come before a job that has waited for what the last one left; and once a minute one more, which finds
/// out whether a model that was refused still is.
constexpr Duration kFailingWaitMax = seconds(20);
/// In all others.
constexpr Duration kUsualWaitMax = seconds(1);
/// What the broker holds, in memory_max.
constexpr std::int64_t kMemoryFactor = 2;
/// A result is looked for so long after it came; it is kept for longer.
constexpr Duration kLookAgainAfter = seconds(20), kRetain = seconds(30);

Duration wait_max(const std::set<Nuisance>& nuisances) {
  if (!nuisances.contains(Nuisance::costs)) return kUsualWaitMax;
  const bool fails = nuisances.contains(Nuisance::fails) || nuisances.contains(Nuisance::models);
  return fails ? kFailingWaitMax : kWaitMax;
}

}  // namespace

// ---- what is judged -----------------------------------------------------------------------------------

class NeighbourWorld::Judge final : public Watcher {
 public:
  Judge(const Swarm& swarm, Duration wait_max)
      : swarm_(swarm), wait_max_(wait_max), bytes_at_start_(core_bytes()) {}

  void client_says(const std::string&, const wire::ClientRequest& request, std::string_view, std::size_t,
                   core::TimePoint now) override {
    now_ = now;
    const auto* submit = std::get_if<wire::Submit>(&request);
    if (submit == nullptr || submit->client == kNoisy) return;
    waiting_.emplace(submit->id, now);
    ++jobs_;
  }
  void worker_says(const std::string&, const wire::WorkerReport&, std::string_view,
                   core::TimePoint now) override {
    now_ = now;
  }
  void advancing(core::TimePoint now) override {
    now_ = now;
    for (const auto& [id, since] : waiting_)
      if (now - since > wait_max_) too_long(id, now - since);
    const std::int64_t most = kMemoryFactor * static_cast<std::int64_t>(swarm_.options.memory_max);
    if (core_bytes() - bytes_at_start_ > most)
      violated("the broker holds " + std::to_string(core_bytes() - bytes_at_start_) +
               " bytes, more than twice its memory_max");
  }
  void sent_to_worker(const std::string&, const wire::WorkerCommand& command, std::string_view) override {
    const auto* offer = std::get_if<wire::JobOffer>(&command);
    if (offer == nullptr) return;
    ++dispatches_;
    const auto waited = waiting_.find(std::string(offer->id));
    if (waited == waiting_.end()) return;
    longest_ = std::max(longest_, now_ - waited->second);
    if (now_ - waited->second > wait_max_) too_long(waited->first, now_ - waited->second);
    waiting_.erase(waited);
  }
  std::size_t jobs() const override { return jobs_; }
  std::size_t dispatches() const override { return dispatches_; }
  Duration longest() const { return longest_; }

 private:
  [[noreturn]] void too_long(const std::string& id, Duration waited) const {
    violated("job " + id + " of another client waits " + std::to_string(core::to_ms(waited)) +
             " ms beside the neighbour, more than " + std::to_string(core::to_ms(wait_max_)));
  }

  const Swarm& swarm_;
  const Duration wait_max_;
  const std::int64_t bytes_at_start_;
  core::TimePoint now_{};
  std::map<std::string, core::TimePoint> waiting_;  // not handed over so far
  std::size_t jobs_ = 0, dispatches_ = 0;
  Duration longest_{};
};

class NeighbourWorld::Host final : public BrokerHost {
 public:
  Host(const Swarm& swarm, Scheduler& scheduler, Random& random, Trace* trace, Watcher& watcher)
      : BrokerHost(swarm, scheduler, random, trace, watcher) {
    make_broker();
  }
};

// ---- the others ---------------------------------------------------------------------------------------

/// Submits a job now and then, and wants its answer, and wants it again later.
class NeighbourWorld::Guest {
 public:
  Guest(Scheduler& scheduler, Host& host, int number, bool names_models)
      : scheduler_(scheduler),
        host_(host),
        name_("guest-" + std::to_string(number)),
        number_(number),
        names_models_(names_models) {
    link_ = host.connect(core::Peer::client, {},
                         [this](const std::string& header, const std::string& body) { heard(header, body); });
    scheduler_.after(kEvery * number / 3, [this] { submit(); });
  }
  void stop() { stopped_ = true; }
  std::size_t pending() const { return asked_.size(); }

 private:
  void submit() {
    if (stopped_) return;
    scheduler_.after(kEvery, [this] { submit(); });
    const std::string id = name_ + "-" + std::to_string(next_++);
    wire::Submit message;
    message.service = "chat";
    message.id = id;
    const std::string lane = number_ == 0 ? "critical" : "normal";
    message.lane = lane;
    message.client = name_;
    if (names_models_) message.model = "usual";
    message.cost = wire::Cost{.input_tokens = kCost / 2, .output_tokens = kCost / 2};
    ask(id, message, "question " + id);
  }
  template <class Message>
  void ask(const std::string& id, Message& message, std::string_view body) {
    Buffer ref, out;
    const std::uint64_t number = next_ref_++;
    message.ref = number_ref(number, ref);
    asked_[number] = id;
    if (body.empty())
      encode(message, out);
    else
      encode(message, body, out);
    host_.send(link_, out.view(), {});
  }
  void heard(const std::string& header, const std::string& body) {
    Items<wire::ClientReply> replies;
    if (decoder_.decode(header, {}, replies) != nullptr) violated("a client cannot read what it hears");
    for (std::size_t i = 0; i < replies.size(); ++i) {
      if (const auto* error = std::get_if<wire::ErrorReply>(&replies[i]))
        violated(name_ + " hears of " + asked_[ref_number(error->ref).value_or(0)] + ": " +
                 std::string(error->code) + ", " + std::string(error->message));
      const auto* result = std::get_if<wire::JobResult>(&replies[i]);
      if (result == nullptr) violated(name_ + " hears what it did not ask");
      const auto asked = asked_.extract(ref_number(result->ref).value_or(0));
      if (asked.empty()) violated(name_ + " is answered twice");
      const std::string& id = asked.mapped();
      if ((body.empty() ? replies.body(i) : std::string_view(body)) != "answer to question " + id)
        violated(name_ + " gets another answer to " + id);
      if (!looked_again_.insert(id).second || stopped_) continue;
      scheduler_.after(kLookAgainAfter, [this, id] {
        wire::Fetch fetch;
        fetch.id = id;
        ask(id, fetch, {});
      });
    }
  }

  Scheduler& scheduler_;
  Host& host_;
  const std::string name_;
  const int number_;
  const bool names_models_;
  Link link_;
  Decoder decoder_;
  std::map<std::uint64_t, std::string> asked_;
  std::set<std::string> looked_again_;
  std::uint64_t next_ = 1, next_ref_ = 1;
  bool stopped_ = false;
};

// ---- workers ------------------------------------------------------------------------------------------

/// A worker: the real session, and calls that go well for the others.
class NeighbourWorld::Hand {
 public:
  Hand(Scheduler& scheduler, Random& random, Host& host, const std::set<Nuisance>& nuisances, int number)
      : scheduler_(scheduler), random_(random), host_(host), nuisances_(nuisances) {
    worker::SessionOptions options;
    options.name = "worker-" + std::to_string(number);
    options.version = "1";
    options.capacity = 64;
    options.services = {"chat"};
    session_ = std::make_unique<worker::Session>(std::move(options));
    link_ = host.connect(core::Peer::worker, {},
                         [this](const std::string& header, const std::string& body) { heard(header, body); });
    session_->connected(now());
    flush();
  }

 private:
  using Lease = std::pair<std::uint64_t, std::int64_t>;
  struct Call {
    bool noisy = false;
    std::string body;
    std::shared_ptr<worker::StreamGate> gate{};
    std::int64_t chunks = 0;
  };
  bool does(Nuisance nuisance) const { return nuisances_.contains(nuisance); }
  lanemq::TimePoint now() const { return lanemq::TimePoint(scheduler_.now().time_since_epoch()); }

  void heard(const std::string& header, const std::string& body) {
    Items<wire::WorkerCommand> commands;
    if (const DecodeError* error = decoder_.decode(header, {}, commands))
      violated("a worker cannot read: " + error->message);
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (const auto* offer = std::get_if<wire::JobOffer>(&commands[i]))
        calls_[{offer->job, offer->attempt}] = {.noisy = offer->client == kNoisy,
                                                .body = std::string(body.empty() ? commands.body(i) : body)};
      worker::Effects effects;
      session_->receive(commands[i], now(), effects);
      act_on(effects);
    }
    flush();
  }
  void act_on(worker::Effects& effects) {
    for (const worker::Effect& effect : effects) {
      if (const auto* start = std::get_if<worker::StartJob>(&effect)) {
        const Lease lease{start->lease.job, start->lease.attempt};
        calls_[lease].gate = start->gate;
        scheduler_.after(kCall, [this, lease] { go_on(lease); });
      } else if (const auto* cancel = std::get_if<worker::CancelJob>(&effect)) {
        const Lease lease{cancel->lease.job, cancel->lease.attempt};
        scheduler_.after(milliseconds(1), [this, lease] { finish(lease); });
      }
    }
  }
  void go_on(Lease lease) {
    const auto call = calls_.find(lease);
    if (call == calls_.end()) return;
    // As much as the window lets in, and then its end.
    if (call->second.gate && call->second.chunks < 20) {
      const std::string piece(1000, 'c');
      if (call->second.gate->enter(piece.size()) == worker::StreamGate::Verdict::more) {
        ++call->second.chunks;
        worker::Effects effects;
        session_->chunk({.lease = {lease.first, lease.second}, .body = Blob::copy(piece)}, now(), effects);
        act_on(effects);
        flush();
        return scheduler_.after(milliseconds(2), [this, lease] { go_on(lease); });
      }
    }
    finish(lease);
  }
  void finish(Lease lease) {
    const auto call = calls_.extract(lease);
    if (call.empty()) return;
    worker::Effects effects;
    session_->finish({lease.first, lease.second}, outcome_of(call.mapped()), now(), effects);
    act_on(effects);
    flush();
  }
  worker::JobOutcome outcome_of(const Call& call) {
    wire::Usage usage;
    usage.input_tokens = usage.output_tokens = kCost / 2;
    if (!call.noisy) return worker::JobOutcome::success(Blob::copy("answer to " + call.body), usage, {});
    JobFailure failure{.code = "failed", .message = std::string(1000, '!')};
    if (does(Nuisance::models) && scheduler_.now() >= kModelsFailFrom && random_.percent(90)) {
      failure.error_class = random_.percent(50) ? ErrorClass::limited : ErrorClass::retry;
      failure.retry_after = std::chrono::hours(24);
      return worker::JobOutcome::failure(std::move(failure));
    }
    const bool bad = random_.percent(70);
    if (bad && does(Nuisance::fails) && random_.percent(50)) {
      failure.error_class = ErrorClass::retry;
      failure.code = random_.percent(50) ? "timeout" : "connect";
      return worker::JobOutcome::failure(std::move(failure));
    }
    if (bad && does(Nuisance::limited) && random_.percent(50)) {
      failure.error_class = ErrorClass::limited;
      failure.retry_after = std::chrono::hours(24);
      return worker::JobOutcome::failure(std::move(failure));
    }
    if (bad && does(Nuisance::releases)) {
      failure.error_class = ErrorClass::released;
      return worker::JobOutcome::failure(std::move(failure));
    }
    if (bad && does(Nuisance::lies)) usage.output_tokens = std::int64_t{1} << 62;
    if (bad && does(Nuisance::uses)) {
      usage.output_tokens = random_.one_of<std::int64_t>({0, 4 * kCost});
      usage.requests = random_.one_of<std::int64_t>({0, 1, 2});
    }
    if (random_.percent(30)) {
      failure.error_class = ErrorClass::permanent;
      failure.usage = usage;
      failure.body = Blob::copy(std::string(2000, '?'));
      return worker::JobOutcome::failure(std::move(failure));
    }
    return worker::JobOutcome::success(Blob::copy(std::string(random_.below(5000), 'a')), usage, {});
  }
  void flush() {
    worker::Outbox& outbox = session_->outbox();
    while (!outbox.empty()) {
      const worker::Outbox::Message message = outbox.front();
      host_.send(link_, message.header, message.body != nullptr ? message.body->bytes() : std::string_view{});
      outbox.pop();
    }
    const lanemq::TimePoint due = session_->next_wakeup();
    if (due == lanemq::TimePoint::max()) return;
    const auto when =
        std::max(core::TimePoint(std::chrono::duration_cast<core::Duration>(due.time_since_epoch())),
                 scheduler_.now() + milliseconds(1));
    if (when >= wakeup_at_ && wakeup_at_ > scheduler_.now()) return;
    wakeup_at_ = when;
    scheduler_.at(when, [this, when] {
      if (wakeup_at_ != when) return;
      wakeup_at_ = core::kNever;
      worker::Effects effects;
      session_->advance(now(), effects);
      act_on(effects);
      flush();
    });
  }

  Scheduler& scheduler_;
  Random& random_;
  Host& host_;
  const std::set<Nuisance>& nuisances_;
  std::unique_ptr<worker::Session> session_;
  Link link_;
  Decoder decoder_;
  std::map<Lease, Call> calls_;
  core::TimePoint wakeup_at_ = core::kNever;
};

// ---- the neighbour ------------------------------------------------------------------------------------

/// One client by its name, on as many connections as it likes.
class NeighbourWorld::Noise {
 public:
  Noise(Scheduler& scheduler, Random& random, Host& host, const std::set<Nuisance>& nuisances)
      : scheduler_(scheduler), random_(random), host_(host), nuisances_(nuisances) {
    for (int i = 0; i < 20; ++i)
      links_.push_back(host.connect(core::Peer::client, {}, [](const std::string&, const std::string&) {}));
    act();
  }
  void stop() { stopped_ = true; }

 private:
  bool does(Nuisance nuisance) const { return nuisances_.contains(nuisance); }

  void act() {
    if (stopped_) return;
    scheduler_.after(milliseconds(does(Nuisance::floods) ? 5 : 20), [this] { act(); });
    for (std::uint64_t i = random_.below(does(Nuisance::floods) ? 12 : 3); i > 0; --i)
      submit();
    if (does(Nuisance::cancels))
      for (int i = 0; i < 2; ++i) {
        wire::Cancel cancel;
        const std::string id = some_id();
        cancel.id = id;
        say(cancel);
      }
    if (does(Nuisance::waits)) {
      // The same few jobs, from everywhere.
      const std::string id = "noise-" + std::to_string(next_ > 5 ? next_ - 1 - next_ % 5 : 1);
      for (int i = 0; i < 10; ++i) {
        wire::Fetch fetch;
        fetch.id = id;
        fetch.wait_ms = 60'000;
        say(fetch);
      }
    }
    if (does(Nuisance::asks)) {
      std::vector<std::string> ids(20);
      for (std::string& id : ids)
        id = some_id();
      wire::StatusQuery query;
      query.ids = {ids.begin(), ids.end()};
      say(query);
      wire::Fetch fetch;
      fetch.id = "nobody-knows";
      say(fetch);
    }
  }
  std::string some_id() {
    const std::uint64_t back = random_.below(random_.percent(50) ? 5 : 500);
    return "noise-" + std::to_string(next_ > back ? next_ - back : 1);
  }
  void submit() {
    wire::Submit message;
    const bool rubbish = does(Nuisance::rubbish) && random_.percent(50);
    const std::string id = rubbish ? some_id() : "noise-" + std::to_string(next_++);
    message.service = "chat";
    message.id = id;
    const std::string lane = rubbish && random_.percent(50) ? "nowhere"
                             : does(Nuisance::lanes)        ? "critical"
                                                     : random_.one_of<const char*>({"normal", "batch"});
    message.lane = lane;
    message.client = kNoisy;
    const std::string model = does(Nuisance::models) ? "own-" + std::to_string(random_.below(100)) : "";
    if (!model.empty()) message.model = model;
    const std::string reply = random_.one_of<const char*>({"", "both", "accepted"});
    if (!reply.empty()) message.reply = reply;
    message.cost = wire::Cost{.input_tokens = kCost / 2, .output_tokens = kCost / 2};
    if (does(Nuisance::costs))
      message.cost->input_tokens = random_.one_of<std::int64_t>({0, 1, kTokensPerMinute / 10, 1'000'000'000});
    if (does(Nuisance::delays) && random_.percent(60)) message.delay_ms = 365LL * 24 * 3'600'000;
    if (does(Nuisance::deadlines) && random_.percent(60)) message.timeout_ms = random_.between(1, 150);
    if (does(Nuisance::keeps)) message.retain_ms = 365LL * 24 * 3'600'000;
    if (does(Nuisance::streams)) message.stream = true;
    say(message, std::string(random_.one_of<std::size_t>({10, 1000, 20'000}), 'n'));
  }
  template <class Message>
  void say(Message& message, std::string_view body = {}) {
    Buffer out;
    // A ref as large as it may be.
    Buffer ref;
    const std::string text(does(Nuisance::waits) ? 60 : 8, 'r');
    DocumentWriter(ref).text(text);
    message.ref = wire::Raw{ref.view()};
    const bool inside = !body.empty() && body.size() <= limits::inline_bytes_max;
    if (inside)
      encode(message, body, out);
    else
      encode(message, out);
    host_.send(links_[random_.below(links_.size())], out.view(), inside ? std::string_view{} : body);
  }

  Scheduler& scheduler_;
  Random& random_;
  Host& host_;
  const std::set<Nuisance>& nuisances_;
  std::vector<Link> links_;
  std::uint64_t next_ = 1;
  bool stopped_ = false;
};

// ---- the run ------------------------------------------------------------------------------------------

void NeighbourWorld::draw_options(bool open) {
  const int end = open ? kNuisances : static_cast<int>(kFirstOpen);
  for (int i = 0; i < end; ++i)
    if (random_.percent(35)) nuisances_.insert(static_cast<Nuisance>(i));
  core::Options& options = swarm_.options;
  options = core::default_options();
  options.learn_limits = false;  // the auditor knows configured budgets alone
  // Who may have to wait for longer has more jobs waiting meanwhile.
  const std::size_t depth = wait_max(nuisances_) > kWaitMax ? 2 * kLaneDepth : kLaneDepth;
  for (core::LaneOptions& lane : options.lanes)
    lane.depth_max = depth;
  options.clients = {{.name = "*", .depth_max = depth / 4}};
  core::BudgetOptions budget;
  budget.name = "upstream";
  budget.window = random_.percent(50) ? core::WindowKind::sliding : core::WindowKind::bucket;
  budget.rates = {{.name = "requests_per_minute", .limit = kRequestsPerMinute, .period = minutes(1)},
                  {.name = "tokens_per_minute",
                   .limit = kTokensPerMinute,
                   .period = minutes(1),
                   .resource = core::Resource::tokens}};
  options.budgets = {budget};
  options.retain = kRetain;
  options.memory_max = std::size_t{128} << 20;
  options.results_max = nuisances_.contains(Nuisance::crowds_out) ? 2000 : 1'000'000;
  options.results_bytes_max = std::size_t{64} << 20;
  swarm_.delay_max = milliseconds(1);
  swarm_.tells_unreachable = true;
}

NeighbourWorld::NeighbourWorld(std::uint64_t seed, std::size_t events_max, bool open, Trace* trace)
    : random_(seed), events_max_(events_max) {
  draw_options(open);
  judge_ = std::make_unique<Judge>(swarm_, wait_max(nuisances_));
  host_ = std::make_unique<Host>(swarm_, scheduler_, random_, trace, *judge_);
}

NeighbourWorld::~NeighbourWorld() = default;

RunReport NeighbourWorld::run() {
  for (int i = 0; i < 3; ++i)
    hands_.push_back(std::make_unique<Hand>(scheduler_, random_, *host_, nuisances_, i));
  for (int i = 0; i < 3; ++i)
    guests_.push_back(std::make_unique<Guest>(scheduler_, *host_, i, nuisances_.contains(Nuisance::models)));
  noise_ = std::make_unique<Noise>(scheduler_, random_, *host_, nuisances_);
  while (scheduler_.events() < events_max_ && scheduler_.step(core::TimePoint(minutes(30)))) {
  }
  for (const auto& guest : guests_)
    guest->stop();
  noise_->stop();
  const core::TimePoint end = scheduler_.now() + kLookAgainAfter + kFailingWaitMax;
  while (scheduler_.step(end)) {
  }
  for (const auto& guest : guests_)
    if (guest->pending() > 0)
      violated("another client still waits for " + std::to_string(guest->pending()) + " answers");
  return {.events = scheduler_.events(),
          .messages = host_->messages(),
          .jobs = host_->jobs(),
          .dispatches = host_->dispatches(),
          .simulated = scheduler_.now().time_since_epoch(),
          .digest = host_->digest()};
}

std::string NeighbourWorld::describe() const {
  std::string text = "the neighbour";
  for (const Nuisance nuisance : nuisances_)
    text += std::string(" ") + kNuisanceNames[static_cast<std::size_t>(nuisance)];
  return text + "; the others wait " + std::to_string(core::to_ms(judge_->longest())) + " ms at most";
}

}  // namespace lanemq::sim
