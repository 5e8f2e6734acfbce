// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <lanemq/codec.hpp>

#include "tests/sim/auditor.hpp"

// What clients ask, and what they are told.

namespace lanemq::sim {
namespace {

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// More than those that are always there.
constexpr std::size_t kLargeEnvelope = 100;

}  // namespace

void Auditor::client_says(const std::string& address, const wire::ClientRequest& said, std::string_view body,
                          std::size_t envelope, TimePoint now) {
  now_ = now;
  incoming_ = body.size();
  large_envelopes_ = large_envelopes_ || envelope > kLargeEnvelope;
  addresses_.insert(address);
  if (const auto* submit = std::get_if<wire::Submit>(&said)) return on(address, *submit, body, envelope);
  if (const auto* cancel = std::get_if<wire::Cancel>(&said)) return on(address, *cancel);
  if (const auto* query = std::get_if<wire::StatusQuery>(&said)) return on(address, *query);
  if (const auto* fetch = std::get_if<wire::Fetch>(&said)) return on(address, *fetch, envelope);
  if (const auto* watch = std::get_if<wire::Watch>(&said)) return on(address, *watch);
  if (std::holds_alternative<wire::Spend>(said)) return;  // CallerLedger follows that
  if (const auto* seen = std::get_if<wire::Seen>(&said))
    return is_of_watch(address, seen->ref) ? seen_by(address, *seen) : on(address, *seen);
  violated("a client said what the auditor does not know");
}

ModelRequest& Auditor::request(const std::string& address, const char* op, wire::Raw ref,
                               std::string_view id) {
  immediate_ = ref_number(ref).value_or(0);
  const auto [place, fresh] = requests_.try_emplace(immediate_);
  if (!fresh || immediate_ == 0) violated("the run used a ref twice");
  place->second.address = address;
  place->second.op = op;
  place->second.id = id;
  return place->second;
}

/// The job that an id stands for: one that has not ended, or whose end is kept. Null where there is none.
ModelJob* Auditor::known(std::string_view id) {
  const auto place = by_id_.find(std::string(id));
  if (place == by_id_.end()) return nullptr;
  ModelJob& job = *place->second;
  return !job.ended() || job.kept ? &job : nullptr;
}

void Auditor::on(const std::string& address, const wire::Submit& submit, std::string_view body,
                 std::size_t envelope) {
  ModelRequest& asked = request(address, "submit", submit.ref, submit.id);
  asked.envelope = envelope;
  const bool is_req = envelope > 0;
  // Who speaks is there.
  shows_itself(address);
  unreachable_.erase(address);
  std::size_t lane = 0;
  for (lane = 0; lane < options_.lanes.size(); ++lane)
    if (submit.lane.empty() ? options_.lanes[lane].is_default : options_.lanes[lane].name == submit.lane)
      break;
  if (lane == options_.lanes.size() || (is_req && (submit.reply == "both" || submit.stream))) {
    asked.refusals = {"bad_request"};
    asked.must_refuse = true;
    asked.terminal_due = true;
    return;
  }
  const TooLarge too_large = too_large_of(submit);
  if (too_large == TooLarge::yes) {
    asked.refusals = {"too_large"};
    asked.must_refuse = asked.terminal_due = true;
    return;
  }
  // Then it is refused each time, and never a job.
  const std::vector<std::string> or_too_large =
      too_large == TooLarge::perhaps ? std::vector<std::string>{"too_large"} : std::vector<std::string>{};
  asked.accepted_due = submit.reply == "accepted" || submit.reply == "both";
  asked.terminal_due = submit.reply != "accepted";

  if (ModelJob* job = submit.id.empty() ? nullptr : known(submit.id)) {
    if (job->service != submit.service || job->model != submit.model || job->body != body ||
        job->submitted_lane != lane) {
      asked.refusals = or_too_large;
      asked.refusals.emplace_back("conflict");
      asked.must_refuse = asked.terminal_due = true;
      return;
    }
    asked.job = job;
    asked.duplicate = true;
    const bool owns = !job->ended() && !job->owners.empty() && !job->owners.contains(address);
    if (!job->ended() && !job->owners.empty()) add_owner(*job, address);
    if (!asked.terminal_due) return;
    asked.waits = !job->ended();
    asked.owns = owns;
    const std::uint64_t ref = immediate_;
    const bool reads = submit.stream && (job->streams || job->ended());
    if (reads && chunk_gone(asked, *job, 0)) return;
    if (reads) add_reader(*job, ref, 0);
    if (!job->ended()) return reads ? void() : add_waiter(*job, ref);
    job->waiters.push_back(ref);
    ended_.push_back(job);  // its end is due in this step again
    return;
  }
  const std::vector<std::string> went =
      ran_before(submit.id) ? known_once(submit.id) : std::vector<std::string>();
  if (went == std::vector<std::string>{"gone"}) {
    asked.refusals = or_too_large;
    asked.refusals.emplace_back("gone");
    asked.must_refuse = asked.terminal_due = true;
    return;
  }
  asked.delay_ms = submit.delay_ms.value_or(0);

  ModelJob& job = pending_.emplace_back();
  pending_ref_ = immediate_;
  job.id = submit.id;
  job.named = !submit.id.empty();
  job.service = submit.service;
  job.model = submit.model;
  job.client = client_of(asked.address, submit);
  job.group = submit.group;
  job.group_size = submit.group_size.value_or(0);
  job.body = body;
  job.texts = texts_of(submit, envelope);
  job.envelope = envelope;
  job.lane = job.submitted_lane = lane;
  job.accepted_at = now_;
  job.timeout_stated = submit.timeout_ms.has_value();
  job.timeout = submit.timeout_ms ? Duration(std::chrono::milliseconds(*submit.timeout_ms))
                                  : options_.lanes[lane].timeout;
  const Duration delay = std::chrono::milliseconds(submit.delay_ms.value_or(0));
  if (delay.count() > 0) {
    job.state = ModelJob::State::delayed;
    job.accepted_at = job.delay_over = job.due_min = job.due_max = now_ + delay;
  }
  // A stated timeout counts from the submit, the lane's from the end of the delay.
  job.deadline = (job.timeout_stated ? now_ : job.accepted_at) + job.timeout;
  job.retain = submit.retain_ms ? Duration(std::chrono::milliseconds(*submit.retain_ms)) : options_.retain;
  job.retain_asked = job.retain;
  job.stated_cost = submit.cost;
  job.id_told = job.named || asked.accepted_due;
  job.attempts_max = static_cast<int>(submit.attempts_max.value_or(options_.attempts_max));
  if (submit.orphan == "cancel") job.owners.insert(address);
  job.streams = submit.stream;
  if (asked.terminal_due && job.streams) add_reader(job, immediate_, 0);
  if (asked.terminal_due && !job.streams) job.submit_ref = immediate_;
  expect(job, submit.cost);
  may_be_refused(asked, job);
  asked.refusals.insert(asked.refusals.end(), or_too_large.begin(), or_too_large.end());
  if (contains(went, "gone")) asked.refusals.emplace_back("gone");
  if (!asked.must_refuse && unsatisfiable(job)) {
    asked.refusals.emplace_back("unsatisfiable");
    asked.must_refuse = true;
  }
  if (!asked.must_refuse && delay.count() == 0 && waits_in_vain(job)) {
    asked.refusals.emplace_back("limited");
    asked.must_refuse = true;
  }
  may_find_no_room(asked, job);
}

/// Whether no worker could be told of the job, whose texts have to fit into a header beside what else it is
/// told. How much that may be, and how it is written, is the broker's to say: near the bound either is right,
/// as long as its worker can read what it is told.
Auditor::TooLarge Auditor::too_large_of(const wire::Submit& submit) {
  constexpr std::size_t kOthersMost = 1024, kOtherFieldsMost = 16, kOtherFieldsLeast = 6;
  const std::size_t texts = texts_of(submit, 0) + submit.service.size() - submit.ref.bytes.size();
  const std::size_t fields = submit.extras.count;
  if (texts > limits::header_bytes_max || fields + kOtherFieldsLeast > limits::map_entries_max)
    return TooLarge::yes;
  const bool surely_fits =
      texts + kOthersMost <= limits::header_bytes_max && fields + kOtherFieldsMost <= limits::map_entries_max;
  return surely_fits ? TooLarge::no : TooLarge::perhaps;
}

std::string Auditor::client_of(const std::string& address, const wire::Submit& submit) {
  return submit.client.empty() ? std::string(kConnection) + address : std::string(submit.client);
}

const core::ClientOptions& Auditor::options_of(const std::string& client) const {
  static const core::ClientOptions kNone;
  for (const core::ClientOptions& options : options_.clients)
    if (options.name == client) return options;
  for (const core::ClientOptions& options : options_.clients)
    if (options.name == "*") return options;
  return kNone;
}

std::size_t Auditor::lane_index(std::string_view name) const {
  std::size_t lane = 0;
  while (lane < options_.lanes.size() && options_.lanes[lane].name != name)
    ++lane;
  return lane;
}

void Auditor::may_be_refused(ModelRequest& asked, const ModelJob& job) {
  const core::LaneOptions& limits = options_.lanes[job.lane];
  const core::ClientOptions& of_client = options_of(job.client);
  const auto must = [&](const char* code) {
    asked.refusals.emplace_back(code);
    asked.must_refuse = true;
  };
  if (draining_) return must("draining");
  const std::string party = party_of(job.client);
  const core::ClientOptions& of_party = options_of(party);
  for (const core::ClientOptions* options : {&of_client, &of_party})
    if (!options->lane_max.empty() && job.lane < lane_index(options->lane_max)) return must("forbidden");
  for (const std::string& whose : {job.client, party})
    if (const std::size_t most = options_of(whose).depth_max; most > 0 && counts_of(whose).waiting >= most)
      return must("client_full");
  if ((of_party.depth_max == 0 && leaves_to_others(job, party)) ||
      (party != job.client && of_client.depth_max == 0 && leaves_to_others(job, job.client))) {
    if (!names_nobody(job.client)) return must("client_full");
    asked.refusals.emplace_back("client_full");
  }
  // A dead job that is run again is one more.
  if (!job.dead && group_refuses(job)) return must("bad_request");
  if (waiting_[job.lane] >= limits.depth_max) return must("lane_full");
  const Bytes bytes = bytes_of(job);
  if (limits.bytes_max > 0) {
    Bytes lane = bytes_of_lane(job.lane);
    lane += bytes;
    if (lane.least > limits.bytes_max) return must("lane_full");
    if (lane.most > limits.bytes_max) asked.refusals.emplace_back("lane_full");
  }
}

/// Room is looked for when nothing else refuses the job.
void Auditor::may_find_no_room(ModelRequest& asked, const ModelJob& job) {
  if (asked.must_refuse) return;
  // Results make way for new work, dead jobs do not; and not where that would not be enough.
  if (options_.memory_max < kBytesNeverReached) {
    Bytes all = bytes_of_jobs();
    all += bytes_kept(Kept::dead);
    all += bytes_of_groups();
    if (!job.group.empty()) all.most += kGroupMost;
    all += bytes_of(job);
    if (all.least > options_.memory_max && asked.refusals.empty()) {
      asked.must_refuse = true;
      asked.refusals.emplace_back("bytes_full");
      return;
    }
    if (all.most > options_.memory_max) asked.refusals.emplace_back("bytes_full");
  }
  const auto results =
      static_cast<std::size_t>(std::count_if(kept_.begin(), kept_.end(), [](const ModelJob* kept) {
        return !kept->dead && kept->place == nullptr;
      }));
  if (table_size() - results >= options_.jobs_max && !contains(asked.refusals, "bytes_full"))
    asked.refusals.emplace_back("bytes_full");
}

/// Whether no more than the last part of its lane is left, and its tenant has as much waiting there itself,
/// or its client, where it has no tenant. Of what a tenant may fill its clients leave the last part to each
/// other. Bounds of bytes are too small here for a part of them.
bool Auditor::leaves_to_others(const ModelJob& job, const std::string& whose) const {
  constexpr std::size_t kLeast = 16;
  const std::size_t depth_max = options_.lanes[job.lane].depth_max;
  const auto part_of = [&](std::size_t bound) {
    return bound * static_cast<std::size_t>(options_.client_share) / 1000;
  };
  const bool inside = whose != party_of(job.client);
  const std::size_t may_fill = depth_max - (inside ? part_of(depth_max) : 0), part = part_of(may_fill);
  if (part < kLeast || waiting_[job.lane] + part < may_fill) return false;
  std::size_t its = 0;
  for (const ModelStream& stream : streams_)
    if (stream.lane == job.lane && (stream.client == whose || party_of(stream.client) == whose))
      its += stream.waiting.size();
  return its >= part;
}

/// The submit of this step was not refused: it is a job now.
void Auditor::accept_pending() {
  if (pending_.empty()) return;
  ModelRequest& asked = requests_[pending_ref_];
  if (asked.refused) {
    pending_.clear();
    return;
  }
  if (asked.must_refuse)
    violated("a submit that should have been refused with " + asked.refusals.front() + " was taken");
  jobs_.splice(jobs_.end(), pending_);
  ModelJob& job = jobs_.back();
  join_group(job, false);
  if (!job.named) job.id = asked.id;  // as `accepted` said it
  asked.job = &job;
  take(job);
}

/// The job waits from now on.
void Auditor::take(ModelJob& job) {
  // Who waits for its own delay comes behind all who are queued, in the order in which the delays are over.
  constexpr std::uint64_t kBehindAll = std::uint64_t{1} << 62;
  constexpr int kSerialBits = 20;
  const std::uint64_t number = next_serial_++;
  job.serial = number;
  if (job.in_own_delay()) {
    const auto over = static_cast<std::uint64_t>(job.delay_over.time_since_epoch().count());
    job.serial = kBehindAll + (over << kSerialBits) + number;
    delays_.push_back(&job);
  }
  if (!job.id.empty()) by_id_[job.id] = &job;
  by_body_[job.body] = &job;
  deadlines_.emplace(job.deadline, &job);
  ++waiting_[job.lane];
  ++clients_[job.client].waiting;
  for (const std::string& address : job.owners)
    orphans_[address].jobs.push_back(&job);
  stream_of(job).waiting.insert(&job);
  if (!job.model.empty()) upstreams_[job.service].models.insert(job.model);
  upstreams_[job.service].waits(job.client);
}

// ---- clients that go ----------------------------------------------------------------------------------

void Auditor::client_unreachable(const std::string& address, TimePoint now) {
  constexpr Duration kOrphanPause = std::chrono::seconds(5);
  now_ = now;
  unreachable_.insert(address);
  std::erase_if(watches_, [&](const auto& watch) { return watch.first.first == address; });
  for (ModelJob* job : streaming_)
    readers_changed(*job);
  const auto orphans = orphans_.find(address);
  if (orphans != orphans_.end() && orphans->second.cancel_at == core::kNever)
    orphans->second.cancel_at = now + kOrphanPause;
}

/// Whoever took it for gone was wrong.
void Auditor::shows_itself(const std::string& address) {
  if (const auto orphans = orphans_.find(address); orphans != orphans_.end())
    orphans->second.cancel_at = core::kNever;
}

/// Its client asks for it from the address: it goes on for that, too.
void Auditor::add_owner(ModelJob& job, const std::string& address) {
  shows_itself(address);
  unreachable_.erase(address);
  if (job.owners.insert(address).second) orphans_[address].jobs.push_back(&job);
}

void Auditor::drop_owner(ModelJob& job, const std::string& address) {
  job.owners.erase(address);
  const auto orphans = orphans_.find(address);
  if (orphans == orphans_.end()) return;
  std::erase(orphans->second.jobs, &job);
  if (orphans->second.jobs.empty()) orphans_.erase(orphans);
}

void Auditor::drop_owners(ModelJob& job) {
  while (!job.owners.empty())
    drop_owner(job, std::string(*job.owners.begin()));
}

/// All its clients have been gone for so long that it may be cancelled for that in this step.
bool Auditor::may_be_orphaned(const ModelJob& job) const {
  return advancing_ && !job.owners.empty() &&
         std::all_of(job.owners.begin(), job.owners.end(), [&](const std::string& address) {
           const auto orphans = orphans_.find(address);
           return orphans != orphans_.end() && orphans->second.cancel_at <= now_;
         });
}

/// Whether the id's job succeeded, and its result made way before its time, which is not over.
bool Auditor::ran_before(std::string_view id) const {
  const auto place = by_id_.find(std::string(id));
  if (id.empty() || place == by_id_.end()) return false;
  const ModelJob& job = *place->second;
  return job.made_way && job.code == "result" && now_ < acts_at(job.ended_at + job.retain);
}

ModelStream& Auditor::stream_of(const ModelJob& job) {
  // What runs is settled with those that it was taken from.
  const bool apart = job.state == ModelJob::State::running ? job.ran_apart : apart_.contains(job.model);
  const std::string model = apart ? job.model : std::string();
  for (ModelStream& stream : streams_)
    if (stream.lane == job.lane && stream.budgets == job.budgets && stream.service == job.service &&
        stream.client == job.client && stream.model == model)
      return stream;
  ModelStream& added = streams_.emplace_back();
  added.lane = job.lane;
  added.service = job.service;
  added.budgets = job.budgets;
  added.client = job.client;
  added.model = model;
  added.mixed = !model.empty();
  added.circle = options_of(job.client).tenant;
  add_tenant(added);
  return added;
}

/// The client's tenant, as the broker names it; the client itself, where it has none.
std::string Auditor::party_of(const std::string& client) const {
  const std::string& tenant = options_of(client).tenant;
  return tenant.empty() ? client : "@" + tenant + "/";
}

/// What all its clients have; of a client, what it has.
Auditor::Counts Auditor::counts_of(const std::string& party) const {
  const auto place = clients_.find(party);
  Counts counts = place == clients_.end() ? Counts{} : place->second;
  if (!party.starts_with('@')) return counts;
  for (const auto& [client, of] : clients_) {
    if (client == party || party_of(client) != party) continue;
    counts.waiting += of.waiting;
    counts.running += of.running;
    counts.times_at_limit += of.times_at_limit;
  }
  return counts;
}

void Auditor::add_waiter(ModelJob& job, std::uint64_t ref) {
  if (job.waiters.size() >= kWaitersMax) {
    ModelRequest& oldest = requests_[job.waiters.front()];
    oldest.terminal_due = oldest.status_due = false;
    job.waiters.erase(job.waiters.begin());
  }
  job.waiters.push_back(ref);
}

void Auditor::on(const std::string& address, const wire::Cancel& cancel) {
  ModelRequest& asked = request(address, "cancel", cancel.ref, cancel.id);
  asked.status_due = true;
  ModelJob* const job = known(cancel.id);
  if (job == nullptr) {
    asked.state = "unknown";
    return;
  }
  if (!job->ended()) must_end(*job, {"cancelled"});
  asked.state = job->ended() ? state_of(*job) : "cancelled";
}

void Auditor::on(const std::string& address, const wire::StatusQuery& query) {
  ModelRequest& asked = request(address, "status", query.ref, query.id);
  asked.status_due = true;
  const auto state = [&](std::string_view id) {
    const ModelJob* const job = known(id);
    return job == nullptr ? "unknown" : state_of(*job);
  };
  for (const std::string_view id : query.ids)
    asked.states.emplace_back(id, state(id));
  if (query.ids.empty()) asked.state = state(query.id);
}

/// How a fetch of an id that stands for no job is refused: the last `gone_max` that went are remembered, and
/// as many of those that made way.
std::vector<std::string> Auditor::known_once(std::string_view id) const {
  const auto place = by_id_.find(std::string(id));
  if (place == by_id_.end() || !place->second->id_told) return {"not_found"};
  const ModelJob& job = *place->second;
  const std::uint64_t max = options_.gone_max;
  if (max == 0) return {"not_found"};
  bool surely_known = true, surely_not = true;
  const auto look_at = [&](const ModelJob::Going& going, const Goings& goings) {
    if (!going.possible) return;
    surely_known = surely_known && goings.most - going.after <= max;
    surely_not = surely_not && goings.least >= going.until + max;
  };
  look_at(job.went, goings_);
  look_at(job.went_promised, promised_goings_);
  if (surely_known) return {"gone"};
  if (surely_not) return {"not_found"};
  return {"gone", "not_found"};
}

void Auditor::on(const std::string& address, const wire::Fetch& fetch, std::size_t envelope) {
  ModelRequest& asked = request(address, "fetch", fetch.ref, fetch.id);
  asked.envelope = envelope;
  if (envelope > 0 && fetch.from_seq) {
    asked.refusals = {"bad_request"};
    asked.must_refuse = asked.terminal_due = true;
    return;
  }
  ModelJob* const job = known(fetch.id);
  if (job == nullptr) {
    asked.refusals = known_once(fetch.id);
    asked.must_refuse = asked.terminal_due = true;
    return;
  }
  asked.job = job;
  if (job->ended()) {
    if (fetch.from_seq && chunk_gone(asked, *job, *fetch.from_seq)) return;
    if (fetch.from_seq) add_reader(*job, immediate_, *fetch.from_seq);
    asked.terminal_due = true;
    job->waiters.push_back(immediate_);
    ended_.push_back(job);
    return;
  }
  asked.owns = !job->owners.empty() && !job->owners.contains(address);
  if (!job->owners.empty()) add_owner(*job, address);
  asked.waits = fetch.wait_ms > 0;
  const bool reads = fetch.from_seq && job->streams;
  if (reads && chunk_gone(asked, *job, *fetch.from_seq)) return;
  asked.status_due = true;
  if (reads) add_reader(*job, immediate_, *fetch.from_seq);
  if (fetch.wait_ms == 0) return;
  asked.terminal_due = true;
  asked.status_from = now_ + std::chrono::milliseconds(fetch.wait_ms);
  fetches_.emplace(asked.status_from, immediate_);
  if (!reads) add_waiter(*job, immediate_);
}

/// As a status says it; empty where it cannot be known from outside.
std::string Auditor::state_of(const ModelJob& job) const {
  switch (job.state) {
    case ModelJob::State::queued:
      return "queued";
    case ModelJob::State::running:
      return "running";
    case ModelJob::State::delayed:
      return job.in_own_delay() && now_ < job.delay_over ? "delayed" : "";
    case ModelJob::State::ended:
      break;
  }
  if (job.code == "result") return "succeeded";
  if (job.code == "deadline") return "expired";
  return job.code == "cancelled" ? "cancelled" : "failed";
}

// ---- answers ------------------------------------------------------------------------------------------

ModelRequest& Auditor::asked_with(const std::string& address, wire::Raw ref) {
  const auto place = requests_.find(ref_number(ref).value_or(0));
  if (place == requests_.end()) violated("an answer to nothing that was asked");
  if (place->second.address != address) violated("an answer went to the wrong client");
  return place->second;
}

void Auditor::sent_to_client(const std::string& address, const wire::ClientReply& reply,
                             std::string_view body) {
  if (const auto* event = std::get_if<wire::JobEvent>(&reply)) return heard_event(address, *event);
  if (std::holds_alternative<wire::Spent>(reply)) return;
  if (const auto* watching = std::get_if<wire::Watching>(&reply)) {
    if (std::exchange(watching_due_, 0) != ref_number(watching->ref))
      violated("a watch was answered for no reason");
    return;
  }
  if (const auto* accepted = std::get_if<wire::Accepted>(&reply))
    return heard_accepted(asked_with(address, accepted->ref), *accepted);
  if (const auto* status = std::get_if<wire::StatusReply>(&reply))
    return heard_status(asked_with(address, status->ref), *status);
  if (const auto* result = std::get_if<wire::JobResult>(&reply))
    return heard_end(asked_with(address, result->ref), *ref_number(result->ref), "result", body, result->id,
                     result->attempts, result->chunks);
  if (const auto* chunk = std::get_if<wire::ChunkReply>(&reply))
    return heard_chunk(asked_with(address, chunk->ref), *ref_number(chunk->ref), *chunk, body);
  if (const auto* error = std::get_if<wire::ErrorReply>(&reply)) {
    // A broker that stood still hears nothing of who follows.
    if (error->code == "slow_reader" && is_of_watch(address, error->ref)) {
      watches_.erase({address, *ref_number(error->ref)});
      return;
    }
    ModelRequest& asked = asked_with(address, error->ref);
    if (asked.waits && error->code == "bytes_full") return heard_no_room(asked, *ref_number(error->ref));
    if (asked.job == nullptr && contains(asked.refusals, error->code))
      return heard_refusal(asked, error->code);
    if (error->code == "slow_reader") return heard_slow(asked, *ref_number(error->ref), error->chunks);
    if (const ModelJob* job = asked.job; job != nullptr && error->code == "deadline") {
      const std::string over =
          job->parts.next() > 0 && !job->timeout_stated
              ? "nothing came of its stream"
              : "timeout_ms (" + std::to_string(core::to_ms(job->timeout)) + ") was over";
      // Of a delay that was over while the broker stood still it has not heard yet.
      const bool delay_unheard = job->delay_over != TimePoint{} && job->queued_at == TimePoint{};
      if (error->message.find(over) == std::string_view::npos && !delay_unheard)
        violated(job->name() + ": it is said that \"" + std::string(error->message) + "\", not " + over);
    }
    return heard_end(asked, *ref_number(error->ref), std::string(error->code), body, error->id,
                     error->attempts, error->chunks);
  }
  violated("a client heard what the auditor does not know");
}

void Auditor::heard_refusal(ModelRequest& asked, std::string_view code) {
  if (asked.refused) violated("a " + asked.op + " was refused twice, with " + std::string(code));
  asked.refused = true;
  asked.accepted_due = asked.terminal_due = asked.status_due = false;
}

/// Who wanted to wait for a job was refused for want of memory: as if it had not asked.
void Auditor::heard_no_room(ModelRequest& asked, std::uint64_t ref) {
  // Results make way for it, dead jobs do not.
  Bytes all = bytes_of_jobs();
  all += bytes_kept(Kept::dead);
  all += bytes_of_groups();
  if (all.most <= options_.memory_max) violated("a " + asked.op + " may not wait, though there is room");
  // Also one that would have been told that its chunk is gone.
  if (ModelJob* const job = known(asked.id)) {
    std::erase(job->waiters, ref);
    drop_reader(*job, ref);
    // Who is refused has said nothing of what he has.
    if (asked.reads && !job->ended()) {
      job->parts.taken = asked.taken_before;
      job->parts.taken_bytes = asked.taken_bytes_before;
    }
    if (asked.owns) drop_owner(*job, asked.address);
  }
  heard_refusal(asked, "bytes_full");
}

void Auditor::heard_accepted(ModelRequest& asked, const wire::Accepted& accepted) {
  if (!asked.accepted_due) violated("accepted was said to who did not ask for it, or twice");
  asked.accepted_due = false;
  if (!asked.duplicate && accepted.eta_ms.value_or(0) != asked.delay_ms)
    violated("accepted is wrong about the delay of " + asked.id);
  if (accepted.duplicate != asked.duplicate) violated("accepted is wrong about a duplicate of " + asked.id);
  if (!asked.id.empty() && accepted.id != asked.id)
    violated("accepted speaks of another job than " + asked.id);
  asked.id = accepted.id;
}

void Auditor::heard_status(ModelRequest& asked, const wire::StatusReply& status) {
  if (!asked.status_due) violated("a status was said to who did not ask for it, or twice");
  if (!asked.states.empty()) return heard_statuses(asked, status);
  if (status.id != asked.id) violated("a status speaks of another job than " + asked.id);
  if (asked.status_from != core::kNever && now_ < asked.status_from)
    violated("a fetch was answered too early");
  if (!asked.state.empty() && status.state != asked.state)
    violated("status of " + asked.id + " says " + std::string(status.state) + ", not " + asked.state);
  if (asked.terminal_due) std::erase(asked.job->waiters, *ref_number(status.ref));
  if (asked.reads) {
    if (asked.next_chunk < asked.job->parts.next())
      violated("a status came before what is kept of " + asked.id);
    drop_reader(*asked.job, *ref_number(status.ref));
    readers_changed(*asked.job);
  }
  asked.status_due = asked.terminal_due = false;
}

void Auditor::heard_statuses(ModelRequest& asked, const wire::StatusReply& status) {
  const std::string jobs = to_json(status.jobs.bytes);
  std::size_t at = 0;
  const auto next = [&](const std::string& field) {
    at = jobs.find('"' + field + "\":\"", at);
    if (at == std::string::npos) violated("a status of many jobs lacks some of them: " + jobs);
    at += field.size() + 4;
    return jobs.substr(at, jobs.find('"', at) - at);
  };
  for (const auto& [id, state] : asked.states) {
    if (const std::string said = next("id"); said != id)
      violated("a status of many jobs speaks of " + said + " in the place of " + id);
    if (const std::string said = next("state"); !state.empty() && said != state)
      violated("a status of many jobs says of " + id + " " + said + ", not " + state);
  }
  asked.status_due = false;
}

void Auditor::heard_end(ModelRequest& asked, std::uint64_t ref, const std::string& code,
                        std::string_view answer, std::string_view id, std::int64_t attempts,
                        std::int64_t chunks) {
  if (asked.job == nullptr && !asked.refusals.empty())
    violated("refused with " + code + ", not " + asked.refusals[0]);
  if (asked.job == nullptr) violated("a submit of " + asked.id + " was answered " + code + " for no reason");
  if (!asked.terminal_due) violated(asked.job->name() + ": " + code + " was said to who is owed nothing");
  ModelJob& job = *asked.job;
  if (job.ended()) {
    if (job.code != code || job.answer != answer)
      violated(job.name() + " ended with " + job.code + " and now with " + code);
  } else {
    end(job, code, answer);
  }
  if (job.named && id != job.id) violated(job.name() + ": its end names " + std::string(id));
  if (attempts != job.attempts)
    violated(job.name() + ": its end counts " + std::to_string(attempts) + " attempts, not " +
             std::to_string(job.attempts));
  check_chunks(asked, chunks);
  asked.terminal_due = asked.status_due = false;
  if (job.submit_ref == ref) job.submit_ref = 0;
  std::erase(job.waiters, ref);
  drop_reader(job, ref);
}

}  // namespace lanemq::sim
