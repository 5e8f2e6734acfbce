// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>

#include <xxhash.h>

#include "broker/core/base/check.hpp"
#include "broker/core/broker.hpp"
#include "broker/core/jobs/stored.hpp"

// What clients ask for, and what they are told.

namespace lanemq::core {
namespace {

/// A last part of fewer jobs, or bytes, is not kept for those who have less.
constexpr std::size_t kSharedJobsMin = 16, kSharedBytesMin = std::size_t{16} << 20;

/// Who may wait for one job besides its submitter.
constexpr std::size_t kWaitersMax = 64;
/// Requests of one connection that may wait so.
constexpr std::size_t kWaitersPerConnectionMax = 20'000;
/// For whom one job may go on that is to be cancelled when they are gone.
constexpr std::size_t kOwnersMax = 64;
/// Jobs of a connection that is gone which one turn looks at: some ms of work, whatever it left.
constexpr std::size_t kOwnedInATurn = 1000;

/// Where more is in memory than one part in so many of memory_max, the bodies of durable jobs are in the
/// store alone: the rest is for jobs themselves, and for results.
constexpr std::size_t kBodiesShare = 8;
/// Bodies below this stay in memory: reading one back takes longer than it saves.
constexpr std::size_t kSpilledBytesMin = 512;

/// How often results make way on a full disk, and how many at once: some ms of work.
constexpr Duration kMakeRoomPause = std::chrono::seconds(1);
constexpr std::size_t kMadeRoomMax = 4096;

/// Who may wait for results that are read back from the store.
constexpr std::size_t kAskingMax = 1024;

/// Of an id that the broker makes.
constexpr std::size_t kIdBytes = 26;
/// The fields that an offer may have whatever was submitted.
constexpr std::size_t kOfferFieldsLeast = 6;
/// What an offer says besides the texts of its submit: at most three names, numbers, the names of fields.
constexpr std::size_t kOfferRoom = 1024;

/// Bounds of the time a full lane asks its clients to stay away.
constexpr Duration kRetryAfterMin = std::chrono::milliseconds(100);
constexpr Duration kRetryAfterMax = std::chrono::seconds(30);

std::optional<ReplyMode> reply_mode(std::string_view name) {
  if (name.empty() || name == "result") return ReplyMode::result;
  if (name == "accepted") return ReplyMode::accepted;
  if (name == "both") return ReplyMode::both;
  return std::nullopt;
}

Refusal bad_request(std::string message) {
  return {ErrorCode::bad_request, std::move(message), {}};
}

/// Of a client that is gone, how long its jobs wait for it to come back, where they are cancelled without it.
constexpr Duration kOrphanPause = std::chrono::seconds(5);
/// What a submit says whose job is to be cancelled then.
constexpr std::string_view kOrphanCancel = "cancel";
/// What a submit says of what it is not to wait for.
constexpr std::string_view kElsewhere = "end";

/// The state of a job that nobody knows.
constexpr std::string_view kUnknown = "unknown";

/// What would have to wait for the disk as well.
const Refusal kDiskBehind{
    ErrorCode::store_full,
    "more than store_backlog_max waits for the store's disk, which is slow or stands still; ask "
    "again later, or submit with durable false",
    std::chrono::seconds(1), "store_backlog_max"};

/// That the breaker is not closed for that client alone; empty: it is so for others, too.
std::string whose(const CircuitBreaker& breaker, const Client& client) {
  return breaker.only_client() == client.mark ? " client=" + client.name : std::string();
}

/// Keeps a client for as long as a submit is looked at.
class ClientHold {
 public:
  ClientHold(Clients& clients, Client& client) : clients_(clients), client_(client) {
    clients_.take_reference(client_);
  }
  ~ClientHold() { clients_.drop_reference(client_); }
  ClientHold(const ClientHold&) = delete;
  ClientHold& operator=(const ClientHold&) = delete;
  Client& operator*() const { return client_; }
  Client* operator->() const { return &client_; }

