// SPDX-License-Identifier: Apache-2.0
#include "broker/core/stored.hpp"

#include <limits>

#include <msgpack.hpp>

#include <lanemq/error_table.hpp>

namespace lanemq::core {
namespace {

/// An attempt's causes, as History has them.
std::string_view cause_named(std::string_view name) {
  if (const auto error_class = lanemq::error_class(name)) return name_of(*error_class);
  if (name == name_of(ErrorCode::deadline)) return name_of(ErrorCode::deadline);
  if (name == name_of(ErrorCode::worker_lost)) return name_of(ErrorCode::worker_lost);
  return "missing";
}

/// Of a job's record: an item of a batch says what it shares with the first one, and so may be longer alone.
constexpr std::size_t kRecordBytesMax = 4 * limits::header_bytes_max;

constexpr std::size_t kStateValues = 18, kResultValues = 15, kAttemptValues = 7, kEndingValues = 8;
constexpr std::int64_t kNotKnown = -1;

/// Appends to a buffer what it is given, one value after the other.
class Pen {
 public:
  explicit Pen(Buffer& out) : packer_(out) {}
  Pen& array(std::size_t size) {
    packer_.pack_array(static_cast<std::uint32_t>(size));
    return *this;
  }
  template <class Integer>
  Pen& integer(Integer value) {
    packer_.pack(value);
    return *this;
  }
  Pen& text(std::string_view value) {
    const auto size = static_cast<std::uint32_t>(value.size());
    packer_.pack_str(size).pack_str_body(value.data(), size);
    return *this;
  }
  Pen& known(const std::optional<std::int64_t>& value) { return integer(value.value_or(kNotKnown)); }

