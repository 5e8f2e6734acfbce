// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/words.hpp"

#include <algorithm>
#include <cctype>

namespace lanemq::scenario {
namespace {

constexpr std::size_t kBodyShown = 1000;

/// Whether an id looks like one that the broker made: a ULID.
bool is_made(std::string_view id) {
  if (id.size() != 26) return false;
  for (const char c : id)
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 && std::isupper(static_cast<unsigned char>(c)) == 0)
      return false;
  return true;
}

void add(Words& words, const char* key, std::string_view value) {
  if (value.empty()) return;
  std::string text(value);
  std::replace(text.begin(), text.end(), '"', '\'');  // so that a transcript can quote it
  words.add(key, std::move(text));
}
void add(Words& words, const char* key, std::int64_t value, std::int64_t fallback) {
  if (value != fallback) words.add(key, std::to_string(value));
}
void add(Words& words, const char* key, const std::optional<std::int64_t>& value) {
  if (value) words.add(key, std::to_string(*value));
}
void add(Words& words, const char* key, wire::Raw value) {
  if (value.present()) add(words, key, to_json(value.bytes));
}

std::string joined(const std::vector<std::string_view>& texts) {
  std::string all;
  for (const std::string_view text : texts)
    all.append(all.empty() ? "" : ",").append(text);
  return all;
}

/// Writes each kind of message as words.
struct Describer {
  Names& names;
  std::string_view body;
  Words words{};

  void op(const char* name) { words.words.emplace_back(name); }
  void id(std::string_view value) {
    if (!value.empty()) words.add("id", names.id(value));
  }
  /// A long body by its size alone.
  void content() {
    if (body.size() <= kBodyShown)
      add(words, "body", body);
    else
      words.add("body_bytes", std::to_string(body.size()));
  }
  void usage(const std::optional<wire::Usage>& value) {
    if (value)
      add(words, "input_tokens", value->input_tokens), add(words, "output_tokens", value->output_tokens);
  }