 private:
  Clients& clients_;
  Client& client_;
};

/// What the job will count for in the byte bounds, but for its record.
std::size_t bytes_of(const Submitted& event) {
  const wire::Submit& fields = *event.fields;
  return (fields.id.empty() ? kIdBytes : fields.id.size()) + event.from.envelope.size() +
         fields.ref.bytes.size() + fields.model.size() + fields.client.size() + fields.meta.bytes.size() +
         fields.trace.bytes.size() + (fields.extras.count > 0 ? fields.extras.bytes.size() + 1 : 0) +
         event.body.size() + (fields.stream ? Job::kStreamBytes : 0);
}

}  // namespace

std::string Broker::lane_names() const {
  std::string names;
  for (const auto& lane : lanes_)
    names += (names.empty() ? "" : ", ") + lane->options().name;
  return names;
}

Lane* Broker::lane_named(std::string_view name) const {
  if (name.empty()) return default_lane_;
  for (const auto& lane : lanes_)
    if (lane->options().name == name) return lane.get();
  return nullptr;
}

std::optional<Refusal> Broker::invalid(const Submitted& event) const {
  const wire::Submit& fields = *event.fields;
  if (lane_named(fields.lane) == nullptr)
    return bad_request("unknown lane \"" + std::string(fields.lane) + "\"; the lanes are " + lane_names());
  const auto mode = reply_mode(fields.reply);
  if (!mode) return bad_request("field \"reply\" must be result, accepted or both");
  if (event.from.one_answer && *mode == ReplyMode::both)
    return bad_request("field \"reply\" is both, but a REQ socket takes one answer; use a DEALER");
  if (event.from.one_answer && fields.stream)
    return bad_request("field \"stream\" is true, but a REQ socket takes one answer; use a DEALER");
  if (!fields.orphan.empty() && fields.orphan != "keep" && fields.orphan != kOrphanCancel)
    return bad_request("field \"orphan\" must be keep or cancel");
  if (!fields.limited.empty() && fields.limited != "wait" && fields.limited != kElsewhere)
    return bad_request("field \"limited\" must be wait or end");
  if (!fields.spent.empty() && fields.spent != "wait" && fields.spent != kElsewhere)
    return bad_request("field \"spent\" must be wait or end");
  if (event.body.size() > options_.body_bytes_max)
    return Refusal{ErrorCode::too_large,
                   "the body has " + std::to_string(event.body.size()) +
                       " bytes, more than body_bytes_max (" + std::to_string(options_.body_bytes_max) + ")",
                   {}};
  return unreadable_as_offer(event);
}

/// Its worker is told what the submit says and more: that has to fit into one header, too, wherever the job
/// may be moved and whichever key it gets.
std::optional<Refusal> Broker::unreadable_as_offer(const Submitted& event) {
  const wire::Submit& fields = *event.fields;
  // Always told in the worst case: job, attempt, id, service, lane and key.
  const std::size_t others = kOfferFieldsLeast + (fields.model.empty() ? 0 : 1) +
                             (fields.client.empty() ? 0 : 1) + (fields.timeout_ms ? 1 : 0) +
                             (fields.cost ? 1 : 0) + (fields.stream ? 1 : 0) +
                             (fields.meta.present() ? 1 : 0) + (fields.trace.present() ? 1 : 0);
  const std::size_t entries = others + fields.extras.count;
  if (bytes_of(event) - event.body.size() + kOfferRoom <= limits::header_bytes_max &&
      entries <= limits::map_entries_max)
    return std::nullopt;
  const std::string longest(limits::name_bytes_max, '.');
  wire::JobOffer offer;
  offer.job = (std::uint64_t{1} << 53) - 1;
  offer.attempt = std::numeric_limits<std::uint32_t>::max();
  offer.id = fields.id.empty() ? std::string_view(longest).substr(0, kIdBytes) : fields.id;
  offer.service = fields.service;
  offer.lane = offer.key = longest;
  offer.model = fields.model;
  offer.client = fields.client;
  offer.timeout_ms = limits::duration_ms_max;
  offer.cost = fields.cost;
  offer.stream = true;
  offer.meta = fields.meta;
  offer.trace = fields.trace;
  offer.extras = fields.extras;
  Buffer header;
  encode(offer, header);
  if (header.size() > limits::header_bytes_max)
    return Refusal{ErrorCode::too_large,
                   "what a worker would be told of the job has up to " + std::to_string(header.size()) +
                       " bytes besides its body, more than " + std::to_string(limits::header_bytes_max) +
                       " (header_bytes_max); send less in meta, trace and x- fields, or put it into the body",
                   {}};
  if (entries > limits::map_entries_max)
    return Refusal{ErrorCode::too_large,
                   "the job has " + std::to_string(fields.extras.count) +
                       " x- fields, and a worker can be told " +
                       std::to_string(limits::map_entries_max - others) + " beside its " +
                       std::to_string(others) + " other fields (" + std::to_string(limits::map_entries_max) +
                       " in all, map_entries_max); send fewer, or put them into meta",
                   {}};
  return std::nullopt;
}

void Broker::on(const Submitted& event, TimePoint now) {
  const wire::Submit& fields = *event.fields;
  Connection& connection = connections_.at(event.from.address);
  note_life(connection);
  if (fields.batch > 0 && !event.from.one_answer) connection.grouping.agree(fields.batch);
  if (const auto why = invalid(event)) {
    ++stats_.refused_bad_request;
    return refuse(event.from, fields.ref, fields.id, *why);
  }
  Lane& lane = *lane_named(fields.lane);
  const ReplyMode mode = *reply_mode(fields.reply);
  if (Record* known = fields.id.empty() ? nullptr : jobs_.find(fields.id)) {
    ++lane.counters.duplicates;
    if (is_durable(*known) && refused_for_disk(event.from, fields.ref, fields.id)) return;
    if (same_content(*known, event, lane)) return join(*known, event, mode, now);
    return refuse(
        event.from, fields.ref, fields.id,
        {ErrorCode::conflict,
         "id \"" + std::string(fields.id) +
             "\" is in use by a job with other content (service, lane, model or body); choose another id",
         {}});
  }
  if (!fields.id.empty() && gone_.made_way(fields.id, now)) {
    ++lane.counters.refused;
    return refuse(event.from, fields.ref, fields.id, ran_before(fields.id));
  }
  const ClientHold client(
      clients_, fields.client.empty() ? connections_.client_of(connection) : clients_.named(fields.client));
  Admission admission{.lane = &lane, .client = &*client, .connection = &connection};
  if (const auto why = admit(event, admission, now)) {
    ++lane.counters.refused;
    return refuse(event.from, fields.ref, fields.id, *why);
  }
  accept(event, admission, mode, now);
}

/// Estimates what a job will cost, where one of its budgets counts tokens. That it can never run, where it is
/// more than one of them ever has.
std::optional<Refusal> Broker::too_large_for(BudgetSet budgets, std::string_view model,
                                             std::string_view client, const Blob& body,
                                             const std::optional<wire::Cost>& cost, Estimate& estimate) {
  if (!budgets_.counts_tokens(budgets)) return std::nullopt;
  estimate = estimates_.estimate(model, client, body.bytes(), cost);
  fit(budgets, cost, estimate);
  const Obstacle limit = budgets_.unsatisfiable(budgets, estimate.amounts);
  if (!limit) return std::nullopt;
  return Refusal{ErrorCode::unsatisfiable, limit.too_large(estimate.amounts), {}, "budget " + limit.name()};
}

/// As the budgets of the job count it.
void Broker::fit(BudgetSet budgets, const std::optional<wire::Cost>& stated, Estimate& estimate) const {
  if (budgets_.counts_bound(budgets) && estimate.output_bound)
    estimate.amounts.output_tokens = *estimate.output_bound;
  else if (!stated || !stated->output_tokens)
    budgets_.cut_output(budgets, estimate.amounts);
}

/// Whether there is room for a valid job that nobody knows yet, of its client in its lane; then finds the
/// rest of its admission.
std::optional<Refusal> Broker::admit(const Submitted& event, Admission& to, TimePoint now) {
  const wire::Submit& fields = *event.fields;
  if (draining_)
    return Refusal{ErrorCode::draining, "the broker is stopping; submit again in a moment",
                   std::chrono::seconds(1)};
  to.durable = options_.store_durable && fields.durable.value_or(to.lane->options().durable);
  if (to.durable && store_full_) {
    make_room_in_store(now);
    return Refusal{
        ErrorCode::store_full,
        "the disk of the store is full (store_reserve is kept back for what runs); free some space, "
        "submit again later, or with durable false",
        std::chrono::seconds(1), "store_reserve"};
  }
  if (to.durable && store_behind_) return kDiskBehind;
  if (auto why = not_allowed(*to.client, *to.lane)) return why;
  std::size_t bytes = bytes_of(event);
  to.spilled = to.durable && spills(bytes, event.body.size());
  if (to.spilled) bytes -= event.body.size();
  if (auto why = over_share(*to.client, *to.lane, bytes)) return why;
  if (auto why = no_room(*to.lane, bytes, now)) return why;
  const BudgetSet budgets = to.budgets = budgets_.match(fields.service, fields.model, to.client->name,
                                                        to.lane->options().name, to.client->options.tenant);
  if (auto why = too_large_for(budgets, fields.model, fields.client, event.body, fields.cost, to.estimate))
    return why;
  if (to.spilled && !budgets_.counts_tokens(budgets))
    to.estimate.raw_input = tokens_of_bytes(event.body.size());
  if (auto why = shut_out(fields, to, now)) return why;
  // The last: what is refused leaves no name behind.
  if (workers_.find_service(fields.service) == nullptr && !room_for_services(1))
    return bad_request("service \"" + std::string(fields.service) + "\" is new and services_max (" +
                       std::to_string(options_.services_max) +
                       ") have jobs, results or workers; check its name");
  to.service = &workers_.service(fields.service);
  return std::nullopt;
}

/// That the job's upstream takes nobody before its time is over, or that it does not wait for it.
std::optional<Refusal> Broker::shut_out(const wire::Submit& fields, const Admission& to, TimePoint now) {
  if (fields.delay_ms.value_or(0) > 0) return std::nullopt;
  budgets_.try_keys_for(to.budgets, to.client->mark, now);
  const Elsewhere elsewhere{.when_limited = fields.limited == kElsewhere,
                            .when_spent = fields.spent == kElsewhere};
  const Duration timeout = fields.timeout_ms ? Duration(std::chrono::milliseconds(*fields.timeout_ms))
                                             : Duration(to.lane->options().timeout);
  const Budgets::UpstreamPause shut = shut_until(to.budgets, now + timeout, elsewhere, now);
  if (shut.budget == nullptr) return std::nullopt;
  const std::string limiter = "budget " + shut.name();
  if (shut.no_key)
    return Refusal{ErrorCode::upstream_quota,
                   elsewhere.when_spent
                       ? "all keys of the upstream rest, and the job is not to wait for one (spent: end)"
                       : "all keys of the upstream rest for longer than the job's time",
                   {},
                   limiter};
  return Refusal{ErrorCode::limited,
                 elsewhere.when_limited
                     ? "the upstream asked for a pause, and the job is not to wait for that (limited: end)"
                     : "the upstream asked for a pause that is longer than the job's time",
                 shut.until - now, limiter};
}

/// The disk is full, and new work is refused for that: an eighth of what results take there makes way, once
/// a second, until there is room.
void Broker::make_room_in_store(TimePoint now) {
  if (store_behind_ || now < make_room_at_) return;
  make_room_at_ = now + kMakeRoomPause;
  const std::size_t enough = kept_.stored_bytes() - kept_.stored_bytes() / 8;
  for (std::size_t i = 0; i < kMadeRoomMax && kept_.stored_bytes() > enough; ++i)
    if (!evict_result(now)) break;
}

/// Whether so many new services have room. Names without jobs, results and workers make way, the longest
/// unused first: an eighth of the table at once, since all that has lately been idle is looked through.
bool Broker::room_for_services(std::size_t count) {
  const std::size_t known = workers_.services().size();
  if (known + count <= options_.services_max) return true;
  if (known - workers_.unused() + count > options_.services_max) return false;
  std::vector<Service*> leaving;
  const std::size_t enough = std::max(known + count - options_.services_max, options_.services_max / 8);
  while (leaving.size() < enough && workers_.unused() > 0)
    leaving.push_back(workers_.take_unused());
  clients_.forget_leaving();
  for (const auto& lane : lanes_)
    lane->forget_leaving();
  for (Service* const service : leaving) {
    timers_.clear(service->timer);
    workers_.forget(*service);
  }
  return true;
}

/// That there is no room by `limiter`, and how long a hundredth of the lane takes to leave, at the rate of
/// late.
Refusal Broker::full(const Lane& lane, ErrorCode code, std::string limiter, const std::string& holds) const {
  Duration wait = kRetryAfterMax;
  if (lane.leaving_per_second > 0) {
    const double seconds = (static_cast<double>(lane.depth()) / 100 + 1) / lane.leaving_per_second;
    wait = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(seconds, 30.0)));
  }
  return {code, holds + " (" + limiter + "); retry later", std::clamp(wait, kRetryAfterMin, kRetryAfterMax),
          std::move(limiter)};
}

