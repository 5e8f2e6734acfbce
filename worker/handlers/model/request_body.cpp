// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/model/request_body.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/json/cursor.hpp"
#include "common/json/members.hpp"

namespace lanemq::worker {
namespace {

constexpr std::string_view kUsageOption = "\"include_usage\":true";

/// A range of the body, and the bytes that replace it.
struct Change {
  std::size_t begin = 0, end = 0;
  std::string replacement{};
};

/// What is known of the body's `stream_options`.
struct StreamOptions {
  bool present = false;  ///< it can be edited: an object, or null
  std::size_t begin = 0, end = 0;
  std::size_t inside = 0;  ///< position behind the opening bracket; 0: it is null
  bool is_empty = true;
  bool says_usage = false;  ///< it has include_usage, or nobody can tell
};

class RequestEditor {
 public:
  RequestEditor(std::string_view body, const BodyEdits& edits) : body_(body), edits_(edits), cursor_(body) {}

  RequestBody run() {
    RequestBody result;
    if (!cursor_.enter_object()) return result;
    first_member_ = kept_end_ = cursor_.position();
    read_members();
    if (cursor_.failed()) return result;
    result.streams = streams_;
    if (edits_.ask_usage && streams_ && !options_.says_usage) {
      add_usage_option();
      result.usage_added = true;
    }
    if (!changes_.empty()) result.text = changed();
    return result;
  }

 private:
  void read_members() {
    std::string_view key;
    while (cursor_.member(key)) {
      const std::size_t key_begin = static_cast<std::size_t>(key.data() - body_.data()) - 1;
      const bool dropped = edits_.drop_service_tier && json_says(key, "service_tier");
      if (dropped) {
        if (!dropping_from_) dropping_from_ = key_begin;
        cursor_.value();
        continue;
      }
      // Members to drop go with the comma behind them, so that the one before them stays unchanged.
      if (dropping_from_) changes_.push_back({.begin = *dropping_from_, .end = key_begin});
      dropping_from_.reset();
      read_member(key);
      kept_end_ = cursor_.position();
    }
    if (!dropping_from_ || cursor_.failed()) return;
    // The last members go with the comma in front of them; the cursor is behind the object's bracket.
    std::size_t end = cursor_.position() - 1;
    while (end > kept_end_ && (body_[end - 1] == ' ' || body_[end - 1] == '\n' || body_[end - 1] == '\r' ||
                               body_[end - 1] == '\t'))
      --end;
    changes_.push_back({.begin = kept_end_, .end = end});
  }

  void read_member(std::string_view key) {
    if (json_says(key, "model")) {
      read_model();
    } else if (json_says(key, "stream")) {
      streams_ = cursor_.value() == "true";
    } else if (json_says(key, "stream_options")) {
      read_stream_options();
    } else {
      cursor_.value();
    }
  }

  void read_model() {
    const std::string_view value = cursor_.value();
    if (edits_.model.empty() || !value.starts_with('"')) return;
    if (json_says(value.substr(1, value.size() - 2), edits_.model)) return;
    const std::size_t begin = static_cast<std::size_t>(value.data() - body_.data());
    changes_.push_back({.begin = begin, .end = begin + value.size(), .replacement = json_text(edits_.model)});
  }

  void read_stream_options() {
    options_ = {.present = true};
    cursor_.peek();
    options_.begin = cursor_.position();
    if (cursor_.enter_object()) {
      options_.inside = cursor_.position();
      std::string_view key;
      while (cursor_.member(key)) {
        options_.is_empty = false;
        options_.says_usage = options_.says_usage || json_says(key, "include_usage");
        cursor_.value();
      }
    } else {
      options_.says_usage = cursor_.value() != "null";
    }
    options_.end = cursor_.position();
  }

  void add_usage_option() {
    Change change{.replacement = std::string(kUsageOption)};
    if (!options_.present) {
      // A member follows: `stream`.
      change.begin = change.end = first_member_;
      change.replacement = "\"stream_options\":{" + change.replacement + "},";
    } else if (options_.inside == 0) {
      change.begin = options_.begin;
      change.end = options_.end;
      change.replacement = "{" + change.replacement + "}";
    } else {
      change.begin = change.end = options_.inside;
      if (!options_.is_empty) change.replacement += ',';
    }
    const auto place = std::find_if(changes_.begin(), changes_.end(),
                                    [&](const Change& other) { return other.begin >= change.begin; });
    changes_.insert(place, std::move(change));
  }

  std::string changed() const {
    std::string text;
    std::size_t size = body_.size();
    for (const Change& change : changes_)
      size += change.replacement.size();
    text.reserve(size);
    std::size_t at = 0;
    for (const Change& change : changes_) {
      text.append(body_.substr(at, change.begin - at)).append(change.replacement);
      at = change.end;
    }
    return text.append(body_.substr(at));
  }

  const std::string_view body_;
  const BodyEdits& edits_;
  JsonCursor cursor_;
  std::size_t first_member_ = 0;              ///< position behind the object's opening bracket
  std::size_t kept_end_ = 0;                  ///< behind the last member that stays, or behind the bracket
  std::optional<std::size_t> dropping_from_;  ///< the start of the members that are being dropped
  bool streams_ = false;
  StreamOptions options_;
  std::vector<Change> changes_;  ///< from left to right, without overlap
};

}  // namespace

RequestBody edit_request(std::string_view body, const BodyEdits& edits) {
  return RequestEditor(body, edits).run();
}

}  // namespace lanemq::worker
