// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include <msgpack.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

#include "common/protocol/src/field_table.hpp"

namespace lanemq {
namespace {

using wire::FieldIndex;
using wire::FieldSpec;
using wire::FieldType;
using wire::OpSpec;
using wire::with_traits;
using wire::with_value;

/// An operation of one direction, and how to make its structure in the caller's variant.
struct KnownOp {
  const OpSpec* spec;
  void* (*make)(void* variant);
};

template <class Message, class Variant>
void* make(void* object) {
  auto& variant = *static_cast<Variant*>(object);
  // The same operation again is the common case, and making it anew in place is quickest.
  if (auto* same = std::get_if<Message>(&variant)) {
    std::destroy_at(same);
    return std::construct_at(same);
  }
  return &variant.template emplace<Message>();
}

template <class Variant>
struct KnownOps;
template <class... Messages>
struct KnownOps<std::variant<Messages...>> {
  static constexpr KnownOp ops[] = {
      {&wire::Spec<Messages>::op, &make<Messages, std::variant<Messages...>>}...};
};

/// What helps a peer whose op is known at another endpoint of the broker; empty: it is known at none.
std::string_view where_known(std::string_view op, std::span<const KnownOp> here) {
  const auto knows = [op](std::span<const KnownOp> ops) {
    return std::any_of(ops.begin(), ops.end(),
                       [op](const KnownOp& known) { return wire::same_name(known.spec->name, op); });
  };
  const std::span<const KnownOp> clients = KnownOps<wire::ClientRequest>::ops;
  const std::span<const KnownOp> workers = KnownOps<wire::WorkerReport>::ops;
  if (here.data() == workers.data() && knows(clients))
    return "; clients say it, and this endpoint is for workers: connect to the broker's for clients "
           "(clients_endpoint)";
  if (here.data() == clients.data() && knows(workers))
    return "; workers say it, and this endpoint is for clients: connect to the broker's for workers "
           "(workers_endpoint)";
  return {};
}

/// The fields that are read of a message with an unknown operation: enough to answer it.
struct Unknown {
  std::string_view id;
  wire::Raw ref;
};
constexpr FieldSpec kUnknownFields[] = {wire::field<&Unknown::id>("id", wire::kId),
                                        wire::ref_field<&Unknown::ref>()};
constexpr OpSpec kUnknownOp = wire::make_op("", kUnknownFields, false, false);

/// Stands for any field whose name starts with `x-`.
constexpr FieldSpec kExtraField{"x-", FieldType::raw, false, 0, 0, 0, nullptr};

constexpr std::string_view kMagicThree("\x93\xA4LMQ1", 6);
constexpr std::string_view kMagicFour("\x94\xA4LMQ1", 6);

std::string quoted(std::string_view text) {
  return '"' + printable(text, 64) + '"';
}

// How a value is read, by the type that its field holds.
template <class Held>
inline constexpr bool kHoldsInteger =
    std::is_same_v<Held, std::int64_t> || std::is_same_v<Held, std::uint64_t> ||
    std::is_same_v<Held, std::optional<std::int64_t>>;
template <class Held>
inline constexpr bool kHoldsBoolean = std::is_same_v<Held, bool> || std::is_same_v<Held, std::optional<bool>>;
template <class Held>
inline constexpr bool kHoldsNested = false;
template <class T>
inline constexpr bool kHoldsNested<std::optional<T>> = !wire::kNestedFields<T>.empty();

/// The length of the well-formed msgpack value at the start of `bytes`.
std::size_t value_length(std::string_view bytes) {
  msgpack::null_visitor ignore;
  std::size_t length = 0;
  msgpack::parse(bytes.data(), bytes.size(), length, ignore);
  return length;
}

/// The length of the well-formed integer at `at`.
std::size_t integer_length(const char* at) {
  switch (static_cast<unsigned char>(*at)) {
    case 0xCC:
    case 0xD0:
      return 2;
    case 0xCD:
    case 0xD1:
      return 3;
    case 0xCE:
    case 0xD2:
      return 5;
    case 0xCF:
    case 0xD3:
      return 9;
    default:
      return 1;
  }
}

/// FNV-1a. Two different keys nearly always have different hashes, so that their bytes are not compared.
std::uint32_t hash_of_key(std::string_view key) {
  std::uint32_t hash = 2166136261u;
  for (const char c : key)
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace

bool is_header(std::string_view frame) {
  return frame.size() >= kMagicThree.size() && (frame[0] == kMagicThree[0] || frame[0] == kMagicFour[0]) &&
         std::memcmp(frame.data() + 1, kMagicThree.data() + 1, kMagicThree.size() - 1) == 0;
}

bool has_inline_body(std::string_view header) {
  return header.starts_with(kMagicFour);
}

// Errors are made out of line, so that reading well-formed headers stays fast.
#define LANEMQ_COLD [[gnu::cold, gnu::noinline]]

/// The visitor of msgpack::parse: a state machine over the place in the header. After a broken field (the
/// first one counts) reading goes on, so that `id` and `ref` behind it are found. A broken structure stops
/// the parser.
class Decoder::Reader {
 public:
  Reader(std::size_t body_bytes_max, std::size_t header_bytes_max)
      : body_bytes_max_(body_bytes_max), header_bytes_max_(header_bytes_max) {}

  /// Where a message's items go: structures to `messages`, the rest to `list`.
  struct Target {
    ItemList* list;
    void* messages;
    void* (*variant)(void* messages, std::size_t i);
    void (*make_room)(void* messages, std::size_t count);
  };

  const DecodeError* read(std::string_view header, std::optional<std::string_view> body_frame,
                          std::span<const KnownOp> ops, const Target& target, const BatchRule* rule) {
    target_ = &target;
    rule_ = rule;
    list_ = target.list;
    begin_list(1);
    const DecodeError* error = read(header, ops, target.variant(target.messages, 0));
    if (error == nullptr && batch_ && body_frame) error = read_bodies(*body_frame);
    target_ = nullptr;
    rule_ = nullptr;
    if (error != nullptr) {
      list_->size_ = 0;
      return error;
    }
    if (batch_)
      place_extras();
    else
      list_->places_[0].body = body_;
    return nullptr;
  }

  const DecodeError* read(std::string_view header, std::span<const KnownOp> ops, void* variant) {
    reset(header, ops, variant);
    if (!is_header(header)) {
      fail(ErrorCode::bad_request, "not an LMQ1 header");
      return finish();
    }
    std::size_t offset = 0;
    const bool whole = msgpack::parse(header.data(), header.size(), offset, *this);
    if (!whole)
      stop("malformed header: not one msgpack value");
    else if (offset != header.size())
      stop("malformed header: bytes behind its end");
    item_ = kNoItem;
    if (header.size() - body_.size() - bodies_bytes_ > header_bytes_max_) fail_header_size();
    if (!batch_) check_required();
    return finish();
  }

  void refuse_ext() { refuses_ext_ = true; }

  std::string_view body() const { return body_; }
  std::size_t work() const { return work_; }

  // ---- the visitor: scalars ---------------------------------------------------------------------------

  bool visit_nil() {
    switch (place_) {
      case Place::fields:
        // A nil field is absent, even where it is required.
        if (field_ == &kExtraField)
          name_extra(key_);
        else if (field_ != nullptr)
          nil_ |= field_mark_;
        return true;
      case Place::nested:
      case Place::skipped:
        return true;
      default:
        return unexpected();
    }
  }

  bool visit_boolean(bool value) {
    if (place_ == Place::skipped || (place_ == Place::fields && field_ == nullptr)) return true;
    if (place_ != Place::fields) return unexpected();
    return with_traits(field_->type, [&]<class Traits>() {
      using Held = typename Traits::Held;
      if constexpr (!kHoldsBoolean<Held>)
        return unexpected();
      else
        at<Held>() = value;
      return true;
    });
  }

  bool visit_positive_integer(std::uint64_t value) {
    switch (place_) {
      case Place::fields:
      case Place::nested:
        if (field_ != nullptr) set_integer(value);
        return true;
      case Place::lease:
        set_lease_number(value);
        return true;
      case Place::skipped:
        return true;
      default:
        return unexpected();
    }
  }

  bool visit_negative_integer(std::int64_t value) {
    // The parser calls this for each value of a signed format, also for positive ones.
    if (value >= 0) return visit_positive_integer(static_cast<std::uint64_t>(value));
    if (place_ == Place::skipped) return true;
    if (place_ != Place::fields && place_ != Place::nested) return unexpected();
    if (field_ == nullptr) return true;
    if (field_->type == FieldType::reference)
      set_reference(integer_length(key_.end()));
    else if (with_traits(field_->type, []<class Traits>() { return kHoldsInteger<typename Traits::Held>; }))
      out_of_range(std::to_string(value));
    else
      return unexpected();
    return true;
  }

  bool visit_float32(float) { return spend(4) && opaque_scalar(); }
  bool visit_float64(double) { return spend(8) && opaque_scalar(); }

  bool visit_str(const char* data, std::uint32_t size) {
    const std::string_view text(data, size);
    if (!spend(size)) return false;
    if (place_ == Place::key) {
      read_key(text);
      return true;
    }
    if ((place_ == Place::fields || place_ == Place::nested) && field_ != nullptr) {
      set_text(text);
      return true;
    }
    switch (place_) {
      case Place::header:
        return header_text(text);
      case Place::texts:
        add_text(text);
        return true;
      case Place::fields:
      case Place::nested:
      case Place::skipped:
        check_utf8(text);
        return true;
      default:
        return unexpected();
    }
  }

  bool visit_bin(const char* data, std::uint32_t size) {
    if (place_ == Place::bodies) {
      add_body({data, size});
      return true;
    }
    if (place_ != Place::header) return spend(size) && opaque_scalar();
    if (element_ != kBodyElement) return misplaced();
    if (batch_) return misplaced_body();
    body_ = {data, size};
    if (size > body_bytes_max_) fail_body_size(size);
    return true;
  }

  bool visit_ext(const char*, std::uint32_t size) {
    if (!spend(size)) return false;
    if (refuses_ext_ && field_ != nullptr && passes_through() && place_ != Place::key) {
      fail_ext();
      return true;
    }
    return opaque_scalar();
  }

  // ---- the visitor: containers ------------------------------------------------------------------------

  bool start_array(std::uint32_t count) {
    if (place_ == Place::header && element_ == kBodyElement && batch_) return begin_bodies(count);
    if (!spend_entries(count)) return false;
    switch (place_) {
      case Place::outside:
        return count == 3 || count == 4 ? enter(Place::header) : stop("a header has 3 or 4 elements");
      case Place::header:
        return element_ == kFieldsElement ? begin_batch(count) : misplaced();
      case Place::fields:
        return enter(place_of_list(count));
      case Place::leases:
        lease_index_ = 0;
        if (count != 2) mismatch("must list pairs [job, attempt]");
        return enter(Place::lease);
      case Place::skipped:
        return enter(Place::skipped);
      default:
        return unexpected() && enter(Place::skipped);
    }
  }
  bool start_array_item() { return true; }
  bool end_array_item() {
    if (place_ == Place::header) ++element_;
    return true;
  }
  bool end_array() {
    if (place_ == Place::lease) add_lease();
    return leave();
  }

  bool start_map(std::uint32_t count) {
    if (place_ == Place::batch) begin_item();
    if (count > limits::map_entries_max) fail_map_size(count);
    if (!spend_entries(std::size_t{count} * 2)) return false;
    switch (place_) {
      case Place::header:
        if (element_ != kFieldsElement) return misplaced();
        return enter(Place::fields);
      case Place::batch:
        return enter(Place::fields);
      case Place::fields:
        return enter(place_of_map());
      case Place::skipped:
        return enter(Place::skipped);
      default:
        return unexpected() && enter(Place::skipped);
    }
  }
  bool start_map_key() {
    place_ = Place::key;
    return true;
  }
  bool end_map_key() {
    place_ = places_[depth_];
    return true;
  }
  bool start_map_value() { return true; }
  bool end_map_value() { return true; }
  bool end_map() {
    if (beyond_ == 0) {
      keys_.resize(first_keys_[depth_]);
      if (depth_ == unkeyed_) unkeyed_ = 0;
    }
    return leave();
  }

  void parse_error(std::size_t, std::size_t) { stop("malformed header: not msgpack"); }
  void insufficient_bytes(std::size_t, std::size_t) { stop("malformed header: it ends too early"); }
  bool referenced() const { return true; }
  void set_referenced(bool) {}
  void init() {}

 private:
  /// What the present container is in the message; `key` while a key of a map is read.
  enum class Place : unsigned char {
    outside,  ///< nothing was read yet
    header,   ///< the array ["LMQ1", op, fields, body]
    batch,    ///< the list of the maps of fields
    bodies,   ///< the list of their bodies
    fields,   ///< the map of fields
    texts,    ///< a field that is a list of names
    leases,   ///< a field that is a list of [job, attempt]
    lease,    ///< one of those
    nested,   ///< a field that is a map of numbers
    skipped,  ///< an unknown value, or one that passes through unchanged
    key
  };

  /// Containers that are read on through where they nest too deep.
  static constexpr std::size_t kBeyondMax = 56;
  static constexpr int kOpElement = 1, kFieldsElement = 2, kBodyElement = 3;

  void reset(std::string_view header, std::span<const KnownOp> ops, void* variant) {
    header_ = header;
    ops_ = ops;
    variant_ = variant;
    spec_ = &kUnknownOp;
    make_ = nullptr;
    unknown_ = {};
    message_ = &unknown_;
    spent_ = 0;
    depth_ = beyond_ = unkeyed_ = 0;
    place_ = places_[0] = Place::outside;
    element_ = 0;
    seen_ = nil_ = broken_ = 0;
    field_ = nullptr;
    key_ = {};
    failed_ = false;
    body_ = {};
    fields_begin_ = nullptr;
    extras_.clear();
    extras_count_ = 0;
    first_extras_.clear();
    inherited_bytes_ = 0;
    work_ = header.size();
    keys_.clear();
    batch_ = false;
    depth_max_ = static_cast<std::size_t>(limits::header_depth_max);
    item_ = kNoItem;
    items_ = bodies_ = bodies_bytes_ = 0;
  }

  const DecodeError* finish() {
    if (extras_count_ > 0 && !batch_) store_extras(message_, {extras_count_, extras_.view()});
    if (spec_->whole && !failed_) store_document();
    if (!failed_) return nullptr;
    error_.id.clear();
    error_.ref.clear();
    error_.job.reset();
    error_.attempt = 1;
    if (!batch_) name(error_);
    return &error_;
  }

  /// Adds the id and ref, or the job and attempt, by which the error's message is known.
  LANEMQ_COLD void name(DecodeError& error) const {
    for (const FieldSpec& field : spec_->fields) {
      if (field.name == "id") error.id = *static_cast<std::string_view*>(field.at(message_));
      if (field.type == FieldType::reference) error.ref = static_cast<wire::Raw*>(field.at(message_))->bytes;
    }
    if (spec_ == &wire::Spec<wire::Outcome>::op)
      name_lease<wire::Outcome>(error);
    else if (spec_ == &wire::Spec<wire::Failure>::op)
      name_lease<wire::Failure>(error);
    else if (spec_ == &wire::Spec<wire::JobOffer>::op)
      name_lease<wire::JobOffer>(error);
  }

  /// Names the job that could not be read, or whose outcome could not. Not that of a broken piece or word of
  /// progress: their worker says the next one.
  template <class Report>
  LANEMQ_COLD void name_lease(DecodeError& error) const {
    const auto& report = *static_cast<Report*>(message_);
    const std::uint64_t read = seen_ & ~nil_ & ~broken_;
    for (std::size_t i = 0; i < spec_->fields.size(); ++i)
      if (spec_->fields[i].name == "job" && (read >> i & 1) != 0) error.job = report.job;
    error.attempt = report.attempt;
  }

  void check_required() {
    if ((seen_ & ~nil_ & spec_->required) != spec_->required) fail_required();
  }

  // ---- batches ----------------------------------------------------------------------------------------

  void begin_list(std::size_t count) {
    target_->make_room(target_->messages, count);
    if (list_->places_.size() < count) list_->places_.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      list_->places_[i] = {};
    list_->errors_.clear();
    list_->size_ = count;
    list_->batch_ = false;
  }

  bool begin_batch(std::uint32_t count) {
    if (target_ == nullptr)
      return stop("an array of fields is a batch, and none was agreed on this connection");
    if (make_ == nullptr) return false;  // an unknown op
    if (count == 0 || count > limits::batch_items_max)
      return stop("a batch of " + std::to_string(count) + " maps; it has 1 to " +
                  std::to_string(limits::batch_items_max) + " (batch_items_max)");
    if (!spec_->batched())
      return stop("op " + quoted(spec_->name) + " cannot be batched: it is not about one job");
    batch_ = true;
    // One level more, so that an item of a batch may nest as deep as a message alone.
    ++depth_max_;
    items_ = count;
    next_item_ = 0;
    first_said_ = first_broken_ = 0;
    begin_list(count);
    list_->batch_ = true;
    return enter(Place::batch);
  }

  void begin_item() {
    item_ = next_item_++;
    message_ = make_(target_->variant(target_->messages, item_));
    list_->places_[item_].message = message_;
    seen_ = nil_ = broken_ = 0;
    field_ = nullptr;
    extras_count_ = 0;
    named_extras_ = 0;
    list_->places_[item_].extras_begin = static_cast<std::uint32_t>(extras_.size());
  }

  bool end_item() {
    ItemList::Place& place = list_->places_[item_];
    place.extras_end = static_cast<std::uint32_t>(extras_.size());
    place.extras_count = extras_count_;
    if (item_ == 0) {
      first_ = message_;
      first_said_ = seen_ & ~nil_ & ~spec_->own;
      first_broken_ = broken_;
      if (!may_go_on()) return false;
    } else {
      inherit();
    }
    check_required();
    if (place.error != 0) name(list_->errors_[place.error - 1]);
    item_ = kNoItem;
    return true;
  }

  /// Asks the rule whether the peer may send this batch. The first map has told its field `batch`; the others
  /// are not read yet.
  bool may_go_on() {
    if (rule_ == nullptr) return true;
    const std::int64_t says =
        spec_ == &wire::Spec<wire::Submit>::op ? static_cast<wire::Submit*>(first_)->batch : 0;
    std::string why = rule_->refusal(items_, says);
    if (why.empty()) return true;
    item_ = kNoItem;
    return stop(std::move(why));
  }

  /// Fields that the map does not name are as in the first map. A nil names a field.
  void inherit() {
    if (list_->places_[0].extras_count > 0) inherit_extras();
    std::uint64_t missing = first_said_ & ~seen_;
    if (((missing | kExtrasMark) & first_broken_) != 0) fail_inheriting(missing & first_broken_);
    seen_ |= missing;
    for (; missing != 0; missing &= missing - 1) {
      const FieldSpec& field = spec_->fields[static_cast<std::size_t>(std::countr_zero(missing))];
      inherited_bytes_ += bytes_of(field, first_);
      copy_field(field, first_, message_);
    }
    if (inherited_bytes_ > limits::batch_inherited_bytes_max) fail_inherited_bytes();
  }

  /// Bytes of a field's value, where it has a length.
  static std::size_t bytes_of(const FieldSpec& field, void* message) {
    if (field.type == FieldType::text) return static_cast<std::string_view*>(field.at(message))->size();
    return field.type == FieldType::raw ? static_cast<wire::Raw*>(field.at(message))->bytes.size() : 0;
  }

  static void copy_field(const FieldSpec& field, void* from, void* to) {
    with_value(field, to, [&]<class Held>(Held& held) { held = *static_cast<Held*>(field.at(from)); });
  }

  /// The map names this `x-` field, by a value or nil, so it does not inherit it.
  void name_extra(std::string_view key) {
    if (!batch_) return;
    const std::uint32_t hash = hash_of_key(key);
    work_ += first_extras_.size();
    for (std::size_t i = 0; i < first_extras_.size(); ++i)
      if (first_extras_[i].hash == hash && first_extras_[i].key == key)
        named_extras_ |= std::uint64_t{1} << i;
  }

  /// Inherits the pairs of the first map whose keys this one does not name. A map that names none shares
  /// them.
  void inherit_extras() {
    ItemList::Place& place = list_->places_[item_];
    const ItemList::Place& first = list_->places_[0];
    if (place.extras_count == 0 && named_extras_ == 0) {
      place.extras_begin = first.extras_begin;
      place.extras_end = first.extras_end;
      place.extras_count = first.extras_count;
      inherited_bytes_ += first.extras_end - first.extras_begin;
      return;
    }
    // Pairs between two named ones are copied together.
    for (std::size_t i = 0; i < first_extras_.size();) {
      const std::size_t from = i;
      for (; i < first_extras_.size() && (named_extras_ >> i & 1) == 0; ++i)
        ++place.extras_count;
      if (from < i) inherit_extras(first_extras_[from].begin, first_extras_[i - 1].end);
      while (i < first_extras_.size() && (named_extras_ >> i & 1) != 0)
        ++i;
    }
    place.extras_end = static_cast<std::uint32_t>(extras_.size());
    if (place.extras_count > limits::map_entries_max)
      fail(ErrorCode::bad_request, "with those inherited it has " + std::to_string(place.extras_count) +
                                       " x- fields, more than " + std::to_string(limits::map_entries_max) +
                                       " (map_entries_max)");
  }

  /// Copies inherited pairs. Beyond the limit it copies nothing, and the item fails.
  void inherit_extras(std::uint32_t begin, std::uint32_t end) {
    const std::size_t bytes = end - begin;
    inherited_bytes_ += bytes;
    if (inherited_bytes_ > limits::batch_inherited_bytes_max) return;
    work_ += bytes;
    char* const to = extras_.extend(bytes);  // their buffer may have moved
    std::memcpy(to, extras_.view().data() + begin, bytes);
  }

  /// Points the items at their extras, once the buffer no longer moves.
  void place_extras() {
    for (std::size_t i = 0; i < items_; ++i) {
      const ItemList::Place& place = list_->places_[i];
      if (place.extras_count == 0) continue;
      store_extras(place.message,
                   {place.extras_count,
                    extras_.view().substr(place.extras_begin, place.extras_end - place.extras_begin)});
    }
  }

  bool begin_bodies(std::uint32_t count) {
    if (count != items_)
      return stop("the batch has " + std::to_string(items_) + " maps and " + std::to_string(count) +
                  " bodies; it has one for each");
    return enter(Place::bodies);
  }

  void add_body(std::string_view body) {
    list_->places_[bodies_].body = body;
    bodies_bytes_ += body.size();
    item_ = bodies_++;
    if (body.size() > body_bytes_max_) fail_body_size(body.size());
    item_ = kNoItem;
  }

  const DecodeError* read_bodies(std::string_view frame) {
    depth_ = 0;
    place_ = places_[0] = Place::header;
    element_ = kBodyElement;
    std::size_t offset = 0;
    if (bodies_ > 0)
      stop("the header holds the bodies and a body frame follows it; send one of them");
    else if (!msgpack::parse(frame.data(), frame.size(), offset, *this) || offset != frame.size() ||
             bodies_ != items_)
      misplaced_body();
    return finish();
  }

  // ---- limits -----------------------------------------------------------------------------------------

  /// Counts read bytes. A header cannot hold more than its limit, so reading stops there.
  bool spend(std::size_t bytes) {
    spent_ += bytes;
    if (spent_ <= header_bytes_max_) [[likely]]
      return true;
    fail_header_size();
    return false;
  }
  /// Counts the entries of a container, each of at least one byte.
  bool spend_entries(std::size_t count) {
    if (count > header_.size() - std::min(spent_, header_.size())) return fail_entries();
    return spend(count);
  }
  bool enter(Place place) {
    if (depth_ == depth_max_) return fail_depth();
    places_[++depth_] = place_ = place;
    first_keys_[depth_] = keys_.size();
    return true;
  }
  bool leave() {
    if (beyond_ > 0) [[unlikely]] {
      --beyond_;
      place_ = places_[depth_];
      return true;
    }
    place_ = places_[--depth_];
    if (place_ == Place::batch && item_ != kNoItem && !end_item()) return false;
    if (place_ != Place::fields) return true;
    if (field_ != nullptr && places_[depth_ + 1] == Place::skipped) pass_through();
    return true;
  }

  // ---- failing ----------------------------------------------------------------------------------------

  /// Marks the message as broken, or in a batch only the present item.
  LANEMQ_COLD void fail(ErrorCode code, std::string message) {
    if (fails_again()) return;
    if (item_ == kNoItem) return fail_all(code, std::move(message));
    std::uint32_t& error = list_->places_[item_].error;
    list_->errors_.push_back({code, "item " + std::to_string(item_) + " of the batch: " + message, {}, {}});
    error = static_cast<std::uint32_t>(list_->errors_.size());
  }
  /// Marks the present item or message as broken, and returns whether it had an error already. Only the first
  /// one gets a text: a peer may break a rule with every second byte.
  bool fails_again() {
    broken_ |= broken_mark();
    return item_ == kNoItem ? failed_ : list_->places_[item_].error != 0;
  }
  /// The present map's field as a bit, for a mask.
  std::uint64_t broken_mark() const {
    if (places_[depth_] == Place::nested) return field_mark_;
    if (field_ == nullptr) return 0;
    return field_ == &kExtraField ? kExtrasMark : field_mark_;
  }
  LANEMQ_COLD void fail_all(ErrorCode code, std::string message) {
    if (failed_) return;
    failed_ = true;
    error_.code = code;
    error_.message = std::move(message);
    if (item_ != kNoItem)
      error_.message = "item " + std::to_string(item_) + " of the batch: " + error_.message;
  }
  /// Fails, and stops the parser: nothing behind this can be read.
  LANEMQ_COLD bool stop(std::string message) {
    fail_all(ErrorCode::bad_request, std::move(message));
    return false;
  }
  LANEMQ_COLD void fail_inheriting(std::uint64_t fields) {
    const std::string what =
        fields == 0
            ? "an x- field"
            : "field " + quoted(spec_->fields[static_cast<std::size_t>(std::countr_zero(fields))].name);
    fail(ErrorCode::bad_request, what + " is broken in item 0, from which it is inherited");
  }
  LANEMQ_COLD bool misplaced() {
    if (batch_) return misplaced_body();
    return stop(
        "a header is [\"LMQ1\", op, fields] or [\"LMQ1\", op, fields, body], op a string, fields a map "
        "and the body bin");
  }
  LANEMQ_COLD bool misplaced_body() { return stop("the body of a batch is a list of bin, one for each map"); }
  LANEMQ_COLD void fail_header_size() {
    fail_all(ErrorCode::too_large, "the header is larger than " + std::to_string(header_bytes_max_) +
                                       " bytes, its body not counted (header_bytes_max)");
  }
  LANEMQ_COLD void fail_body_size(std::size_t size) {
    fail(ErrorCode::too_large, "the body has " + std::to_string(size) + " bytes, more than " +
                                   std::to_string(body_bytes_max_) + " (body_bytes_max)");
  }
  LANEMQ_COLD bool fail_entries() {
    return stop("malformed header: a list or a map claims more entries than there are bytes");
  }
  /// Reading goes on, without a look at the map's keys: comparing them takes the square of their number.
  LANEMQ_COLD void fail_map_size(std::size_t count) {
    if (unkeyed_ == 0) unkeyed_ = depth_ + 1;
    if (place_ == Place::batch || place_ == Place::header) field_ = nullptr;
    if (!fails_again())
      fail(ErrorCode::bad_request, "a map has " + std::to_string(count) + " entries, more than " +
                                       std::to_string(limits::map_entries_max) + " (map_entries_max)" +
                                       in_field());
    if (place_ == Place::batch) broken_ |= kExtrasMark;  // those are left out, so nobody inherits them
  }
  /// Reading goes on behind the container, in which nothing is looked at. Not for ever: the parser has a
  /// stack.
  LANEMQ_COLD bool fail_depth() {
    if (beyond_ == kBeyondMax) return stop(too_deep());
    if (!fails_again()) fail(ErrorCode::bad_request, too_deep());
    field_ = nullptr;
    ++beyond_;
    place_ = Place::skipped;
    return true;
  }
  LANEMQ_COLD std::string too_deep() const {
    return "the header nests deeper than " + std::to_string(limits::header_depth_max) +
           " (header_depth_max)" + in_field();
  }
  LANEMQ_COLD bool fail_key() {
    if (places_[depth_] == Place::fields) field_ = nullptr, key_ = {};  // they are the ones before
    if (!fails_again()) fail(ErrorCode::bad_request, "a key of a map is not a string" + in_field());
    field_ = nullptr;
    return true;
  }
  LANEMQ_COLD void fail_ext() {
    mismatch(
        "holds an ext, which not every library of msgpack reads; it may hold nil, booleans, integers, "
        "floats, strings, bin, arrays and maps");
  }
  LANEMQ_COLD void fail_inherited_bytes() {
    fail(ErrorCode::too_large, "what the maps up to this one inherit has more than " +
                                   std::to_string(limits::batch_inherited_bytes_max) +
                                   " bytes (batch_inherited_bytes_max); send smaller batches");
  }
  /// Which field of its message a value stands in, however deep; nothing where it stands in none.
  LANEMQ_COLD std::string in_field() const {
    const std::span<const Place> open(places_, depth_ + 1);
    const auto is_open = [&](Place place) {
      return std::find(open.begin(), open.end(), place) != open.end();
    };
    if (!is_open(Place::fields) || (place_ == Place::key && open.back() == Place::fields)) return {};
    return key_.data() == nullptr ? std::string() : ", in field " + quoted(key_);
  }
  LANEMQ_COLD void fail_utf8() {
    if (fails_again()) return;
    fail(ErrorCode::bad_request, "a string in the header is not UTF-8" + in_field());
  }
  LANEMQ_COLD void fail_op(std::string_view op) {
    fail(ErrorCode::bad_request, "unknown op " + quoted(op) + std::string(where_known(op, ops_)));
  }
  LANEMQ_COLD void fail_required() {
    for (std::size_t i = 0; i < spec_->fields.size(); ++i)
      if ((spec_->required & ~(seen_ & ~nil_) & std::uint64_t{1} << i) != 0)
        fail(ErrorCode::bad_request, "field " + quoted(spec_->fields[i].name) + " is missing");
  }
  LANEMQ_COLD void fail_duplicate(std::string_view key) {
    if (!fails_again()) fail(ErrorCode::bad_request, "duplicate key " + quoted(key) + in_field());
    field_ = nullptr;
  }
  /// The field breaks its rule; the rest of its value is skipped.
  LANEMQ_COLD void mismatch(const std::string& rule) {
    if (field_ == nullptr) return;
    if (!fails_again())
      fail(ErrorCode::bad_request,
           "field " + quoted(field_ == &kExtraField ? key_ : field_->name) + " " + rule);
    field_ = nullptr;
  }
  LANEMQ_COLD void type_mismatch() {
    if (field_ == nullptr) return;
    mismatch(with_traits(field_->type, []<class Traits>() { return Traits::kMustBe; }));
  }
  LANEMQ_COLD void out_of_range(const std::string& value) {
    mismatch("is " + value + "; it must be at least " + std::to_string(field_->min) + " and at most " +
             std::to_string(field_->max));
  }
  LANEMQ_COLD void wrong_size(std::size_t size, const char* unit) {
    mismatch("has " + std::to_string(size) + " " + unit + "; it must have " + std::to_string(field_->min) +
             " to " + std::to_string(field_->max));
  }
  LANEMQ_COLD void wrong_text() { mismatch("is not UTF-8"); }
  /// The value has a type that does not belong here.
  LANEMQ_COLD bool unexpected() {
    switch (place_) {
      case Place::outside:
      case Place::header:
        return misplaced();
      case Place::batch:
        return stop("a batch is a list of maps");
      case Place::bodies:
        return misplaced_body();
      case Place::key:
        return fail_key();
      default:
        if (field_ == nullptr) return true;
        if (passes_through()) return pass_through();
        type_mismatch();
        return true;
    }
  }
  /// A float, bin or ext. No field has these types, but values that pass through may.
  bool opaque_scalar() { return place_ == Place::skipped || unexpected(); }

  void check_utf8(std::string_view text) {
    if (!is_utf8(text)) fail_utf8();
  }

  // ---- the header's own elements and keys -------------------------------------------------------------

  bool header_text(std::string_view text) {
    if (element_ == 0) return true;  // "LMQ1"; is_header() has checked it
    if (element_ != kOpElement) return misplaced();
    fields_begin_ = text.data() + text.size();
    for (const KnownOp& op : ops_) {
      if (!wire::same_name(op.spec->name, text)) continue;
      spec_ = op.spec;
      make_ = op.make;
      message_ = op.make(variant_);
      return true;
    }
    fail_op(text);
    return true;
  }

  void read_key(std::string_view key) {
    if (places_[depth_] == Place::fields) return find_field(key);
    note_key(key);
    if (places_[depth_] == Place::nested) find_nested(key);
  }

  void find_field(std::string_view key) {
    key_ = key;
    const std::uint8_t found = spec_->index.find(spec_->fields, key);
    if (found == FieldIndex::kNone) return find_other(key);
    field_ = &spec_->fields[found];
    field_mark_ = std::uint64_t{1} << found;
    if ((seen_ & field_mark_) != 0) return fail_duplicate(key);
    seen_ |= field_mark_;
  }

  void find_other(std::string_view key) {
    const bool extra = spec_->extras && key.starts_with("x-");
    field_ = extra ? &kExtraField : nullptr;
    note_key(key);
  }

  void find_nested(std::string_view key) {
    field_ = nullptr;
    for (const FieldSpec& spec : nested_)
      if (spec.name == key) field_ = &spec;
  }

  /// Refuses a key that its map holds already: readers would disagree about which one counts.
  void note_key(std::string_view key) {
    check_utf8(key);
    if (unkeyed_ != 0 || beyond_ != 0) [[unlikely]]
      return;
    const std::uint32_t hash = hash_of_key(key);
    work_ += keys_.size() - first_keys_[depth_];
    for (std::size_t i = first_keys_[depth_]; i < keys_.size(); ++i)
      if (keys_[i].hash == hash && keys_[i].name == key) return fail_duplicate(key);
    keys_.push_back({key, hash});
  }

  // ---- values of fields -------------------------------------------------------------------------------

  template <class T>
  T& at() const {
    return *static_cast<T*>(field_->at(place_ == Place::nested ? nested_object_ : message_));
  }

  void set_integer(std::uint64_t value) {
    if (field_->type == FieldType::reference) return set_reference(integer_length(key_.end()));
    with_traits(field_->type, [&]<class Traits>() {
      using Held = typename Traits::Held;
      if constexpr (!kHoldsInteger<Held>)
        unexpected();
      else if (in_range(value))
        at<Held>() = static_cast<std::int64_t>(value);
    });
  }

  bool in_range(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(field_->max) && value >= static_cast<std::uint64_t>(field_->min))
      return true;
    out_of_range(std::to_string(value));
    return false;
  }

  void set_text(std::string_view text) {
    const FieldType type = field_->type;
    if (type != FieldType::text && type != FieldType::reference) {
      check_utf8(text);
      unexpected();
      return;
    }
    const auto size = static_cast<std::int64_t>(text.size());
    if (size < field_->min || size > field_->max) return wrong_size(text.size(), "bytes");
    if (!is_utf8(text)) return wrong_text();
    if (type == FieldType::text)
      at<std::string_view>() = text;
    else if (text.empty())
      set_reference(value_length(rest(key_.end())));
    else
      set_reference(static_cast<std::size_t>(text.data() + text.size() - key_.end()));
  }

  void set_reference(std::size_t length) { at<wire::Raw>().bytes = {key_.end(), length}; }

  Place place_of_list(std::size_t count) {
    if (field_ == nullptr || passes_through()) return Place::skipped;
    const bool texts = field_->type == FieldType::text_list;
    if (!texts && field_->type != FieldType::lease_list) {
      type_mismatch();
      return Place::skipped;
    }
    const auto entries = static_cast<std::int64_t>(count);
    if (entries < field_->min || entries > field_->max) {
      wrong_size(count, "entries");
      return Place::skipped;
    }
    return texts ? Place::texts : Place::leases;
  }

  Place place_of_map() {
    if (field_ == nullptr || passes_through()) return Place::skipped;
    return with_traits(field_->type, [&]<class Traits>() {
      using Held = typename Traits::Held;
      if constexpr (!kHoldsNested<Held>) {
        type_mismatch();
        return Place::skipped;
      } else {
        nested_object_ = &at<Held>().emplace();
        nested_ = wire::kNestedFields<typename Held::value_type>;
        field_ = nullptr;
        return Place::nested;
      }
    });
  }

  void add_text(std::string_view text) {
    if (field_ == nullptr) return;
    if (text.empty() || text.size() > limits::name_bytes_max)
      return mismatch("lists a name of " + std::to_string(text.size()) + " bytes; a name has 1 to " +
                      std::to_string(limits::name_bytes_max));
    if (!is_utf8(text)) return mismatch("lists a name that is not UTF-8");
    static_cast<std::vector<std::string_view>*>(field_->at(message_))->push_back(text);
  }

  void set_lease_number(std::uint64_t value) {
    if (lease_index_ == 0) {
      if (value > wire::kNumberMax) mismatch("lists a job over " + std::to_string(wire::kNumberMax));
      lease_.job = value;
    } else {
      if (value < 1 || value > wire::kAttemptMax)
        mismatch("lists an attempt that is not 1 to " + std::to_string(wire::kAttemptMax));
      lease_.attempt = static_cast<std::int64_t>(value);
    }
    ++lease_index_;
  }

  void add_lease() {
    if (field_ == nullptr) return;
    if (lease_index_ != 2) return type_mismatch();
    static_cast<std::vector<wire::Lease>*>(field_->at(message_))->push_back(lease_);
  }

  // ---- what passes through ----------------------------------------------------------------------------

  bool passes_through() const { return field_->type == FieldType::raw; }

  std::string_view rest(const char* from) const {
    return {from, static_cast<std::size_t>(header_.data() + header_.size() - from)};
  }

  /// Keeps the last value, byte for byte.
  bool pass_through() {
    if (field_ == &kExtraField && unkeyed_ != 0) [[unlikely]] {  // the map has more than there are bits for
      field_ = nullptr;
      return true;
    }
    const std::string_view value(key_.end(), value_length(rest(key_.end())));
    work_ += value.size();
    if (field_ != &kExtraField) {
      static_cast<wire::Raw*>(field_->at(message_))->bytes = value;
    } else {
      const auto size = static_cast<std::uint32_t>(key_.size());
      const auto begin = static_cast<std::uint32_t>(extras_.size());
      msgpack::packer<Buffer>(extras_).pack_str(size).pack_str_body(key_.data(), size);
      extras_.write(value.data(), value.size());
      ++extras_count_;
      if (item_ != 0)
        name_extra(key_);
      else
        first_extras_.push_back({key_, hash_of_key(key_), begin, static_cast<std::uint32_t>(extras_.size())});
    }
    field_ = nullptr;
    return true;
  }

  void store_extras(void* message, const wire::Extras& extras) {
    if (spec_ == &wire::Spec<wire::Submit>::op)
      static_cast<wire::Submit*>(message)->extras = extras;
    else
      static_cast<wire::JobOffer*>(message)->extras = extras;
  }
  void store_document() {
    const std::string_view document(fields_begin_, value_length(rest(fields_begin_)));
    if (spec_ == &wire::Spec<wire::AdminReply>::op)
      static_cast<wire::AdminReply*>(message_)->document.bytes = document;
    else
      static_cast<wire::StatsReply*>(message_)->document.bytes = document;
  }

  std::size_t body_bytes_max_, header_bytes_max_;

  std::string_view header_;
  std::span<const KnownOp> ops_;
  void* variant_ = nullptr;
  const OpSpec* spec_ = nullptr;
  void* message_ = nullptr;
  Unknown unknown_;

  std::size_t spent_ = 0;
  std::size_t depth_ = 0;
  std::size_t beyond_ = 0;   // open containers that are nested too deep
  std::size_t unkeyed_ = 0;  // the depth of the outermost map that is too large; 0: none
  bool refuses_ext_ = false;
  int element_ = 0;  // place in the header's array
  Place place_ = Place::outside;
  bool failed_ = false;

  std::uint64_t seen_ = 0, nil_ = 0, field_mark_ = 0;  // a bit for each field of the operation
  const FieldSpec* field_ = nullptr;                   // the field whose value is read; null: none
  std::string_view key_;  // its key in the header, or that of an unknown field; the value starts behind it
  std::span<const FieldSpec> nested_;
  void* nested_object_ = nullptr;
  wire::Lease lease_;
  int lease_index_ = 0;
  const char* fields_begin_ = nullptr;
  std::string_view body_;
  Buffer extras_;
  std::uint32_t extras_count_ = 0;
  std::size_t work_ = 0;

  Place places_[limits::header_depth_max + 2] = {};  // the list of a batch does not count
  struct Key {
    std::string_view name;
    std::uint32_t hash;
  };
  std::vector<Key> keys_;  // of all open maps, the innermost last
  std::size_t first_keys_[limits::header_depth_max + 2] = {};
  std::size_t depth_max_ = 0;
  DecodeError error_;

  // For a message that may be a batch:
  static constexpr std::size_t kNoItem = static_cast<std::size_t>(-1);
  static constexpr std::uint64_t kExtrasMark = std::uint64_t{1} << 63;  // in a mask of fields: an x- field
  static_assert(wire::kFieldsMax < 63);
  const Target* target_ = nullptr;  // null: the caller wants one message
  const BatchRule* rule_ = nullptr;
  ItemList* list_ = nullptr;
  void* (*make_)(void* variant) = nullptr;
  bool batch_ = false;
  std::size_t item_ = kNoItem;  // the item that is read
  std::size_t items_ = 0, next_item_ = 0, bodies_ = 0, bodies_bytes_ = 0;
  void* first_ = nullptr;  // the first item's structure
  std::uint64_t broken_ = 0, first_said_ = 0, first_broken_ = 0;
  /// An `x-` field of the first map, and its place in extras_.
  struct FirstExtra {
    std::string_view key;
    std::uint32_t hash, begin, end;
  };
  static_assert(limits::map_entries_max <= 64);
  std::vector<FirstExtra> first_extras_;
  std::uint64_t named_extras_ = 0;  // those that the present map names, a bit each
  std::size_t inherited_bytes_ = 0;
};

Decoder::Decoder(std::size_t body_bytes_max, std::size_t header_bytes_max)
    : reader_(std::make_unique<Reader>(body_bytes_max, header_bytes_max)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

void Decoder::refuse_ext() {
  reader_->refuse_ext();
}

std::string_view Decoder::body() const {
  return reader_->body();
}

std::size_t Decoder::work() const {
  return reader_->work();
}

template <class Message>
const DecodeError* Decoder::decode(std::string_view header, Message& message) {
  return reader_->read(header, KnownOps<Message>::ops, &message);
}

template <class Message>
const DecodeError* Decoder::decode(std::string_view header, std::optional<std::string_view> body_frame,
                                   Items<Message>& items, const BatchRule* rule) {
  const Reader::Target target{.list = &items,
                              .messages = &items.messages_,
                              .variant = [](void* messages, std::size_t i) -> void* {
                                return &(*static_cast<std::vector<Message>*>(messages))[i];
                              },
                              .make_room =
                                  [](void* messages, std::size_t count) {
                                    auto& all = *static_cast<std::vector<Message>*>(messages);
                                    if (all.size() < count) all.resize(count);
                                  }};
  return reader_->read(header, body_frame, KnownOps<Message>::ops, target, rule);
}

template const DecodeError* Decoder::decode(std::string_view, wire::ClientRequest&);
template const DecodeError* Decoder::decode(std::string_view, std::optional<std::string_view>,
                                            Items<wire::ClientRequest>&, const BatchRule*);
template const DecodeError* Decoder::decode(std::string_view, wire::ClientReply&);
template const DecodeError* Decoder::decode(std::string_view, std::optional<std::string_view>,
                                            Items<wire::ClientReply>&, const BatchRule*);
template const DecodeError* Decoder::decode(std::string_view, wire::WorkerReport&);
template const DecodeError* Decoder::decode(std::string_view, std::optional<std::string_view>,
                                            Items<wire::WorkerReport>&, const BatchRule*);
template const DecodeError* Decoder::decode(std::string_view, wire::WorkerCommand&);
template const DecodeError* Decoder::decode(std::string_view, std::optional<std::string_view>,
                                            Items<wire::WorkerCommand>&, const BatchRule*);

}  // namespace lanemq