std::optional<Refusal> Broker::not_allowed(const Client& client, const Lane& lane) const {
  const ClientOptions& options = client.options;
  if (!options.lane_max.empty() && lane.index() < lane_named(options.lane_max)->index())
    return Refusal{ErrorCode::forbidden,
                   "client \"" + client.name + "\" may use lane \"" + options.lane_max +
                       "\" and those below it (clients." + options.name + ".lane_max), not \"" +
                       lane.options().name + '"',
                   {},
                   "clients." + options.name + ".lane_max"};
  if (options.depth_max > 0 && client.waiting >= options.depth_max)
    return full(lane, ErrorCode::client_full, "clients." + options.name + ".depth_max",
                "client \"" + client.name + "\" has " + std::to_string(client.waiting) + " jobs waiting");
  return std::nullopt;
}

/// How much of a bound its last part is; 0 where that would be too little to share out.
std::size_t Broker::last_part(std::size_t bound, std::size_t least) const {
  const std::size_t part = bound / 1000 * static_cast<std::size_t>(options_.client_share) +
                           bound % 1000 * static_cast<std::size_t>(options_.client_share) / 1000;
  return part < least ? 0 : part;
}

/// Who holds that much makes way among its own results.
ResultShare Broker::share_of_results() const {
  return {.results = last_part(options_.results_max, kSharedJobsMin),
          .bytes = last_part(options_.results_bytes_max, kSharedBytesMin)};
}

/// That the rest is left to those who hold less. One that is alone has all but that; of several nobody finds
/// the door shut by another one.
std::optional<Refusal> Broker::over_share(const Client& client, const Lane& lane, std::size_t bytes) const {
  if (client.options.depth_max > 0) return std::nullopt;  // the configuration says what it may have
  const Client::Held held = lane.index() < client.held.size() ? client.held[lane.index()] : Client::Held{};
  const auto refused = [&](std::size_t has, std::string_view of, std::string_view bound) {
    return full(lane, ErrorCode::client_full, "client_share",
                "client \"" + client.name + "\" has " + std::to_string(has) + " " + std::string(of) +
                    ", and what is left of " + std::string(bound) + " is for those who have less");
  };
  const LaneOptions& options = lane.options();
  if (const std::size_t part = last_part(options.depth_max, kSharedJobsMin);
      part > 0 && held.jobs >= part && lane.depth() + part >= options.depth_max)
    return refused(held.jobs, "jobs waiting in it", "the lane's depth_max");
  if (const std::size_t part = last_part(options.bytes_max, kSharedBytesMin);
      part > 0 && held.bytes >= part && lane.bytes + bytes + part > options.bytes_max)
    return refused(held.bytes, "bytes waiting in it", "the lane's bytes_max");
  if (const std::size_t part = last_part(options_.memory_max, kSharedBytesMin);
      part > 0 && bytes_ + bytes + part > options_.memory_max) {
    std::size_t has = 0;
    for (const Client::Held& of_lane : client.held)
      has += of_lane.bytes;
    if (has >= part) return refused(has, "bytes waiting", "memory_max");
  }
  return std::nullopt;
}

std::optional<Refusal> Broker::lane_full(const Lane& lane, std::size_t bytes) const {
  const std::string& name = lane.options().name;
  if (lane.depth() >= lane.options().depth_max)
    return full(lane, ErrorCode::lane_full, "lane." + name + ".depth_max",
                "lane \"" + name + "\" holds " + std::to_string(lane.depth()) + " jobs");
  if (lane.options().bytes_max > 0 && lane.bytes + bytes > lane.options().bytes_max)
    return full(lane, ErrorCode::lane_full, "lane." + name + ".bytes_max",
                "lane \"" + name + "\" holds " + std::to_string(lane.bytes) + " bytes");
  return std::nullopt;
}

