// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include <lanemq/limits.hpp>
#include <lanemq/messages.hpp>

// The table of operations and their fields: decoding, encoding, limits and required fields are made from it.

namespace lanemq::wire {

// The types of fields: X(type, what a structure holds, what a value must be). The enumeration and FieldTraits
// are made from it. A new type is a row here, an is_said() below, and where it holds something new a case in
// decoder and encoder.
#define LANEMQ_FIELD_TYPES(X)                                                          \
  X(text, std::string_view, "must be a string")                                        \
  X(integer, std::int64_t, "must be an integer, not negative")                         \
  X(unsigned_integer, std::uint64_t, "must be an integer, not negative")               \
  X(optional_integer, std::optional<std::int64_t>, "must be an integer, not negative") \
  X(boolean, bool, "must be true or false")                                            \
  X(optional_boolean, std::optional<bool>, "must be true or false")                    \
  X(raw, Raw, "may be anything")                                                       \
  X(reference, Raw, "must be an integer or a string")                                  \
  X(text_list, std::vector<std::string_view>, "must be a list of strings")             \
  X(lease_list, std::vector<Lease>, "must be a list of [job, attempt]")                \
  X(cost, std::optional<Cost>, "must be a map of numbers")                             \
  X(usage, std::optional<Usage>, "must be a map of numbers")                           \
  X(limits, std::optional<UpstreamLimits>, "must be a map of numbers")

enum class FieldType : unsigned char {
#define LANEMQ_FIELD_ENUMERATOR(type, Held, must_be) type,
  LANEMQ_FIELD_TYPES(LANEMQ_FIELD_ENUMERATOR)
#undef LANEMQ_FIELD_ENUMERATOR
};

template <FieldType>
struct FieldTraits;
#define LANEMQ_FIELD_TRAITS(type, HeldType, must_be) \
  template <>                                        \
  struct FieldTraits<FieldType::type> {              \
    using Held = HeldType;                           \
    static constexpr const char* kMustBe = must_be;  \
  };
LANEMQ_FIELD_TYPES(LANEMQ_FIELD_TRAITS)
#undef LANEMQ_FIELD_TRAITS

/// Calls `visit.operator()<Traits>()` with the traits of a type. For a type known to the compiler the switch
/// disappears.
template <class Visit>
[[gnu::always_inline]] inline decltype(auto) with_traits(FieldType type, Visit&& visit) {
  switch (type) {
#define LANEMQ_FIELD_CASE(type, Held, must_be) \
  case FieldType::type:                        \
    return visit.template operator()<FieldTraits<FieldType::type>>();
    LANEMQ_FIELD_TYPES(LANEMQ_FIELD_CASE)
#undef LANEMQ_FIELD_CASE
  }
  __builtin_unreachable();
}

/// The first type that holds a T; for a Raw that is `raw`.
template <class T>
consteval FieldType field_type_of() {
#define LANEMQ_FIELD_MATCH(type, Held, must_be) \
  if (std::is_same_v<T, Held>) return FieldType::type;
  LANEMQ_FIELD_TYPES(LANEMQ_FIELD_MATCH)
#undef LANEMQ_FIELD_MATCH
  throw "no field holds that";
}

/// One field of one operation.
struct FieldSpec {
  std::string_view name;
  FieldType type;
  bool required;
  std::int64_t min;       ///< of a number, a text's bytes, or a list's entries
  std::int64_t max;       ///< likewise
  std::int64_t fallback;  ///< the default that is left out when writing
  void* (*at)(void*);     ///< returns the field's address in a structure
};

/// Calls `visit` with the value that `message` holds for the field.
template <class Visit>
[[gnu::always_inline]] inline decltype(auto) with_value(const FieldSpec& spec, void* message, Visit&& visit) {
  return with_traits(
      spec.type, [&]<class Traits>() __attribute__((always_inline))->decltype(auto) {
        return visit(*static_cast<typename Traits::Held*>(spec.at(message)));
      });
}
template <class Visit>
[[gnu::always_inline]] inline decltype(auto) with_value(const FieldSpec& spec, const void* message,
                                                        Visit&& visit) {
  // The accessors serve reading and writing; this one writes nothing.
  return with_value(
      spec, const_cast<void*>(message), [&](const auto& held) __attribute__((always_inline))->decltype(auto) {
        return visit(held);
      });
}

/// Whether a field differs from its default, so that it must be written.
[[gnu::always_inline]] inline bool is_said(const FieldSpec&, std::string_view text) {
  return text.data() != nullptr;
}
[[gnu::always_inline]] inline bool is_said(const FieldSpec& spec, std::int64_t number) {
  return spec.required || number != spec.fallback;
}
[[gnu::always_inline]] inline bool is_said(const FieldSpec&, std::uint64_t) {
  return true;
}
[[gnu::always_inline]] inline bool is_said(const FieldSpec&, bool yes) {
  return yes;
}
[[gnu::always_inline]] inline bool is_said(const FieldSpec&, const Raw& value) {
  return value.present();
}
template <class T>
[[gnu::always_inline]] inline bool is_said(const FieldSpec&, const std::optional<T>& value) {
  return value.has_value();
}
template <class T>
[[gnu::always_inline]] inline bool is_said(const FieldSpec& spec, const std::vector<T>& list) {
  return spec.required || !list.empty();
}
[[gnu::always_inline]] inline bool is_said(const FieldSpec& spec, const void* message) {
  return with_value(
      spec, message, [&](const auto& held) __attribute__((always_inline)) { return is_said(spec, held); });
}

/// Whether two names are equal. Short names compare faster in place than by a call of memcmp.
constexpr bool same_name(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  if (std::is_constant_evaluated()) return left == right;
  const auto differ = [&](auto word, std::size_t at) {
    decltype(word) other;
    std::memcpy(&word, left.data() + at, sizeof word);
    std::memcpy(&other, right.data() + at, sizeof other);
    return word != other;
  };
  const std::size_t size = left.size();
  if (size >= 8) {
    for (std::size_t at = 0; at + 8 < size; at += 8)
      if (differ(std::uint64_t{}, at)) return false;
    return !differ(std::uint64_t{}, size - 8);
  }
  if (size >= 4) return !differ(std::uint32_t{}, 0) && !differ(std::uint32_t{}, size - 4);
  for (std::size_t at = 0; at < size; ++at)
    if (left[at] != right[at]) return false;
  return true;
}

/// Finds a field by name, nearly always with one comparison: a hash table that the compiler builds.
class FieldIndex {
 public:
  static constexpr std::uint8_t kNone = 0xFF;

