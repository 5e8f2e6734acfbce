// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <msgpack.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

#include "common/protocol/src/field_table.hpp"

namespace lanemq {
namespace {

using wire::FieldSpec;
using wire::FieldType;
using wire::is_said;
using wire::Spec;
using wire::with_value;

/// Writes into room that was made before, so that writing checks nothing.
struct Cursor {
  char* at;
  void write(const char* data, std::size_t size) {
    if (size > 0) std::memcpy(at, data, size);
    at += size;
  }
};
using Packer = msgpack::packer<Cursor>;

// Most bytes of a value, without those of a text.
constexpr std::size_t kNumberBytes = 9, kHeadBytes = 5, kKeyBytes = 32;

template <class Stream>
void pack_text(msgpack::packer<Stream>& out, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  out.pack_str(size).pack_str_body(text.data(), size);
}

// The functions below are called once per field of a message, with a field that the compiler knows: so it
// removes the switch and the accessors.
#define LANEMQ_UNROLLED [[gnu::always_inline]] inline

/// Most bytes of a value.
LANEMQ_UNROLLED std::size_t value_bytes_max(std::string_view text) {
  return kHeadBytes + text.size();
}
LANEMQ_UNROLLED std::size_t value_bytes_max(const wire::Raw& value) {
  return value.bytes.size();
}
template <class Number>
requires std::is_arithmetic_v<Number> LANEMQ_UNROLLED std::size_t value_bytes_max(Number) {
  return kNumberBytes;
}
/// Most bytes of a number, or of a map of numbers.
template <class T>
LANEMQ_UNROLLED std::size_t value_bytes_max(const std::optional<T>&) {
  constexpr std::size_t kNumbers = wire::kNestedFields<T>.size();
  return kNumbers == 0 ? kNumberBytes : 1 + kNumbers * (kKeyBytes + kNumberBytes);
}
LANEMQ_UNROLLED std::size_t value_bytes_max(const std::vector<std::string_view>& texts) {
  std::size_t bytes = kHeadBytes;
  for (const std::string_view text : texts)
    bytes += value_bytes_max(text);
  return bytes;
}
LANEMQ_UNROLLED std::size_t value_bytes_max(const std::vector<wire::Lease>& leases) {
  return kHeadBytes + leases.size() * (1 + 2 * kNumberBytes);
}

/// Most bytes of a field with its key.
LANEMQ_UNROLLED std::size_t bytes_max(const FieldSpec& spec, const void* message) {
  return kKeyBytes + with_value(
                         spec, message, [](const auto& held) __attribute__((always_inline)) {
                           return value_bytes_max(held);
                         });
}

LANEMQ_UNROLLED void pack_value(Cursor& out, const FieldSpec& spec, std::string_view text) {
  // Texts for people may be built from several texts of full length. They are cut, since receivers refuse
  // longer ones.
  const bool for_people = spec.max == static_cast<std::int64_t>(limits::text_bytes_max);
  Packer packer(out);
  pack_text(packer, for_people ? beginning(text, limits::text_bytes_max) : text);
}
template <class Number>
requires std::is_arithmetic_v<Number> LANEMQ_UNROLLED void pack_value(Cursor& out, const FieldSpec&,
                                                                      Number number) {
  Packer(out).pack(number);
}
LANEMQ_UNROLLED void pack_value(Cursor& out, const FieldSpec&, const wire::Raw& value) {
  out.write(value.bytes.data(), value.bytes.size());
}
void pack_value(Cursor& out, const FieldSpec&, const std::vector<std::string_view>& texts) {
  Packer packer(out);
  packer.pack_array(static_cast<std::uint32_t>(texts.size()));
  for (const std::string_view text : texts)
    pack_text(packer, text);
}
void pack_value(Cursor& out, const FieldSpec&, const std::vector<wire::Lease>& leases) {
  Packer packer(out);
  packer.pack_array(static_cast<std::uint32_t>(leases.size()));
  for (const wire::Lease& lease : leases)
    packer.pack_array(2).pack(lease.job).pack(lease.attempt);
}
/// Writes a map of numbers, all of them optional.
void pack_numbers(Cursor& out, std::span<const FieldSpec> fields, const void* numbers);
template <class T>
LANEMQ_UNROLLED void pack_value(Cursor& out, const FieldSpec& spec, const std::optional<T>& value) {
  if constexpr (wire::kNestedFields<T>.empty())
    pack_value(out, spec, *value);
  else
    pack_numbers(out, wire::kNestedFields<T>, &*value);
}

LANEMQ_UNROLLED void pack_field(Cursor& out, const FieldSpec& spec, const void* message) {
  *out.at++ = static_cast<char>(0xA0 | spec.name.size());  // a fixstr: names have at most 31 bytes
  out.write(spec.name.data(), spec.name.size());
  with_value(
      spec, message, [&](const auto& held) __attribute__((always_inline)) { pack_value(out, spec, held); });
}

void pack_numbers(Cursor& out, std::span<const FieldSpec> fields, const void* numbers) {
  const auto said = [&](const FieldSpec& spec) { return is_said(spec, numbers); };
  Packer(out).pack_map(static_cast<std::uint32_t>(std::count_if(fields.begin(), fields.end(), said)));
  for (const FieldSpec& spec : fields)
    if (said(spec)) pack_field(out, spec, numbers);
}

/// The bytes in front of the fields: the array, "LMQ1" and the op, which has at most 31 bytes.
struct Preamble {
  char bytes[1 + 5 + 32] = {};
  std::size_t size = 0;