  void operator()(const wire::Accepted& message) {
    op("accepted");
    id(message.id);
    add(words, "lane", message.lane);
    if (message.durable) words.add("durable", "true");
    if (message.duplicate) words.add("duplicate", "true");
    add(words, "ignored", joined(message.ignored));
    add(words, "position", message.position, 0);
    add(words, "ref", message.ref);
  }
  void operator()(const wire::JobResult& message) {
    op("result");
    id(message.id);
    add(words, "lane", message.lane);
    add(words, "attempts", message.attempts, 1);
    add(words, "queued_ms", message.queued_ms, 0);
    add(words, "ran_ms", message.ran_ms, 0);
    usage(message.usage);
    add(words, "chunks", message.chunks, 0);
    add(words, "ref", message.ref);
    content();
  }
  void operator()(const wire::ErrorReply& message) {
    op("error");
    id(message.id);
    add(words, "code", message.code);
    add(words, "message", message.message);
    add(words, "limiter", message.limiter);
    add(words, "retry_after_ms", message.retry_after_ms);
    add(words, "attempts", message.attempts, 1);
    add(words, "queued_ms", message.queued_ms, 0);
    add(words, "chunks", message.chunks, 0);
    add(words, "upstream_status", message.upstream_status);
    add(words, "shard", message.shard);
    add(words, "endpoints", joined(message.endpoints));
    add(words, "ref", message.ref);
    add(words, "body", body);
  }
  void operator()(const wire::StatusReply& message) {
    op("status");
    id(message.id);
    add(words, "state", message.state);
    add(words, "lane", message.lane);
    add(words, "attempts", message.attempts, 0);
    add(words, "queued_ms", message.queued_ms, 0);
    add(words, "position", message.position);
    add(words, "blocked_by", message.blocked_by);
    add(words, "eta_ms", message.eta_ms);
    add(words, "worker", message.worker);
    add(words, "group", message.group);
    add(words, "pct", message.pct);
    add(words, "note", message.note);
    add(words, "silent_ms", message.silent_ms);
    if (message.error.present()) words.add("error", "yes");
    add(words, "jobs", message.jobs);
    add(words, "ref", message.ref);
  }
  void operator()(const wire::ChunkReply& message) {
    op("chunk");
    id(message.id);
    words.add("seq", std::to_string(message.seq));
    add(words, "lane", message.lane);
    add(words, "attempts", message.attempts, 1);
    add(words, "queued_ms", message.queued_ms, 0);
    add(words, "ref", message.ref);
    content();
  }
  void operator()(const wire::Watching& message) {
    op("watching");
    add(words, "seq", message.seq, 0);
    if (message.stop) words.add("stop", "true");
    add(words, "ref", message.ref);
  }
  void operator()(const wire::JobEvent& message) {
    op("event");
    words.add("seq", std::to_string(message.seq));
    if (message.gap) words.add("gap", "true");
    add(words, "left_out", message.left_out, 0);
    add(words, "what", message.what);
    id(message.id);
    add(words, "state", message.state);
    if (message.lane != "normal") add(words, "lane", message.lane);
    if (message.service != "echo") add(words, "service", message.service);
    add(words, "client", message.client);
    add(words, "model", message.model);
    add(words, "from_lane", message.from_lane);
    add(words, "worker", message.worker);
    add(words, "code", message.code);
    add(words, "attempts", message.attempts, 0);
    add(words, "delay_ms", message.delay_ms);
    add(words, "queued_ms", message.queued_ms.value_or(0), 0);
    add(words, "ran_ms", message.ran_ms.value_or(0), 0);
    if (message.dead) words.add("dead", "true");
    add(words, "pct", message.pct);
    add(words, "note", message.note);
    add(words, "group", message.group);
    add(words, "succeeded", message.succeeded, 0);
    add(words, "failed", message.failed, 0);
    add(words, "cancelled", message.cancelled, 0);
    add(words, "expired", message.expired, 0);
    add(words, "died", message.died, 0);
    if (message.incomplete) words.add("incomplete", "true");
    add(words, "ref", message.ref);
  }
  void operator()(const wire::StatsReply&) { op("stats"); }
  void operator()(const wire::Pong&) { op("pong"); }
  void operator()(const wire::Spent& message) {
    op("spent");
    add(words, "key", message.key);
    add(words, "requests", message.requests, 0);
    add(words, "tokens", message.tokens, 0);
    add(words, "places", message.places, 0);
    add(words, "requests_left", message.requests_left, 0);
    add(words, "tokens_left", message.tokens_left, 0);
    add(words, "requests_wait_ms", message.requests_wait_ms, 0);
    add(words, "tokens_wait_ms", message.tokens_wait_ms, 0);
    add(words, "ref", message.ref);
  }
  void operator()(const wire::AdminReply& message) {
    op("admin");
    add(words, "is", to_json(message.document.bytes));
  }

  void operator()(const wire::Welcome& message) {
    op("welcome");
    add(words, "heartbeat_ms", message.heartbeat_ms, 1000);
    add(words, "batch", message.batch, 0);
    if (message.default_lane != "normal") add(words, "default_lane", message.default_lane);
    add(words, "endpoints", joined(message.endpoints));
    add(words, "shard", message.shard);
    add(words, "shards", message.shards);
  }
  void operator()(const wire::JobOffer& message) {
    op("job");
    names.name_job(message.job, names.id(message.id));
    words.add("job", names.job(message.job));
    add(words, "attempt", message.attempt, 1);
    add(words, "service", message.service);
    add(words, "lane", message.lane);
    add(words, "model", message.model);
    add(words, "client", message.client);
    add(words, "key", message.key);
    add(words, "timeout_ms", message.timeout_ms);
    if (message.stream) words.add("stream", "true");
    add(words, "meta", message.meta);
    if (message.extras.count > 0) {
      // As the map that they are a part of.
      const std::string map =
          static_cast<char>(0x80 | message.extras.count) + std::string(message.extras.bytes);
      add(words, "extras", to_json(map));
    }
    add(words, "body", body);
  }
  void operator()(const wire::Acked& message) {
    op("acked");
    words.add("jobs", describe(message.jobs, names));
  }
  void operator()(const wire::CancelJob& message) {
    op("cancel");
    words.add("job", names.job(message.job));
    add(words, "attempt", message.attempt, 1);
    add(words, "reason", message.reason);
  }
  void operator()(const wire::Window& message) {
    op("window");
    words.add("job", names.job(message.job));
    add(words, "attempt", message.attempt, 1);
    words.add("seq", std::to_string(message.seq));
  }
  void operator()(const wire::Heartbeat&) { op("heartbeat"); }
  void operator()(const wire::Drain&) { op("drain"); }
  void operator()(const wire::Bye&) { op("bye"); }
  void operator()(const wire::WorkerRefusal& message) {
    op("error");
    add(words, "code", message.code);
    if (message.code != "unknown_session" && message.code != "stale") add(words, "message", message.message);
    if (message.job) words.add("job", names.job(static_cast<std::uint64_t>(*message.job)));
    add(words, "attempt", message.attempt.value_or(1), 1);
  }
};

/// Reads fields out of words into a message; what it hands out lives as long as it does.
class Fields {
 public:
  Fields(Words& words, const Names& names) : words_(words), names_(names) {}