std::optional<Refusal> Broker::no_room(const Lane& lane, std::size_t bytes, TimePoint now) {
  if (auto why = lane_full(lane, bytes)) return why;
  // Kept results make way for new work, where that makes room enough.
  const std::size_t needed = bytes + Job::kRecordBytes;
  if (bytes_ + needed <= options_.memory_max)
    while (jobs_.full() || memory_bytes() + needed > options_.memory_max) {
      if (!jobs_.full() && kept_.unload_oldest()) continue;
      if (!evict_result(now)) break;
    }
  if (jobs_.full())
    return full(lane, ErrorCode::bytes_full, "jobs_max",
                "the broker holds " + std::to_string(jobs_.size()) + " jobs");
  if (memory_bytes() + needed > options_.memory_max)
    return full(lane, ErrorCode::bytes_full, "memory_max",
                "the broker holds " + std::to_string(memory_bytes()) + " bytes");
  return std::nullopt;
}

bool Broker::spills(std::size_t bytes, std::size_t body_bytes) const {
  return body_bytes >= kSpilledBytesMin &&
         memory_bytes() + bytes + Job::kRecordBytes > options_.memory_max / kBodiesShare;
}

/// Whether a submit says what an earlier one of the same id said. The body may be gone by now: its hash is
/// kept.
bool Broker::same_content(const Record& known, const Submitted& event, const Lane& lane) const {
  const wire::Submit& fields = *event.fields;
  const auto same = [&](const auto& of, std::uint64_t body_hash, const Service& service,
                        std::string_view model) {
    const std::string_view body = event.body.bytes();
    return of.client_named_it && of.submitted_lane == lane.index() && service.name == fields.service &&
           model == fields.model && body_hash == hash_of(body);
  };
  if (const KeptResult* result = known.result())
    return same(*result, result->body_hash, *result->service, result->model());
  const Job& job = *known.job();
  return same(job, body_hash_of(job), job.flow().service(), job.text.get(JobText::model));
}

Job& Broker::accept(const Submitted& event, const Admission& admission, ReplyMode mode, TimePoint now) {
  const wire::Submit& fields = *event.fields;
  Lane& lane = *admission.lane;
  Flow& flow = lane.flow(*admission.service, admission.budgets);
  update_flow(flow);  // it may be new
  const Estimate& estimate = admission.estimate;
  const bool named = !fields.id.empty();
  const std::string made = named ? std::string() : make_id(now);
  const Blob body = admission.spilled ? Blob() : event.body;
  const StoredSize size(admission.body_bytes.value_or(event.body.size()));
  std::string scratch;
  Job& job = jobs_.create({.parts = texts_of(fields, named ? fields.id : made, event.from.envelope,
                                             admission.spilled ? size.blob() : body, scratch),
                           .body_hash = kept_hash_of(event, admission),
                           .expected = stated(expected_of(estimate))});
  job.arrival = next_arrival_++ & Job::kArrivalMax;
  job.accepted_at = now;
  job.client_named_it = named;
  job.timeout_stated = fields.timeout_ms.has_value();
  const Duration delay = std::chrono::milliseconds(fields.delay_ms.value_or(0));
  job.deadline = now + (job.timeout_stated ? Duration(std::chrono::milliseconds(*fields.timeout_ms))
                                           : delay + lane.options().timeout);
  if (delay.count() > 0) {
    job.state = JobState::delayed;
    jobs_.go_away(job).due = now + delay;
  }
  job.attempts_max = static_cast<std::uint16_t>(fields.attempts_max.value_or(options_.attempts_max));
  job.retain = Retention(fields.retain_ms.value_or(to_ms(options_.retain)));
  job.lane = job.submitted_lane = lane.index();
  job.reply = mode;
  job.durable = admission.durable;
  job.body_stored = admission.spilled;
  fill(job, fields, body);
  jobs_.index(job);

  job.connection = admission.connection;
  if (job.connection != nullptr) connections_.take_reference(*job.connection);
  if (job.connection != nullptr && fields.orphan == kOrphanCancel) add_owner(job, *job.connection);
  job.queue = &clients_.join(*admission.client, flow);
  workers_.use(*admission.service);
  ++lane.counters.accepted;
  if (job.durable && !admission.redriven) write_accepted(job, fields, event.body);
  note_numbers();
  // Said before the job is queued: the jobs that stand before it are all that are queued now.
  if (mode != ReplyMode::result && job.connection != nullptr) {
    Origin from = event.from;
    from.grouping = &job.connection->grouping;
    const Outbox::Waiting waiting(outbox_, job.durable);
    say_accepted(job.id(), lane, job.durable, flow.depth(), fields.delay_ms, from, fields.ref);
  }
  enqueue(job);
  if (job.state == JobState::queued) comes(job, now);
  set_timer(job);
  if (job.streams && mode != ReplyMode::accepted && job.connection != nullptr)
    add_reader(job, {.from = event.from, .ref = fields.ref}, now);
  return job;
}

std::uint64_t Broker::hash_of(std::string_view body) const {
  return XXH3_64bits_withSeed(body.data(), body.size(), body_hash_seed_);
}

/// The hash of a body that its job does not have later: it is in the store alone, or long to look through.
/// A durable job's is written with every state.
std::optional<std::uint64_t> Broker::kept_hash_of(const Submitted& event, const Admission& admission) const {
  if (admission.body_hash) return admission.body_hash;
  if (event.fields->id.empty() || (!admission.durable && packed(event.body))) return std::nullopt;
  return hash_of(event.body.bytes());
}

/// Of what was submitted; 0 where the client did not name the job.
std::uint64_t Broker::body_hash_of(const Job& job) const {
  if (const auto kept = job.text.body_hash()) return *kept;
  return job.client_named_it ? hash_of(job.text.get(JobText::body)) : 0;
}

/// Whether a body is packed with the texts of its job.
bool Broker::packed(const Blob& body) {
  return body.size() <= JobText::kBodyBytesMax;
}

/// The texts of a job; `body` is its body where that is in memory. Views, also of `extras`, which holds one.
JobText::Parts Broker::texts_of(const wire::Submit& fields, std::string_view id, std::string_view envelope,
                                const Blob& body, std::string& extras) {
  JobText::Parts parts{};
  parts[JobText::id] = id;
  parts[JobText::envelope] = envelope;
  parts[JobText::ref] = fields.ref.bytes;
  parts[JobText::model] = fields.model;
  parts[JobText::client] = fields.client;
  parts[JobText::meta] = fields.meta.bytes;
  parts[JobText::trace] = fields.trace.bytes;
  if (fields.extras.count > 0) {
    extras.push_back(static_cast<char>(fields.extras.count));
    extras += fields.extras.bytes;
    parts[JobText::extras] = extras;
  }
  if (packed(body)) parts[JobText::body] = body.bytes();
  return parts;
}

