// SPDX-License-Identifier: Apache-2.0
#include "broker/core/life/webhooks.hpp"

#include <cstdio>

#include <xxhash.h>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/notify_url.hpp>
#include <lanemq/text.hpp>

#include "broker/core/life/groups.hpp"
#include "broker/core/scheduler/state.hpp"

namespace lanemq::core {
namespace {

/// Prefix of the id of a webhook's job, in its tenant's space.
constexpr std::string_view kIdBegins = "webhook:";
/// Room for the time suffix of the end, with its colon.
constexpr std::size_t kTimeBytes = 16;

void add_text(std::string& json, std::string_view text) {
  Buffer bytes;
  DocumentWriter(bytes).text(text);
  json += to_json(bytes.view());
}

/// Members of a JSON object; texts that are empty are left out.
class JsonMembers {
 public:
  JsonMembers& text(std::string_view name, std::string_view value) {
    if (!value.empty()) add_text(begin(name), value);
    return *this;
  }
  JsonMembers& number(std::string_view name, std::uint64_t value) {
    begin(name) += std::to_string(value);
    return *this;
  }
  JsonMembers& flag(std::string_view name, bool value) {
    begin(name) += value ? "true" : "false";
    return *this;
  }
  std::string object() const { return '{' + members_ + '}'; }

 private:
  std::string& begin(std::string_view name) {
    if (!members_.empty()) members_ += ',';
    add_text(members_, name);
    return members_ += ':';
  }

  std::string members_;
};

std::string body_of(std::string_view type, std::int64_t unix_ms, const JsonMembers& data) {
  return R"({"type":")" + std::string(type) + R"(","timestamp":")" + rfc3339(unix_ms) + R"(","data":)" +
         data.object() + '}';
}

std::string hash_of(std::string_view name) {
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(name.data(), name.size())));
  return hash;
}

/// `begins`, then the name, or its hash where that would be too long, in the name's space.
std::string id_of(std::string_view begins, std::string_view name) {
  const std::string_view own = own_name(name);
  std::string id(name.substr(0, name.size() - own.size()));
  id += begins;
  if (id.size() + own.size() + kTimeBytes <= limits::id_bytes_max) return id += own;
  return id += hash_of(name);
}

}  // namespace

std::string Webhooks::model_of(const Webhook& webhook) {
  std::string receiver = receiver_of(webhook.url);
  if (receiver.size() <= limits::name_bytes_max) return receiver;
  const std::string hash = hash_of(receiver);
  receiver.resize(limits::name_bytes_max - hash.size());
  return receiver += hash;
}

void Webhooks::owe(const Job& job, const Terminal& how, TimePoint now) {
  JsonMembers data;
  data.text("tenant", tenant_of(job.id())).text("id", own_name(job.id())).text("state", name_of(how.state));
  if (how.state != JobState::succeeded && how.ending != nullptr)
    data.text("code", name_of(how.ending->code)).text("message", how.ending->message);
  const std::string_view client = job.text.get(JobText::client);
  data.text("client", own_name(client)).text("lane", state_.lanes[how.lane]->options().name);
  data.text("service", job.flow().service().name).text("model", job.text.get(JobText::model));
  data.number("attempts", how.attempts).number("queued_ms", how.queued_ms).number("ran_ms", how.ran_ms);
  const std::int64_t unix_ms = state_.options.unix_ms(now);
  add({.id = id_of(kIdBegins, job.id()),
       .unix_ms = unix_ms,
       .url = std::string(job.text.get(JobText::notify)),
       .body = body_of("job.ended", unix_ms, data),
       .client = job.queue->client().name,
       .named_client = std::string(client),
       .durable = job.durable});
}

void Webhooks::owe(const Group& group, TimePoint now) {
  JsonMembers data;
  data.text("tenant", tenant_of(group.name))
      .text("group", own_name(group.name))
      .number("jobs", group.counts.ended());
  data.number("succeeded", group.counts.succeeded).number("failed", group.counts.failed);
  data.number("cancelled", group.counts.cancelled).number("expired", group.counts.expired);
  data.number("died", group.counts.died).flag("complete", group.over);
  const std::string begins = std::string(kIdBegins) + "group:";
  const std::int64_t unix_ms = state_.options.unix_ms(now);
  add({.id = id_of(begins, group.name),
       .unix_ms = unix_ms,
       .url = group.notify,
       .body = body_of("group.over", unix_ms, data),
       .client = group.client,
       .named_client = group.named_client,
       .durable = group.durable});
}

void Webhooks::add(Webhook webhook) {
  if (state_.options.webhook_service.empty())
    return refused(webhook, name_of(ErrorCode::bad_request),
                   "webhook_service names no service any more; say one, and start the broker again");
  // It would end with the broker, which is stopping.
  if (state_.draining && !webhook.durable)
    return refused(webhook, name_of(ErrorCode::draining),
                   "the broker is stopping and it would not be on disk");
  if (owed_.size() >= kOwedMax)
    return refused(webhook, name_of(ErrorCode::bytes_full), "too many jobs have ended at once");
  owed_.push_back(std::move(webhook));
}

/// Receivers take an id that they have seen for done, and remember it for longer than the broker keeps the
/// job. So each end has an id of its own: that of a dead job that ran again, of another life of a group, of a
/// name that is used each day.
std::string Webhooks::free_id(const Webhook& webhook) const {
  std::string id;
  for (std::int64_t n = webhook.unix_ms; id.empty() || state_.jobs.find(id) != nullptr; ++n) {
    const std::string behind = ':' + std::to_string(n);
    id = webhook.id.substr(0, limits::id_bytes_max - behind.size()) + behind;
  }
  return id;
}

void Webhooks::refused(const Webhook& webhook, std::string_view code, std::string_view message) {
  ++state_.stats.webhooks_refused;
  state_.outbox.notices.push_back({.kind = Notice::Kind::webhook_refused,
                                   .service = state_.options.webhook_service,
                                   .code = std::string(code),
                                   .name = webhook.id,
                                   .how = std::string(message)});
}

}  // namespace lanemq::core