  std::string_view text(const char* key) {
    const auto value = words_.take(key);
    return value ? keep(*value) : std::string_view{};
  }
  std::string_view id(const char* key) {
    const auto value = words_.take(key);
    return value ? keep(names_.real_id(*value)) : std::string_view{};
  }
  std::optional<std::int64_t> number(const char* key) {
    const auto value = words_.take(key);
    return value ? std::optional(parse_number(*value)) : std::nullopt;
  }
  std::vector<std::string_view> list(const char* key) {
    std::vector<std::string_view> parts;
    std::string_view rest = text(key);
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      parts.push_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return parts;
  }
  std::vector<wire::Lease> leases(const char* key) {
    std::vector<wire::Lease> leases;
    for (const std::string_view part : list(key)) {
      const std::size_t slash = part.find('/');
      if (slash == std::string_view::npos) throw TranscriptError("a lease is written #job/attempt");
      leases.push_back({names_.number(std::string(part.substr(0, slash))),
                        parse_number(std::string(part.substr(slash + 1)))});
    }
    return leases;
  }
  std::uint64_t job() {
    const auto value = words_.take("job");
    if (!value) throw TranscriptError("\"job\" is missing");
    return names_.number(*value);
  }
  std::int64_t attempt() { return number("attempt").value_or(1); }
  wire::Raw ref() {
    const auto value = number("ref");
    return value ? number_ref(static_cast<std::uint64_t>(*value), ref_) : wire::Raw{};
  }
  std::optional<wire::Usage> usage() {
    wire::Usage usage;
    usage.input_tokens = number("input_tokens");
    usage.output_tokens = number("output_tokens");
    return usage.input_tokens || usage.output_tokens ? std::optional(usage) : std::nullopt;
  }
  std::optional<wire::UpstreamLimits> limits() {
    wire::UpstreamLimits limits;
    limits.limit_requests = number("limit_requests");
    limits.limit_tokens = number("limit_tokens");
    limits.remaining_requests = number("remaining_requests");
    limits.remaining_tokens = number("remaining_tokens");
    limits.reset_requests_ms = number("reset_requests_ms");
    limits.period_requests_ms = number("period_requests_ms");
    limits.limit_concurrency = number("limit_concurrency");
    const bool any = limits.limit_requests || limits.limit_tokens || limits.remaining_requests ||
                     limits.remaining_tokens || limits.reset_requests_ms || limits.period_requests_ms ||
                     limits.limit_concurrency;
    return any ? std::optional(limits) : std::nullopt;
  }

 private:
  std::string_view keep(std::string text) { return kept_[kept_.size()] = std::move(text); }

  Words& words_;
  const Names& names_;
  std::map<std::size_t, std::string> kept_;
  Buffer ref_;
};

template <class Message>
std::string frame(const Message& message, std::string_view body, const Words& rest) {
  rest.require_all_taken();
  Buffer out;
  if (body.empty())
    encode(message, out);
  else
    encode(message, body, out);
  return std::string(out.view());
}

}  // namespace

void Names::name_job(std::uint64_t number, std::string_view id) {
  if (by_number_.count(number) != 0) return;
  std::string name = "#" + std::string(id);
  while (numbers_.count(name) != 0)
    name += '\'';
  by_number_[number] = name;
  numbers_[name] = number;
}

