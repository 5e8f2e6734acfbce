// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

namespace lanemq {

/// msgpack written by hand, so that a test can also write what no library would.
class Frame {
 public:
  Frame() = default;
  /// The start of a header: the array, "LMQ1", the op and the head of a map with `fields` entries.
  static Frame header(std::string_view op, unsigned fields, unsigned elements = 3) {
    return Frame().array(elements).text("LMQ1").text(op).map(fields);
  }

  Frame& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  Frame& byte(unsigned value) {
    bytes_ += static_cast<char>(value);
    return *this;
  }
  Frame& big_endian(std::uint64_t value, int bytes) {
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
      byte(static_cast<unsigned>(value >> shift & 0xFF));
    return *this;
  }
  Frame& nil() { return byte(0xC0); }
  Frame& boolean(bool value) { return byte(value ? 0xC3 : 0xC2); }
  Frame& number(std::uint64_t value) {
    return value < 128 ? byte(static_cast<unsigned>(value)) : byte(0xCF).big_endian(value, 8);
  }
  Frame& negative(std::int64_t value) { return byte(0xD3).big_endian(static_cast<std::uint64_t>(value), 8); }
  Frame& float64(double value) {
    std::uint64_t bits = 0;
    static_assert(sizeof bits == sizeof value);
    std::memcpy(&bits, &value, sizeof bits);
    return byte(0xCB).big_endian(bits, 8);
  }
  Frame& text(std::string_view value) {
    if (value.size() < 32)
      byte(0xA0 | static_cast<unsigned>(value.size()));
    else
      byte(0xDB).big_endian(value.size(), 4);
    return raw(value);
  }
  Frame& bin(std::string_view value) { return byte(0xC6).big_endian(value.size(), 4).raw(value); }
  Frame& ext(int type, std::string_view value) {
    return byte(0xC9).big_endian(value.size(), 4).byte(static_cast<unsigned>(type) & 0xFF).raw(value);
  }
  Frame& array(unsigned count) { return count < 16 ? byte(0x90 | count) : byte(0xDD).big_endian(count, 4); }
  Frame& map(unsigned count) { return count < 16 ? byte(0x80 | count) : byte(0xDF).big_endian(count, 4); }

  // A key and its value.
  Frame& field(std::string_view key, std::string_view value) { return text(key).text(value); }
  Frame& field(std::string_view key, const char* value) { return text(key).text(value); }
  Frame& field(std::string_view key, int value) {
    return value < 0 ? text(key).negative(value) : text(key).number(static_cast<std::uint64_t>(value));
  }
  Frame& field(std::string_view key, const Frame& value) { return text(key).raw(value.bytes_); }

  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

/// Decodes frames in one direction and keeps what the last one said.
template <class Message>
class Reading {
 public:
  explicit Reading(std::size_t body_bytes_max = limits::body_bytes_max) : decoder_(body_bytes_max) {}

  /// As the broker reads.
  void refuse_ext() { decoder_.refuse_ext(); }
  /// Null when the frame is well-formed.
  const DecodeError* read(const Frame& frame) { return read(frame.view()); }
  const DecodeError* read(std::string_view bytes) {
    bytes_ = bytes;
    return decoder_.decode(bytes_, message_);
  }
  /// The frame is well-formed and said `Known`.
  template <class Known>
  const Known& expect(const Frame& frame) {
    const DecodeError* error = read(frame);
    EXPECT_EQ(error, nullptr) << error->message;
    static const Known kNothing{};
    const Known* known = std::get_if<Known>(&message_);
    EXPECT_NE(known, nullptr) << "another operation";
    return known == nullptr ? kNothing : *known;
  }
  /// The frame is refused with `bad_request` and a text that holds `part`.
  const DecodeError& expect_bad(const Frame& frame, std::string_view part) {
    return expect_refused(frame.view(), ErrorCode::bad_request, part);
  }
  const DecodeError& expect_too_large(const Frame& frame, std::string_view part) {
    return expect_refused(frame.view(), ErrorCode::too_large, part);
  }
  const DecodeError& expect_refused(std::string_view bytes, ErrorCode code, std::string_view part) {
    static const DecodeError kNone;
    const DecodeError* error = read(bytes);
    EXPECT_NE(error, nullptr) << "well-formed; expected: " << part;
    if (error == nullptr) return kNone;
    EXPECT_EQ(name_of(error->code), name_of(code)) << error->message;
    EXPECT_NE(error->message.find(part), std::string::npos) << error->message << "\nexpected: " << part;
    return *error;
  }
  std::string_view body() const { return decoder_.body(); }
  const Message& message() const { return message_; }

 private:
  std::string bytes_;
  Decoder decoder_;
  Message message_;
};

}  // namespace lanemq