  constexpr explicit FieldIndex(std::span<const FieldSpec> fields) {
    for (std::uint8_t& slot : slots_)
      slot = kNone;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      std::size_t at = start(fields[i].name);
      while (slots_[at] != kNone)
        at = next(at);
      slots_[at] = static_cast<std::uint8_t>(i);
    }
  }
  /// The field's index in `fields`, or kNone. Requires: `fields` are those of the constructor.
  constexpr std::uint8_t find(std::span<const FieldSpec> fields, std::string_view name) const {
    if (name.empty()) return kNone;
    std::size_t at = start(name);
    while (slots_[at] != kNone && !same_name(fields[slots_[at]].name, name))
      at = next(at);
    return slots_[at];
  }

 private:
  static constexpr std::size_t kSlots = 64;  // at least twice the fields of any operation

  static constexpr std::size_t start(std::string_view name) {
    const auto byte = [](char c) { return std::size_t{static_cast<unsigned char>(c)}; };
    return (name.size() * 13 + byte(name.front()) * 3 + byte(name.back())) % kSlots;
  }
  static constexpr std::size_t next(std::size_t at) { return (at + 1) % kSlots; }

  std::uint8_t slots_[kSlots] = {};
};

/// One operation in one direction.
struct OpSpec {
  std::string_view name;
  std::span<const FieldSpec> fields;
  bool extras;  ///< `x-` fields are kept
  bool whole;   ///< the fields are one document, kept unchanged
  FieldIndex index;
  std::uint64_t required;  ///< a bit for each required field, by its index in `fields`
  std::uint64_t
      own;  ///< a bit for each field that names one message, so that a later map does not inherit it

  /// Whether its messages may go in batches: those about one job.
  constexpr bool batched() const { return own != 0 && !whole; }
};

/// More than any operation has: masks have a bit for each field.
inline constexpr std::size_t kFieldsMax = 32;

