// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/limits/refusal_body.hpp"

#include <algorithm>

#include <lanemq/words.hpp>

#include "common/json/cursor.hpp"

namespace lanemq::worker {
namespace {

class RefusalReader {
 public:
  RefusalReader(std::string_view json, WallTime now) : cursor_(json.substr(0, kRefusalBytesMax)), now_(now) {}

  RefusalBody read() {
    if (cursor_.enter_array() && !cursor_.element()) return {};
    each_member([&](std::string_view key) {
      if (key == "error" && cursor_.peek() == '{')
        read_error();
      else
        cursor_.value();
    });
    return std::move(body_);
  }

 private:
  template <class Take>
  void each_member(Take take) {
    if (!cursor_.enter_object()) {
      cursor_.value();
      return;
    }
    std::string_view key;
    while (cursor_.member(key))
      take(key);
  }

  /// Calls `take` with each object of the next list.
  template <class Take>
  void each_element(Take take) {
    if (!cursor_.enter_array()) {
      cursor_.value();
      return;
    }
    while (cursor_.element())
      take();
  }

  void read_error() {
    each_member([&](std::string_view key) {
      if (key == "metadata")
        read_metadata();
      else if (key == "details")
        each_element([&] { read_detail(); });
      else
        cursor_.value();
    });
  }

  /// OpenRouter's: https://openrouter.ai/docs/api/reference/errors
  void read_metadata() {
    each_member([&](std::string_view key) {
      if (key == "headers") return read_headers();
      const auto said = unquoted_json(cursor_.value());
      if (said && (key == "raw" || key == "limit_source"))
        body_.text.append(*said, 0, kTextScanMax - std::min(kTextScanMax, body_.text.size())).append("\n");
    });
  }

  void read_headers() {
    each_member([&](std::string_view key) {
      const std::string_view value = cursor_.value();
      std::string name(key.substr(0, 64));
      std::transform(name.begin(), name.end(), name.begin(), lower);
      const auto text = unquoted_json(value);
      body_.headers.add(name, text ? std::string_view(*text) : value, now_);
    });
  }

  /// Google's: https://cloud.google.com/apis/design/errors#error_details
  void read_detail() {
    each_member([&](std::string_view key) {
      if (key == "violations") return each_element([&] { read_violation(); });
      const std::string_view value = cursor_.value();
      if (key != "retryDelay") return;
      if (const auto said = unquoted_json(value)) body_.retry_delay = parse_duration(*said);
    });
  }

  /// A day binds longer than a minute that is used up, too.
  void read_violation() {
    each_member([&](std::string_view key) {
      const std::string_view value = cursor_.value();
      if (key != "quotaId") return;
      if (value.find("PerDay") != std::string_view::npos)
        body_.limited_by = LimitedBy::day;
      else if (!body_.limited_by && value.find("PerMinute") != std::string_view::npos)
        body_.limited_by = LimitedBy::rate;
    });
  }

  JsonCursor cursor_;
  const WallTime now_;
  RefusalBody body_;
};

}  // namespace

RefusalBody read_refusal(std::string_view json, WallTime now) {
  return RefusalReader(json, now).read();
}

}  // namespace lanemq::worker
