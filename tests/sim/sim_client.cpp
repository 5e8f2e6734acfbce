// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_client.hpp"

namespace lanemq::sim {
namespace {

constexpr std::size_t kRecentTasksMax = 60;
/// Of one status; so many always fit into its answer.
constexpr std::size_t kIdsMax = 20;
/// The x- fields of a submit at most, and how much of a header its texts take: about all of it, or more than
/// a worker can be told.
constexpr std::uint64_t kExtrasMax = 40;
constexpr std::int64_t kTextsMost = limits::header_bytes_max - 700;

/// A text in msgpack.
std::string packed(std::string_view text) {
  const std::size_t size = text.size();
  std::string bytes = {'\xda', static_cast<char>(size >> 8), static_cast<char>(size & 0xff)};
  return bytes.append(text);
}

/// Longer than any timeout of a run: on a connection that stands the answer comes before.
constexpr auto kAskAgainAfter = std::chrono::seconds(70);

}  // namespace

SimClient::SimClient(Stage& stage, int number) : stage_(stage), is_req_(number % 3 == 2) {
  favourite_lane_ = stage.random.below(stage.swarm.options.lanes.size());
  envelope_.resize(is_req_ ? 2 : 0);
  if (is_req_ && stage.swarm.envelope_bytes_max > envelope_.size())
    envelope_.resize(
        stage.random.between(std::int64_t{2}, static_cast<std::int64_t>(stage.swarm.envelope_bytes_max)),
        'e');
  connect();
  think();
}

void SimClient::connect() {
  link_ = stage_.host.connect(
      core::Peer::client, envelope_,
      [this](const std::string& header, const std::string& body) { heard(header, body); });
}

void SimClient::reconnect() {
  stage_.host.disconnect(link_);
  connect();
  for (const auto& [ref, asked] : std::exchange(pending_, {})) {
    if (!asked.task.id.empty()) ask_again(asked);
  }
}

/// A stream is best read on from where it was.
void SimClient::ask_again(const Pending& asked) {
  if (asked.reads && !is_req_ && stage_.random.percent(70)) return fetch(asked.task, asked.next);
  if (stage_.random.percent(70))
    submit(asked.task, true);
  else
    fetch(asked.task);
}

void SimClient::vanish() {
  stage_.host.disconnect(link_);
  pending_.clear();
  connect();
}

void SimClient::settle() {
  if (pending_.empty()) return;
  reconnect();
  stage_.scheduler.after(kAskAgainAfter, [this] { settle(); });
}

void SimClient::think() {
  stage_.scheduler.after(stage_.random.between(stage_.swarm.think_min, stage_.swarm.think_max), [this] {
    if (stage_.healing) return;
    act();
    think();
  });
}

void SimClient::act() {
  const Swarm& swarm = stage_.swarm;
  int dice = static_cast<int>(stage_.random.below(1000));
  const auto chosen = [&](int weight) { return (dice -= weight) < 0; };
  if (chosen(swarm.duplicates)) return submit_again(false);
  if (chosen(swarm.conflicts)) return submit_again(true);
  if (chosen(swarm.queries)) return ask();
  if (chosen(swarm.cancels)) {
    Buffer ref;
    const std::string id = some_id();
    return say(wire::Cancel{.id = id, .ref = number_ref(stage_.next_ref++, ref)});
  }
  if (pending_.size() >= swarm.pending_max) return;
  submit(new_task(), true);
}

Task SimClient::new_task() {
  const Swarm& swarm = stage_.swarm;
  Random& random = stage_.random;
  const std::string serial = std::to_string(stage_.next_task++);
  Task task;
  if (!random.per_mille(static_cast<std::uint64_t>(swarm.unnamed))) task.id = "job-" + serial;
  task.service = random.pick(swarm.services);
  const std::size_t lanes = swarm.options.lanes.size();
  if (random.per_mille(20)) favourite_lane_ = random.below(lanes);
  task.lane = swarm.options.lanes[random.percent(70) ? favourite_lane_ : random.below(lanes)].name;
  if (random.per_mille(static_cast<std::uint64_t>(swarm.nonsense))) task.lane = "nowhere";
  task.model = random.pick(swarm.models);
  task.client = random.pick(swarm.names);
  if (swarm.client_names > 0 && random.percent(30))
    task.client = "somebody-" + std::to_string(random.below(static_cast<std::uint64_t>(swarm.client_names)));
  if (swarm.service_names > 0 && random.percent(10))
    task.service = "nowhere-" + std::to_string(random.below(static_cast<std::uint64_t>(swarm.service_names)));
  task.body = "q" + serial + ".";
  if (swarm.states_costs) {
    const std::int64_t input = random.between(0, swarm.input_max);
    const std::int64_t output = random.between(0, swarm.output_max);
    task.cost = {.input_tokens = input, .output_tokens = output};
    if (random.per_mille(static_cast<std::uint64_t>(swarm.free_jobs)))
      task.cost = {.input_tokens = 0, .output_tokens = 0};
    if (swarm.states_bounds && random.percent(70)) {
      task.body = R"({"max_tokens":)" + std::to_string(*task.cost->output_tokens) + R"(,"q":)" + serial + "}";
      task.cost->output_tokens.reset();
      task.cost->certain = wire::Cost::kInput;  // else what the broker sees in the body might count
    }
  }
  task.body.resize(task.body.size() + random.below(static_cast<std::uint64_t>(swarm.body_bytes_max)),
                   task.body.front() == '{' ? ' ' : 'x');
  task.reply = random.one_of<const char*>({"", "", "", "both", "accepted"});
  if (swarm.short_timeouts && random.percent(50))
    task.timeout_ms = random.between(1, random.one_of({20, 500, 5000}));
  // Of those whose id nobody is told, and that ended at once, it is not seen which one made way: they are
  // kept for equally long.
  if (swarm.forgetful && (!task.id.empty() || !task.reply.empty()) && random.percent(50))
    task.retain_ms = random.between(0, random.one_of({0, 20, 2000}));
  if (swarm.retain_max.count() > 0 && (!task.id.empty() || !task.reply.empty()) && random.percent(30))
    task.retain_ms = random.between(0, core::to_ms(swarm.retain_max));
  if (random.per_mille(static_cast<std::uint64_t>(swarm.large_texts))) draw_texts(task);
  if (random.percent(10)) task.attempts_max = random.between(1, 5);
  if (swarm.durables > 0 && random.per_mille(static_cast<std::uint64_t>(swarm.durables)))
    task.durable = random.percent(50);
  task.orphan = random.per_mille(static_cast<std::uint64_t>(swarm.orphans));
  task.stream = random.per_mille(static_cast<std::uint64_t>(swarm.streams));
  // Whose id nobody is told cannot be followed through its delay.
  if ((!task.id.empty() || !task.reply.empty()) && random.per_mille(static_cast<std::uint64_t>(swarm.delays)))
    task.delay_ms = random.between(0, core::to_ms(swarm.submit_delay_max));
  if (swarm.groups > 0 && random.per_mille(static_cast<std::uint64_t>(swarm.groups))) {
    task.group = some_group(random, swarm);
    // Some are agreed on by all jobs of the group, some by none.
    if (task.group.back() % 2 == 0)
      task.group_size = 3 + (task.group.back() - '0') * (random.percent(90) ? 1 : 2);
  }
  if (swarm.batches) {
    // Those of one batch follow each other, whoever submits them.
    const std::uint64_t number = stage_.next_task - 1;
    task.id = "job-" + serial;
    task.group = "batch-" + std::to_string(number / kBatchJobs);
    task.group_size = static_cast<std::int64_t>(kBatchJobs);
    task.durable = true;
    task.retain_ms.reset();
    const bool each_alone = swarm.notifies && number / kBatchJobs % 2 == 1;
    if (swarm.notifies) task.notify = "http://hook/" + (each_alone ? task.id : task.group);
    if (each_alone) task.group.clear(), task.group_size.reset();
  }
  if (task.spare) fill_header(task);
  if (!task.id.empty()) {
    stage_.recent_tasks.push_back(task);
    if (stage_.recent_tasks.size() > kRecentTasksMax) stage_.recent_tasks.pop_front();
  }
  return task;
}

/// As much as a header holds of one of them or of all, or a little.
void SimClient::draw_texts(Task& task) {
  Random& random = stage_.random;
  std::int64_t left = random.one_of<std::int64_t>(
      {random.between(0, 300), random.between(0, kTextsMost), kTextsMost - random.between(0, 900)});
  const auto some = [&] {
    const std::int64_t size = random.percent(50) ? left : random.between(0, left);
    left -= size;
    return packed(std::string(static_cast<std::size_t>(size), 't'));
  };
  if (random.percent(30)) task.spare = random.between(0, 150);
  if (random.percent(60)) task.meta = some();
  if (random.percent(40)) task.trace = some();
  if (!random.percent(60)) return;
  task.extras_count = static_cast<std::uint32_t>(random.below(kExtrasMax) + 1);
  for (std::uint32_t i = 0; i < task.extras_count; ++i) {
    left = std::max<std::int64_t>(left - 12, 0);
    task.extras += packed("x-" + std::to_string(i)) + some();
  }
}

/// What a worker is told of the job besides may be just too much for its header.
void SimClient::fill_header(Task& task) {
  constexpr std::uint64_t kRefMost = 0xffff'ffff;
  Buffer ref_bytes, out;
  task.meta = packed("");
  wire::Submit message = message_of(task);
  message.reply = "accepted";  // it may be asked for in another way next time
  message.batch = 8;
  message.stream = true;
  message.ref = number_ref(kRefMost, ref_bytes);
  encode(message, task.body, out);
  const std::int64_t left =
      static_cast<std::int64_t>(limits::header_bytes_max) - static_cast<std::int64_t>(out.view().size());
  task.meta =
      packed(std::string(static_cast<std::size_t>(std::max<std::int64_t>(left - *task.spare, 0)), 't'));
}

/// But for who asks, and how he is to be told.
wire::Submit SimClient::message_of(const Task& task) {
  wire::Submit message;
  message.service = task.service;
  if (!task.id.empty()) message.id = task.id;
  message.lane = task.lane;
  if (!task.model.empty()) message.model = task.model;
  if (!task.client.empty()) message.client = task.client;
  if (!task.reply.empty()) message.reply = task.reply;
  message.timeout_ms = task.timeout_ms;
  message.delay_ms = task.delay_ms;
  message.retain_ms = task.retain_ms;
  message.attempts_max = task.attempts_max;
  message.cost = task.cost;
  message.durable = task.durable;
  message.meta = {task.meta};
  message.trace = {task.trace};
  message.extras = {task.extras_count, task.extras};
  if (!task.group.empty()) message.group = task.group;
  message.group_size = task.group_size;
  if (!task.notify.empty()) message.notify = task.notify;
  if (task.orphan) message.orphan = "cancel";
  return message;
}

void SimClient::submit(const Task& task, bool remember) {
  const std::uint64_t ref = stage_.next_ref++;
  // A REQ may not ask for a stream, and mostly knows that.
  const bool streams =
      task.stream && (!is_req_ || stage_.random.per_mille(static_cast<std::uint64_t>(stage_.swarm.nonsense)));
  if (remember)
    pending_[ref] = {
        .task = task,
        .reads = streams,
        .silent = stage_.random.per_mille(static_cast<std::uint64_t>(stage_.swarm.silent_readers))};
  Buffer ref_bytes;
  wire::Submit message = message_of(task);
  message.stream = streams;
  message.batch = static_cast<std::int64_t>(ref % 3) * 4;  // 0 leaves what was said before
  message.ref = number_ref(ref, ref_bytes);
  say(message, task.body);
}

void SimClient::fetch(const Task& task) {
  const std::uint64_t ref = stage_.next_ref++;
  pending_[ref] = {.task = task, .fetched = true};
  Buffer ref_bytes;
  wire::Fetch message;
  message.id = task.id;
  message.wait_ms = stage_.random.one_of<std::int64_t>({0, 20, 3000});
  message.ref = number_ref(ref, ref_bytes);
  say(message);
}

/// Reads a stream from a chunk on.
void SimClient::fetch(const Task& task, std::int64_t from_seq) {
  const std::uint64_t ref = stage_.next_ref++;
  pending_[ref] = {.task = task,
                   .fetched = true,
                   .reads = true,
                   .silent = stage_.random.per_mille(static_cast<std::uint64_t>(stage_.swarm.silent_readers)),
                   .from = from_seq,
                   .next = from_seq};
  Buffer ref_bytes;
  wire::Fetch message;
  message.id = task.id;
  message.wait_ms = stage_.random.one_of<std::int64_t>({0, 20, 3000, 60000});
  message.from_seq = from_seq;
  message.ref = number_ref(ref, ref_bytes);
  say(message);
}

void SimClient::submit_again(bool conflicts) {
  if (stage_.recent_tasks.empty() || pending_.size() >= stage_.swarm.pending_max) return;
  Task task = stage_.recent_tasks[stage_.random.below(stage_.recent_tasks.size())];
  task.reply = stage_.random.one_of<const char*>({"", "both", "accepted"});
  // An id that was never taken, or is forgotten, makes it a job.
  // Any one of what makes it the same job differs.
  const int differs = conflicts ? stage_.random.one_of({0, 0, 1, 2}) : -1;
  if (differs == 0) {
    if (task.cost && !task.cost->output_tokens) task.cost->output_tokens = 0;
    task.body = "q" + std::to_string(stage_.next_task++) + ".";
  }
  if (differs == 1) task.model = task.model.empty() ? stage_.swarm.models.back() : std::string();
  if (differs == 2) task.service = stage_.random.pick(stage_.swarm.services);
  submit(task, !conflicts);
}

std::string SimClient::some_id() {
  if (stage_.recent_tasks.empty() || stage_.random.percent(3)) return "nobody-knows";
  return stage_.recent_tasks[stage_.random.below(stage_.recent_tasks.size())].id;
}

void SimClient::ask() {
  Buffer ref_bytes;
  const wire::Raw ref = number_ref(stage_.next_ref++, ref_bytes);
  const std::string id = some_id();
  if (stage_.random.percent(50)) {
    wire::StatusQuery query;
    query.ref = ref;
    if (stage_.random.percent(60)) {
      query.id = id;
      return say(query);
    }
    std::vector<std::string> ids(stage_.random.below(kIdsMax) + 1);
    for (std::string& one : ids)
      one = some_id();
    query.ids = {ids.begin(), ids.end()};
    return say(query);
  }
  wire::Fetch fetch;
  fetch.id = id;
  fetch.wait_ms = stage_.random.one_of<std::int64_t>({0, 1, 100, 3000});
  // Who reads without a plan never says what he has taken.
  if (stage_.swarm.streams > 0 && stage_.random.percent(is_req_ ? 5 : 50)) {
    fetch.from_seq = stage_.random.between(0, stage_.random.one_of({0, 5, 100}));
    fetch.wait_ms = stage_.random.one_of<std::int64_t>({0, 100, 60000});
  }
  fetch.ref = ref;
  say(fetch);
}

template <class Message>
void SimClient::say(const Message& message, std::string_view body) {
  Buffer out;
  const bool inside = !body.empty() && body.size() <= limits::inline_bytes_max;
  if (inside)
    encode(message, body, out);
  else
    encode(message, out);
  stage_.host.send(link_, out.view(), inside ? std::string_view{} : body);
}

void SimClient::heard(const std::string& header, const std::string& body) {
  Items<wire::ClientReply> replies;
  if (const DecodeError* error = decoder_.decode(header, {}, replies))
    violated("a client cannot read: " + error->message);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (replies.error(i) != nullptr) violated("a client cannot read: " + replies.error(i)->message);
    heard_one(replies[i], body.empty() ? replies.body(i) : std::string_view(body));
  }
}

