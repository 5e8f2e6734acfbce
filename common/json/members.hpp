// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/json/cursor.hpp"

namespace lanemq {

// JSON texts whose values are passed on byte for byte: checked and searched without building a tree, cut out,
// and put into other texts.

/// Deeper JSON is refused: real requests do not nest so deep, and other readers may recurse.
inline constexpr int kJsonDepthMax = 512;

/// A member of the top-level object that the caller wants, and what was found.
struct JsonMember {
  enum class Kind : unsigned char { absent, null, text, number, object, other };
  std::string_view key;
  std::string text{};        ///< where it is a string
  std::uint64_t number = 0;  ///< where it is a whole number and not negative
  Kind kind = Kind::absent;  ///< Kind::number is only for such numbers
  bool twice = false;

  bool present() const { return kind != Kind::absent; }
};

/// What look_into_json() found out about a text.
struct JsonLook {
  bool valid = false;
  bool is_object = false;  ///< its top is an object; may be set for broken JSON, too
  std::string problem{};   ///< why it is not valid, as in "is no JSON: ..."
  std::string model{};     ///< the string `model` of `inner`, if any
  /// A key of `inner` for which readers may disagree about model, stream or service_tier: it occurs twice, or
  /// in another case.
  std::string ambiguous{};
};

/// Whether a reader that ignores case, as Go's does, takes `key` for `name`. Requires: `name` is in lower
/// case.
bool reads_as(std::string_view key, std::string_view name);

/// Reads the whole text. Fills in `members`, and the `model` of the object in the member `inner` (empty: of
/// the top-level object).
JsonLook look_into_json(std::string_view text, std::span<JsonMember> members, std::string_view inner = {});

/// The bytes of a member of a valid JSON object; data() is null where there is none.
std::string_view member_bytes(std::string_view object, std::string_view key);

/// The elements of a valid JSON array, in order, as their bytes are.
class JsonElements {
 public:
  explicit JsonElements(std::string_view array) : cursor_(array), is_array_(cursor_.enter_array()) {}
  /// The next element; data() is null at the end.
  std::string_view next();

 private:
  JsonCursor cursor_;
  bool is_array_;
};

/// A change of one member of an object.
struct JsonEdit {
  std::string_view key;
  std::string_view value{};  ///< the new value as JSON; empty: the member is removed
};
/// A valid JSON object with these members changed; all other bytes stay, but for space between members. Adds
/// no member.
std::string edited_object(std::string_view object, std::span<const JsonEdit> edits);

/// A JSON string with quotes; bytes that are not UTF-8 become the replacement character.
std::string json_text(std::string_view text);

/// Valid JSON in one line: line ends between tokens become spaces, those around it are removed.
std::string in_one_line(std::string_view json);

/// Bytes as a JSON value in one line: JSON unchanged, other text as a string, anything else as {"base64":
/// "..."}.
std::string as_json_value(std::string_view bytes);

}  // namespace lanemq
