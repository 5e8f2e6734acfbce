// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/stored.hpp"

#include <algorithm>
#include <utility>

#include <lanemq/error_table.hpp>
#include <lanemq/limits.hpp>

namespace lanemq::core {
namespace {

/// The constant of an attempt's cause, as History needs it.
std::string_view cause_named(std::string_view name) {
  if (const auto error_class = lanemq::error_class(name)) return name_of(*error_class);
  if (name == name_of(ErrorCode::deadline)) return name_of(ErrorCode::deadline);
  if (name == name_of(ErrorCode::worker_lost)) return name_of(ErrorCode::worker_lost);
  if (name == name_of(ErrorCode::stalled)) return name_of(ErrorCode::stalled);
  return "missing";
}

/// Bytes of a job's record: in a batch it shared fields with the first item, so it may be longer alone.
constexpr std::size_t kRecordBytesMax = 4 * limits::header_bytes_max;

// Values in a list, and in a row of values that belong together.
constexpr std::size_t kStateValues = 20, kDeathValues = 2, kResultValues = 14, kAttemptValues = 7,
                      kEndingValues = 10;
constexpr std::int64_t kNotKnown = -1;
/// Flags of a result.
constexpr int kClientNamedIt = 1, kIdTold = 2, kDead = 4, kOfClient = 8;

/// Writes an optional number; -1 where it is not known, since nothing counted is below 0.
void write_known(const std::optional<std::int64_t>& value, DocumentWriter& out) {
  out.integer(value.value_or(kNotKnown));
}

std::optional<std::int64_t> read_known(ListReader& in) {
  const std::int64_t value = in.integer();
  return value == kNotKnown ? std::nullopt : std::optional(value);
}

/// Reads integers of smaller types; one that does not fit marks the list as unsound.
class Integers {
 public:
  explicit Integers(ListReader& in) : in_(in) {}
  template <class Integer>
  void read(Integer& value) {
    const std::int64_t number = in_.integer();
    value = static_cast<Integer>(number);
    fits_ = fits_ && std::in_range<Integer>(number);
  }
  bool fit() const { return fits_; }

