// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/json_lines.hpp"

#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

namespace lanemq::cli {
namespace {

using nlohmann::json;

/// A top-level member that somebody asked for.
struct Member {
  enum class Kind : unsigned char { absent, null, text, number, other };
  std::string_view key;
  std::string text{};
  std::uint64_t number = 0;
  Kind kind = Kind::absent;
  bool twice = false;

  bool present() const { return kind != Kind::absent; }
};

/// Checks a text for being JSON and picks a few members out of it, without building a tree.
class Picker : public nlohmann::json_sax<json> {
 public:
  /// `picked` are members of the top-level object; `inner`, if any, names one of them that is an object whose
  /// member `model` is wanted too (empty: the top-level object's own).
  Picker(std::span<Member> picked, std::string_view inner) : picked_(picked), inner_(inner) {}

  bool is_object() const { return is_object_; }
  const std::string& model() const { return model_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return take(Member::Kind::null); }
  bool boolean(bool) override { return take(Member::Kind::other); }
  bool number_integer(number_integer_t) override { return take(Member::Kind::other); }
  bool number_unsigned(number_unsigned_t value) override {
    if (Member* member = wanted()) member->number = value;
    return take(Member::Kind::number);
  }
  bool number_float(number_float_t, const string_t&) override { return take(Member::Kind::other); }
  bool binary(binary_t&) override { return take(Member::Kind::other); }
  bool string(string_t& value) override {
    if (is_model()) model_ = value;
    if (Member* member = wanted()) member->text = std::move(value);
    return take(Member::Kind::text);
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
      if (Member* member = wanted(); member != nullptr && member->present()) member->twice = true;
    } else if (depth_ == 2 && inner_is_object_) {
      inner_key_ = std::move(key);
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ..." without what means nothing
    // here.
    std::string_view text = error.what();
    if (const std::size_t at = text.find("] "); at != std::string_view::npos) text.remove_prefix(at + 2);
    if (text.starts_with("parse error at line 1, "))
      text.remove_prefix(sizeof("parse error at line 1, ") - 1);
    problem_ = "is no JSON: " + printable(text, 200);
    return false;
  }

 private:
  Member* wanted() {
    if (depth_ != 1 || !is_object_) return nullptr;
    const auto at =
        std::find_if(picked_.begin(), picked_.end(), [&](const Member& m) { return m.key == top_key_; });
    return at == picked_.end() ? nullptr : &*at;
  }
  bool is_model() const {
    if (inner_.empty()) return depth_ == 1 && is_object_ && top_key_ == "model";
    return depth_ == 2 && inner_is_object_ && top_key_ == inner_ && inner_key_ == "model";
  }
  bool take(Member::Kind kind) {
    if (Member* member = wanted()) member->kind = kind;
    return true;
  }
  bool enter(bool object) {
    take(Member::Kind::other);
    if (++depth_ == 2) inner_is_object_ = object && is_object_;
    if (depth_ <= kJsonDepthMax) return true;
    problem_ = "nests deeper than " + std::to_string(kJsonDepthMax);
    return false;
  }
  bool leave() {
    --depth_;
    return true;
  }

