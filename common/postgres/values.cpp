// SPDX-License-Identifier: Apache-2.0
#include "common/postgres/values.hpp"

#include <utility>

namespace lanemq::postgres {
namespace {

/// Appends a number, the highest byte first.
template <class Number>
void put(Number number, std::string& to) {
  for (int shift = static_cast<int>(sizeof(Number) - 1) * 8; shift >= 0; shift -= 8)
    to += static_cast<char>(static_cast<std::uint64_t>(number) >> shift & 0xff);
}

template <class Number>
Number number_of(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes)
    number = number << 8 | static_cast<unsigned char>(byte);
  return static_cast<Number>(number);
}

/// An array's head: one dimension, whether there are NULLs, the elements' type, how many, the first's index.
std::string array_of(Type element, std::size_t count, bool has_null, std::size_t bytes) {
  std::string head;
  head.reserve(20 + count * 4 + bytes);
  put<std::int32_t>(count == 0 ? 0 : 1, head);
  put<std::int32_t>(has_null ? 1 : 0, head);
  put<std::int32_t>(static_cast<std::int32_t>(element), head);
  if (count == 0) return head;
  put<std::int32_t>(static_cast<std::int32_t>(count), head);
  put<std::int32_t>(1, head);
  return head;
}

}  // namespace

Values& Values::borrow(Type type, std::string_view value) {
  types_.push_back(static_cast<std::uint32_t>(type));
  values_.push_back(value.empty() ? "" : value.data());  // a null address would be NULL
  lengths_.push_back(static_cast<int>(value.size()));
  formats_.push_back(1);
  return *this;
}

Values& Values::own(Type type, std::string value) {
  return borrow(type, owned_.emplace_back(std::move(value)));
}

Values& Values::integer(std::int64_t value) {
  std::string bytes;
  put(value, bytes);
  return own(Type::int8, std::move(bytes));
}

Values& Values::bytes(std::optional<std::string_view> value) {
  borrow(Type::bytea, value.value_or(std::string_view()));
  if (!value) values_.back() = nullptr;
  return *this;
}

Values& Values::integers(std::span<const std::int64_t> values) {
  std::string bytes = array_of(Type::int8, values.size(), false, values.size() * 8);
  for (const std::int64_t value : values) {
    put<std::int32_t>(8, bytes);
    put(value, bytes);
  }
  return own(Type::int8_array, std::move(bytes));
}

Values& Values::array(Type type, Type element, std::span<const std::optional<std::string_view>> values) {
  std::size_t size = 0;
  bool has_null = false;
  for (const auto& value : values) {
    size += value.value_or(std::string_view()).size();
    has_null |= !value;
  }
  std::string bytes = array_of(element, values.size(), has_null, size);
  for (const auto& value : values) {
    put<std::int32_t>(value ? static_cast<std::int32_t>(value->size()) : -1, bytes);
    if (value) bytes += *value;
  }
  return own(type, std::move(bytes));
}

std::string_view Fields::take(std::size_t count) {
  if (count > rest_.size()) {
    whole_ = false;
    rest_ = {};
    return {};
  }
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::int16_t Fields::int16() {
  return number_of<std::int16_t>(take(2));
}

std::int32_t Fields::int32() {
  return number_of<std::int32_t>(take(4));
}

std::optional<std::string_view> Fields::field() {
  const std::int32_t length = int32();
  if (length == -1) return std::nullopt;
  if (length < 0) {
    whole_ = false;
    return std::nullopt;
  }
  return take(static_cast<std::size_t>(length));
}

std::int64_t Fields::int64_field() {
  const auto bytes = field();
  if (!bytes || bytes->size() != 8) {
    whole_ = false;
    return 0;
  }
  return int64_of(*bytes);
}

void Fields::skip(std::size_t count) {
  static_cast<void>(take(count));
}

std::int64_t int64_of(std::string_view bytes) {
  return number_of<std::int64_t>(bytes);
}

}  // namespace lanemq::postgres