constexpr OpSpec make_op(std::string_view name, std::span<const FieldSpec> fields, bool extras, bool whole) {
  OpSpec spec{name, fields, extras, whole, FieldIndex(fields), 0, 0};
  bool names_a_job = false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::uint64_t mark = std::uint64_t{1} << i;
    const std::string_view field = fields[i].name;
    if (fields[i].required) spec.required |= mark;
    if (field == "id" || field == "ids" || field == "ref" || field == "job") spec.own |= mark;
    names_a_job = names_a_job || field == "id" || field == "job";
  }
  if (!names_a_job) spec.own = 0;
  return spec;
}

template <auto Member>
struct MemberOf;
template <class C, class T, T C::*Member>
struct MemberOf<Member> {
  using Class = C;
  using Type = T;
};

/// The largest number of a field: that of a signed 64-bit integer, since some languages have no larger one.
inline constexpr std::uint64_t kNumberMax = std::numeric_limits<std::int64_t>::max();
inline constexpr std::uint64_t kAttemptMax = 0xFFFFFFFF;
inline constexpr std::uint64_t kHttpStatusMax = 999;

struct Rule {
  bool required = false;
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::int64_t fallback = 0;
};

template <auto Member>
constexpr FieldSpec field(std::string_view name, Rule rule = {}) {
  using Class = typename MemberOf<Member>::Class;
  using Type = typename MemberOf<Member>::Type;
  return {name,
          field_type_of<Type>(),
          rule.required,
          rule.min,
          rule.max,
          rule.fallback,
          [](void* object) -> void* { return &(static_cast<Class*>(object)->*Member); }};
}

/// The accessor of a ref: an integer or a string, kept as it came.
template <auto Member>
constexpr FieldSpec ref_field() {
  FieldSpec spec = field<Member>("ref", {.max = limits::ref_bytes_max});
  spec.type = FieldType::reference;
  return spec;
}

/// The same where a message is nothing without it.
template <auto Member>
constexpr FieldSpec required_ref_field() {
  FieldSpec spec = ref_field<Member>();
  spec.required = true;
  return spec;
}

// ---- rules that several fields share ------------------------------------------------------------------

inline constexpr Rule kName{.min = 1, .max = limits::name_bytes_max};
inline constexpr Rule kNameRequired{.required = true, .min = 1, .max = limits::name_bytes_max};
inline constexpr Rule kId{.min = 1, .max = limits::id_bytes_max};
inline constexpr Rule kIdRequired{.required = true, .min = 1, .max = limits::id_bytes_max};
inline constexpr Rule kText{.max = limits::text_bytes_max};
inline constexpr Rule kMilliseconds{.max = limits::duration_ms_max};
inline constexpr Rule kRequired{.required = true};
inline constexpr Rule kFirst{.min = 1, .max = kAttemptMax, .fallback = 1};  // attempt, attempts
// Always written to a worker: its answer repeats it, and the smallest workers know no defaults.
inline constexpr Rule kFirstSaid{.min = 1, .max = kAttemptMax, .fallback = -1};
inline constexpr Rule kShare{.max = limits::share_max};
inline constexpr Rule kPercent{.max = limits::progress_pct_max};
inline constexpr Rule kNote{.max = limits::progress_note_bytes_max};
inline constexpr Rule kList{.max = limits::list_entries_max};

// ---- nested maps --------------------------------------------------------------------------------------

inline constexpr FieldSpec kCostFields[] = {field<&Cost::input_tokens>("input_tokens"),
                                            field<&Cost::output_tokens>("output_tokens"),
                                            field<&Cost::certain>("certain")};
inline constexpr FieldSpec kUsageFields[] = {
    field<&Usage::requests>("requests"), field<&Usage::input_tokens>("input_tokens"),
    field<&Usage::output_tokens>("output_tokens"), field<&Usage::cached_tokens>("cached_tokens"),
    field<&Usage::reasoning_tokens>("reasoning_tokens")};