 private:
  msgpack::packer<Buffer> packer_;
};

std::int64_t at_us(TimePoint when, std::int64_t epoch_us) {
  return when.time_since_epoch().count() + epoch_us;
}

}  // namespace

void write(const StoredState& state, const History& history, std::int64_t epoch_us, Buffer& out) {
  Pen pen(out);
  pen.array(kStateValues).integer(static_cast<unsigned>(state.kind)).integer(state.arrival);
  pen.integer(state.accepted_us).integer(state.deadline_us).integer(state.due_us);
  pen.integer(state.delay.count()).integer(state.attempt).integer(unsigned{state.attempts});
  pen.integer(unsigned{state.attempts_max}).integer(unsigned{state.crashes});
  pen.integer(state.input_tokens).integer(state.output_tokens).integer(state.raw_input);
  pen.integer(state.retain_ms).integer(state.body_hash).text(state.lane).text(state.key);
  pen.array(history.attempts().size() * kAttemptValues);
  for (const Attempt& attempt : history.attempts()) {
    pen.integer(attempt.number).text(attempt.worker).integer(at_us(attempt.began, epoch_us));
    pen.integer(at_us(attempt.ended, epoch_us)).text(attempt.cause).text(attempt.code).text(attempt.message);
  }
}

void write(const StoredResult& result, const Ending* ending, Buffer& out) {
  Pen pen(out);
  pen.array(kResultValues + kEndingValues);
  pen.text(result.id).text(result.model).text(result.service).text(result.lane).text(result.submitted_lane);
  pen.integer(static_cast<unsigned>(result.state)).integer(result.attempt).integer(unsigned{result.attempts});
  pen.integer(result.queued_ms).integer(result.ran_ms).integer(result.body_hash);
  pen.integer((result.client_named_it ? 1u : 0u) | (result.id_told ? 2u : 0u) | (result.dead ? 4u : 0u) |
              (ending != nullptr ? 8u : 0u));
  pen.integer(result.due_us).integer(result.ended_us).integer(0);
  static const Ending kNone;
  if (ending == nullptr) ending = &kNone;
  pen.text(ending->code == ErrorCode::internal && ending == &kNone ? std::string_view{}
                                                                   : name_of(ending->code));
  pen.text(ending->message);
  pen.known(ending->retry_after ? std::optional(to_ms(*ending->retry_after)) : std::nullopt);
  const wire::Usage usage = ending->usage.value_or(wire::Usage{});
  pen.known(usage.requests).known(usage.input_tokens).known(usage.output_tokens).known(usage.cached_tokens);
  pen.known(usage.reasoning_tokens);
}

void write(const std::vector<StoredEntry>& entries, Buffer& out) {
  Pen pen(out);
  pen.array(entries.size() * 2);
  for (const StoredEntry& entry : entries) {
    pen.text(entry.name).array(entry.numbers.all().size());
    for (const std::int64_t number : entry.numbers.all())
      pen.integer(number);
  }
}

/// One array after another; what is not there reads as 0 or as nothing.
class StoredDecoder::Reader {
 public:
  bool open(std::string_view bytes) {
    zone_.clear();
    levels_.clear();
    sound_ = true;
    try {
      std::size_t read = 0;
      const msgpack::object object = msgpack::unpack(zone_, bytes.data(), bytes.size(), read, bytes_borrowed);
      if (read != bytes.size()) return false;
      return enter(object);
    } catch (const msgpack::unpack_error&) {
      return false;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  /// All values so far were of the types that were asked for.
  bool sound() const { return sound_; }

  template <class Integer>
  Integer integer() {
    const msgpack::object* const value = next();
    if (value == nullptr) return 0;
    if (value->type == msgpack::type::POSITIVE_INTEGER) {
      if (value->via.u64 <= static_cast<std::uint64_t>(std::numeric_limits<Integer>::max()))
        return static_cast<Integer>(value->via.u64);
    } else if (value->type == msgpack::type::NEGATIVE_INTEGER) {
      if (std::is_signed_v<Integer> &&
          value->via.i64 >= static_cast<std::int64_t>(std::numeric_limits<Integer>::min()))
        return static_cast<Integer>(value->via.i64);
    }
    sound_ = false;
    return 0;
  }
  std::string_view text() {
    const msgpack::object* const value = next();
    if (value == nullptr) return {};
    if (value->type == msgpack::type::STR) return {value->via.str.ptr, value->via.str.size};
    sound_ = false;
    return {};
  }
  std::optional<std::int64_t> known() {
    const auto value = integer<std::int64_t>();
    return value == kNotKnown ? std::nullopt : std::optional(value);
  }
  /// Goes into the array that comes next; returns how many values it has.
  std::size_t enter() {
    const msgpack::object* const value = next();
    if (value == nullptr || !enter(*value)) return 0;
    return levels_.back().size;
  }
  void leave() { levels_.pop_back(); }

 private:
  struct Level {
    const msgpack::object* values;
    std::size_t size, at;
  };

  static bool bytes_borrowed(msgpack::type::object_type, std::size_t, void*) { return true; }
  bool enter(const msgpack::object& object) {
    if (object.type != msgpack::type::ARRAY) {
      sound_ = false;
      levels_.push_back({nullptr, 0, 0});
      return false;
    }
    levels_.push_back({object.via.array.ptr, object.via.array.size, 0});
    return true;
  }
  const msgpack::object* next() {
    Level& level = levels_.back();
    return level.at < level.size ? &level.values[level.at++] : nullptr;
  }

  msgpack::zone zone_;
  std::vector<Level> levels_;
  bool sound_ = true;
};

StoredDecoder::StoredDecoder()
    : reader_(std::make_unique<Reader>()), decoder_(limits::body_bytes_max, kRecordBytesMax) {}
StoredDecoder::~StoredDecoder() = default;

Result<StoredState> StoredDecoder::state(std::string_view bytes, std::int64_t epoch_us, History& history) {
  Reader& in = *reader_;
  if (!in.open(bytes)) return failure(ErrorCode::internal, "its state is no array");
  StoredState state;
  const auto kind = in.integer<std::uint8_t>();
  state.kind = static_cast<StoredState::Kind>(kind);
  state.arrival = in.integer<std::uint64_t>();
  state.accepted_us = in.integer<std::int64_t>();
  state.deadline_us = in.integer<std::int64_t>();
  state.due_us = in.integer<std::int64_t>();
  state.delay = Duration(in.integer<std::int64_t>());
  state.attempt = in.integer<std::uint32_t>();
  state.attempts = in.integer<std::uint16_t>();
  state.attempts_max = in.integer<std::uint16_t>();
  state.crashes = in.integer<std::uint8_t>();
  state.input_tokens = in.integer<std::uint32_t>();
  state.output_tokens = in.integer<std::uint32_t>();
  state.raw_input = in.integer<std::uint32_t>();
  state.retain_ms = in.integer<std::uint32_t>();
  state.body_hash = in.integer<std::uint64_t>();
  state.lane = in.text();
  state.key = in.text();
  const std::size_t attempts = in.enter() / kAttemptValues;
  for (std::size_t i = 0; i < attempts && i < History::kAttemptsMax; ++i) {
    Attempt attempt;
    attempt.number = in.integer<std::uint32_t>();
    attempt.worker = in.text();
    attempt.began = TimePoint(Duration(in.integer<std::int64_t>() - epoch_us));
    attempt.ended = TimePoint(Duration(in.integer<std::int64_t>() - epoch_us));
    attempt.cause = cause_named(in.text());
    attempt.code = in.text();
    attempt.message = in.text();
    history.add(std::move(attempt));
  }
  if (!in.sound() || kind > static_cast<std::uint8_t>(StoredState::Kind::dead))
    return failure(ErrorCode::internal, "its state is not in the form of this version");
  return state;
}

Result<StoredResult> StoredDecoder::result(std::string_view bytes, std::unique_ptr<Ending>& ending) {
  Reader& in = *reader_;
  if (!in.open(bytes)) return failure(ErrorCode::internal, "it is no array");
  StoredResult result;
  result.id = in.text();
  result.model = in.text();
  result.service = in.text();
  result.lane = in.text();
  result.submitted_lane = in.text();
  const auto state = in.integer<std::uint8_t>();
  result.state = static_cast<JobState>(state);
  result.attempt = in.integer<std::uint32_t>();
  result.attempts = in.integer<std::uint16_t>();
  result.queued_ms = in.integer<std::uint32_t>();
  result.ran_ms = in.integer<std::uint32_t>();
  result.body_hash = in.integer<std::uint64_t>();
  const auto flags = in.integer<unsigned>();
  result.client_named_it = (flags & 1) != 0;
  result.id_told = (flags & 2) != 0;
  result.dead = (flags & 4) != 0;
  result.due_us = in.integer<std::int64_t>();
  result.ended_us = in.integer<std::int64_t>();
  in.integer<int>();
  const std::string_view code = in.text();
  auto end = std::make_unique<Ending>();
  end->code = error_code(code).value_or(ErrorCode::internal);
  end->message = in.text();
  if (const auto retry = in.known()) end->retry_after = std::chrono::milliseconds(*retry);
  wire::Usage usage;
  usage.requests = in.known();
  usage.input_tokens = in.known();
  usage.output_tokens = in.known();
  usage.cached_tokens = in.known();
  usage.reasoning_tokens = in.known();
  if (usage.requests || usage.input_tokens || usage.output_tokens || usage.cached_tokens ||
      usage.reasoning_tokens)
    end->usage = usage;
  if ((flags & 8) != 0) ending = std::move(end);
  const bool over = state >= static_cast<std::uint8_t>(JobState::succeeded) &&
                    state <= static_cast<std::uint8_t>(JobState::expired);
  if (!in.sound() || !over || result.id.empty() || (result.state != JobState::succeeded && !ending))
    return failure(ErrorCode::internal, "it is not in the form of this version");
  return result;
}

Result<std::vector<StoredEntry>> StoredDecoder::entries(std::string_view bytes) {
  Reader& in = *reader_;
  if (!in.open(bytes)) return failure(ErrorCode::internal, "it is no array");
  std::vector<StoredEntry> entries;
  while (true) {
    const std::string_view name = in.text();
    if (name.data() == nullptr) break;
    StoredEntry entry{.name = std::string(name), .numbers = StoredNumbers()};
    for (std::size_t left = in.enter(); left > 0; --left)
      entry.numbers.put(in.integer<std::int64_t>());
    in.leave();
    entries.push_back(std::move(entry));
  }
  if (!in.sound()) return failure(ErrorCode::internal, "it is not in the form of this version");
  return entries;
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