void SimClient::heard_one(const wire::ClientReply& reply, std::string_view body) {
  if (const auto* result = std::get_if<wire::JobResult>(&reply)) {
    heard_result(ref_number(result->ref).value_or(0), body, result->chunks);
  } else if (const auto* chunk = std::get_if<wire::ChunkReply>(&reply)) {
    heard_chunk(*chunk, body);
  } else if (const auto* error = std::get_if<wire::ErrorReply>(&reply)) {
    const auto asked = pending_.extract(ref_number(error->ref).value_or(0));
    // What is gone stays so, and is not run again.
    const bool forgotten = error->code == "not_found";
    if (!asked.empty() && !asked.mapped().task.id.empty()) {
      const Pending& before = asked.mapped();
      if (error->code == "slow_reader") return fetch(before.task, before.next);
      // Its chunks may be gone and its end be there.
      if (before.reads && error->code == "gone") return fetch(before.task);
    }
    if (!asked.empty() && asked.mapped().fetched && forgotten) submit(asked.mapped().task, true);
  } else if (const auto* status = std::get_if<wire::StatusReply>(&reply)) {
    // A fetch has waited in vain.
    const auto asked = pending_.extract(ref_number(status->ref).value_or(0));
    if (asked.empty()) return;
    if (asked.mapped().reads && stage_.random.percent(70))
      return fetch(asked.mapped().task, asked.mapped().next);
    submit(asked.mapped().task, true);
  } else if (const auto* accepted = std::get_if<wire::Accepted>(&reply)) {
    const auto place = pending_.find(ref_number(accepted->ref).value_or(0));
    if (place != pending_.end() && place->second.task.reply == "accepted") pending_.erase(place);
  }
}