inline constexpr FieldSpec kLimitsFields[] = {
    field<&UpstreamLimits::remaining_requests>("remaining_requests"),
    field<&UpstreamLimits::remaining_tokens>("remaining_tokens"),
    field<&UpstreamLimits::remaining_input_tokens>("remaining_input_tokens"),
    field<&UpstreamLimits::remaining_output_tokens>("remaining_output_tokens"),
    field<&UpstreamLimits::reset_requests_ms>("reset_requests_ms"),
    field<&UpstreamLimits::reset_tokens_ms>("reset_tokens_ms"),
    field<&UpstreamLimits::reset_input_tokens_ms>("reset_input_tokens_ms"),
    field<&UpstreamLimits::reset_output_tokens_ms>("reset_output_tokens_ms"),
    field<&UpstreamLimits::limit_requests>("limit_requests"),
    field<&UpstreamLimits::limit_tokens>("limit_tokens"),
    field<&UpstreamLimits::limit_input_tokens>("limit_input_tokens"),
    field<&UpstreamLimits::limit_output_tokens>("limit_output_tokens"),
    field<&UpstreamLimits::limit_concurrency>("limit_concurrency"),
    field<&UpstreamLimits::period_requests_ms>("period_requests_ms"),
    field<&UpstreamLimits::period_tokens_ms>("period_tokens_ms")};

template <class Nested>
inline constexpr std::span<const FieldSpec> kNestedFields{};
template <>
inline constexpr std::span<const FieldSpec> kNestedFields<Cost> = kCostFields;
template <>
inline constexpr std::span<const FieldSpec> kNestedFields<Usage> = kUsageFields;
template <>
inline constexpr std::span<const FieldSpec> kNestedFields<UpstreamLimits> = kLimitsFields;

// ---- operations: one specialisation a structure -------------------------------------------------------

template <class Message>
struct Spec;

#define LANEMQ_OP(Message, op_name, keeps_extras, is_whole, ...)                   \
  template <>                                                                      \
  struct Spec<Message> {                                                           \
    static constexpr FieldSpec fields[] = {__VA_ARGS__};                           \
    static constexpr OpSpec op = make_op(op_name, fields, keeps_extras, is_whole); \
  };
#define LANEMQ_OP_WITHOUT_FIELDS(Message, op_name)                   \
  template <>                                                        \
  struct Spec<Message> {                                             \
    static constexpr OpSpec op = make_op(op_name, {}, false, false); \
  };

LANEMQ_OP(Submit, "submit", true, false, field<&Submit::service>("service", kNameRequired),
          field<&Submit::id>("id", kId), field<&Submit::lane>("lane", kName),
          field<&Submit::model>("model", kName), field<&Submit::client>("client", kName),
          field<&Submit::cost>("cost"),
          field<&Submit::timeout_ms>("timeout_ms", {.min = 1, .max = limits::duration_ms_max}),
          field<&Submit::delay_ms>("delay_ms", kMilliseconds),
          field<&Submit::attempts_max>("attempts_max", {.min = 1, .max = limits::attempts_max}),
          field<&Submit::retain_ms>("retain_ms", kMilliseconds), field<&Submit::reply>("reply", kName),
          field<&Submit::orphan>("orphan", kName), field<&Submit::limited>("limited", kName),
          field<&Submit::spent>("spent", kName), field<&Submit::group>("group", kName),
          field<&Submit::group_size>("group_size", {.min = 1, .max = kAttemptMax}),
          field<&Submit::notify>("notify", {.min = 1, .max = limits::url_bytes_max}),
          field<&Submit::stream>("stream"), field<&Submit::durable>("durable"),
          field<&Submit::batch>("batch"), field<&Submit::meta>("meta"), field<&Submit::trace>("trace"),
          ref_field<&Submit::ref>())
LANEMQ_OP(Cancel, "cancel", false, false, field<&Cancel::id>("id", kIdRequired), ref_field<&Cancel::ref>())
LANEMQ_OP(StatusQuery, "status", false, false, field<&StatusQuery::id>("id", kId),
          field<&StatusQuery::ids>("ids", kList), ref_field<&StatusQuery::ref>())
LANEMQ_OP(Fetch, "fetch", false, false, field<&Fetch::id>("id", kIdRequired),
          field<&Fetch::wait_ms>("wait_ms", {.max = 60000}), field<&Fetch::from_seq>("from_seq"),
          ref_field<&Fetch::ref>())
LANEMQ_OP(Seen, "seen", false, false, field<&Seen::id>("id", kId), field<&Seen::seq>("seq", kRequired),
          ref_field<&Seen::ref>())
LANEMQ_OP(StatsQuery, "stats", false, false, field<&StatsQuery::from>("from"), ref_field<&StatsQuery::ref>())
LANEMQ_OP(Ping, "ping", false, false, field<&Ping::batch>("batch"), field<&Ping::cluster>("cluster"),
          ref_field<&Ping::ref>())