/// What of a job never changes besides its texts; then it counts.
void Broker::fill(Job& job, const wire::Submit& fields, const Blob& body) {
  if (fields.cost) job.need_extra().cost = fields.cost;
  job.ends_limited = fields.limited == kElsewhere;
  job.streams = fields.stream;
  if (job.streams) job.need_extra().answer = std::make_unique<AnswerStream>();
  if (!packed(body)) job.need_extra().body = body.owned();
  bytes_ += job.bytes();
}

/// A submit of a job that is known: it runs no second time, and this submit too gets its answer.
void Broker::join(Record& known, const Submitted& event, ReplyMode mode, TimePoint now) {
  const wire::Raw ref = event.fields->ref;
  if (mode != ReplyMode::accepted && known.result() == nullptr)
    if (const auto why = no_room_to_wait(event.from, ref, now))
      return refuse(event.from, ref, known.id(), *why);
  const Outbox::Waiting waiting(outbox_, is_durable(known));
  if (mode != ReplyMode::result)
    say_accepted(known.id(), *lane_named(event.fields->lane), is_durable(known), std::nullopt, std::nullopt,
                 event.from, ref);
  Job* const job = known.result() == nullptr ? known.job() : nullptr;
  if (job != nullptr && job->extra && !job->extra->owners.empty())
    add_owner(*job, connections_.at(event.from.address));
  if (mode == ReplyMode::accepted) return;
  const bool reads = event.fields->stream;
  if (const KeptResult* result = known.result())
    return tell_end(*result, reads ? std::optional<std::int64_t>(0) : std::nullopt, event.from, ref);
  if (!reads || job->answer() == nullptr) return add_waiter(*job, event.from, ref, std::nullopt);
  if (const AnswerStream& stream = *job->answer(); stream.placed() && stream.first() > 0)
    return refuse(event.from, ref, known.id(), chunk_gone(known.id(), 0, stream.first()));
  add_reader(
      *job,
      {.from = event.from, .ref = ref, .waits = job->durable && mode == ReplyMode::both, .joined = true},
      now);
}

void Broker::add_waiter(Job& job, const Origin& from, wire::Raw ref, std::optional<TimePoint> until) {
  Connection& connection = connections_.at(from.address);
  connections_.take_reference(connection);
  auto waiter = std::make_unique<Waiter>();
  waiter->job = &job;
  waiter->connection = &connection;
  waiter->envelope = from.envelope;
  waiter->ref = ref.bytes;
  if (until) timers_.set(waiter->timer, *until);
  auto& waiters = job.need_extra().waiters;
  if (waiters.size() >= kWaitersMax) {
    // The longest waiter makes way: most likely its connection is gone and came back as this one.
    drop_waiter(*waiters.front());
    waiters.erase(waiters.begin());
    ++stats_.waiters_dropped;
  }
  waiters_bytes_ += waiter->bytes();
  ++connection.waiters;
  waiters.push_back(std::move(waiter));
}

/// It is about to be destroyed.
void Broker::drop_waiter(Waiter& waiter) {
  timers_.clear(waiter.timer);
  waiters_bytes_ -= waiter.bytes();
  --waiter.connection->waiters;
  connections_.drop_reference(*waiter.connection);
}

/// Whether one more request may wait for a job that was submitted before.
std::optional<Refusal> Broker::no_room_to_wait(const Origin& from, wire::Raw ref, TimePoint now) {
  if (const Connection* const connection = connections_.find(from.address);
      connection != nullptr && connection->waiters >= kWaitersPerConnectionMax)
    return Refusal{
        ErrorCode::client_full,
        "the connection waits for " + std::to_string(connection->waiters) +
            " jobs besides those that it submitted (connection_waiters_max); ask for fewer at a time",
        kRetryAfterMin, "connection_waiters_max"};
  const std::size_t needed =
      std::max(sizeof(Waiter), sizeof(StreamReader)) + from.envelope.size() + ref.bytes.size();
  if (bytes_ + waiters_bytes_ + needed <= options_.memory_max)
    while (memory_bytes() + needed > options_.memory_max) {
      if (kept_.unload_oldest()) continue;
      if (!evict_result(now)) break;
    }
  if (memory_bytes() + needed <= options_.memory_max) return std::nullopt;
  return Refusal{ErrorCode::bytes_full,
                 "the broker holds " + std::to_string(memory_bytes()) + " bytes (memory_max); retry later",
                 kRetryAfterMax, "memory_max"};
}

void Broker::drop_waiters(Job& job) {
  if (!job.extra) return;
  for (const auto& waiter : job.extra->waiters)
    drop_waiter(*waiter);
  job.extra->waiters.clear();
}

/// The job goes on for as long as somebody is left who asked for it: the connection is one from now on.
void Broker::add_owner(Job& job, Connection& connection) {
  note_life(connection);
  auto& owners = job.need_extra().owners;
  const auto is_its = [&](const auto& owner) { return owner->connection == &connection; };
  if (std::any_of(owners.begin(), owners.end(), is_its)) return;
  if (owners.size() >= kOwnersMax) {
    // So many are enough to keep it; one that seems gone makes way.
    const auto gone = std::find_if(owners.begin(), owners.end(),
                                   [](const auto& owner) { return owner->connection->unreachable; });
    if (gone == owners.end()) return;
    drop_owner(**gone);
  }
  connections_.take_reference(connection);
  Owner& owner = *owners.emplace_back(std::make_unique<Owner>());
  owner.job = &job;
  owner.connection = &connection;
  connection.owned.push_back(owner);
}

void Broker::drop_owner(const Owner& owner) {
  Connection& connection = *owner.connection;
  auto& owners = owner.job->extra->owners;
  const auto place =
      std::find_if(owners.begin(), owners.end(), [&](const auto& other) { return other.get() == &owner; });
  connection.owned.remove(**place);
  if (connection.owned.empty()) timers_.clear(connection.timer);
  owners.erase(place);
  connections_.drop_reference(connection);
}

void Broker::drop_owners(Job& job) {
  while (job.extra && !job.extra->owners.empty())
    drop_owner(*job.extra->owners.back());
}

void Broker::on(const ClientUnreachable& event, TimePoint now) {
  Connection* const connection = connections_.find(event.address);
  if (connection == nullptr) return;
  connection->unreachable = true;
  for (StreamReader* reader = connection->readers.front(); reader != nullptr;
       reader = connection->readers.next(*reader))
    readers_changed(*reader->job);
  if (connection->owned.empty() || connection->timer.is_set()) return;
  timers_.set(connection->timer, now + kOrphanPause);
}

/// It spoke: whoever took it for gone was wrong.
void Broker::note_life(Connection& connection) {
  timers_.clear(connection.timer);
  connection.unreachable = false;
}

/// Its client is gone: what it owned has one owner less, and is cancelled where that was the last. What it
/// owned beyond a part of it is for the next tick, so that others are served in between.
void Broker::leave_owned(Connection& connection, TimePoint now) {
  connections_.take_reference(connection);
  for (std::size_t looked_at = 0; looked_at < kOwnedInATurn; ++looked_at) {
    const Owner* const owner = connection.owned.front();
    if (owner == nullptr) break;
    Job& job = *owner->job;
    drop_owner(*owner);
    if (!job.extra->owners.empty()) continue;
    ++stats_.orphans_cancelled;
    end_with(job, JobState::cancelled, ErrorCode::cancelled,
             "cancelled because its client is gone, as its submit asked for (orphan)", now);
  }
  if (!connection.owned.empty()) timers_.set(connection.timer, now + TimerWheel::kTick);
  connections_.drop_reference(connection);
}