void SimClient::heard_chunk(const wire::ChunkReply& chunk, std::string_view body) {
  const std::uint64_t ref = ref_number(chunk.ref).value_or(0);
  const auto place = pending_.find(ref);
  if (place == pending_.end()) return;
  Pending& asked = place->second;
  if (!asked.reads) violated("a client heard a chunk of what it wanted whole");
  if (chunk.seq != asked.next)
    violated("a client heard chunk " + std::to_string(chunk.seq) + " where " + std::to_string(asked.next) +
             " comes next");
  const std::string begin = "C" + std::to_string(chunk.seq) + ":" + asked.task.body.substr(0, 20);
  if (!asked.fetched && !body.starts_with(begin) && !(stage_.swarm.lies > 0 && body == "lie"))
    violated("a client heard the chunk \"" + std::string(body.substr(0, 40)) + "\" when it asked \"" +
             asked.task.body.substr(0, 40) + "\"");
  ++asked.next;
  if (asked.silent && !stage_.healing) return;
  stage_.scheduler.after(stage_.random.between(Duration(0), stage_.swarm.seen_after_max),
                         [this, ref] { say_seen(ref); });
}

void SimClient::say_seen(std::uint64_t ref) {
  const auto place = pending_.find(ref);
  if (place == pending_.end() || !link_) return;
  const Pending& asked = place->second;
  // For all that it has taken by now; some leave it to a later one.
  if (asked.next == asked.from || (!stage_.healing && stage_.random.percent(20))) return;
  Buffer ref_bytes;
  wire::Seen seen;
  seen.seq = asked.next - 1;
  if (!asked.task.id.empty() && stage_.random.percent(50))
    seen.id = asked.task.id;
  else
    seen.ref = number_ref(ref, ref_bytes);
  say(seen);
}

void SimClient::heard_result(std::uint64_t ref, std::string_view answer, std::int64_t chunks) {
  const auto place = pending_.find(ref);
  if (place == pending_.end()) return;
  if (const Pending& asked = place->second;
      asked.reads && asked.next != std::max(asked.from, chunks) && !asked.fetched)
    violated("a client heard " + std::to_string(asked.next) + " chunks of " + std::to_string(chunks));
  const std::string& body = place->second.task.body;
  // Who fetches hears how the id's job ended, which somebody may have taken for another job.
  const bool right = answer == "A:" + body || place->second.fetched;
  if (!right && !(stage_.swarm.lies > 0 && answer == "lie"))
    violated("a client heard \"" + std::string(answer.substr(0, 40)) + "\" when it asked \"" +
             body.substr(0, 40) + "\"");
  pending_.erase(place);
}

}  // namespace lanemq::sim