  constexpr Preamble(std::size_t elements, std::string_view op) {
    push(0x90 | elements);
    for (const std::string_view text : {std::string_view("LMQ1"), op}) {
      push(0xA0 | text.size());
      for (const char c : text)
        bytes[size++] = c;
    }
  }
  constexpr void push(std::size_t byte) { bytes[size++] = static_cast<char>(byte); }
};
template <class Message, std::size_t elements>
inline constexpr Preamble kPreamble{elements, Spec<Message>::op.name};

template <class Message>
inline constexpr auto kFieldNumbers = std::make_index_sequence<Spec<Message>::op.fields.size()>{};

template <class Message>
wire::Extras extras_of(const Message& message) {
  if constexpr (requires { message.extras; })
    return message.extras;
  else
    return {};
}

/// Calls `visit` with each field of the operation as a constant, and its index.
template <class Message, class Visit, std::size_t... i>
LANEMQ_UNROLLED void for_each_field([[maybe_unused]] Visit visit, std::index_sequence<i...>) {
  (visit(Spec<Message>::fields[i], i), ...);
}

template <class Message>
std::uint32_t fields_said(const Message& message) {
  std::uint32_t said = 0;
  for_each_field<Message>(
      [&](const FieldSpec& spec, std::size_t i)
          __attribute__((always_inline)) { said |= is_said(spec, &message) ? std::uint32_t{1} << i : 0; },
      kFieldNumbers<Message>);
  return said;
}

template <class Message>
void pack_fields(Cursor& cursor, const Message& message) {
  const wire::Extras extras = extras_of(message);
  Packer(cursor).pack_map(extras.count + static_cast<std::uint32_t>(std::popcount(fields_said(message))));
  for_each_field<Message>(
      [&](const FieldSpec& spec, std::size_t) __attribute__((always_inline)) {
        if (is_said(spec, &message)) pack_field(cursor, spec, &message);
      },
      kFieldNumbers<Message>);
  cursor.write(extras.bytes.data(), extras.bytes.size());
}

/// Writes a document that is all the fields, with the ref behind its entries.
template <class Message>
void pack_document(Cursor& cursor, const Message& message) {
  std::string_view entries = message.document.bytes;
  if (!message.ref.present() || entries.empty()) return cursor.write(entries.data(), entries.size());
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(entries[i])}; };
  const bool fixmap = (byte(0) & 0xF0) == 0x80;
  const std::uint32_t count = fixmap ? byte(0) & 0x0F : byte(1) << 8 | byte(2);  // else map 16
  entries.remove_prefix(fixmap ? 1 : 3);
  Packer(cursor).pack_map(count + 1);
  cursor.write(entries.data(), entries.size());
  pack_field(cursor, Spec<Message>::fields[0], &message);
}