void Broker::on(const CancelAsked& event, TimePoint now) {
  const wire::Cancel& fields = *event.fields;
  Record* record = jobs_.find(fields.id);
  const bool by_operator = event.from.peer == Peer::admin;
  const bool ends = record != nullptr && record->result() == nullptr;
  // On a full disk, or one that is far behind, who changes nothing there is answered at once, and operators
  // are in any case.
  const bool at_once = (store_full_ || store_behind_) && (by_operator || !ends);
  const bool waits = !at_once && (record == nullptr ? options_.store_durable : is_durable(*record));
  if (waits && refused_for_disk(event.from, fields.ref, fields.id)) return;
  const Outbox::Waiting waiting(outbox_, waits);
  if (record == nullptr) return say_unknown(fields.id, event.from, fields.ref);
  if (ends) {
    end_with(*record->job(), JobState::cancelled, ErrorCode::cancelled,
             by_operator ? "cancelled by an operator" : "cancelled by its client", now);
    record = jobs_.find(fields.id);
  }
  if (record != nullptr) return say_status(*record, event.from, fields.ref, now);
  // It is not to be kept, and gone by now.
  wire::StatusReply reply;
  reply.id = fields.id;
  reply.state = name_of(JobState::cancelled);
  reply.ref = fields.ref;
  answer(event.from, reply);
}

void Broker::on(const StatusAsked& event, TimePoint now) {
  const wire::StatusQuery& fields = *event.fields;
  // On a full disk, or one that is far behind, it says what is so, on disk or not yet: else it would wait for
  // as long as that lasts.
  const Outbox::Waiting waiting(outbox_, options_.store_durable && !store_full_ && !store_behind_);
  if (!fields.ids.empty()) {
    if (!fields.id.empty())
      return refuse(event.from, fields.ref, fields.id,
                    bad_request("fields \"id\" and \"ids\" are both there; send one of them"));
    return say_statuses(event, now);
  }
  if (fields.id.empty())
    return refuse(event.from, fields.ref, {}, bad_request("field \"id\" is missing, and so is \"ids\""));
  if (const Record* record = jobs_.find(fields.id)) return say_status(*record, event.from, fields.ref, now);
  say_unknown(fields.id, event.from, fields.ref);
}

/// Refuses what would wait for the disk, where more waits than may. An answer that waits would come much
/// later, and takes memory until then.
bool Broker::refused_for_disk(const Origin& to, wire::Raw ref, std::string_view id) {
  if (store_behind_) refuse(to, ref, id, kDiskBehind);
  return store_behind_;
}

Refusal Broker::not_known(std::string_view id) const {
  if (gone_.contains(id))
    return {ErrorCode::gone,
            "the result of job \"" + std::string(id) +
                "\" is no longer kept: retain_ms is over, it made way for newer ones (results_max, "
                "results_bytes_max, results_disk_max, memory_max), or it was purged",
            {}};
  return {ErrorCode::not_found, "no job with id \"" + std::string(id) + "\" is known", {}};
}

/// Of a submit of what has succeeded, and whose result made way: it is not to run twice without a word.
Refusal Broker::ran_before(std::string_view id) const {
  return {ErrorCode::gone,
          "job \"" + std::string(id) +
              "\" succeeded, and its result made way for newer ones before its retain_ms was over "
              "(results_max, results_bytes_max, results_disk_max or memory_max was reached): it is not run "
              "again under this id before that; submit it under another",
          {}};
}

void Broker::on(const FetchAsked& event, TimePoint now) {
  const wire::Fetch& fields = *event.fields;
  Record* const record = jobs_.find(fields.id);
  if (fields.from_seq && event.from.one_answer)
    return refuse(event.from, fields.ref, fields.id,
                  bad_request("field \"from_seq\" is set, but a REQ socket takes one answer; use a DEALER"));
  if (record == nullptr) return refuse(event.from, fields.ref, fields.id, not_known(fields.id));
  if (is_durable(*record) && refused_for_disk(event.from, fields.ref, fields.id)) return;
  const Outbox::Waiting waiting(outbox_, is_durable(*record));
  if (const KeptResult* result = record->result())
    return tell_end(*result, fields.from_seq, event.from, fields.ref);
  Job& waited_for = *record->job();
  const bool owned = waited_for.extra && !waited_for.extra->owners.empty();
  if (owned) note_life(connections_.at(event.from.address));
  if (fields.wait_ms > 0)
    if (const auto why = no_room_to_wait(event.from, fields.ref, now))
      return refuse(event.from, fields.ref, fields.id, *why);
  // Who waits for a job is its client, too.
  if (owned) add_owner(waited_for, connections_.at(event.from.address));
  if (const AnswerStream* const stream = record->job()->answer(); stream != nullptr && fields.from_seq) {
    if (stream->placed() && *fields.from_seq < stream->first())
      return refuse(event.from, fields.ref, fields.id,
                    chunk_gone(fields.id, *fields.from_seq, stream->first()));
    StreamReader& reader = add_reader(*record->job(),
                                      {.from = event.from,
                                       .ref = fields.ref,
                                       .from_seq = *fields.from_seq,
                                       .until = now + std::chrono::milliseconds(fields.wait_ms),
                                       .joined = fields.wait_ms > 0},
                                      now);
    if (fields.wait_ms == 0) end_reading(reader, now);
    return;
  }
  if (fields.wait_ms == 0) return say_status(*record, event.from, fields.ref, now);
  add_waiter(*record->job(), event.from, fields.ref, now + std::chrono::milliseconds(fields.wait_ms));
}

void Broker::on(const DrainAsked&, TimePoint now) {
  if (draining_) return;
  draining_ = true;
  static constexpr char kText[] =
      "the broker is stopping and the job is not kept on disk; submit it again in a moment";
  std::vector<Job*> queued;
  const auto& clients = clients_.all();
  for (const Client* client = clients.front(); client != nullptr; client = clients.next(*client))
    for (const auto& queue : client->queues)
      queue->append_to(queued);
  std::sort(queued.begin(), queued.end(), [](const Job* a, const Job* b) {
    return a->lane != b->lane ? a->lane < b->lane : a->arrival < b->arrival;
  });
  for (Away* away = delayed_.front(); away != nullptr; away = delayed_.next(*away))
    queued.push_back(&away->job);
  // What is on disk waits there for the broker's return.
  for (Job* job : queued)
    if (!job->durable) end_with(*job, JobState::failed, ErrorCode::draining, kText, now);
}

// ---- answers ------------------------------------------------------------------------------------------

