// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

/// As much of LMQ1 as the ends of the benchmark need: a writer into a fixed buffer and a reader that goes
/// over a message once and allocates nothing. They are apart from protocol/ on purpose: an end must cost what
/// the bare broker's end costs, or the ratios would measure the ends; and a second reading of the protocol
/// page checks the first.
namespace lanemq::bench::lmq1 {

inline constexpr std::size_t kMessageBytesMax =
    16384;                           ///< written messages; the largest one is a batch of 64 jobs
inline constexpr int kDepthMax = 8;  ///< nesting of what is read
inline constexpr std::string_view kMagic = "\xa4LMQ1";

/// Writes msgpack into a buffer of its own. Every write is checked; an overrun is our mistake and throws.
class Writer {
 public:
  void clear() { size_ = 0; }
  std::string_view view() const { return {buffer_.data(), size_}; }

  /// Begins a message: the header array, the magic and the op; the fields follow, then the body if
  /// `with_body`.
  void begin(std::string_view op, bool with_body) {
    clear();
    byte(with_body ? 0x94 : 0x93);
    raw(kMagic);
    text(op);
  }
  /// Bytes that are msgpack already.
  void raw(std::string_view bytes) {
    need(bytes.size());
    std::memcpy(buffer_.data() + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void map(std::size_t entries) { byte(small(0x80, entries, 15)); }
  void array(std::size_t entries) {
    if (entries <= 15) return byte(small(0x90, entries, 15));
    big_endian<std::uint16_t>(0xdc, entries);
  }
  void text(std::string_view value) {
    byte(small(0xa0, value.size(), 31));
    raw(value);
  }
  void bytes(const void* data, std::size_t size) {
    if (size > 0xff) throw std::length_error("the benchmark writes bodies of up to 255 bytes");
    byte(0xc4);
    byte(static_cast<std::uint8_t>(size));
    raw({static_cast<const char*>(data), size});
  }
  void number(std::uint64_t value) {
    if (value < 0x80) return byte(static_cast<std::uint8_t>(value));
    if (value <= 0xff) return big_endian<std::uint8_t>(0xcc, value);
    if (value <= 0xffff) return big_endian<std::uint16_t>(0xcd, value);
    if (value <= 0xffffffff) return big_endian<std::uint32_t>(0xce, value);
    big_endian<std::uint64_t>(0xcf, value);
  }

 private:
  void need(std::size_t bytes) const {
    if (bytes > buffer_.size() - size_)
      throw std::length_error("a benchmark message is over kMessageBytesMax");
  }
  void byte(std::uint8_t value) {
    need(1);
    buffer_[size_++] = static_cast<char>(value);
  }
  static std::uint8_t small(std::uint8_t tag, std::size_t count, std::size_t count_max) {
    if (count > count_max) throw std::length_error("the benchmark writes msgpack's shortest forms only");
    return static_cast<std::uint8_t>(tag | count);
  }
  template <class Word>
  void big_endian(std::uint8_t tag, std::uint64_t value) {
    need(1 + sizeof(Word));
    byte(tag);
    for (int shift = 8 * (static_cast<int>(sizeof(Word)) - 1); shift >= 0; shift -= 8)
      buffer_[size_++] = static_cast<char>(value >> shift);
  }

  std::array<char, kMessageBytesMax> buffer_;
  std::size_t size_ = 0;
};

/// Reads msgpack from bytes that it does not own. Every function returns false, having read nothing of use,
/// where the bytes end too early or hold another type.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

  bool text(std::string_view& value) {
    if (left() == 0) return false;
    if ((tag() & 0xe0) == 0xa0) return take(1, tag() & 0x1fU, value);
    if (tag() < 0xd9 || tag() > 0xdb) return false;
    return counted(1U << (tag() - 0xd9), value);
  }
  bool bytes(std::string_view& value) {
    if (left() == 0 || tag() < 0xc4 || tag() > 0xc6) return false;
    return counted(1U << (tag() - 0xc4), value);
  }
  bool number(std::uint64_t& value) {
    if (left() == 0) return false;
    if (tag() < 0x80) {
      value = tag();
      ++at_;
      return true;
    }
    if (tag() < 0xcc || tag() > 0xcf) return false;
    const std::size_t width = 1U << (tag() - 0xcc);
    if (left() < 1 + width) return false;
    value = big_endian(at_ + 1, width);
    at_ += 1 + width;
    return true;
  }
  bool flag(bool& value) {
    if (left() == 0 || (tag() != 0xc2 && tag() != 0xc3)) return false;
    value = tag() == 0xc3;
    ++at_;
    return true;
  }
  bool array(std::size_t& entries) { return count(0x90, 0xdc, entries); }
  bool map(std::size_t& entries) { return count(0x80, 0xde, entries); }

  /// Goes past one value of any type.
  bool skip(int depth = kDepthMax) {
    if (left() == 0 || depth == 0) return false;
    const std::uint8_t first = tag();
    std::size_t entries = 0;
    if (is_map()) return map(entries) && skip_all(2 * entries, depth - 1);
    if (is_array()) return array(entries) && skip_all(entries, depth - 1);
    std::string_view ignored;
    if ((first & 0xe0) == 0xa0 || (first >= 0xd9 && first <= 0xdb)) return text(ignored);
    if (first >= 0xc4 && first <= 0xc6) return bytes(ignored);
    if (first == 0xc1 || (first >= 0xc7 && first <= 0xc9))
      return false;  // no type, and ext: LMQ1 has neither
    return take(1, fixed_size(first), ignored);
  }

 private:
  std::uint8_t tag() const { return static_cast<std::uint8_t>(*at_); }
  bool is_map() const { return (tag() & 0xf0) == 0x80 || tag() == 0xde || tag() == 0xdf; }
  bool is_array() const { return (tag() & 0xf0) == 0x90 || tag() == 0xdc || tag() == 0xdd; }

  static std::uint64_t big_endian(const char* from, std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i)
      value = value << 8 | static_cast<std::uint8_t>(from[i]);
    return value;
  }
  /// Bytes behind the tag of a type of fixed size: nil, booleans, numbers, small ext.
  static std::size_t fixed_size(std::uint8_t tag) {
    if (tag >= 0xca && tag <= 0xcb) return 4U << (tag - 0xca);
    if (tag >= 0xcc && tag <= 0xcf) return 1U << (tag - 0xcc);
    if (tag >= 0xd0 && tag <= 0xd3) return 1U << (tag - 0xd0);
    if (tag >= 0xd4 && tag <= 0xd8) return 1 + (1U << (tag - 0xd4));
    return 0;
  }
  bool take(std::size_t prefix, std::size_t size, std::string_view& value) {
    if (left() < prefix || left() - prefix < size) return false;
    value = {at_ + prefix, size};
    at_ += prefix + size;
    return true;
  }
  bool counted(std::size_t width, std::string_view& value) {
    if (left() < 1 + width) return false;
    return take(1 + width, big_endian(at_ + 1, width), value);
  }
  bool count(std::uint8_t fix, std::uint8_t wide, std::size_t& entries) {
    if (left() == 0) return false;
    if ((tag() & 0xf0) == fix) {
      entries = tag() & 0x0fU;
      ++at_;
    } else if (tag() == wide || tag() == wide + 1) {
      const std::size_t width = tag() == wide ? 2 : 4;
      if (left() < 1 + width) return false;
      entries = big_endian(at_ + 1, width);
      at_ += 1 + width;
    } else {
      return false;
    }
    return entries <= left();  // each entry takes a byte at least, so a count beyond that is a lie
  }
  bool skip_all(std::size_t values, int depth) {
    for (; values > 0; --values)
      if (!skip(depth)) return false;
    return true;
  }