template <class Message>
std::size_t header_bytes_max(const Message& message) {
  std::size_t bytes = sizeof(Preamble) + kHeadBytes + extras_of(message).bytes.size();
  if constexpr (Spec<Message>::op.whole) bytes += message.document.bytes.size();
  for_each_field<Message>(
      [&](const FieldSpec& spec, std::size_t)
          __attribute__((always_inline)) { bytes += bytes_max(spec, &message); },
      kFieldNumbers<Message>);
  return bytes;
}

template <class Message, std::size_t elements>
Cursor pack_header(const Message& message, std::size_t body_bytes, Buffer& out) {
  constexpr const Preamble& kStart = kPreamble<Message, elements>;
  Cursor cursor{out.extend(header_bytes_max(message) + body_bytes)};
  cursor.write(kStart.bytes, kStart.size);
  if constexpr (Spec<Message>::op.fields.empty())
    Packer(cursor).pack_map(0);
  else if constexpr (Spec<Message>::op.whole)
    pack_document(cursor, message);
  else
    pack_fields(cursor, message);
  return cursor;
}

// ---- batches ------------------------------------------------------------------------------------------

static_assert(BatchItem::kFieldsMax == wire::kFieldsMax);

/// Stands in front of each item of a batch in its buffer.
struct Link {
  std::size_t next;  ///< offset of the next item's Link; 0: none
  std::uint32_t map_bytes, body_bytes;
};

// Bytes around the items of a batch: the header's array, "LMQ1", the op, and the heads of both lists.
constexpr std::size_t kBatchFrameBytes = sizeof(Preamble) + 2 * kHeadBytes;

Link link_at(const Buffer& buffer, std::size_t at) {
  Link link;
  std::memcpy(&link, buffer.view().data() + at, sizeof link);
  return link;
}
void put_link(char* at, const Link& link) {
  std::memcpy(at, &link, sizeof link);
}

std::size_t bin_head_bytes(std::size_t body_bytes) {
  return body_bytes < 1 << 8 ? 2 : body_bytes < 1 << 16 ? 3 : 5;
}

/// Writes a field's default, which a map needs that must not inherit another value.
void pack_default(Cursor& cursor, const FieldSpec& spec) {
  Packer out(cursor);
  pack_text(out, spec.name);
  if (spec.type == FieldType::integer)
    out.pack(spec.fallback);
  else if (spec.type == FieldType::boolean)
    out.pack_false();
  else
    out.pack_nil();
}