  std::span<Member> picked_;
  std::string_view inner_;
  int depth_ = 0;
  bool is_object_ = false, inner_is_object_ = false;
  std::string top_key_, inner_key_, model_, problem_;
};

/// Reads the whole text; false: it is not JSON, or too deep, and the picker says why.
bool pick(std::string_view text, Picker& picker) {
  // The parser takes a NUL for the end of its input and a byte order mark for nothing.
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xEF\xBB\xBF")) return false;
  return json::sax_parse(text.begin(), text.end(), &picker);
}

std::string problem_of(const Picker& picker) {
  return picker.problem().empty() ? "is no JSON: it holds a NUL byte or a byte order mark" : picker.problem();
}

// ---- where a value stands -----------------------------------------------------------------------------

/// Steps over valid JSON token by token.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool take(char expected) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }
  /// The bytes of the next value, quotes and brackets included.
  std::string_view value() {
    skip_space();
    const std::size_t begin = at_;
    if (at_ >= text_.size()) return {};
    if (text_[at_] == '"')
      skip_text();
    else if (text_[at_] == '{' || text_[at_] == '[')
      skip_nested();
    else
      at_ = std::min(text_.find_first_of(",}] \t\r\n", at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }

 private:
  void skip_text() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    at_ = std::min(at_ + 1, text_.size());
  }
  void skip_nested() {
    std::size_t depth = 0;
    do {
      const char c = text_[at_];
      if (c == '"') {
        skip_text();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at_;
    } while (depth > 0 && at_ < text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool names(std::string_view key_token, std::string_view key) {
  if (key_token.find('\\') == std::string_view::npos) return key_token.substr(1, key_token.size() - 2) == key;
  return json::parse(key_token) == json(key);
}

/// The bytes of a member of a valid JSON object; without data: it has none of that name.
std::string_view member_bytes(std::string_view object, std::string_view key) {
  Scanner scanner(object);
  if (!scanner.take('{')) return {};
  do {
    const std::string_view token = scanner.value();
    if (token.size() < 2 || !scanner.take(':')) return {};
    const std::string_view value = scanner.value();
    if (names(token, key)) return value;
  } while (scanner.take(','));
  return {};
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string usable_model(const std::string& model) {
  return model.size() <= limits::name_bytes_max ? model : std::string();
}

InputLine read_batch(std::string_view line) {
  Member picked[] = {{.key = "custom_id"}, {.key = "body"}};
  const auto& [custom_id, body] = picked;
  Picker picker(picked, "body");
  InputLine read;
  const bool valid = pick(line, picker);
  if (custom_id.kind == Member::Kind::text) read.custom_id = custom_id.text;
  if (!valid) {
    read.custom_id.reset();  // what stands in a broken line names nothing
    read.problem = problem_of(picker);
  } else if (!picker.is_object()) {
    read.problem = "is no JSON object";
  } else if (custom_id.twice || body.twice) {
    read.problem = std::string("names `") + (body.twice ? "body" : "custom_id") + "` twice";
  } else if (!read.custom_id || read.custom_id->empty()) {
    read.custom_id.reset();
    read.problem = "has no `custom_id`, which must be a text that is not empty";
  } else if (!body.present()) {
    read.problem = "has no `body`";
  } else {
    read.body = member_bytes(line, "body");
    read.model = usable_model(picker.model());
  }
  return read;
}

InputLine read_plain(std::string_view line) {
  Picker picker({}, {});
  InputLine read{.body = line};  // named by its bytes, whatever they are
  if (pick(line, picker))
    read.model = usable_model(picker.model());
  else
    read.problem = problem_of(picker);
  return read;
}

// ---- writing ------------------------------------------------------------------------------------------

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

std::string response_object(int status, std::string_view job_id, std::string_view body) {
  std::string out = "{\"status_code\":";
  out += std::to_string(status);
  out += ",\"request_id\":";
  out += json_text(job_id);
  out += ",\"body\":";
  out += as_json_value(body);
  out += '}';
  return out;
}

int http_status(const ClientError& error) {
  const std::optional<ErrorCode> code = error.known_code();
  return code ? error_info(*code).http_status : 500;
}

}  // namespace

std::optional<LineFormat> format_of(std::string_view line) {
  Member picked[] = {{.key = "custom_id"}, {.key = "body"}};
  Picker picker(picked, {});
  if (!pick(line, picker)) return std::nullopt;
  return picked[0].present() && picked[1].present() ? LineFormat::batch : LineFormat::plain;
}

InputLine read_input(LineFormat format, std::string_view line) {
  return format == LineFormat::batch ? read_batch(line) : read_plain(line);
}

std::string json_text(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string as_json_value(std::string_view bytes) {
  Picker picker({}, {});
  if (pick(bytes, picker)) {
    // Line ends inside texts are escaped in JSON, so those that stand there are mere space.
    std::string value(trimmed(bytes));
    std::replace_if(
        value.begin(), value.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return value;
  }
  if (is_utf8(bytes)) return json_text(bytes);
  return "{\"base64\":\"" + base64(bytes) + "\"}";
}

std::string write_output(const LineName& name, std::string_view job_id, const Answer& answer) {
  std::string out;
  if (name.format == LineFormat::batch) {
    out += "{\"id\":" + json_text("batch_req_" + std::string(job_id));
    out += ",\"custom_id\":" + (name.custom_id ? json_text(*name.custom_id) : "null");
  } else {
    out += "{\"line\":" + std::to_string(name.number) + ",\"input\":" + json_text(name.input_hash);
  }
  out += ",\"response\":";
  if (answer)
    out += response_object(200, job_id, answer->body.bytes());
  else if (!answer.error().body.empty())
    out += response_object(http_status(answer.error()), job_id, answer.error().body.bytes());
  else
    out += "null";
  out += ",\"error\":";
  if (answer)
    out += "null";
  else
    out += "{\"code\":" + json_text(answer.error().code) +
           ",\"message\":" + json_text(answer.error().message) + "}";
  out += "}\n";
  return out;
}

std::optional<OutputLine> read_output(std::string_view line) {
  Member picked[] = {
      {.key = "custom_id"}, {.key = "line"}, {.key = "input"}, {.key = "response"}, {.key = "error"}};
  auto& [custom_id, number, input, response, error] = picked;
  Picker picker(picked, {});
  if (!pick(line, picker) || !response.present() || !error.present()) return std::nullopt;
  OutputLine read{.failed = error.kind != Member::Kind::null};
  if (number.kind == Member::Kind::number) {
    read.name = {.format = LineFormat::plain, .number = number.number, .input_hash = std::move(input.text)};
  } else if (custom_id.kind == Member::Kind::text) {
    read.name.custom_id = std::move(custom_id.text);
  } else if (custom_id.kind != Member::Kind::null || !read.failed) {
    return std::nullopt;
  }
  return read;
}

}  // namespace lanemq::cli
