// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::postgres {

/// The types that parameters have here, by their numbers in pg_type.
enum class Type : std::uint32_t {
  bytea = 17,
  int8 = 20,
  text = 25,
  bytea_array = 1001,
  int8_array = 1016,
};

/// The parameters of one statement, in PostgreSQL's binary form (its documentation: "Message Data Types", and
/// array_recv() for arrays). Single values of bytes and texts are borrowed until the statement was sent; all
/// else is copied. Pure; not thread-safe.
class Values {
 public:
  Values& integer(std::int64_t value);
  /// None: NULL.
  Values& bytes(std::optional<std::string_view> value);
  Values& text(std::string_view value) { return borrow(Type::text, value); }
  Values& integers(std::span<const std::int64_t> values);
  /// None: NULL.
  Values& bytes_array(std::span<const std::optional<std::string_view>> values) {
    return array(Type::bytea_array, Type::bytea, values);
  }

  // As libpq takes them.
  int count() const { return static_cast<int>(types_.size()); }
  const std::uint32_t* types() const { return types_.data(); }
  const char* const* values() const { return values_.data(); }
  const int* lengths() const { return lengths_.data(); }
  const int* formats() const { return formats_.data(); }

 private:
  Values& borrow(Type type, std::string_view value);
  Values& own(Type type, std::string value);
  Values& array(Type type, Type element, std::span<const std::optional<std::string_view>> values);

  std::deque<std::string> owned_;  ///< a deque: what stands in it does not move
  std::vector<std::uint32_t> types_;
  std::vector<const char*> values_;
  std::vector<int> lengths_, formats_;
};

/// Reads the fields of a binary row or value. A view that has ended gives zeroes and empty fields; whole()
/// says so at the end. Pure.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  std::int16_t int16();
  std::int32_t int32();
  /// A field of COPY's rows: its length, then its bytes; none: NULL.
  std::optional<std::string_view> field();
  /// A field of eight bytes.
  std::int64_t int64_field();
  std::string_view bytes_field() { return field().value_or(std::string_view()); }
  void skip(std::size_t count);
  /// Whether every field was there, and nothing was left.
  bool whole() const { return whole_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t count);

  std::string_view rest_;
  bool whole_ = true;
};

/// The number in a value of eight bytes. Requires: it has eight.
std::int64_t int64_of(std::string_view bytes);

}  // namespace lanemq::postgres