 private:
  ListReader& in_;
  bool fits_ = true;
};

std::int64_t at_us(TimePoint when, std::int64_t epoch_us) {
  return when.time_since_epoch().count() + epoch_us;
}

}  // namespace

void write(const StoredState& state, const History& history, std::int64_t epoch_us, Buffer& out) {
  DocumentWriter list(out);
  const bool deaths = state.shared_deaths > 0 || state.suspected;  // few have: a plain job writes no more
  list.array(kStateValues + (deaths ? kDeathValues : 0)).integer(static_cast<int>(state.kind));
  list.integer(static_cast<std::int64_t>(state.arrival));
  list.integer(state.accepted_us).integer(state.deadline_us).integer(state.due_us);
  list.integer(state.delay.count()).integer(state.attempt).integer(state.attempts);
  list.integer(state.attempts_max).integer(state.crashes).integer(state.input_tokens);
  list.integer(state.output_tokens).integer(state.raw_input).integer(state.retain_ms);
  list.integer(static_cast<std::int64_t>(state.body_hash)).text(state.lane).text(state.key);
  list.array(history.attempts().size() * kAttemptValues);
  for (const Attempt& attempt : history.attempts()) {
    list.integer(attempt.number).text(attempt.worker).integer(at_us(attempt.began, epoch_us));
    list.integer(at_us(attempt.ended, epoch_us)).text(attempt.cause).text(attempt.code).text(attempt.message);
  }
  list.integer(state.chunks).integer(state.ends_limited.value_or(false) ? 1 : 0);
  if (deaths) list.integer(state.shared_deaths).integer(state.suspected ? 1 : 0);
}

void write(const StoredResult& result, const Ending* ending, Buffer& out) {
  DocumentWriter list(out);
  const bool named = result.client != kNoMark;
  list.array(kResultValues + (named ? 1 : 0) + (ending != nullptr ? kEndingValues : 0));
  list.text(result.id).text(result.model).text(result.service).text(result.lane).text(result.submitted_lane);
  list.integer(static_cast<int>(result.state)).integer(result.attempt).integer(result.attempts);
  list.integer(result.queued_ms).integer(result.ran_ms);
  list.integer(static_cast<std::int64_t>(result.body_hash));
  list.integer((result.client_named_it ? kClientNamedIt : 0) | (result.id_told ? kIdTold : 0) |
               (result.dead ? kDead : 0) | (named ? kOfClient : 0));
  list.integer(result.due_us).integer(result.ended_us);
  if (named) list.integer(static_cast<std::int64_t>(result.client));
  if (ending == nullptr) return;
  list.text(name_of(ending->code)).text(ending->message);
  write_known(ending->retry_after ? std::optional(to_ms(*ending->retry_after)) : std::nullopt, list);
  const wire::Usage usage = ending->usage.value_or(wire::Usage{});
  for (const auto& value :
       {usage.requests, usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens})
    write_known(value, list);
  write_known(ending->upstream_status, list);
  list.integer(ending->chunks);
}

StoredDecoder::StoredDecoder() : decoder_(limits::body_bytes_max, kRecordBytesMax) {}

Result<StoredState> StoredDecoder::state(std::string_view bytes, std::int64_t epoch_us, History& history) {
  if (!list_.open(bytes)) return failure(ErrorCode::internal, "its state is no list");
  Integers in(list_);
  StoredState state;
  std::uint8_t kind = 0;
  std::int64_t arrival = 0, delay = 0, hash = 0;
  in.read(kind);
  in.read(arrival);
  in.read(state.accepted_us);
  in.read(state.deadline_us);
  in.read(state.due_us);
  in.read(delay);
  in.read(state.attempt);
  in.read(state.attempts);
  in.read(state.attempts_max);
  in.read(state.crashes);
  in.read(state.input_tokens);
  in.read(state.output_tokens);
  in.read(state.raw_input);
  in.read(state.retain_ms);
  in.read(hash);
  state.kind = static_cast<StoredState::Kind>(kind);
  state.arrival = static_cast<std::uint64_t>(arrival);
  state.delay = Duration(delay);
  state.body_hash = static_cast<std::uint64_t>(hash);
  state.lane = list_.text();
  state.key = list_.text();
  const std::size_t attempts = list_.enter() / kAttemptValues;
  for (std::size_t i = 0; i < attempts && i < History::kAttemptsMax; ++i) {
    Attempt attempt;
    in.read(attempt.number);
    attempt.worker = list_.text();
    attempt.began = TimePoint(Duration(list_.integer() - epoch_us));
    attempt.ended = TimePoint(Duration(list_.integer() - epoch_us));
    attempt.cause = cause_named(list_.text());
    attempt.code = list_.text();
    attempt.message = list_.text();
    history.add(std::move(attempt));
  }
  list_.leave();
  in.read(state.chunks);
  if (list_.more()) state.ends_limited = list_.integer() != 0;
  if (list_.more()) in.read(state.shared_deaths);
  if (list_.more()) state.suspected = list_.integer() != 0;
  if (!list_.sound() || !in.fit() || state.kind > StoredState::Kind::dead)
    return failure(ErrorCode::internal, "its state is not in the form of this version");
  return state;
}

Result<StoredResult> StoredDecoder::result(std::string_view bytes, std::unique_ptr<Ending>& ending) {
  if (!list_.open(bytes)) return failure(ErrorCode::internal, "it is no list");
  Integers in(list_);
  StoredResult result;
  result.id = list_.text();
  result.model = list_.text();
  result.service = list_.text();
  result.lane = list_.text();
  result.submitted_lane = list_.text();
  std::uint8_t state = 0;
  std::int64_t hash = 0;
  int flags = 0;
  in.read(state);
  in.read(result.attempt);
  in.read(result.attempts);
  in.read(result.queued_ms);
  in.read(result.ran_ms);
  in.read(hash);
  in.read(flags);
  in.read(result.due_us);
  in.read(result.ended_us);
  // Earlier versions did not write the client.
  std::int64_t client = 0;
  if ((flags & kOfClient) != 0) in.read(client);
  result.client = static_cast<std::uint64_t>(client);
  result.state = static_cast<JobState>(state);
  result.body_hash = static_cast<std::uint64_t>(hash);
  result.client_named_it = (flags & kClientNamedIt) != 0;
  result.id_told = (flags & kIdTold) != 0;
  result.dead = (flags & kDead) != 0;
  if (list_.more()) {
    ending = std::make_unique<Ending>();
    ending->code = error_code(list_.text()).value_or(ErrorCode::internal);
    ending->message = list_.text();
    if (const auto retry = read_known(list_)) ending->retry_after = std::chrono::milliseconds(*retry);
    wire::Usage usage;
    bool any = false;
    for (auto* value : {&usage.requests, &usage.input_tokens, &usage.output_tokens, &usage.cached_tokens,
                        &usage.reasoning_tokens}) {
      *value = read_known(list_);
      any = any || *value;
    }
    if (any) ending->usage = usage;
    if (list_.more()) ending->upstream_status = read_known(list_);
    in.read(ending->chunks);
  }
  const bool over = state >= static_cast<std::uint8_t>(JobState::succeeded) &&
                    state <= static_cast<std::uint8_t>(JobState::expired);
  if (!list_.sound() || !in.fit() || !over || result.id.empty() ||
      (result.state != JobState::succeeded && !ending))
    return failure(ErrorCode::internal, "it is not in the form of this version");
  return result;
}

Result<std::vector<StoredEntry>> StoredDecoder::entries(std::string_view bytes) {
  if (!list_.open(bytes)) return failure(ErrorCode::internal, "it is no list");
  std::vector<StoredEntry> entries;
  while (list_.more()) {
    StoredEntry entry{.name = std::string(list_.text()), .numbers = StoredNumbers()};
    for (std::size_t left = list_.enter(); left > 0; --left)
      entry.numbers.put(list_.integer());
    list_.leave();
    entries.push_back(std::move(entry));
  }
  if (!list_.sound()) return failure(ErrorCode::internal, "it is not in the form of this version");
  return entries;
}

void write_record(const Job& job, const RecordNames& names, Buffer& out) {
  wire::Submit fields{.service = names.service,
                      .id = job.id(),
                      .lane = names.lane,
                      .model = job.text.get(JobText::model),
                      .client = job.text.get(JobText::client),
                      .cost = job.extra ? job.extra->cost : std::nullopt,
                      .attempts_max = job.attempts_max,
                      // A default may be more than a submit may say.
                      .retain_ms = std::min(job.retain.ms(), limits::duration_ms_max),
                      .limited = job.ends_limited ? kElsewhere : std::string_view{},
                      .group_size = names.group_size,
                      .stream = job.streams,
                      .meta = {job.text.get(JobText::meta)},
                      .trace = {job.text.get(JobText::trace)}};
  if (const std::string_view group = job.text.get(JobText::group); !group.empty()) fields.group = group;
  if (const std::string_view url = job.text.get(JobText::notify); !url.empty()) fields.notify = url;
  if (job.timeout_stated) fields.timeout_ms = to_ms(job.timeout());
  if (const std::string_view extras = job.text.get(JobText::extras); !extras.empty())
    fields.extras = {static_cast<unsigned char>(extras[0]), extras.substr(1)};
  encode(fields, out);
}

Result<wire::Submit> StoredDecoder::submit(std::string_view record) {
  wire::ClientRequest request;
  if (const DecodeError* error = decoder_.decode(record, request))
    return failure(ErrorCode::internal, "its record cannot be read: " + error->message);
  const auto* const submit = std::get_if<wire::Submit>(&request);
  if (submit == nullptr) return failure(ErrorCode::internal, "its record is no submit");
  return *submit;
}

}  // namespace lanemq::core