LANEMQ_OP(Spend, "spend", false, false, field<&Spend::key>("key", kNameRequired),
          field<&Spend::session>("session", kNameRequired),
          field<&Spend::requests_per_minute>("requests_per_minute", kShare),
          field<&Spend::tokens_per_minute>("tokens_per_minute", kShare),
          field<&Spend::concurrency>("concurrency", kShare), field<&Spend::requests>("requests", kShare),
          field<&Spend::requests_ahead>("requests_ahead", kShare), field<&Spend::tokens>("tokens", kShare),
          field<&Spend::tokens_ahead>("tokens_ahead", kShare), field<&Spend::places>("places", kShare),
          field<&Spend::places_ahead>("places_ahead", kShare), ref_field<&Spend::ref>())
LANEMQ_OP(AdminQuery, "admin", false, false, field<&AdminQuery::verb>("do", kNameRequired),
          field<&AdminQuery::what>("what", kName), field<&AdminQuery::name>("name", kName),
          field<&AdminQuery::id>("id", kId), field<&AdminQuery::lane>("lane", kName),
          field<&AdminQuery::service>("service", kName), field<&AdminQuery::client>("client", kName),
          field<&AdminQuery::model>("model", kName), field<&AdminQuery::state>("state", kName),
          field<&AdminQuery::code>("code", kName), field<&AdminQuery::group>("group", kName),
          field<&AdminQuery::key>("key", kName), field<&AdminQuery::setting>("setting", kName),
          field<&AdminQuery::value>("value", kName),
          field<&AdminQuery::reason>("reason", {.max = limits::reason_bytes_max}),
          field<&AdminQuery::path>("path", {.min = 1, .max = limits::path_bytes_max}),
          field<&AdminQuery::from>("from"),
          field<&AdminQuery::limit>("limit", {.min = 1, .max = limits::page_rows_max}),
          field<&AdminQuery::top>("top", {.min = 1, .max = limits::timed_clients_max}),
          field<&AdminQuery::dry_run>("dry_run"), ref_field<&AdminQuery::ref>())

LANEMQ_OP(Watch, "watch", false, false, field<&Watch::id>("id", kId), field<&Watch::client>("client", kName),
          field<&Watch::lane>("lane", kName), field<&Watch::service>("service", kName),
          field<&Watch::group>("group", kName), field<&Watch::stop>("stop"), field<&Watch::batch>("batch"),
          required_ref_field<&Watch::ref>())

LANEMQ_OP(Accepted, "accepted", false, false, field<&Accepted::id>("id", kIdRequired),
          field<&Accepted::lane>("lane", kName), field<&Accepted::durable>("durable"),
          field<&Accepted::duplicate>("duplicate"), field<&Accepted::position>("position", {.fallback = -1}),
          field<&Accepted::eta_ms>("eta_ms"), field<&Accepted::ignored>("ignored", kList),
          ref_field<&Accepted::ref>())
LANEMQ_OP(ChunkReply, "chunk", false, false, field<&ChunkReply::id>("id", kId),
          field<&ChunkReply::seq>("seq", {.fallback = -1}), field<&ChunkReply::lane>("lane", kName),
          field<&ChunkReply::attempts>("attempts", kFirst), field<&ChunkReply::queued_ms>("queued_ms"),
          ref_field<&ChunkReply::ref>())
LANEMQ_OP(JobResult, "result", false, false, field<&JobResult::id>("id", kId),
          field<&JobResult::lane>("lane", kName), field<&JobResult::attempts>("attempts", kFirst),
          field<&JobResult::queued_ms>("queued_ms"), field<&JobResult::ran_ms>("ran_ms"),
          field<&JobResult::usage>("usage"), field<&JobResult::chunks>("chunks"),
          ref_field<&JobResult::ref>())
LANEMQ_OP(ErrorReply, "error", false, false, field<&ErrorReply::id>("id", kId),
          field<&ErrorReply::code>("code", kNameRequired), field<&ErrorReply::message>("message", kText),
          field<&ErrorReply::retry_after_ms>("retry_after_ms"),
          field<&ErrorReply::attempts>("attempts", {.max = kAttemptMax, .fallback = 1}),
          field<&ErrorReply::queued_ms>("queued_ms"), field<&ErrorReply::limiter>("limiter", kText),
          field<&ErrorReply::chunks>("chunks"), field<&ErrorReply::upstream_status>("upstream_status"),
          field<&ErrorReply::endpoints>("endpoints", kList), field<&ErrorReply::shard>("shard", kName),
          ref_field<&ErrorReply::ref>())