std::string Names::job(std::uint64_t number) const {
  const auto place = by_number_.find(number);
  return place == by_number_.end() ? "#" + std::to_string(number) : place->second;
}

std::uint64_t Names::number(const std::string& name) const {
  const auto place = numbers_.find(name);
  if (place != numbers_.end()) return place->second;
  if (name.size() < 2 || name[0] != '#' || std::isdigit(static_cast<unsigned char>(name[1])) == 0)
    throw TranscriptError("no job " + name + " was handed to a worker so far");
  return static_cast<std::uint64_t>(parse_number(name.substr(1)));
}

std::string Names::id(std::string_view id) {
  if (!is_made(id)) return std::string(id);
  std::string& name = made_[std::string(id)];
  if (name.empty()) {
    name = "ulid-" + std::to_string(made_.size());
    real_[name] = id;
  }
  return name;
}

std::string Names::real_id(const std::string& name) const {
  const auto place = real_.find(name);
  return place == real_.end() ? name : place->second;
}

std::string describe(const std::vector<wire::Lease>& leases, const Names& names) {
  std::string text;
  for (const wire::Lease& lease : leases)
    text += (text.empty() ? "" : ",") + names.job(lease.job) + "/" + std::to_string(lease.attempt);
  return text;
}

Words describe(const wire::ClientReply& reply, std::string_view body, Names& names) {
  Describer describer{names, body};
  std::visit(describer, reply);
  return std::move(describer.words);
}

Words describe(const wire::WorkerCommand& command, std::string_view body, Names& names) {
  Describer describer{names, body};
  std::visit(describer, command);
  return std::move(describer.words);
}

std::string client_frame(Words words, const Names& names) {
  const std::string op = words.word(0);
  Fields fields(words, names);
  if (op == "submit") {
    wire::Submit message;
    message.service = fields.text("service");
    message.id = fields.text("id");
    message.lane = fields.text("lane");
    message.model = fields.text("model");
    message.client = fields.text("client");
    message.reply = fields.text("reply");
    message.timeout_ms = fields.number("timeout_ms");
    message.delay_ms = fields.number("delay_ms");
    message.orphan = fields.text("orphan");
    message.limited = fields.text("limited");
    message.spent = fields.text("spent");
    message.group = fields.text("group");
    message.group_size = fields.number("group_size");
    message.notify = fields.text("notify");
    if (const std::string_view durable = fields.text("durable"); !durable.empty())
      message.durable = durable == "true";
    message.attempts_max = fields.number("attempts_max");
    message.retain_ms = fields.number("retain_ms");
    const wire::Cost cost{.input_tokens = fields.number("input_tokens"),
                          .output_tokens = fields.number("output_tokens"),
                          .certain = fields.number("certain")};
    if (cost.input_tokens || cost.output_tokens) message.cost = cost;
    message.batch = fields.number("batch").value_or(0);
    message.stream = fields.text("stream") == "true";
    message.ref = fields.ref();
    std::string body(fields.text("body"));
    if (body.starts_with('{')) std::replace(body.begin(), body.end(), '\'', '"');
    return frame(message, body, words);
  }
  if (op == "cancel") return frame(wire::Cancel{fields.id("id"), fields.ref()}, {}, words);
  if (op == "status")
    return frame(wire::StatusQuery{fields.id("id"), fields.list("ids"), fields.ref()}, {}, words);
  if (op == "fetch") {
    wire::Fetch message;
    message.id = fields.id("id");
    message.wait_ms = fields.number("wait_ms").value_or(0);
    message.from_seq = fields.number("from_seq");
    message.ref = fields.ref();
    return frame(message, {}, words);
  }
  if (op == "seen") {
    const std::string_view id = fields.id("id");
    return frame(wire::Seen{id, fields.number("seq").value_or(0), fields.ref()}, {}, words);
  }
  if (op == "spend") {
    const auto amount = [&](const char* key) { return fields.number(key).value_or(0); };
    wire::Spend message;
    message.key = fields.text("key");
    message.session = fields.text("session");
    message.requests_per_minute = amount("requests_per_minute");
    message.tokens_per_minute = amount("tokens_per_minute");
    message.concurrency = amount("concurrency");
    message.requests = amount("requests");
    message.requests_ahead = amount("requests_ahead");
    message.tokens = amount("tokens");
    message.tokens_ahead = amount("tokens_ahead");
    message.places = amount("places");
    message.places_ahead = amount("places_ahead");
    message.ref = fields.ref();
    return frame(message, {}, words);
  }
  if (op == "watch") {
    wire::Watch message;
    message.id = fields.id("id");
    message.client = fields.text("client");
    message.lane = fields.text("lane");
    message.service = fields.text("service");
    message.group = fields.text("group");
    message.stop = fields.text("stop") == "true";
    message.batch = fields.number("batch").value_or(0);
    message.ref = fields.ref();
    return frame(message, {}, words);
  }
  if (op == "admin") {
    wire::AdminQuery message;
    message.verb = fields.text("do");
    message.what = fields.text("what");
    message.name = fields.text("name");
    message.id = fields.id("id");
    message.lane = fields.text("lane");
    message.service = fields.text("service");
    message.client = fields.text("client");
    message.model = fields.text("model");
    message.state = fields.text("state");
    message.code = fields.text("code");
    message.group = fields.text("group");
    message.key = fields.text("key");
    message.setting = fields.text("setting");
    message.value = fields.text("value");
    message.reason = fields.text("reason");
    message.from = fields.number("from").value_or(0);
    message.limit = fields.number("limit");
    message.dry_run = fields.text("dry_run") == "true";
    message.ref = fields.ref();
    return frame(message, {}, words);
  }
  throw TranscriptError("clients say submit, cancel, status, fetch, seen, spend or watch, not \"" + op +
                        "\"");
}

