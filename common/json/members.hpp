// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/json/cursor.hpp"

namespace lanemq {

// JSON texts whose values are passed on as their bytes stand: checked and looked into without building a
// tree, cut out, and put into other texts.

/// JSON that nests deeper is refused: nobody writes it, and readers of ours might recurse.
inline constexpr int kJsonDepthMax = 512;

/// A member of the top-level object that somebody asks for, and what was found of it.
struct JsonMember {
  enum class Kind : unsigned char { absent, null, text, number, object, other };
  std::string_view key;
  std::string text{};        ///< of a text
  std::uint64_t number = 0;  ///< of a number that is whole and not negative
  Kind kind = Kind::absent;  ///< `number` is only such a number
  bool twice = false;

  bool present() const { return kind != Kind::absent; }
};

/// What a text is.
struct JsonLook {
  bool valid = false;
  bool is_object = false;  ///< at its top; may be told of broken JSON, too
  std::string problem{};   ///< why it is not valid, as in "is no JSON: ..."
  std::string model{};     ///< the text `model` of `inner`, where it has one
  /// A key of `inner` by which readers would not agree on its model, stream or service_tier: one that stands
  /// there twice, or that says it in another case.
  std::string ambiguous{};
};

/// Whether a reader that ignores the case of keys, as Go's does, takes `key` for `name`, which is in lower
/// case.
bool reads_as(std::string_view key, std::string_view name);

/// Reads the whole text, fills in `members`, and the `model` of the object that the member `inner` is (empty:
/// of the top-level object itself).
JsonLook look_into_json(std::string_view text, std::span<JsonMember> members, std::string_view inner = {});

/// The bytes of a member of a valid JSON object; without data: it has none of that name.
std::string_view member_bytes(std::string_view object, std::string_view key);

/// The elements of a valid JSON array, one after the other, as their bytes stand.
class JsonElements {
 public:
  explicit JsonElements(std::string_view array) : cursor_(array), is_array_(cursor_.enter_array()) {}
  /// The next one; without data: there are no more.
  std::string_view next();

 private:
  JsonCursor cursor_;
  bool is_array_;
};

/// What is to be done to a member of an object.
struct JsonEdit {
  std::string_view key;
  std::string_view value{};  ///< JSON that takes its place; empty: the member is taken out
};
/// A valid JSON object with those members changed, all else byte for byte but for space between members.
/// Members that it has not are not added.
std::string edited_object(std::string_view object, std::span<const JsonEdit> edits);

/// A text as JSON, quotes and all; bytes that are not UTF-8 become the replacement character.
std::string json_text(std::string_view text);

/// Valid JSON in one line: line ends between its tokens become spaces, those around it are left out.
std::string in_one_line(std::string_view json);

/// Bytes as a JSON value in one line: JSON as it stands, other text as a string, anything else as
/// {"base64": "..."}.
std::string as_json_value(std::string_view bytes);

}  // namespace lanemq
