// SPDX-License-Identifier: Apache-2.0
#include "common/trace/context.hpp"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include <lanemq/codec.hpp>

#include "common/ids/hex.hpp"
#include "common/json/cursor.hpp"

namespace lanemq::trace {
namespace {

/// `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
constexpr std::size_t kParentBytes = 55;

/// Hexadecimal digits in lower case, as the standard asks for; none for anything else.
std::optional<std::uint64_t> number_of(std::string_view digits) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

/// Whether another traceparent than that of version 00 may go on behind the part that this version knows.
bool ends_well(std::string_view traceparent, std::uint64_t version) {
  if (traceparent.size() == kParentBytes) return true;
  return version != 0 && traceparent[kParentBytes] == '-';
}

bool is_usable_state(std::string_view state) {
  return state.size() <= kStateBytesMax &&
         std::all_of(state.begin(), state.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

}  // namespace

std::string Context::trace_text() const {
  return hex(trace[0]) + hex(trace[1]);
}

std::string Context::parent_text() const {
  return "00-" + trace_text() + "-" + hex(span) + "-" + hex(flags).substr(14);
}

std::optional<Context> read_context(std::string_view traceparent, std::string_view tracestate) {
  if (traceparent.size() < kParentBytes) return std::nullopt;
  if (traceparent[2] != '-' || traceparent[35] != '-' || traceparent[52] != '-') return std::nullopt;
  const auto version = number_of(traceparent.substr(0, 2));
  const auto high = number_of(traceparent.substr(3, 16)), low = number_of(traceparent.substr(19, 16));
  const auto span = number_of(traceparent.substr(36, 16)), flags = number_of(traceparent.substr(53, 2));
  if (!version || !high || !low || !span || !flags) return std::nullopt;
  if (*version == 0xFF || (*high | *low) == 0 || *span == 0) return std::nullopt;
  if (!ends_well(traceparent, *version)) return std::nullopt;
  Context context{.trace = {*high, *low}, .span = *span, .flags = static_cast<std::uint8_t>(*flags)};
  if (is_usable_state(tracestate)) context.state = tracestate;
  return context;
}

std::optional<Context> read_field(std::string_view msgpack) {
  if (msgpack.empty() || msgpack.size() > kFieldBytesMax) return std::nullopt;
  const std::string json = to_json(msgpack);
  JsonCursor cursor(json);
  if (cursor.peek() == '"') return read_context(unquoted_json(cursor.value()).value_or(""));
  if (!cursor.enter_object()) return std::nullopt;
  std::string parent, state;
  std::string_view key;
  while (cursor.member(key)) {
    const std::string_view value = cursor.value();
    if (key == "traceparent") parent = unquoted_json(value).value_or("");
    if (key == "tracestate") state = unquoted_json(value).value_or("");
  }
  return read_context(parent, state);
}

std::string write_field(const Context& context) {
  nlohmann::json field = {{"traceparent", context.parent_text()}};
  if (!context.state.empty()) field["tracestate"] = context.state;
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_msgpack(field);
  return {bytes.begin(), bytes.end()};
}

}  // namespace lanemq::trace
