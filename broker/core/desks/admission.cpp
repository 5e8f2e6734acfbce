// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/admission.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <lanemq/notify_url.hpp>
#include <lanemq/text.hpp>

#include "broker/core/life/answers.hpp"
#include "broker/core/life/groups.hpp"
#include "broker/core/life/results.hpp"
#include "broker/core/scheduler/state.hpp"
#include "broker/core/scheduler/terms.hpp"
#include "broker/core/scheduler/upstreams.hpp"

namespace lanemq::core {
namespace {

/// The fields that every offer may have: job, attempt, id, service, lane and key.
constexpr std::size_t kOfferFieldsLeast = 6;
/// Bytes of an offer besides its submit's texts: at most three names, numbers, and the names of fields.
constexpr std::size_t kOfferRoom = 1024;

/// Bounds of the time after which a client of a full lane is told to retry.
constexpr Duration kRetryAfterMin = std::chrono::milliseconds(100);
constexpr Duration kRetryAfterMax = std::chrono::seconds(30);
/// When to ask again while a job is under way that finds out whether a pause holds.
constexpr Duration kTriedRetryAfter = std::chrono::seconds(1);

std::optional<ReplyMode> reply_mode(std::string_view name) {
  if (name.empty() || name == "result") return ReplyMode::result;
  if (name == "accepted") return ReplyMode::accepted;
  if (name == "both") return ReplyMode::both;
  return std::nullopt;
}

/// The bytes of the job's id, which the broker makes in its owner's space where there is none.
std::size_t id_bytes(const Submitted& event) {
  if (!event.fields->id.empty()) return event.fields->id.size();
  return kIdBytes + (event.from.identity != nullptr ? event.from.identity->space.size() : 0);
}

/// The bytes that the job will count for in the byte bounds, without its record.
std::size_t bytes_of(const Submitted& event) {
  const wire::Submit& fields = *event.fields;
  return id_bytes(event) + event.from.envelope.size() + fields.ref.bytes.size() + fields.model.size() +
         fields.client.size() + fields.group.size() + fields.notify.size() + fields.meta.bytes.size() +
         fields.trace.bytes.size() + (fields.extras.count > 0 ? fields.extras.bytes.size() + 1 : 0) +
         event.body.size() + (fields.stream ? Job::kStreamBytes : 0) +
         (JobLife::has_extra(fields, event.body) ? Job::kExtraBytes : 0);
}

/// Names a client, or a tenant, for people.
std::string quoted(const Client& party) {
  const std::string_view tenant = tenant_of(party.name);
  const bool is_tenant = !tenant.empty() && own_name(party.name).empty();
  return (is_tenant ? "tenant \"" + std::string(tenant) : "client \"" + party.name) + '"';
}

}  // namespace

// ---- is it a request ----------------------------------------------------------------------------------

std::optional<Refusal> Admission::invalid(const Submitted& event) const {
  const wire::Submit& fields = *event.fields;
  if (state_.lane_named(fields.lane) == nullptr)
    return bad_request("unknown lane \"" + printable(fields.lane) + "\"; the lanes are " +
                       state_.lane_names());
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
  if (fields.group_size && fields.group.empty())
    return bad_request("field \"group_size\" is there, but no \"group\"; name the group, or leave it out");
  if (auto why = wrong_notify(fields)) return why;
  if (!fields.service.empty() && fields.service == state_.options.webhook_service)
    return Refusal{ErrorCode::forbidden,
                   "service \"" + state_.options.webhook_service +
                       "\" tells of ends (webhook_service): the broker alone makes jobs for it",
                   {}};
  if (event.body.size() > state_.options.body_bytes_max)
    return Refusal{ErrorCode::too_large,
                   "the body has " + std::to_string(event.body.size()) +
                       " bytes, more than body_bytes_max (" + std::to_string(state_.options.body_bytes_max) +
                       ")",
                   {}};
  return unreadable_as_offer(event);
}

std::optional<Refusal> Admission::wrong_notify(const wire::Submit& fields) const {
  if (fields.notify.empty()) return std::nullopt;
  if (state_.options.webhook_service.empty())
    return bad_request(
        "field \"notify\" is there, but this broker tells nobody of ends: webhook_service is empty");
  if (const std::string problem = notify_problem(fields.notify); !problem.empty())
    return bad_request("field \"notify\" must be a URL such as https://example.com/hook: " + problem);
  return std::nullopt;
}

ReplyMode Admission::reply_mode_of(const wire::Submit& fields) {
  return *reply_mode(fields.reply);
}

std::optional<Refusal> Admission::beyond_key(const Submitted& event, const Lane& lane) {
  const Identity* const identity = event.from.identity;
  if (identity == nullptr) return std::nullopt;
  const auto refuse = [&](const char* what, std::string_view name) {
    return Refusal{ErrorCode::forbidden,
                   "key \"" + identity->name + "\" does not allow " + what + " \"" + std::string(name) +
                       "\"; the broker's operator says in the key's file which it does",
                   {}};
  };
  if (!identity->may_use_service(event.fields->service)) return refuse("service", event.fields->service);
  if (!identity->may_use_lane(lane.options().name)) return refuse("lane", lane.options().name);
  return std::nullopt;
}

std::optional<Refusal> Admission::of_another_shard(const wire::Submit& fields, const Client& client) const {
  const std::string& tenant = client.options.tenant;
  const Shard* const shard = state_.shards.of(fields.service, tenant);
  if (shard == nullptr || shard->name == state_.options.shard) return std::nullopt;
  return Refusal{ErrorCode::not_owner,
                 "shard \"" + shard->name + "\" takes jobs of service \"" + std::string(fields.service) +
                     '"' + (tenant.empty() ? "" : " and tenant \"" + tenant + '"') +
                     ", and this is a broker of shard \"" + state_.options.shard + "\"; submit it there",
                 {},
                 {},
                 shard};
}

/// An offer repeats the submit and adds fields. It must fit one header, whatever lane and key the job gets
/// later.
std::optional<Refusal> Admission::unreadable_as_offer(const Submitted& event) {
  const wire::Submit& fields = *event.fields;
  // The worst case: the offer names job, attempt, id, service, lane and key.
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
  offer.id = fields.id.empty() ? std::string_view(longest).substr(0, id_bytes(event)) : fields.id;
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

// ---- is there room ------------------------------------------------------------------------------------

std::optional<Refusal> Admission::admit(const Submitted& event, Admitted& to, TimePoint now) {
  const wire::Submit& fields = *event.fields;
  // A webhook that the broker owes for an end is in the end's commit, or a crash between the two would lose
  // it. Such webhooks are bounded by the jobs that end.
  const bool owed = to.owed && state_.options.store_durable && fields.durable.value_or(false);
  to.durable = state_.options.store_durable && fields.durable.value_or(to.lane->options().durable);
  const bool needs_disk = to.durable && !owed;
  if (!owed)
    if (auto why = shut(needs_disk)) return why;
  const bool tells = !fields.service.empty() && fields.service == state_.options.webhook_service;
  if (auto why = tells ? webhooks_full(*to.client, *to.lane) : not_allowed(*to.client, *to.lane)) return why;
  std::size_t bytes = bytes_of(event);
  to.spilled = to.durable && results_.spills(bytes, event.body.size());
  if (to.spilled) bytes -= event.body.size();
  if (!tells)
    if (auto why = over_share(*to.client, *to.lane, bytes)) return why;
  if (!fields.group.empty())
    if (auto why = groups_.why_not(fields, to.redriven)) return why;
  if (!tells)
    if (auto why = lane_full(*to.lane, bytes)) return why;
  const BudgetSet budgets = to.budgets = state_.budgets.match(
      fields.service, fields.model, to.client->name, to.lane->options().name, to.client->options.tenant);
  to.estimate = terms_.estimate(budgets, fields.model, fields.client, event.body.bytes(), fields.cost);
  if (auto why = too_large_for(budgets, to.estimate)) return why;
  if (to.spilled && !state_.budgets.counts_tokens(budgets))
    to.estimate.raw_input = tokens_of_bytes(event.body.size());
  if (auto why = shut_out(fields, to, now)) return why;
  to.service = state_.workers.find_service(fields.service);
  if (to.service == nullptr)
    if (auto why = services_full(fields, *to.client, *to.lane)) return why;
  const std::size_t group_bytes = fields.group.empty() ? 0 : groups_.bytes_of_new(fields);
  const std::size_t needed = Job::kRecordBytes + bytes + group_bytes + Clients::bytes_of_more(*to.client);
  const bool lacks_room = results_.lacks_room(needed, true);
  if (lacks_room && !results_.could_make_room(needed, true)) return no_room(*to.lane);
  // All bounds have been looked at. Now room is made, for a job that nothing else refuses.
  if (needs_disk && state_.store_full) {
    results_.make_room_in_store(now);
    return disk_full();
  }
  if (lacks_room && !results_.make_room(needed, true, now)) return no_room(*to.lane);
  if (to.service == nullptr) {
    make_room_for_services(1);
    to.service = &state_.workers.service(fields.service);
    to.service->named_by = to.client->party().mark;
  }
  return std::nullopt;
}

/// Refuses a job of a new service where there are too many services, or where the rest is kept for clients
/// that have named fewer.
std::optional<Refusal> Admission::services_full(const wire::Submit& fields, const Client& client,
                                                const Lane& lane) const {
  const std::size_t most = state_.options.services_max, used = state_.workers.used();
  if (used >= most)
    return bad_request("service \"" + std::string(fields.service) + "\" is new and services_max (" +
                       std::to_string(most) + ") have jobs or workers; check its name");
  const std::size_t part = last_part(most, state_.options, kSharedJobsMin);
  if (part == 0 || used + part < most) return std::nullopt;
  const auto& services = state_.workers.services();
  const auto named = static_cast<std::size_t>(
      std::count_if(services.begin(), services.end(), [namer = client.party().mark](const auto& known) {
        const Service& service = *known.second;
        return service.named_by == namer && service.uses > 0 && service.workers == 0;
      }));
  if (named < part) return std::nullopt;
  return full(lane, ErrorCode::client_full, "client_share",
              "jobs of client \"" + client.name + "\" wait for " + std::to_string(named) +
                  " services without workers, and what is left of services_max is for those who named less");
}

/// Refuses what no broker takes in this state. `needs_disk`: the job is to be on disk before it is accepted.
std::optional<Refusal> Admission::shut(bool needs_disk) const {
  if (state_.store_away) return Answers::another_owns();
  if (state_.draining)
    return Refusal{state_.options.store_shared ? ErrorCode::not_owner : ErrorCode::draining,
                   "the broker is stopping; submit again in a moment", std::chrono::seconds(1)};
  if (needs_disk && state_.store_behind) return Answers::disk_behind();
  if (needs_disk && state_.store_unsafe && !state_.options.store_shared)
    return Refusal{
        ErrorCode::unavailable,
        "the files of the store were removed or replaced, so that it could not keep a durable job; "
        "submit again later, or with durable false",
        std::chrono::seconds(1), "store"};
  if (needs_disk && state_.store_unsafe)
    return Refusal{
        ErrorCode::unavailable,
        "nothing replicates the store (store_replication), so that it could not keep a durable job; "
        "submit again later, or with durable false",
        std::chrono::seconds(1), "store_replication"};
  return std::nullopt;
}

Refusal Admission::disk_full() {
  return {ErrorCode::store_full,
          "the disk of the store is full (store_reserve is kept back for what runs); free some space, "
          "submit again later, or with durable false",
          std::chrono::seconds(1), "store_reserve"};
}

/// Refuses a job whose upstream is paused beyond the job's deadline, or whose client does not want to wait
/// for it.
std::optional<Refusal> Admission::shut_out(const wire::Submit& fields, const Admitted& to, TimePoint now) {
  if (fields.delay_ms.value_or(0) > 0) return std::nullopt;
  const Upstreams::Elsewhere elsewhere{.when_limited = fields.limited == kElsewhere,
                                       .when_spent = fields.spent == kElsewhere};
  const Duration timeout = fields.timeout_ms ? Duration(std::chrono::milliseconds(*fields.timeout_ms))
                                             : Duration(to.lane->options().timeout);
  const Budgets::UpstreamPause shut =
      upstreams_.shut_out(to.budgets, *to.client, now + timeout, elsewhere, now);
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
                 shut.tried ? std::min(shut.until - now, kTriedRetryAfter) : shut.until - now, limiter};
}

std::optional<Refusal> Admission::too_large_for(BudgetSet budgets, const Estimate& estimate) const {
  if (!state_.budgets.counts_tokens(budgets)) return std::nullopt;
  const Obstacle limit = state_.budgets.unsatisfiable(budgets, estimate.amounts);
  if (!limit) return std::nullopt;
  return Refusal{
      ErrorCode::unsatisfiable, limit.too_large(estimate.amounts), {}, "budget " + limit.limit_name()};
}

/// The limits of the tenant and of the client must both allow it; lasting refusals are told before those that
/// may pass.
std::optional<Refusal> Admission::not_allowed(const Client& client, const Lane& lane) const {
  for (const Client* party = &client; party != nullptr; party = party->tenant) {
    const ClientOptions& options = party->options;
    if (!options.lane_max.empty() && lane.index() < state_.lane_named(options.lane_max)->index())
      return Refusal{ErrorCode::forbidden,
                     quoted(*party) + " may use lane \"" + options.lane_max +
                         "\" and those below it (clients." + options.name + ".lane_max), not \"" +
                         lane.options().name + '"',
                     {},
                     "clients." + options.name + ".lane_max"};
  }
  for (const Client* party = &client; party != nullptr; party = party->tenant) {
    const ClientOptions& options = party->options;
    if (const std::size_t waiting = party->waiting - party->webhooks;
        options.depth_max > 0 && waiting >= options.depth_max)
      return full(lane, ErrorCode::client_full, "clients." + options.name + ".depth_max",
                  quoted(*party) + " has " + std::to_string(waiting) + " jobs waiting");
  }
  return std::nullopt;
}

/// Refuses one more job that tells of an end. Such jobs wait for hours where their receiver is away, so they
/// take no room of a lane or client from jobs that are work, and have a bound of their own, whose last part
/// is for clients that have less. What a client may submit says nothing about them: the broker makes them.
std::optional<Refusal> Admission::webhooks_full(const Client& client, const Lane& lane) const {
  std::size_t waiting = 0;
  for (const auto& one : state_.lanes)
    waiting += one->webhooks;
  const std::size_t most = state_.options.webhooks_max;
  const Client& party = client.party();
  if (const std::size_t part = last_part(most, state_.options, kSharedJobsMin);
      part > 0 && party.webhooks >= part && waiting + part >= most)
    return full(lane, ErrorCode::client_full, "client_share",
                std::to_string(party.webhooks) + " jobs wait that tell " + quoted(party) +
                    " of ends, and what is left of webhooks_max is for those who have less");
  if (waiting >= most)
    return full(lane, ErrorCode::bytes_full, "webhooks_max",
                std::to_string(waiting) + " jobs wait that tell of ends");
  return std::nullopt;
}

/// Refuses a tenant, or a client without one, that would fill the part of a bound that is set apart for those
/// that hold less. So one alone can fill all but that part, and several never shut each other out. Before
/// that part a tenant's own clients leave a part of the rest to each other.
std::optional<Refusal> Admission::over_share(const Client& client, const Lane& lane,
                                             std::size_t bytes) const {
  if (client.tenant == nullptr) return over_share_of(client, lane, bytes, false);
  if (auto why = over_share_of(*client.tenant, lane, bytes, false)) return why;
  return over_share_of(client, lane, bytes, true);
}

/// `inside`: of a client among those of its tenant.
std::optional<Refusal> Admission::over_share_of(const Client& party, const Lane& lane, std::size_t bytes,
                                                bool inside) const {
  if (party.options.depth_max > 0) return std::nullopt;  // depth_max says what it may have
  const Client::Held held = lane.index() < party.held.size() ? party.held[lane.index()] : Client::Held{};
  const auto refused = [&](std::size_t has, std::string_view of, std::string_view bound) {
    return full(lane, ErrorCode::client_full, "client_share",
                quoted(party) + " has " + std::to_string(has) + " " + std::string(of) +
                    ", and what is left of " + std::string(bound) + " is for those who have less");
  };
  // How much one may hold where others have less, and what it leaves to them; 0: nothing is set apart.
  struct Part {
    std::size_t most, left;
  };
  const auto part_of = [&](std::size_t bound, std::size_t least) -> Part {
    const std::size_t part = last_part(bound, state_.options, least);
    if (!inside) return {.most = part, .left = part};
    const std::size_t part_inside = last_part(bound - part, state_.options, least);
    return {.most = part_inside, .left = part + part_inside};
  };
  const LaneOptions& options = lane.options();
  if (const Part part = part_of(options.depth_max, kSharedJobsMin);
      part.most > 0 && held.jobs - held.webhooks >= part.most &&
      lane.bounded_depth() + part.left >= options.depth_max)
    return refused(held.jobs - held.webhooks, "jobs waiting in it", "the lane's depth_max");
  if (const Part part = part_of(options.bytes_max, kSharedBytesMin);
      part.most > 0 && held.bytes >= part.most && lane.bytes + bytes + part.left > options.bytes_max)
    return refused(held.bytes, "bytes waiting in it", "the lane's bytes_max");
  if (const Part part = part_of(state_.options.memory_max, kSharedBytesMin);
      part.most > 0 && state_.bytes + bytes + part.left > state_.options.memory_max) {
    std::size_t has = 0;
    for (const Client::Held& of_lane : party.held)
      has += of_lane.bytes;
    if (has >= part.most) return refused(has, "bytes waiting", "memory_max");
  }
  return std::nullopt;
}

std::optional<Refusal> Admission::lane_full(const Lane& lane, std::size_t bytes) const {
  const std::string& name = lane.options().name;
  if (lane.bounded_depth() >= lane.options().depth_max)
    return full(lane, ErrorCode::lane_full, "lane." + name + ".depth_max",
                "lane \"" + name + "\" holds " + std::to_string(lane.bounded_depth()) + " jobs");
  if (lane.options().bytes_max > 0 && lane.bytes + bytes > lane.options().bytes_max)
    return full(lane, ErrorCode::lane_full, "lane." + name + ".bytes_max",
                "lane \"" + name + "\" holds " + std::to_string(lane.bytes) + " bytes");
  return std::nullopt;
}

Refusal Admission::no_room(const Lane& lane) const {
  if (state_.jobs.full())
    return full(lane, ErrorCode::bytes_full, "jobs_max",
                "the broker holds " + std::to_string(state_.jobs.size()) + " jobs");
  return full(lane, ErrorCode::bytes_full, "memory_max",
              "the broker holds " + std::to_string(results_.memory_bytes()) + " bytes");
}

/// A refusal by `limiter`. Its retry time is what a hundredth of the lane takes to leave, at the recent rate.
Refusal Admission::full(const Lane& lane, ErrorCode code, std::string limiter,
                        const std::string& holds) const {
  Duration wait = kRetryAfterMax;
  if (lane.leaving_per_second > 0) {
    const double leaves_in = (static_cast<double>(lane.depth()) / 100 + 1) / lane.leaving_per_second;
    wait = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(leaves_in, 30.0)));
  }
  return {code, holds + " (" + limiter + "); retry later", std::clamp(wait, kRetryAfterMin, kRetryAfterMax),
          std::move(limiter)};
}

void Admission::make_room_for_services(std::size_t count) {
  const std::size_t wanted = state_.workers.services().size() + count, most = state_.options.services_max;
  if (wanted <= most || state_.workers.unused() == 0) return;
  std::vector<Service*> leaving;
  const std::size_t enough = std::max(wanted - most, most / 8);
  while (leaving.size() < enough && state_.workers.unused() > 0)
    leaving.push_back(state_.workers.take_unused());
  state_.clients.forget_leaving();
  for (const auto& lane : state_.lanes)
    lane->forget_leaving();
  for (Service* const service : leaving) {
    state_.timers.clear(service->timer);
    state_.workers.forget(*service);
  }
}

}  // namespace lanemq::core