/// Rewrites the map at the end of the buffer as a later one of a batch behind `first`. Returns its bytes.
std::size_t make_later(const BatchItem& first, const BatchItem& item, Buffer& buffer) {
  const std::span<const FieldSpec> fields = item.op->fields;
  const auto own = static_cast<std::uint32_t>(item.op->own);
  const std::uint32_t defaults = first.said & ~item.said & ~own;
  buffer.extend(static_cast<std::size_t>(std::popcount(defaults)) * (kKeyBytes + kNumberBytes));
  char* const map = buffer.extend(0) - (buffer.size() - item.begin);
  const char* const shared = map - item.begin + first.begin;

  // Kept entries move towards the map's head, one run at a time.
  std::uint32_t count = static_cast<std::uint32_t>(std::popcount(item.said | defaults)) + item.extras;
  const char* run = map + item.ends[0];
  const char* run_end = run;
  char* to = map + item.ends[0];
  const auto keep = [&] {
    const auto bytes = static_cast<std::size_t>(run_end - run);
    if (to != run) std::memmove(to, run, bytes);
    to += bytes;
  };
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::uint32_t mark = std::uint32_t{1} << i;
    if ((item.said & mark) == 0) continue;
    const std::size_t bytes = item.ends[i + 1] - static_cast<std::size_t>(run_end - map);
    const bool same = (first.said & ~own & mark) != 0 &&
                      static_cast<std::size_t>(first.ends[i + 1] - first.ends[i]) == bytes &&
                      std::memcmp(shared + first.ends[i], run_end, bytes) == 0;
    if (same) {
      keep();
      run = run_end + bytes;
      --count;
    }
    run_end += bytes;
  }
  const std::size_t extras_bytes = item.bytes - static_cast<std::size_t>(run_end - map);
  if (extras_bytes > 0 && first.extras > 0)
    count -= item.extras;  // equal in both: Batch::add() checks that
  else
    run_end += extras_bytes;
  keep();
  Cursor cursor{to};
  for (std::uint32_t left = defaults; left != 0; left &= left - 1)
    pack_default(cursor, fields[static_cast<std::size_t>(std::countr_zero(left))]);
  to = cursor.at;

  // With fewer entries the map's head may be shorter.
  char head[kHeadBytes];
  Cursor head_cursor{head};
  Packer(head_cursor).pack_map(count);
  const auto head_bytes = static_cast<std::size_t>(head_cursor.at - head);
  const auto entries_bytes = static_cast<std::size_t>(to - map) - item.ends[0];
  if (head_bytes != item.ends[0]) std::memmove(map + head_bytes, map + item.ends[0], entries_bytes);
  std::memcpy(map, head, head_bytes);
  buffer.end_at(map + head_bytes + entries_bytes);
  return head_bytes + entries_bytes;
}

std::string_view extras_of_item(const BatchItem& item, const Buffer& buffer) {
  if (item.extras == 0) return {};
  return buffer.view().substr(item.begin, item.bytes).substr(item.ends[item.op->fields.size()]);
}

}  // namespace

template <class Message>
bool can_be_batched() {
  return Spec<Message>::op.batched();
}

template <class Message>
BatchItem write_item(const Message& message, Buffer& buffer) {
  const wire::Extras extras = extras_of(message);
  BatchItem item;
  item.op = &Spec<Message>::op;
  item.said = fields_said(message);
  item.extras = extras.count;
  item.begin = buffer.size() + sizeof(Link);
  char* const map = buffer.extend(sizeof(Link) + header_bytes_max(message)) + sizeof(Link);
  Cursor cursor{map};
  Packer(cursor).pack_map(extras.count + static_cast<std::uint32_t>(std::popcount(item.said)));
  const auto here = [&] { return static_cast<std::uint16_t>(cursor.at - map); };
  item.ends[0] = here();
  for_each_field<Message>(
      [&](const FieldSpec& spec, std::size_t i) __attribute__((always_inline)) {
        if ((item.said & std::uint32_t{1} << i) != 0) pack_field(cursor, spec, &message);
        item.ends[i + 1] = here();
      },
      kFieldNumbers<Message>);
  cursor.write(extras.bytes.data(), extras.bytes.size());
  item.bytes = static_cast<std::size_t>(cursor.at - map);
  buffer.end_at(cursor.at);
  return item;
}

BatchItem copy_item(const BatchItem& item, std::string_view map, Buffer& buffer) {
  BatchItem copy = item;
  copy.begin = buffer.size() + sizeof(Link);
  copy.bytes = map.size();
  std::memcpy(buffer.extend(sizeof(Link) + map.size()) + sizeof(Link), map.data(), map.size());
  return copy;
}

Batch::Batch(const BatchItem& first, std::string_view body, Buffer& buffer) : first_(first) {
  append(first, body, buffer);
}