std::string worker_frame(Words words, const Names& names) {
  const std::string op = words.word(0);
  Fields fields(words, names);
  if (op == "ready") {
    wire::Ready message;
    message.services = fields.list("services");
    message.lanes = fields.list("lanes");
    message.capacity = fields.number("capacity").value_or(1);
    message.name = fields.text("name");
    message.batch = fields.number("batch").value_or(0);
    message.resumes = fields.text("resumes") == "true";
    message.cluster = fields.text("cluster") == "true";
    message.session = fields.text("session");
    return frame(message, {}, words);
  }
  if (op == "chunk") {
    const wire::Chunk message{fields.job(), fields.attempt(), fields.number("seq").value_or(0)};
    const std::string_view body = fields.text("body");
    const auto size = static_cast<std::size_t>(fields.number("body_bytes").value_or(0));
    const std::string large(size, 'x');
    return frame(message, size > 0 ? large : body, words);
  }
  if (op == "progress") {
    const wire::Progress message{fields.job(), fields.attempt(), fields.number("pct"), fields.text("note")};
    return frame(message, {}, words);
  }
  if (op == "result") {
    wire::Outcome message;
    message.job = fields.job();
    message.attempt = fields.attempt();
    message.usage = fields.usage();
    message.limits = fields.limits();
    const std::string_view body = fields.text("body");
    return frame(message, body, words);
  }
  if (op == "error") {
    wire::Failure message;
    message.job = fields.job();
    message.attempt = fields.attempt();
    message.error_class = fields.text("class");
    message.code = fields.text("code");
    message.message = fields.text("message");
    // Required on the wire; most transcripts have nothing to say there.
    if (message.code.empty()) message.code = "e";
    if (message.message.data() == nullptr) message.message = "failed";
    message.retry_after_ms = fields.number("retry_after_ms");
    message.upstream_status = fields.number("upstream_status");
    message.limited_by = fields.text("limited_by");
    const std::string_view body = fields.text("body");
    message.usage = fields.usage();
    message.limits = fields.limits();
    return frame(message, body, words);
  }
  if (op == "heartbeat") return frame(wire::Heartbeat{fields.leases("jobs")}, {}, words);
  if (op == "bye") return frame(wire::Bye{}, {}, words);
  throw TranscriptError("workers say ready, chunk, progress, result, error, heartbeat or bye, not \"" + op +
                        "\"");
}

}  // namespace lanemq::scenario