LANEMQ_OP(StatusReply, "status", false, false, field<&StatusReply::id>("id", kId),
          field<&StatusReply::state>("state", kName), field<&StatusReply::lane>("lane", kName),
          field<&StatusReply::attempts>("attempts", {.max = kAttemptMax, .fallback = -1}),
          field<&StatusReply::queued_ms>("queued_ms"), field<&StatusReply::position>("position"),
          field<&StatusReply::eta_ms>("eta_ms"), field<&StatusReply::blocked_by>("blocked_by", kText),
          field<&StatusReply::worker>("worker", kName), field<&StatusReply::group>("group", kName),
          field<&StatusReply::pct>("pct", kPercent), field<&StatusReply::note>("note", kNote),
          field<&StatusReply::silent_ms>("silent_ms"), field<&StatusReply::error>("error"),
          field<&StatusReply::jobs>("jobs"), ref_field<&StatusReply::ref>())
LANEMQ_OP(StatsReply, "stats", false, true, ref_field<&StatsReply::ref>())
LANEMQ_OP(Pong, "pong", false, false, field<&Pong::now_ms>("now_ms"), field<&Pong::version>("version", kName),
          field<&Pong::batch>("batch"), field<&Pong::default_lane>("default_lane", kName),
          field<&Pong::endpoints>("endpoints", kList), field<&Pong::shard>("shard", kName),
          field<&Pong::shards>("shards"), field<&Pong::tenant>("tenant", kName), ref_field<&Pong::ref>())
LANEMQ_OP(Spent, "spent", false, false, field<&Spent::key>("key", kNameRequired),
          field<&Spent::requests>("requests"), field<&Spent::tokens>("tokens"),
          field<&Spent::places>("places"), field<&Spent::requests_left>("requests_left"),
          field<&Spent::tokens_left>("tokens_left"), field<&Spent::requests_wait_ms>("requests_wait_ms"),
          field<&Spent::tokens_wait_ms>("tokens_wait_ms"), ref_field<&Spent::ref>())
LANEMQ_OP(AdminReply, "admin", false, true, ref_field<&AdminReply::ref>())

LANEMQ_OP(Watching, "watching", false, false, field<&Watching::seq>("seq", {.fallback = -1}),
          field<&Watching::stop>("stop"), ref_field<&Watching::ref>())
LANEMQ_OP(JobEvent, "event", false, false, field<&JobEvent::seq>("seq", {.fallback = -1}),
          field<&JobEvent::gap>("gap"), field<&JobEvent::left_out>("left_out"),
          field<&JobEvent::what>("what", kNameRequired), field<&JobEvent::id>("id", kId),
          field<&JobEvent::state>("state", kName), field<&JobEvent::lane>("lane", kName),
          field<&JobEvent::service>("service", kName), field<&JobEvent::client>("client", kName),
          field<&JobEvent::model>("model", kName), field<&JobEvent::from_lane>("from_lane", kName),
          field<&JobEvent::worker>("worker", kName), field<&JobEvent::code>("code", kName),
          field<&JobEvent::attempts>("attempts", {.max = kAttemptMax, .fallback = 0}),
          field<&JobEvent::delay_ms>("delay_ms"), field<&JobEvent::queued_ms>("queued_ms"),
          field<&JobEvent::ran_ms>("ran_ms"), field<&JobEvent::dead>("dead"),
          field<&JobEvent::pct>("pct", kPercent), field<&JobEvent::note>("note", kNote),
          field<&JobEvent::group>("group", kName), field<&JobEvent::succeeded>("succeeded"),
          field<&JobEvent::failed>("failed"), field<&JobEvent::cancelled>("cancelled"),
          field<&JobEvent::expired>("expired"), field<&JobEvent::died>("died"),
          field<&JobEvent::incomplete>("incomplete"), field<&JobEvent::at_ms>("at_ms", {.fallback = -1}),
          ref_field<&JobEvent::ref>())