void Broker::refuse(const Origin& to, wire::Raw ref, std::string_view id, const Refusal& why) {
  wire::ErrorReply reply;
  if (!id.empty()) reply.id = id;
  reply.code = name_of(why.code);
  reply.message = why.message;
  if (why.retry_after) reply.retry_after_ms = to_ms(*why.retry_after);
  if (!why.limiter.empty()) reply.limiter = why.limiter;
  reply.ref = ref;
  answer(to, reply);
}

/// `position`: of the job in its queue; none for one that was known before. `eta_ms`: where that is known.
void Broker::say_accepted(std::string_view id, const Lane& lane, bool durable,
                          std::optional<std::size_t> position, std::optional<std::int64_t> eta_ms,
                          const Origin& to, wire::Raw ref) {
  wire::Accepted reply;
  reply.id = id;
  if (&lane != default_lane_) reply.lane = lane.options().name;
  reply.durable = durable;
  reply.duplicate = !position;
  reply.position = static_cast<std::int64_t>(position.value_or(0));
  reply.eta_ms = eta_ms;
  reply.ref = ref;
  answer(to, reply);
}

void Broker::say_unknown(std::string_view id, const Origin& to, wire::Raw ref) {
  wire::StatusReply reply;
  reply.id = id;
  reply.state = kUnknown;
  reply.ref = ref;
  answer(to, reply);
}

void Broker::say_status(const Record& record, const Origin& to, wire::Raw ref, TimePoint now) {
  wire::StatusReply reply;
  Wait wait;
  fill_status(reply, wait, record, now);
  reply.ref = ref;
  outbox_.add(to.peer, to.address, to.envelope, reply);
}

/// Where a job is. `wait` holds a text of it, and scratch_ another.
void Broker::fill_status(wire::StatusReply& reply, Wait& wait, const Record& record, TimePoint now) {
  reply.id = record.id();
  LaneIndex lane = 0;
  scratch_.clear();
  if (const KeptResult* result = record.result()) {
    lane = result->lane;
    reply.state = name_of(result->state);
    reply.attempts = result->attempts;
    reply.queued_ms = result->queued_ms;
    const Ending* const ending = result->terminal().ending;
    if (ending != nullptr && result->state != JobState::succeeded) {
      DocumentWriter(scratch_)
          .map(2)
          .text("code")
          .text(name_of(ending->code))
          .text("message")
          .text(ending->message);
      reply.error = {scratch_.view()};
    }
  } else {
    const Job& job = *record.job();
    lane = job.lane;
    reply.state = name_of(job.state);
    reply.attempts = job.attempts;
    reply.queued_ms = waited_ms(job, now);
    if (job.state == JobState::queued || job.state == JobState::delayed) {
      wait = wait_of(job, now);
      reply.blocked_by = wait.what;
      if (wait.until) reply.eta_ms = std::max<std::int64_t>(to_ms(*wait.until - now), 0);
    }
    if (const Worker* worker = job.worker(); worker != nullptr && !worker->name.empty())
      reply.worker = worker->name;
  }
  if (lanes_[lane].get() != default_lane_) reply.lane = lanes_[lane]->options().name;
}

/// Where each of many jobs is, in the order of their ids: maps with the fields of a single status. An answer
/// holds as many as fit into a header; who finds ids left out asks for those again.
void Broker::say_statuses(const StatusAsked& event, TimePoint now) {
  const wire::StatusQuery& fields = *event.fields;
  constexpr std::size_t kHeadBytes = 3;  // of an array of up to 65,535
  constexpr std::size_t kRoom = limits::header_bytes_max - limits::ref_bytes_max - 64;
  std::size_t count = 0;
  list_.clear();
  for (const std::string_view id : fields.ids) {
    wire::StatusReply entry;
    Wait wait;
    entry.id = id;
    entry.state = kUnknown;
    if (const Record* record = jobs_.find(id)) fill_status(entry, wait, *record, now);
    const std::size_t before = list_.size();
    encode_fields(entry, list_);
    if (list_.size() + kHeadBytes > kRoom) {
      list_.shrink(before);
      break;
    }
    ++count;
  }
  scratch_.clear();
  DocumentWriter(scratch_).array(count).written(list_.view());
  wire::StatusReply reply;
  reply.jobs = {scratch_.view()};
  reply.ref = fields.ref;
  answer(event.from, reply);
}

/// Whether it is the only job of its service that waits: which of several is next, or tries an upstream that
/// failed, is for others to say.
bool Broker::waits_alone(const Job& job) const {
  const std::vector<FlowGroup*>& groups = job.flow().service().groups;
  return std::all_of(groups.begin(), groups.end(), [&](const FlowGroup* group) {
    return std::all_of(group->flows().begin(), group->flows().end(), [&](const auto& flow) {
      return flow->depth() == (flow.get() == &job.flow() ? 1U : 0U);
    });
  });
}

/// Whether one that waits for the same budgets may go before the job by then, which is the first in line now:
/// since its lane is owed that, or since it will have waited for so long.
bool Broker::may_be_passed(const Job& job, TimePoint by, TimePoint now) {
  const Rank rank = rank_of(job, by);
  // While its model is paused apart, others take what comes in.
  const bool apart = budgets_.model_pause(job.flow().budgets(), now).budget != nullptr;
  const auto passes = [&](const Flow& other) {
    if (&other == &job.flow() || other.empty()) return false;
    return apart || (!is_top(job.lane) && is_owed(other)) || rank_of(*other.head(), by) < rank;
  };
  const std::vector<std::size_t>& budgets = budgets_.of(job.flow().budgets());
  if (std::any_of(budgets.begin(), budgets.end(),
                  [&](std::size_t budget) { return parking_.any_in_line(budget, passes); }))
    return true;
  // Those whose model was paused apart come back when that is over.
  for (std::size_t model = 0; budgets_.any_apart() && model < Budgets::kModelsApartMax; ++model)
    if (parking_.any_in_line(budgets_.line_of(model), passes)) return true;
  return false;
}