/// Adds the body behind the map, which ends the buffer, and links the item.
void Batch::append(const BatchItem& item, std::string_view body, Buffer& buffer) {
  const std::size_t map_bytes = buffer.size() - item.begin,
                    body_bytes = bin_head_bytes(body.size()) + body.size();
  Cursor cursor{buffer.extend(kHeadBytes + body.size())};
  const auto size = static_cast<std::uint32_t>(body.size());
  Packer(cursor).pack_bin(size).pack_bin_body(body.data(), size);
  buffer.end_at(cursor.at);
  char* const start = cursor.at - buffer.size();
  const std::size_t link = item.begin - sizeof(Link);
  put_link(start + link, {.next = 0,
                          .map_bytes = static_cast<std::uint32_t>(map_bytes),
                          .body_bytes = static_cast<std::uint32_t>(body_bytes)});
  if (items_ > 0) {
    Link before = link_at(buffer, last_);
    before.next = link;
    put_link(start + last_, before);
  }
  last_ = link;
  ++items_;
  maps_bytes_ += map_bytes;
  bodies_bytes_ += body_bytes;
  has_bodies_ = has_bodies_ || !body.empty();
}

bool Batch::add(const BatchItem& item, std::string_view body, std::size_t items_max, Buffer& buffer) {
  if (item.op != first_.op || items_ >= items_max) return false;
  if (first_.extras > 0 && extras_of_item(first_, buffer) != extras_of_item(item, buffer)) return false;
  // The worst case: nothing is left out, and each default is written.
  const std::size_t map_bytes_max =
      item.bytes + static_cast<std::size_t>(std::popcount(first_.said)) * (kKeyBytes + kNumberBytes);
  const std::size_t header_bytes = kBatchFrameBytes + maps_bytes_ + map_bytes_max +
                                   (items_ + 1) * bin_head_bytes(limits::inline_bytes_max);
  if (header_bytes > limits::header_bytes_max) return false;
  if (items_ * first_.bytes > limits::batch_inherited_bytes_max) return false;
  if (header_bytes + bodies_bytes_ + body.size() > limits::batch_bytes_max) return false;
  make_later(first_, item, buffer);
  append(item, body, buffer);
  return true;
}

std::vector<std::size_t> Batch::places(const Buffer& buffer) const {
  std::vector<std::size_t> places;
  for (std::size_t at = first_.begin - sizeof(Link); places.size() < items_; at = link_at(buffer, at).next)
    places.push_back(at);
  return places;
}

void Batch::write(const Buffer& buffer, Buffer& out) const {
  const std::string_view op = first_.op->name;
  const auto count = static_cast<std::uint32_t>(items_);
  Cursor cursor{out.extend(kBatchFrameBytes + maps_bytes_ + bodies_bytes_)};
  cursor.write(has_bodies_ ? "\x94\xA4LMQ1" : "\x93\xA4LMQ1", 6);
  Packer packer(cursor);
  pack_text(packer, op);
  const std::size_t first = first_.begin - sizeof(Link);
  const auto for_each_link = [&](auto visit) {
    std::size_t at = first;
    do {
      const Link link = link_at(buffer, at);
      visit(link, buffer.view().data() + at + sizeof(Link));
      at = link.next;
    } while (at != 0);
  };
  if (items_ > 1) packer.pack_array(count);
  for_each_link([&](const Link& link, const char* map) { cursor.write(map, link.map_bytes); });
  if (has_bodies_) {
    if (items_ > 1) packer.pack_array(count);
    for_each_link(
        [&](const Link& link, const char* map) { cursor.write(map + link.map_bytes, link.body_bytes); });
  }
  out.end_at(cursor.at);
}

template <class Message>
void encode(const Message& message, Buffer& out) {
  out.end_at(pack_header<Message, 3>(message, 0, out).at);
}

template <class Message>
void encode(const Message& message, std::string_view body, Buffer& out) {
  const auto size = static_cast<std::uint32_t>(body.size());
  Cursor cursor = pack_header<Message, 4>(message, kHeadBytes + body.size(), out);
  Packer(cursor).pack_bin(size).pack_bin_body(body.data(), size);
  out.end_at(cursor.at);
}