  const char* at_;
  const char* end_;
};

/// Reads a message of one item or of a batch. `begin(item)` is told of each item, in order;
/// `field(item, key, reader)` must consume the value of that key and say whether it could; `body(item,
/// bytes)` is told of each item's body. Returns the number of items, 0 where the bytes are no such message.
template <class Begin, class Field, class Body>
std::size_t read_message(std::string_view header, std::string_view body_frame, std::string_view& op,
                         Begin&& begin, Field&& field, Body&& body) {
  const bool inside = !header.empty() && header.front() == '\x94';
  if (!inside && (header.empty() || header.front() != '\x93')) return 0;
  if (header.substr(1, kMagic.size()) != kMagic) return 0;
  if (inside && !body_frame.empty()) return 0;
  Reader reader(header.substr(1 + kMagic.size()));
  std::size_t items = 1;
  if (!reader.text(op)) return 0;
  const bool batch = reader.array(items);
  for (std::size_t item = 0; item < items; ++item) {
    std::size_t fields = 0;
    if (!reader.map(fields)) return 0;
    begin(item);
    for (std::string_view key; fields > 0; --fields)
      if (!reader.text(key) || !field(item, key, reader)) return 0;
  }
  Reader bodies = inside ? reader : Reader(body_frame);
  std::size_t count = items;
  std::string_view bytes = batch ? std::string_view() : body_frame;
  const bool any = inside || !body_frame.empty();
  if (batch && any && (!bodies.array(count) || count != items)) return 0;
  for (std::size_t item = 0; item < items; ++item) {
    if ((inside || (batch && any)) && !bodies.bytes(bytes)) return 0;
    body(item, bytes);
  }
  if (inside && bodies.left() > 0) return 0;
  if (!inside && reader.left() > 0) return 0;
  return items;
}

}  // namespace lanemq::bench::lmq1
