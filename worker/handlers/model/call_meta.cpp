// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/model/call_meta.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

#include "common/json/cursor.hpp"
#include "common/url/climbing_path.hpp"

namespace lanemq::worker {
namespace {

constexpr std::string_view kHeaders[] = {"anthropic-version", "anthropic-beta", "openai-beta"};

bool is_visible(char c) {
  return c > 0x20 && c < 0x7F;
}

std::string path_problem(std::string_view path) {
  if (path.size() > CallMeta::kPathBytesMax)
    return "has over " + std::to_string(CallMeta::kPathBytesMax) + " bytes";
  if (!path.starts_with('/')) return "must begin with /";
  if (!std::all_of(path.begin(), path.end(), is_visible) ||
      path.find_first_of("#\\") != std::string_view::npos)
    return "must be visible ASCII, without # and \\";
  return path_climbs(path) ? "must have no segment . or .., however it is written" : "";
}

class MetaReader {
 public:
  explicit MetaReader(std::string_view json) : cursor_(json) {}

  CallMeta read() {
    std::string_view key;
    if (!cursor_.enter_object()) return {};
    while (cursor_.member(key)) {
      if (key == "http" && cursor_.enter_object())
        read_http();
      else
        cursor_.value();
    }
    return std::move(meta_);
  }

 private:
  void read_http() {
    std::string_view key;
    while (cursor_.member(key)) {
      if (key == "headers" && cursor_.enter_object()) {
        read_headers();
        continue;
      }
      const std::optional<std::string> text = unquoted_json(cursor_.value());
      if (key == "method")
        read_method(text);
      else if (key == "path")
        read_path(text);
      else if (key == "service_tier")
        meta_.forwards_service_tier = text == "forward";
    }
  }

  void read_method(const std::optional<std::string>& text) {
    if (text == "POST")
      meta_.method = HttpMethod::post;
    else if (text == "GET")
      meta_.method = HttpMethod::get;
    else if (text == "DELETE")
      meta_.method = HttpMethod::del;
    else
      complain("method must be POST, GET or DELETE");
  }

  void read_path(const std::optional<std::string>& text) {
    const std::string problem = text ? path_problem(*text) : "must be a text";
    if (!problem.empty()) return complain("path " + problem);
    meta_.path = *text;
  }

  void read_headers() {
    std::string_view name;
    while (cursor_.member(name)) {
      const std::string_view value = cursor_.value();
      if (std::find(std::begin(kHeaders), std::end(kHeaders), name) != std::end(kHeaders))
        read_header(name, unquoted_json(value));
    }
  }

  void read_header(std::string_view name, const std::optional<std::string>& text) {
    const bool fits =
        text && !text->empty() && text->size() <= CallMeta::kHeaderBytesMax &&
        std::all_of(text->begin(), text->end(), [](char c) { return c == ' ' || is_visible(c); });
    if (!fits)
      return complain("header " + std::string(name) + " must be 1.." +
                      std::to_string(CallMeta::kHeaderBytesMax) + " bytes of visible ASCII");
    meta_.header_lines.push_back(std::string(name) + ": " + *text);
  }

  void complain(std::string_view problem) {
    if (meta_.problem.empty()) meta_.problem.append("the job's meta: http.").append(problem);
  }

  JsonCursor cursor_;
  CallMeta meta_;
};

}  // namespace

CallMeta read_call_meta(wire::Raw meta) {
  if (!meta.present()) return {};
  const std::string json = to_json(meta.bytes);
  return MetaReader(json).read();
}

}  // namespace lanemq::worker
