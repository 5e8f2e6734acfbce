// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lanemq {

/// Walks over JSON text, object by object, and skips unwanted values at the speed of a search for quotes; for
/// bodies that are passed on unchanged.
///
/// Forward only: the caller enters, then calls member() or element() until it returns false, and after each
/// either enters or calls value(). Skipped text is not checked: from invalid JSON the cursor may return
/// nonsense, but nothing beyond the text's end. If the text ends early, or has something else than was asked
/// for, failed() is set and all later calls return nothing. Allocates nothing, at any depth.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// The first character of the next value; 0 at the end.
  char peek();
  /// Enters the object or array that comes next. False, with nothing done, where something else comes.
  bool enter_object() { return enter('{'); }
  bool enter_array() { return enter('['); }
  /// Goes to the object's next member and sets its key, without quotes and still escaped. False at the end of
  /// the object, which the cursor has then left.
  bool member(std::string_view& key);
  /// Goes to the array's next element. False at the end of the array, which the cursor has then left.
  bool element();
  /// The text of the next value, with quotes or brackets; the cursor moves behind it.
  std::string_view value();

  /// Bytes from the start of the text to the cursor.
  std::size_t position() const { return at_; }
  bool failed() const { return failed_; }

 private:
  bool enter(char bracket);
  bool next_in(char closing);
  void skip_space();
  bool skip_string();
  bool skip_nested();
  bool fail() {
    failed_ = true;
    at_ = text_.size();
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool fresh_ = false;  ///< it has just entered an object or array
  bool failed_ = false;
};

/// Whether a string's text, without quotes and still escaped, means `plain`.
bool json_says(std::string_view escaped, std::string_view plain);
/// The text of a string value; none for other values and broken escapes.
std::optional<std::string> unquoted_json(std::string_view value);

}  // namespace lanemq
