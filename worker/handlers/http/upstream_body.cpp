// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/upstream_body.hpp"

#include <cstdint>
#include <limits>

#include <nlohmann/json.hpp>

namespace lanemq::worker {
namespace {

using Json = nlohmann::json;
using Count = std::optional<std::int64_t>;

constexpr std::size_t kTextBytesMax = 4096;  ///< of an error's text

/// Where a key at a place of interest leads.
enum class Place : unsigned char { elsewhere, top, usage, input_details, output_details, error };

/// Follows the parser to the few places of interest and takes down what stands there. The parser keeps its
/// own stack on the heap, so depth costs no stack here; below the places of interest levels are only counted.
class FactReader final : public nlohmann::json_sax<Json> {
 public:
  BodyFacts facts;
  Count cache_creation;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }  // negative: not a count
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      count(static_cast<std::int64_t>(value));
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& value) override {
    text(value);
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool key(string_t& name) override {
    if (ignored_ == 0) key_ = name;
    return true;
  }

  bool start_object(std::size_t) override {
    if (ignored_ > 0) return ++ignored_, true;
    const Place place = entered();
    if (place == Place::elsewhere) return ++ignored_, true;
    path_[depth_++] = place;
    return true;
  }
  bool end_object() override {
    if (ignored_ > 0)
      --ignored_;
    else
      --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return ++ignored_, true; }
  bool end_array() override { return --ignored_, true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  Place here() const { return depth_ == 0 ? Place::elsewhere : path_[depth_ - 1]; }

  Place entered() const {
    if (depth_ == 0) return Place::top;
    if (here() == Place::top && key_ == "usage") return Place::usage;
    if (here() == Place::top && key_ == "error") return Place::error;
    if (here() != Place::usage) return Place::elsewhere;
    if (key_ == "prompt_tokens_details" || key_ == "input_tokens_details") return Place::input_details;
    if (key_ == "completion_tokens_details" || key_ == "output_tokens_details") return Place::output_details;
    return Place::elsewhere;
  }

  void count(std::int64_t value) {
    if (ignored_ > 0) return;
    if (here() == Place::error && key_ == "code" && value >= 400 && value <= 599)
      facts.error_status = static_cast<long>(value);
    if (Count* slot = count_slot()) *slot = value;
  }

  Count* count_slot() {
    const auto usage = [&]() -> wire::Usage& {
      if (!facts.usage) facts.usage.emplace();
      return *facts.usage;
    };
    switch (here()) {
      case Place::usage:
        if (key_ == "prompt_tokens" || key_ == "input_tokens") return &usage().input_tokens;
        if (key_ == "completion_tokens" || key_ == "output_tokens") return &usage().output_tokens;
        if (key_ == "cache_read_input_tokens") return &usage().cached_tokens;
        if (key_ == "cache_creation_input_tokens") return &cache_creation;
        return nullptr;
      case Place::input_details:
        return key_ == "cached_tokens" ? &usage().cached_tokens : nullptr;
      case Place::output_details:
        return key_ == "reasoning_tokens" ? &usage().reasoning_tokens : nullptr;
      default:
        return nullptr;
    }
  }

  void text(const std::string& value) {
    if (ignored_ > 0) return;
    const bool inside = here() == Place::error;
    if (!inside && here() != Place::top) return;
    const auto set = [&](std::string& slot) {
      // What stands inside `error` wins over the top, where `type` may be just "error".
      if (inside || slot.empty()) slot.assign(value, 0, kTextBytesMax);
    };
    if (key_ == "code")
      set(facts.error_code);
    else if (key_ == "type")
      set(facts.error_type);
    else if (key_ == "message" || (key_ == "error" && !inside))
      set(facts.error_message);
  }

  Place path_[3] = {};
  std::size_t depth_ = 0;    ///< places of interest entered, at most top, usage, details
  std::size_t ignored_ = 0;  ///< levels entered beside them
  std::string key_;
};

}  // namespace

BodyFacts read_body(std::string_view json) {
  if (json.size() > kReadBytesMax) return {};
  FactReader reader;
  static_cast<void>(Json::sax_parse(json.begin(), json.end(), &reader));
  BodyFacts& facts = reader.facts;
  // Where they are told apart they count against the limit of input together; what is read does not.
  if (reader.cache_creation && facts.usage && facts.usage->input_tokens &&
      *reader.cache_creation <= std::numeric_limits<std::int64_t>::max() - *facts.usage->input_tokens)
    *facts.usage->input_tokens += *reader.cache_creation;
  return std::move(facts);
}

}  // namespace lanemq::worker
