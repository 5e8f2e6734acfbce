// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstring>
#include <utility>

#include <msgpack.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

#include "protocol/src/field_table.hpp"

namespace lanemq {
namespace {

using wire::FieldSpec;
using wire::FieldType;
using wire::Spec;

/// Writes into room that was made before, so that nothing is checked while writing.
struct Cursor {
  char* at;
  void write(const char* data, std::size_t size) {
    if (size > 0) std::memcpy(at, data, size);
    at += size;
  }
};
using Packer = msgpack::packer<Cursor>;

// What a value takes at most, beside the bytes of a text.
constexpr std::size_t kNumberBytes = 9, kHeadBytes = 5, kKeyBytes = 32;

template <class Stream>
void pack_text(msgpack::packer<Stream>& out, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  out.pack_str(size).pack_str_body(text.data(), size);
}

// The functions below are called with fields that the compiler knows, one call for each field of a message:
// the switches and the accessors are gone in what it makes of them.
#define LANEMQ_UNROLLED [[gnu::always_inline]] inline

template <class T>
LANEMQ_UNROLLED const T& at(const FieldSpec& spec, const void* message) {
  // The table's accessors serve reading and writing; nothing is written through this one.
  return *static_cast<const T*>(spec.at(const_cast<void*>(message)));
}

using Number = std::int64_t;
using Text = std::string_view;
using Texts = std::vector<std::string_view>;
using Leases = std::vector<wire::Lease>;

/// Whether a field differs from its default, so that it has to be said.
LANEMQ_UNROLLED bool is_said(const FieldSpec& spec, const void* message) {
  switch (spec.type) {
    case FieldType::text:
      return at<Text>(spec, message).data() != nullptr;
    case FieldType::integer:
      return spec.required || at<Number>(spec, message) != spec.fallback;
    case FieldType::unsigned_integer:
      return true;
    case FieldType::optional_integer:
      return at<std::optional<Number>>(spec, message).has_value();
    case FieldType::boolean:
      return at<bool>(spec, message);
    case FieldType::optional_boolean:
      return at<std::optional<bool>>(spec, message).has_value();
    case FieldType::raw:
    case FieldType::reference:
      return at<wire::Raw>(spec, message).present();
    case FieldType::text_list:
      return spec.required || !at<Texts>(spec, message).empty();
    case FieldType::lease_list:
      return spec.required || !at<Leases>(spec, message).empty();
    case FieldType::cost:
      return at<std::optional<wire::Cost>>(spec, message).has_value();
    case FieldType::usage:
      return at<std::optional<wire::Usage>>(spec, message).has_value();
    case FieldType::limits:
      return at<std::optional<wire::UpstreamLimits>>(spec, message).has_value();
    case FieldType::extra:
      return false;
  }
  return false;
}

/// The most that a field takes when it is said, its key included.
LANEMQ_UNROLLED std::size_t bytes_max(const FieldSpec& spec, const void* message) {
  switch (spec.type) {
    case FieldType::text:
      return kKeyBytes + kHeadBytes + at<Text>(spec, message).size();
    case FieldType::raw:
    case FieldType::reference:
      return kKeyBytes + at<wire::Raw>(spec, message).bytes.size();
    case FieldType::text_list: {
      std::size_t bytes = kKeyBytes + kHeadBytes;
      for (const Text text : at<Texts>(spec, message))
        bytes += kHeadBytes + text.size();
      return bytes;
    }
    case FieldType::lease_list:
      return kKeyBytes + kHeadBytes + at<Leases>(spec, message).size() * (1 + 2 * kNumberBytes);
    case FieldType::cost:
      return kKeyBytes + 1 + std::size(wire::kCostFields) * (kKeyBytes + kNumberBytes);
    case FieldType::usage:
      return kKeyBytes + 1 + std::size(wire::kUsageFields) * (kKeyBytes + kNumberBytes);
    case FieldType::limits:
      return kKeyBytes + 1 + std::size(wire::kLimitsFields) * (kKeyBytes + kNumberBytes);
    default:
      return kKeyBytes + kNumberBytes;
  }
}

void pack_texts(Packer& out, const Texts& texts) {
  out.pack_array(static_cast<std::uint32_t>(texts.size()));
  for (const Text text : texts)
    pack_text(out, text);
}

void pack_leases(Packer& out, const Leases& leases) {
  out.pack_array(static_cast<std::uint32_t>(leases.size()));
  for (const wire::Lease& lease : leases)
    out.pack_array(2).pack(lease.job).pack(lease.attempt);
}

/// A map of numbers, all of them optional.
void pack_numbers(Packer& out, std::span<const FieldSpec> fields, const void* numbers) {
  std::uint32_t count = 0;
  for (const FieldSpec& spec : fields)
    count += is_said(spec, numbers) ? 1 : 0;
  out.pack_map(count);
  for (const FieldSpec& spec : fields) {
    if (!is_said(spec, numbers)) continue;
    pack_text(out, spec.name);
    out.pack(*at<std::optional<Number>>(spec, numbers));
  }
}

LANEMQ_UNROLLED void pack_field(Cursor& cursor, const FieldSpec& spec, const void* message) {
  Packer out(cursor);
  *cursor.at++ = static_cast<char>(0xA0 | spec.name.size());  // a fixstr: no name is longer than 31 bytes
  cursor.write(spec.name.data(), spec.name.size());
  switch (spec.type) {
    case FieldType::text:
      // What people read may be put together from texts that are each as long as they may be; nobody would
      // take a message that is longer.
      if (spec.max == static_cast<std::int64_t>(limits::text_bytes_max))
        return pack_text(out, beginning(at<Text>(spec, message), limits::text_bytes_max));
      return pack_text(out, at<Text>(spec, message));
    case FieldType::integer:
      out.pack(at<Number>(spec, message));
      return;
    case FieldType::unsigned_integer:
      out.pack(at<std::uint64_t>(spec, message));
      return;
    case FieldType::optional_integer:
      out.pack(*at<std::optional<Number>>(spec, message));
      return;
    case FieldType::boolean:
      out.pack(at<bool>(spec, message));
      return;
    case FieldType::optional_boolean:
      out.pack(*at<std::optional<bool>>(spec, message));
      return;
    case FieldType::raw:
    case FieldType::reference: {
      const std::string_view bytes = at<wire::Raw>(spec, message).bytes;
      return cursor.write(bytes.data(), bytes.size());
    }
    case FieldType::text_list:
      return pack_texts(out, at<Texts>(spec, message));
    case FieldType::lease_list:
      return pack_leases(out, at<Leases>(spec, message));
    case FieldType::cost:
      return pack_numbers(out, wire::kCostFields, &*at<std::optional<wire::Cost>>(spec, message));
    case FieldType::usage:
      return pack_numbers(out, wire::kUsageFields, &*at<std::optional<wire::Usage>>(spec, message));
    case FieldType::limits:
      return pack_numbers(out, wire::kLimitsFields, &*at<std::optional<wire::UpstreamLimits>>(spec, message));
    case FieldType::extra:
      return;
  }
}

/// The bytes in front of the fields: the array, "LMQ1" and the op. Room for an op of up to 31 bytes.
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

/// Calls `visit` with each field of the operation as a constant.
template <class Message, class Visit, std::size_t... i>
LANEMQ_UNROLLED void for_each_field([[maybe_unused]] Visit visit, std::index_sequence<i...>) {
  (visit(Spec<Message>::fields[i]), ...);
}

template <class Message>
void pack_fields(Cursor& cursor, const Message& message) {
  const wire::Extras extras = extras_of(message);
  std::uint32_t count = extras.count;
  for_each_field<Message>(
      [&](const FieldSpec& spec) __attribute__((always_inline)) { count += is_said(spec, &message) ? 1 : 0; },
      kFieldNumbers<Message>);
  Packer(cursor).pack_map(count);
  for_each_field<Message>(
      [&](const FieldSpec& spec) __attribute__((always_inline)) {
        if (is_said(spec, &message)) pack_field(cursor, spec, &message);
      },
      kFieldNumbers<Message>);
  cursor.write(extras.bytes.data(), extras.bytes.size());
}

/// A document that is all the fields, with the ref put behind what it holds.
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
      [&](const FieldSpec& spec) __attribute__((always_inline)) { bytes += bytes_max(spec, &message); },
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

}  // namespace

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

#define LANEMQ_ENCODE(Message)                         \
  template void encode(const wire::Message&, Buffer&); \
  template void encode(const wire::Message&, std::string_view, Buffer&);
LANEMQ_ENCODE(Submit)
LANEMQ_ENCODE(Cancel)
LANEMQ_ENCODE(StatusQuery)
LANEMQ_ENCODE(Fetch)
LANEMQ_ENCODE(Seen)
LANEMQ_ENCODE(StatsQuery)
LANEMQ_ENCODE(Ping)
LANEMQ_ENCODE(AdminQuery)
LANEMQ_ENCODE(Accepted)
LANEMQ_ENCODE(ChunkReply)
LANEMQ_ENCODE(JobResult)
LANEMQ_ENCODE(ErrorReply)
LANEMQ_ENCODE(StatusReply)
LANEMQ_ENCODE(StatsReply)
LANEMQ_ENCODE(Pong)
LANEMQ_ENCODE(AdminReply)
LANEMQ_ENCODE(Ready)
LANEMQ_ENCODE(Chunk)
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
  // The library would write a whole number as an integer; a reader is better off with one type for one field.
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
