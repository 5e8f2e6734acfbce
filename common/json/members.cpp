// SPDX-License-Identifier: Apache-2.0
#include "common/json/members.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

#include "common/json/base64.hpp"
#include "common/json/cursor.hpp"

namespace lanemq {
namespace {

using nlohmann::json;

/// The members by which the gateway decides about a body that goes on to an upstream.
constexpr std::array<std::string_view, 3> kReadHere{"model", "stream", "service_tier"};

/// Checks that a text is JSON, and picks a few members, without building a tree.
class Picker : public nlohmann::json_sax<json> {
 public:
  /// `picked`: members of the top-level object. `inner`: a member that is an object, whose `model` is picked,
  /// too; empty: the top-level object's.
  Picker(std::span<JsonMember> picked, std::string_view inner) : picked_(picked), inner_(inner) {}

  bool is_object() const { return is_object_; }
  const std::string& model() const { return model_; }
  const std::string& ambiguous() const { return ambiguous_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return take(JsonMember::Kind::null); }
  bool boolean(bool) override { return take(JsonMember::Kind::other); }
  bool number_integer(number_integer_t) override { return take(JsonMember::Kind::other); }
  bool number_unsigned(number_unsigned_t value) override {
    if (JsonMember* member = wanted()) member->number = value;
    return take(JsonMember::Kind::number);
  }
  bool number_float(number_float_t, const string_t&) override { return take(JsonMember::Kind::other); }
  bool binary(binary_t&) override { return take(JsonMember::Kind::other); }
  bool string(string_t& value) override {
    if (is_model()) model_ = value;
    if (JsonMember* member = wanted()) member->text = std::move(value);
    return take(JsonMember::Kind::text);
  }