Broker::Wait Broker::wait_of(const Job& job, TimePoint now) {
  if (job.adoptable) return {"worker that ran it before the restart", {}};
  if (job.state == JobState::delayed) return {job.attempt == 0 ? "delay" : "retry", job.at_away().due};
  if (std::string pause = paused_by(job); !pause.empty()) return {std::move(pause), {}};
  Service& service = job.flow().service();
  const std::size_t model = budgets_.model_of(job.flow().budgets());
  if (Service::FailedModel* const failed = service.failed_model(model);
      failed != nullptr && !failed->breaker.admits(is_top(job.lane), now)) {
    const TimePoint until = waits_alone(job) ? failed->breaker.admits_at(is_top(job.lane)) : kNever;
    return {"upstream " + service.name + " model=" + budgets_.model_name(model) +
                whose(failed->breaker, job.queue->client()),
            until == kNever ? std::nullopt : std::optional(until)};
  }
  if (job.queue->barred) return {"upstream " + service.name + " client=" + job.queue->client().name, {}};
  if (!service.breaker.closed() && !service.breaker.admits(is_top(job.lane), now)) {
    const TimePoint until = waits_alone(job) ? service.breaker.admits_at(is_top(job.lane)) : kNever;
    return {"upstream " + service.name + whose(service.breaker, job.queue->client()),
            until == kNever ? std::nullopt : std::optional(until)};
  }
  if (workers_.find_place(service, job.lane) == nullptr)
    return {(service.workers == 0 ? "no worker " : "worker ") + service.name, {}};
  const Client& client = job.queue->client();
  if (client.at_limit()) return {"client " + client.name + " in_flight_max", {}};
  if (store_stalled_ && job.durable) return {"store", {}};
  if (bodies_held_ && job.body_stored) return {"bodies", {}};
  const Flow& flow = job.flow();
  const BudgetSet set = flow.budgets();
  Claim claim = claim_of(job, now);
  Obstacle obstacle = budgets_.obstacle(set, claim, now);
  const bool reserved = obstacle && !budgets_.obstacle(set, {.amounts = claim.amounts}, now);
  bool next = flow.head() == &job;  // nobody goes before it
  const Rank rank = next ? parking_.rank_of(flow, rank_of(job, now)) : rank_of(job, now);
  claim.number = ++claims_;
  for (const std::size_t place : budgets_.of(set)) {
    // What has enough for this job is saved by one before it.
    const Budget& budget = budgets_.all()[place];
    Stall saved;
    const Stall* const ahead = parking_.ahead(place, rank, [&](const Stall& stall) {
      budgets_.earmark(place, stall.account, claim);
      saved = stall;
    });
    if (ahead != nullptr || saved.account != Stall::kNoAccount) next = false;
    if (obstacle) continue;
    if (ahead != nullptr)
      obstacle = {.budget = &budget, .rate = ahead->rate};
    else if (saved.account != Stall::kNoAccount && budgets_.obstacle_of(set, place, claim, now))
      obstacle = {.budget = &budget, .account = &budget.accounts[saved.account], .rate = saved.rate};
  }
  if (!obstacle) return {"lane " + lanes_[job.lane]->options().name, {}};
  TimePoint until = next ? budgets_.foreseen(set, claim, now) : kNever;
  if (until != kNever && may_be_passed(job, until, now)) until = kNever;
  return {(reserved && next ? "reserve " : "budget ") + obstacle.name(),
          until == kNever || until <= now ? std::nullopt : std::optional(until)};
}

void Broker::say_terminal(const Terminal& end, const Origin& to, wire::Raw ref) {
  // Without a ref or a name of its own, the id is all the client can know the job by.
  const std::string_view id = end.client_named_it || !ref.present() ? end.id : std::string_view{};
  if (end.state == JobState::succeeded) {
    const Lane& lane = *lanes_[end.lane];
    wire::JobResult reply;
    reply.id = id;
    if (&lane != default_lane_) reply.lane = lane.options().name;
    reply.attempts = end.attempts;
    reply.queued_ms = end.queued_ms;
    reply.ran_ms = end.ran_ms;
    if (end.ending != nullptr) {
      reply.usage = end.ending->usage;
      reply.chunks = end.ending->chunks;
    }
    reply.ref = ref;
    return answer(to, reply, end.body);
  }
  wire::ErrorReply reply;
  reply.id = id;
  reply.code = name_of(end.ending->code);
  reply.message = end.ending->message;
  if (end.ending->retry_after) reply.retry_after_ms = to_ms(*end.ending->retry_after);
  reply.attempts = end.attempts;
  reply.queued_ms = end.queued_ms;
  reply.chunks = end.ending->chunks;
  reply.upstream_status = end.ending->upstream_status;
  reply.ref = ref;
  answer(to, reply, end.body);
}

/// How a job ended, and from where on its chunks are wanted: from memory, or when the store has been asked.
void Broker::tell_end(const KeptResult& result, std::optional<std::int64_t> from_seq, const Origin& to,
                      wire::Raw ref) {
  if (!result.body_stored) {
    if (from_seq) return replay(result.terminal(), result.answer(), *from_seq, to, ref);
    return say_terminal(result.terminal(), to, ref);
  }
  if (asking_count_ >= kAskingMax)
    return refuse(to, ref, result.id(),
                  {ErrorCode::bytes_full,
                   std::to_string(asking_count_) +
                       " results are being read back from the store, and no more may wait; ask again later",
                   kRetryAfterMin, "results_read_max"});
  const auto number = static_cast<std::uint64_t>(result.number);
  std::vector<Asking>& asking = asking_[number];
  if (asking.empty()) outbox_.reads.push_back({.number = number, .awaited = true, .of_result = true});
  asking.push_back({.id = std::string(result.id()),
                    .address = std::string(to.address),
                    .envelope = std::string(to.envelope),
                    .ref = std::string(ref.bytes),
                    .from_seq = from_seq});
  ++asking_count_;
}

void Broker::on(const ResultRead& event, TimePoint) {
  const auto place = asking_.find(event.number);
  if (place == asking_.end()) return;
  const std::vector<Asking> asking = std::move(place->second);
  asking_.erase(place);
  asking_count_ -= asking.size();
  ++stats_.results_read;
  if (!decoder_) decoder_ = std::make_unique<StoredDecoder>();
  std::unique_ptr<Ending> ending;
  const auto stored = event.record ? decoder_->result(*event.record, ending)
                                   : failure(ErrorCode::internal, "it is not there");
  // It went meanwhile; another job may have its id by now.
  const bool went = jobs_.find(JobNumber{event.number}) == nullptr;
  for (const Asking& who : asking) {
    const Origin to{.address = who.address, .envelope = who.envelope};
    if (!stored && went) {
      refuse(to, {who.ref}, who.id, not_known(who.id));
    } else if (!stored) {
      refuse(to, {who.ref}, who.id,
             {ErrorCode::internal,
              "the result cannot be read from the store: " + stored.error().message +
                  "; check it with lanemq-broker --check-store",
              {}});
    } else {
      const Terminal end = terminal_of(*stored, ending.get(), event.body);
      if (who.from_seq)
        replay(end, nullptr, *who.from_seq, to, {who.ref});
      else
        say_terminal(end, to, {who.ref});
    }
  }
}

/// A ULID: 48 bits of time in ms and 80 random bits in Crockford's base 32 (github.com/ulid/spec).
std::string Broker::make_id(TimePoint now) {
  static constexpr char kDigits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  std::string id(kIdBytes, '0');
  auto time = static_cast<std::uint64_t>(options_.wall_ms + to_ms(now.time_since_epoch()));
  for (int i = 9; i >= 0; --i, time >>= 5)
    id[static_cast<std::size_t>(i)] = kDigits[time & 31];
  do {
    std::uint64_t random = random_();
    for (std::size_t i = 10; i < 18; ++i, random >>= 5)
      id[i] = kDigits[random & 31];
    random = random_();
    for (std::size_t i = 18; i < kIdBytes; ++i, random >>= 5)
      id[i] = kDigits[random & 31];
  } while (jobs_.find(id) != nullptr);
  return id;
}

}  // namespace lanemq::core
