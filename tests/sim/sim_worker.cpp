// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_worker.hpp"

#include <algorithm>
#include <cstdlib>

namespace lanemq::sim {

using std::chrono::milliseconds;

namespace {

/// What a request allows its answer, as the bodies of runs say it; nothing when they do not.
std::int64_t bound_in(const std::string& body) {
  constexpr std::string_view kName = "\"max_tokens\":";
  const std::size_t place = body.find(kName);
  return place == std::string::npos ? 0 : std::strtoll(body.c_str() + place + kName.size(), nullptr, 10);
}

}  // namespace

// Some have a name in common, as those do that are started with the same configuration.
SimWorker::SimWorker(Stage& stage, int number)
    : stage_(stage), name_("worker-" + std::to_string(number % 3)) {
  start();
}

void SimWorker::start() {
  Random& random = stage_.random;
  worker::SessionOptions options;
  options.name = name_;
  options.version = "1";
  options.capacity = static_cast<std::size_t>(
      random.between(1, static_cast<std::int64_t>(stage_.swarm.worker_capacity_max)));
  for (const std::string& service : stage_.swarm.services)
    if (random.percent(70)) options.services.push_back(service);
  if (options.services.empty()) options.services = stage_.swarm.services;
  if (stage_.swarm.notifies) options.services.emplace_back(kHook);
  session_services_ = options.services;
  if (random.percent(30))
    for (const core::LaneOptions& lane : stage_.swarm.options.lanes)
      if (random.percent(40)) options.lanes.push_back(lane.name);
  ++life_;
  questions_.clear();
  wakeup_at_ = core::kNever;
  session_ = std::make_unique<worker::Session>(std::move(options));
  connect();
  session().connected(now());
  flush();
}

void SimWorker::start_later() {
  ++life_;
  session_.reset();
  questions_.clear();
  stage_.host.disconnect(link_, true);
  if (leaving_for_ever_) return;
  stage_.scheduler.after(stage_.random.between(Duration(0), stage_.swarm.trouble_max), [this, life = life_] {
    if (life == life_ && !leaving_for_ever_) start();
  });
}

void SimWorker::connect() {
  stage_.host.disconnect(link_);
  link_ = stage_.host.connect(
      core::Peer::worker, {},
      [this](const std::string& header, const std::string& body) { heard(header, body); });
}

// ---- trouble ------------------------------------------------------------------------------------------

void SimWorker::crash() {
  if (session_) start_later();
}

void SimWorker::reconnect() {
  if (!session_) return;
  connect();
  session().connected(now());
  flush();
}

void SimWorker::change_address() {
  if (link_) stage_.host.change_address(link_);
}

void SimWorker::stall(Duration time) {
  if (link_) link_->stalled_until = stage_.scheduler.now() + time;
}

void SimWorker::leave(bool at_once) {
  leaving_for_ever_ = stage_.healing;
  if (!session_) return;
  worker::Effects effects;
  if (at_once)
    session().leave(now(), effects);
  else
    session().drain(now() + std::chrono::seconds(1), now(), effects);
  act_on(effects);
}

// ---- work ---------------------------------------------------------------------------------------------

void SimWorker::heard(const std::string& header, const std::string& body) {
  Items<wire::WorkerCommand> commands;
  if (const DecodeError* error = decoder_.decode(header, {}, commands))
    violated("a worker cannot read: " + error->message);
  for (std::size_t i = 0; i < commands.size() && session_; ++i) {
    if (commands.error(i) != nullptr) violated("a worker cannot read: " + commands.error(i)->message);
    if (const auto* offer = std::get_if<wire::JobOffer>(&commands[i]))
      take(*offer, body.empty() ? std::string(commands.body(i)) : body);
    worker::Effects effects;
    session().receive(commands[i], now(), effects);
    act_on(effects, i + 1 == commands.size());
  }
}

void SimWorker::take(const wire::JobOffer& offer, const std::string& body) {
  const Swarm& swarm = stage_.swarm;
  Question question{.body = body, .cost = offer.cost};
  UpstreamCall& call = question.call;
  call.job = offer.job;
  call.attempt = offer.attempt;
  call.service = offer.service.empty() ? session_services_.front() : std::string(offer.service);
  call.model = offer.model;
  call.client = offer.client;
  call.key = offer.key;
  call.lane = offer.lane;
  for (const core::LaneOptions& lane : swarm.options.lanes)
    if (offer.lane.empty() && lane.is_default) call.lane = lane.name;
  if (offer.cost) {
    call.input_expected = offer.cost->input_tokens.value_or(0);
    call.output_expected = offer.cost->output_tokens.value_or(bound_in(body));
  }
  questions_[{offer.job, offer.attempt}] = std::move(question);
}

/// Asks the upstream: from now on it works, and counts. What is handed back untouched never gets there, nor
/// does what finds no connection.
void SimWorker::begin(Question& question) {
  const Swarm& swarm = stage_.swarm;
  Random& random = stage_.random;
  question.released = random.per_mille(static_cast<std::uint64_t>(swarm.released));
  if (question.released || (is_out() && swarm.outages_refuse) || is_unreachable()) return;
  UpstreamCall& call = question.call;
  call.input_used = call.input_expected;
  call.output_used = call.output_expected;
  question.misestimated = random.per_mille(static_cast<std::uint64_t>(swarm.misestimates));
  if (question.misestimated) {
    if (random.percent(80)) call.input_used = random.between(0, swarm.input_max * 3 / 2);
    if (random.percent(80)) {
      const std::int64_t times = random.between(1, 3);
      call.output_used = random.between(0, swarm.output_max * times);
    }
  }
  question.begun = true;
  question.verdict = stage_.upstreams.begin(call, stage_.scheduler.now());
  // A stream that is refused has no pieces.
  if (!question.verdict.served) question.chunks_left = 0;
}

/// Every upstream fails for a while.
bool SimWorker::is_out() const {
  const Swarm& swarm = stage_.swarm;
  const core::Duration since = stage_.scheduler.now().time_since_epoch();
  return swarm.outage.count() > 0 && !stage_.healing && since / swarm.outage % 3 == 2;
}

/// There is not even a connection.
bool SimWorker::is_unreachable() const {
  return stage_.scheduler.now() < stage_.out_until && !stage_.healing;
}

/// The model of a call fails, and others are answered.
bool SimWorker::is_failing(const Question& question) const {
  const Swarm& swarm = stage_.swarm;
  const core::Duration since = stage_.scheduler.now().time_since_epoch();
  return swarm.failing_for.count() > 0 && !stage_.healing && question.call.model == swarm.failing_model &&
         since / swarm.failing_for % 3 == 1;
}

/// What is said in answer to a batch leaves with its last item.
void SimWorker::act_on(worker::Effects& effects, bool last) {
  const Swarm& swarm = stage_.swarm;
  for (const worker::Effect& effect : effects) {
    if (const auto* start_job = std::get_if<worker::StartJob>(&effect)) {
      Question& question = questions_[{start_job->lease.job, start_job->lease.attempt}];
      question.gate = start_job->gate;
      if (question.gate) question.chunks_left = stage_.random.between(0, swarm.stream_chunks_max);
      begin(question);
      if (swarm.words > 0) {
        question.speaks = stage_.random.per_mille(static_cast<std::uint64_t>(swarm.words));
        if (question.speaks) say_word_later(start_job->lease);
      }
      // What finds no connection knows it soon.
      const Duration work_max = swarm.returns_late && !question.begun ? milliseconds(20) : swarm.work_max;
      stage_.scheduler.after(stage_.random.between(swarm.work_min, work_max),
                             [this, life = life_, lease = start_job->lease] {
                               if (life == life_) go_on(lease);
                             });
    } else if (const auto* resume = std::get_if<worker::ResumeJob>(&effect)) {
      const auto question = questions_.find({resume->lease.job, resume->lease.attempt});
      if (question == questions_.end() || !std::exchange(question->second.waits, false)) continue;
      stage_.scheduler.after(stage_.random.between(Duration(0), swarm.chunk_pause_max),
                             [this, life = life_, lease = resume->lease] {
                               if (life == life_) go_on(lease);
                             });
    } else if (const auto* cancel = std::get_if<worker::CancelJob>(&effect)) {
      // Some handlers stop soon, others do not care.
      const auto question = questions_.find({cancel->lease.job, cancel->lease.attempt});
      const bool hangs = question != questions_.end() && question->second.hangs;
      if (hangs || stage_.random.percent(50))
        stage_.scheduler.after(milliseconds(1), [this, life = life_, lease = cancel->lease] {
          if (life == life_) finish(lease);
        });
    } else if (std::holds_alternative<worker::Reconnect>(effect)) {
      return reconnect();
    } else if (std::holds_alternative<worker::Left>(effect)) {
      flush();
      // What was said last is still under way: the connection goes a little later.
      return stage_.scheduler.after(swarm.delay_max + milliseconds(1), [this, life = life_] {
        if (life == life_) start_later();
      });
    }
  }
  if (last) flush();
}

/// The next piece of the answer, or its end.
void SimWorker::go_on(wire::Lease lease) {
  const auto place = questions_.find({lease.job, lease.attempt});
  if (place == questions_.end()) return;
  Question& question = place->second;
  if (question.hangs && !stage_.healing)
    return stage_.scheduler.after(std::chrono::seconds(1), [this, life = life_, lease] {
      if (life == life_) go_on(lease);
    });
  // Some upstreams break off.
  if (question.chunks_left == 0 || stage_.random.per_mille(10)) return finish(lease);
  --question.chunks_left;
  std::string piece = "C" + std::to_string(question.chunks++) + ":" + question.body.substr(0, 20);
  piece.resize(piece.size() + stage_.random.below(static_cast<std::uint64_t>(stage_.swarm.chunk_bytes_max)),
               '.');
  const worker::StreamGate::Verdict verdict = question.gate->enter(piece.size());
  if (verdict == worker::StreamGate::Verdict::closed) return finish(lease);
  question.waits = verdict == worker::StreamGate::Verdict::wait;
  if (!question.waits)
    stage_.scheduler.after(stage_.random.between(Duration(0), stage_.swarm.chunk_pause_max),
                           [this, life = life_, lease] {
                             if (life == life_) go_on(lease);
                           });
  worker::Effects effects;
  session().chunk({.lease = lease, .body = Blob::copy(piece)}, now(), effects);
  act_on(effects);
}

void SimWorker::say_word_later(wire::Lease lease) {
  stage_.scheduler.after(stage_.random.between(Duration(0), stage_.swarm.word_pause_max),
                         [this, life = life_, lease] {
                           if (life == life_) say_word(lease);
                         });
}

/// How far a call is, and perhaps the last that is heard of it.
void SimWorker::say_word(wire::Lease lease) {
  const auto place = questions_.find({lease.job, lease.attempt});
  if (place == questions_.end()) return;
  Question& question = place->second;
  Random& random = stage_.random;
  JobProgress said;
  if (random.percent(80)) said.pct = static_cast<int>(random.between(0, 100));
  if (random.percent(50)) said.note.assign(random.below(limits::progress_note_bytes_max + 1), 'n');
  question.hangs = random.per_mille(static_cast<std::uint64_t>(stage_.swarm.hangs));
  if (!question.hangs) say_word_later(lease);
  session().progress({lease, std::move(said)}, now());
  flush();
}

void SimWorker::finish(wire::Lease lease) {
  const auto question = questions_.find({lease.job, lease.attempt});
  if (question == questions_.end()) return;
  worker::Effects effects;
  session().finish(lease, draw_outcome(question->second), now(), effects);
  questions_.erase(question);
  act_on(effects);
}

/// What the upstream says of an attempt: nothing, what it used, or only a part of it; some say nonsense.
std::optional<wire::Usage> SimWorker::draw_usage(const Question& question) {
  const Swarm& swarm = stage_.swarm;
  Random& random = stage_.random;
  if (!question.begun || !question.verdict.served) return std::nullopt;
  if (!random.per_mille(static_cast<std::uint64_t>(swarm.usages))) return std::nullopt;
  wire::Usage usage;
  if (question.cost) {
    usage.input_tokens = question.cost->input_tokens;
    usage.output_tokens = question.cost->output_tokens;
  }
  if (question.misestimated) {
    usage.input_tokens = question.call.input_used;
    usage.output_tokens = question.call.output_used;
    if (random.percent(5)) usage.requests = random.between(0, 3);
  }
  if (random.per_mille(static_cast<std::uint64_t>(swarm.upstream.absurd_usages))) {
    usage.input_tokens = draw_absurd();
    usage.output_tokens = draw_absurd();
    if (random.percent(20)) usage.requests = draw_absurd();
  }
  return usage;
}

std::int64_t SimWorker::draw_absurd() {
  return stage_.random.one_of<std::int64_t>(
      {INT64_MAX, INT64_MAX / 2, std::int64_t{1} << 53, 200'000'000'000, 1'000'000'001, 150'000'000, 0});
}

/// What the upstream says that it allows: as it is, or of one of the limits that there are, less or more than
/// is configured.
std::optional<wire::UpstreamLimits> SimWorker::draw_limits(const Question& question) {
  Random& random = stage_.random;
  if (question.begun && question.verdict.limits) return question.verdict.limits;
  if (!random.per_mille(static_cast<std::uint64_t>(stage_.swarm.said_limits))) return std::nullopt;
  const auto& budgets = stage_.swarm.options.budgets;
  if (budgets.empty()) return std::nullopt;
  const core::BudgetOptions& budget = random.pick(budgets);
  if (budget.rates.empty()) return std::nullopt;
  const core::RateOptions& rate = random.pick(budget.rates);
  const std::int64_t limit = random.between(rate.limit / 20, rate.limit * 3 / 2);
  wire::UpstreamLimits limits;
  if (rate.resource == core::Resource::requests) limits.limit_requests = limit;
  if (rate.resource == core::Resource::tokens) limits.limit_tokens = limit;
  if (rate.resource == core::Resource::input_tokens) limits.limit_input_tokens = limit;
  if (rate.resource == core::Resource::output_tokens) limits.limit_output_tokens = limit;
  return limits;
}

/// What a refusal says: of a job that names a model that nothing is left of what all share. What is said of
/// one model alone from the first is the business of transcripts and of the neighbour.
void SimWorker::draw_refusal(const Question& question, JobFailure& failure) {
  failure.error_class = ErrorClass::limited;
  failure.limits = draw_limits(question);
  // What says nothing, or only to come again soon, may be about the calls under way: that is the business of
  // accounts (account_cell.hpp). To come again at once says nothing, too.
  const bool says_when = failure.retry_after.value_or(milliseconds(0)) > milliseconds(0);
  if (!says_when && !failure.limits) failure.retry_after = milliseconds(1000);
  constexpr Duration kSoon = std::chrono::seconds(3);
  if (failure.retry_after.value_or(milliseconds(0)) < kSoon) failure.limited_by = LimitedBy::rate;
  if (question.call.model.empty()) return;
  if (!failure.limits) failure.limits.emplace();
  failure.limits->remaining_requests = 0;
}

worker::JobOutcome SimWorker::draw_outcome(const Question& question) {
  const Swarm& swarm = stage_.swarm;
  Random& random = stage_.random;
  JobFailure failure{.code = "failed", .message = "as drawn"};
  if (question.released) {
    failure.error_class = ErrorClass::released;
    return worker::JobOutcome::failure(std::move(failure));
  }
  if (!question.begun || is_out() || is_failing(question)) {
    failure.error_class = ErrorClass::retry;
    if (!question.begun) failure.code = "connect";
    return worker::JobOutcome::failure(std::move(failure));
  }
  if (!question.verdict.served) {
    failure.message = "as the upstream said";
    if (question.verdict.retry_after)
      failure.retry_after = std::chrono::ceil<milliseconds>(*question.verdict.retry_after);
    draw_refusal(question, failure);
    if (question.verdict.key_refused) failure.error_class = ErrorClass::quota;
    return worker::JobOutcome::failure(std::move(failure));
  }
  int dice = static_cast<int>(random.below(1000));
  const auto chosen = [&](int weight) { return (dice -= weight) < 0; };
  if (chosen(swarm.retries)) {
    failure.error_class = random.percent(80) ? ErrorClass::retry : ErrorClass::overloaded;
    if (random.percent(30)) failure.retry_after = milliseconds(random.between(0, 300));
  } else if (chosen(swarm.limited)) {
    if (random.percent(80)) failure.retry_after = milliseconds(random.between(0, 2000));
    if (swarm.retry_after_max > Swarm::kRetryAfterMax && random.percent(50))
      failure.retry_after =
          std::chrono::ceil<milliseconds>(random.between(Swarm::kRetryAfterMax, swarm.retry_after_max));
    failure.usage = draw_usage(question);
    draw_refusal(question, failure);
    return worker::JobOutcome::failure(std::move(failure));
  } else if (chosen(swarm.permanents)) {
    const bool permanent = random.percent(80) || !swarm.keys_are_refused;
    failure.error_class = permanent ? ErrorClass::permanent : ErrorClass::quota;
    failure.body = Blob::copy("why");
  } else {
    const auto usage = draw_usage(question);
    return worker::JobOutcome::success(Blob::copy("A:" + question.body), usage, draw_limits(question));
  }
  failure.usage = draw_usage(question);
  failure.limits = draw_limits(question);
  return worker::JobOutcome::failure(std::move(failure));
}

// ---- saying -------------------------------------------------------------------------------------------

void SimWorker::flush() {
  if (!session_ || !link_) return;
  const auto lies = static_cast<std::uint64_t>(stage_.healing ? 0 : stage_.swarm.lies);
  worker::Outbox& outbox = session().outbox();
  while (!outbox.empty()) {
    const worker::Outbox::Message message = outbox.front();
    const std::string_view body = message.body != nullptr ? message.body->bytes() : std::string_view{};
    const bool swallowed = stage_.random.per_mille(lies / 3);
    const bool doubled = stage_.random.per_mille(lies);
    if (!swallowed) stage_.host.send(link_, message.header, body);
    if (doubled) stage_.host.send(link_, message.header, body);
    if (stage_.random.per_mille(lies)) lie();
    outbox.pop();
  }
  plan_wakeup();
}

/// Something that an honest worker would not say: an outcome of who knows which job, an empty inventory, or
/// places without end.
void SimWorker::lie() {
  Random& random = stage_.random;
  Buffer out;
  const auto& leases = stage_.host.recent_leases();
  const std::uint64_t kind = random.below(stage_.swarm.words > 0 ? 8 : 7);
  if (kind == 0) {
    encode(wire::Heartbeat{}, out);
  } else if (kind == 1) {
    wire::Ready ready;
    for (const std::string& service : stage_.swarm.services)
      ready.services.push_back(service);
    ready.capacity = 1'000'000'000;
    ready.resumes = random.percent(50);
    if (random.percent(50)) ready.session = "0123456789abcdef";  // nobody's
    encode(ready, out);
  } else {
    wire::Lease lease{.job = random.next() >> 12, .attempt = random.between(1, 3)};
    if (!leases.empty() && random.percent(90)) {
      lease = leases[random.below(leases.size())];
      if (random.percent(30)) lease.attempt = random.between(1, 5);
    }
    if (kind == 2) {
      encode(wire::Heartbeat{{lease}}, out);
    } else if (kind == 3) {
      wire::Failure failure;
      failure.job = lease.job;
      failure.attempt = lease.attempt;
      failure.error_class =
          name_of(random.one_of({ErrorClass::retry, ErrorClass::released, ErrorClass::permanent}));
      failure.code = "lie";
      failure.message = "not true";
      encode(failure, out);
    } else if (kind == 7) {
      wire::Progress progress;
      progress.job = lease.job;
      progress.attempt = lease.attempt;
      progress.pct = random.between(0, 100);
      encode(progress, out);
    } else if (kind == 6) {
      encode(wire::Chunk{lease.job, lease.attempt, random.between(0, 5)}, "lie", out);
    } else {
      wire::Outcome outcome;
      outcome.job = lease.job;
      outcome.attempt = lease.attempt;
      encode(outcome, "lie", out);
    }
  }
  stage_.host.send(link_, out.view(), {});
}

void SimWorker::plan_wakeup() {
  const lanemq::TimePoint due = session().next_wakeup();
  if (due == lanemq::TimePoint::max()) return;
  const auto when =
      std::max(core::TimePoint(std::chrono::duration_cast<core::Duration>(due.time_since_epoch())),
               stage_.scheduler.now());
  if (when >= wakeup_at_ && wakeup_at_ > stage_.scheduler.now()) return;
  wakeup_at_ = when;
  stage_.scheduler.at(when, [this, life = life_, when] {
    if (life != life_ || wakeup_at_ != when || !session_) return;
    wakeup_at_ = core::kNever;
    worker::Effects effects;
    session().advance(now(), effects);
    act_on(effects);
  });
}

}  // namespace lanemq::sim