  bool start_object(std::size_t) override {
    if (depth_ == 0) is_object_ = true;
    return enter(true);
  }
  bool start_array(std::size_t) override { return enter(false); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t& key) override {
    if (depth_ == 1) {
      top_key_ = std::move(key);
      inner_key_.clear();
      if (JsonMember* member = wanted(); member != nullptr && member->present()) member->twice = true;
      if (inner_.empty()) look_for_twins(top_key_);
    } else if (depth_ == 2 && inner_is_object_) {
      inner_key_ = std::move(key);
      if (!inner_.empty() && top_key_ == inner_) look_for_twins(inner_key_);
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    // Cuts "[json.exception.parse_error.101] parse error at line 1, column 5: ..." to what helps a person.
    std::string_view text = error.what();
    if (const std::size_t at = text.find("] "); at != std::string_view::npos) text.remove_prefix(at + 2);
    if (text.starts_with("parse error at line 1, "))
      text.remove_prefix(sizeof("parse error at line 1, ") - 1);
    problem_ = "is no JSON: " + printable(text, 200);
    return false;
  }

 private:
  JsonMember* wanted() {
    if (depth_ != 1 || !is_object_) return nullptr;
    const auto at =
        std::find_if(picked_.begin(), picked_.end(), [&](const JsonMember& m) { return m.key == top_key_; });
    return at == picked_.end() ? nullptr : &*at;
  }
  bool is_model() const {
    if (inner_.empty()) return depth_ == 1 && is_object_ && top_key_ == "model";
    return depth_ == 2 && inner_is_object_ && top_key_ == inner_ && inner_key_ == "model";
  }
  void look_for_twins(const std::string& key) {
    for (std::size_t i = 0; i < kReadHere.size(); ++i)
      if (reads_as(key, kReadHere[i]) && (std::exchange(seen_[i], true) || key != kReadHere[i]))
        ambiguous_ = key;
  }
  bool take(JsonMember::Kind kind) {
    if (JsonMember* member = wanted()) member->kind = kind;
    return true;
  }
  bool enter(bool object) {
    take(object ? JsonMember::Kind::object : JsonMember::Kind::other);
    if (++depth_ == 2) inner_is_object_ = object && is_object_;
    if (depth_ <= kJsonDepthMax) return true;
    problem_ = "nests deeper than " + std::to_string(kJsonDepthMax);
    return false;
  }
  bool leave() {
    --depth_;
    return true;
  }

  std::span<JsonMember> picked_;
  std::string_view inner_;
  int depth_ = 0;
  bool is_object_ = false, inner_is_object_ = false;
  std::string top_key_, inner_key_, model_, ambiguous_, problem_;
  std::array<bool, kReadHere.size()> seen_{};
};

}  // namespace

JsonLook look_into_json(std::string_view text, std::span<JsonMember> members, std::string_view inner) {
  // The parser would take a NUL for the end of its input, and skip a byte order mark.
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xEF\xBB\xBF"))
    return {.problem = "is no JSON: it holds a NUL byte or a byte order mark"};
  Picker picker(members, inner);
  const bool valid = json::sax_parse(text.begin(), text.end(), &picker);
  return {.valid = valid,
          .is_object = picker.is_object(),
          .problem = picker.problem(),
          .model = picker.model(),
          .ambiguous = picker.ambiguous()};
}

bool reads_as(std::string_view key, std::string_view name) {
  constexpr std::string_view kLongS = "\xC5\xBF",
                             kKelvin = "\xE2\x84\xAA";  // the only others that fold to ASCII
  for (const char expected : name) {
    if (key.empty()) return false;
    const char c = key.front();
    if (lower(c) == expected)
      key.remove_prefix(1);
    else if (expected == 's' && key.starts_with(kLongS))
      key.remove_prefix(kLongS.size());
    else if (expected == 'k' && key.starts_with(kKelvin))
      key.remove_prefix(kKelvin.size());
    else
      return false;
  }
  return key.empty();
}

std::string_view member_bytes(std::string_view object, std::string_view key) {
  JsonCursor cursor(object);
  if (!cursor.enter_object()) return {};
  for (std::string_view name; cursor.member(name);) {
    const std::string_view value = cursor.value();
    if (json_says(name, key)) return value;
  }
  return {};
}

std::string edited_object(std::string_view object, std::span<const JsonEdit> edits) {
  JsonCursor cursor(object);
  if (!cursor.enter_object()) return std::string(object);
  std::size_t behind = cursor.position();  // the start of what was neither copied nor left out yet
  std::string result(object.substr(0, behind));
  bool first = true;
  for (std::string_view name; cursor.member(name);) {
    // The member to cut begins with the space in front of its key, behind the comma.
    std::string_view member = object.substr(behind, cursor.position() - behind);
    if (const std::size_t comma = member.find(',');
        comma < static_cast<std::size_t>(name.data() - member.data()))
      member.remove_prefix(comma + 1);
    const std::string_view value = cursor.value();
    behind = cursor.position();
    member = object.substr(static_cast<std::size_t>(member.data() - object.data()),
                           static_cast<std::size_t>(value.data() - member.data()));
    const auto edit = std::find_if(edits.begin(), edits.end(),
                                   [&](const JsonEdit& item) { return json_says(name, item.key); });
    if (edit != edits.end() && edit->value.empty()) continue;
    if (!first) result += ',';
    first = false;
    result += member;
    result += edit == edits.end() ? value : edit->value;
  }
  result += object.substr(behind);
  return result;
}

std::string_view JsonElements::next() {
  return is_array_ && cursor_.element() ? cursor_.value() : std::string_view();
}

std::string json_text(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string in_one_line(std::string_view json_value) {
  // JSON escapes line ends inside strings, so the others are mere space.
  std::string value(trimmed(json_value, kSpacesAndLineEnds));
  std::replace_if(
      value.begin(), value.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return value;
}

std::string as_json_value(std::string_view bytes) {
  if (look_into_json(bytes, {}).valid) return in_one_line(bytes);
  if (is_utf8(bytes)) return json_text(bytes);
  return "{\"base64\":\"" + to_base64(bytes) + "\"}";
}

}  // namespace lanemq
