// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lanemq {

/// Walks over JSON text, object by object, and skips what nobody asks for at the speed of a search for
/// quotes; for bodies that are passed on as they are.
///
/// The caller goes forward only: enter(), then member() (or element()) until it says no, and after each
/// either enter() or value(). What is skipped is not checked: of text that is no JSON some nonsense comes
/// out, but never anything beyond its end. Where the text breaks off or is something else than what was asked
/// for, failed() is set and nothing comes any more. Allocates nothing; however deep it nests.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// The first character of what comes next; 0 at the end.
  char peek();
  /// Goes into the object or array that comes next. False, and nothing is done, where something else comes.
  bool enter_object() { return enter('{'); }
  bool enter_array() { return enter('['); }
  /// Goes to the object's next member and tells its key, without quotes and as it is escaped. False when
  /// there is none, and the object is behind.
  bool member(std::string_view& key);
  /// Goes to the array's next element. False when there is none, and the array is behind.
  bool element();
  /// The text of the value that comes next, quotes and brackets included; it is behind then.
  std::string_view value();

  /// Where it stands, in bytes from the text's start.
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
  bool fresh_ = false;  ///< just gone into an object or array
  bool failed_ = false;
};

/// Whether a string's text, without quotes and as it is escaped, says `plain`.
bool json_says(std::string_view escaped, std::string_view plain);
/// What a value that is a string says; absent for other values and for broken escapes.
std::optional<std::string> unquoted_json(std::string_view value);

}  // namespace lanemq