LANEMQ_OP(Ready, "ready", false, false,
          field<&Ready::services>("services", {.required = true, .min = 1, .max = limits::list_entries_max}),
          field<&Ready::capacity>("capacity", {.required = true, .fallback = -1}),
          field<&Ready::lanes>("lanes", kList), field<&Ready::name>("name", kName),
          field<&Ready::version>("version", kName), field<&Ready::batch>("batch"),
          field<&Ready::resumes>("resumes"), field<&Ready::session>("session", kName),
          field<&Ready::process>("process", kName), field<&Ready::labels>("labels"),
          field<&Ready::cluster>("cluster"))
LANEMQ_OP(Chunk, "chunk", false, false, field<&Chunk::job>("job", kRequired),
          field<&Chunk::attempt>("attempt", kFirst),
          field<&Chunk::seq>("seq", {.required = true, .fallback = -1}))
LANEMQ_OP(Progress, "progress", false, false, field<&Progress::job>("job", kRequired),
          field<&Progress::attempt>("attempt", kFirst), field<&Progress::pct>("pct", kPercent),
          field<&Progress::note>("note", kNote))
LANEMQ_OP(Outcome, "result", false, false, field<&Outcome::job>("job", kRequired),
          field<&Outcome::attempt>("attempt", kFirst), field<&Outcome::usage>("usage"),
          field<&Outcome::limits>("limits"))
LANEMQ_OP(Failure, "error", false, false, field<&Failure::job>("job", kRequired),
          field<&Failure::attempt>("attempt", kFirst), field<&Failure::error_class>("class", kNameRequired),
          field<&Failure::code>("code", kName), field<&Failure::message>("message", kText),
          field<&Failure::retry_after_ms>("retry_after_ms", kMilliseconds), field<&Failure::usage>("usage"),
          field<&Failure::limits>("limits"),
          field<&Failure::upstream_status>("upstream_status", {.max = kHttpStatusMax}),
          field<&Failure::limited_by>("limited_by", kName))
LANEMQ_OP(Heartbeat, "heartbeat", false, false,
          field<&Heartbeat::jobs>("jobs", {.max = limits::header_bytes_max}))
LANEMQ_OP_WITHOUT_FIELDS(Bye, "bye")

LANEMQ_OP(Welcome, "welcome", false, false, field<&Welcome::session>("session", kName),
          field<&Welcome::heartbeat_ms>("heartbeat_ms", {.min = 1, .fallback = -1}),
          field<&Welcome::body_bytes_max>("body_bytes_max", {.fallback = -1}),
          field<&Welcome::batch>("batch"), field<&Welcome::default_lane>("default_lane", kName),
          field<&Welcome::endpoints>("endpoints", kList), field<&Welcome::shard>("shard", kName),
          field<&Welcome::shards>("shards"))
LANEMQ_OP(JobOffer, "job", true, false, field<&JobOffer::job>("job", {.required = true}),
          field<&JobOffer::attempt>("attempt", kFirstSaid), field<&JobOffer::id>("id", kId),
          field<&JobOffer::service>("service", kName), field<&JobOffer::lane>("lane", kName),
          field<&JobOffer::model>("model", kName), field<&JobOffer::client>("client", kName),
          field<&JobOffer::key>("key", kName), field<&JobOffer::timeout_ms>("timeout_ms"),
          field<&JobOffer::cost>("cost"), field<&JobOffer::stream>("stream"), field<&JobOffer::meta>("meta"),
          field<&JobOffer::trace>("trace"))
LANEMQ_OP(Acked, "acked", false, false,
          field<&Acked::jobs>("jobs", {.required = true, .max = limits::header_bytes_max}))
LANEMQ_OP(CancelJob, "cancel", false, false, field<&CancelJob::job>("job", kRequired),
          field<&CancelJob::attempt>("attempt", kFirstSaid), field<&CancelJob::reason>("reason", kText))
LANEMQ_OP(Window, "window", false, false, field<&Window::job>("job", kRequired),
          field<&Window::attempt>("attempt", kFirstSaid),
          field<&Window::seq>("seq", {.required = true, .fallback = -1}))
LANEMQ_OP_WITHOUT_FIELDS(Drain, "drain")
LANEMQ_OP(WorkerRefusal, "error", false, false, field<&WorkerRefusal::code>("code", kNameRequired),
          field<&WorkerRefusal::message>("message", kText), field<&WorkerRefusal::job>("job"),
          field<&WorkerRefusal::attempt>("attempt"), ref_field<&WorkerRefusal::ref>())

#undef LANEMQ_OP
#undef LANEMQ_OP_WITHOUT_FIELDS

}  // namespace lanemq::wire