void encode_fields(const wire::StatusReply& message, Buffer& out) {
  Cursor cursor{out.extend(header_bytes_max(message))};
  pack_fields(cursor, message);
  out.end_at(cursor.at);
}

#define LANEMQ_ENCODE(Message)                                           \
  template void encode(const wire::Message&, Buffer&);                   \
  template void encode(const wire::Message&, std::string_view, Buffer&); \
  template bool can_be_batched<wire::Message>();                         \
  template BatchItem write_item(const wire::Message&, Buffer&);
LANEMQ_ENCODE(Submit)
LANEMQ_ENCODE(Cancel)
LANEMQ_ENCODE(StatusQuery)
LANEMQ_ENCODE(Fetch)
LANEMQ_ENCODE(Seen)
LANEMQ_ENCODE(StatsQuery)
LANEMQ_ENCODE(Ping)
LANEMQ_ENCODE(Spend)
LANEMQ_ENCODE(AdminQuery)
LANEMQ_ENCODE(Watch)
LANEMQ_ENCODE(Accepted)
LANEMQ_ENCODE(ChunkReply)
LANEMQ_ENCODE(JobResult)
LANEMQ_ENCODE(ErrorReply)
LANEMQ_ENCODE(StatusReply)
LANEMQ_ENCODE(StatsReply)
LANEMQ_ENCODE(Pong)
LANEMQ_ENCODE(Spent)
LANEMQ_ENCODE(AdminReply)
LANEMQ_ENCODE(Watching)
LANEMQ_ENCODE(JobEvent)
LANEMQ_ENCODE(Ready)
LANEMQ_ENCODE(Chunk)
LANEMQ_ENCODE(Progress)
LANEMQ_ENCODE(Outcome)
LANEMQ_ENCODE(Failure)
LANEMQ_ENCODE(Heartbeat)
LANEMQ_ENCODE(Bye)
LANEMQ_ENCODE(Welcome)
LANEMQ_ENCODE(JobOffer)
LANEMQ_ENCODE(Acked)
LANEMQ_ENCODE(CancelJob)
LANEMQ_ENCODE(Window)
LANEMQ_ENCODE(Drain)
LANEMQ_ENCODE(WorkerRefusal)
#undef LANEMQ_ENCODE

DocumentWriter& DocumentWriter::map(std::size_t entries) {
  msgpack::packer<Buffer>(out_).pack_map(static_cast<std::uint32_t>(entries));
  return *this;
}
DocumentWriter& DocumentWriter::array(std::size_t entries) {
  msgpack::packer<Buffer>(out_).pack_array(static_cast<std::uint32_t>(entries));
  return *this;
}
DocumentWriter& DocumentWriter::text(std::string_view value) {
  msgpack::packer<Buffer> packer(out_);
  pack_text(packer, value);
  return *this;
}
DocumentWriter& DocumentWriter::written(std::string_view msgpack) {
  out_.write(msgpack.data(), msgpack.size());
  return *this;
}
DocumentWriter& DocumentWriter::integer(std::int64_t value) {
  msgpack::packer<Buffer>(out_).pack(value);
  return *this;
}
DocumentWriter& DocumentWriter::number(double value) {
  // The library would write a whole number as an integer; readers prefer one type for one field.
  auto bits = std::bit_cast<std::uint64_t>(value);
  char bytes[9] = {static_cast<char>(0xCB)};
  for (int i = 8; i > 0; --i, bits >>= 8)
    bytes[i] = static_cast<char>(bits & 0xFF);
  out_.write(bytes, sizeof bytes);
  return *this;
}
DocumentWriter& DocumentWriter::boolean(bool value) {
  msgpack::packer<Buffer>(out_).pack(value);
  return *this;
}

}  // namespace lanemq
