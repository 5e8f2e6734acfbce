// SPDX-License-Identifier: Apache-2.0
// POST /v1/embeddings.
#include <array>
#include <cstring>

#include "tests/support/upstream/api.hpp"
#include "tests/support/upstream/openai.hpp"

namespace lanemq::upstream {
namespace {

constexpr auto kEmbeddingsParameters =
    std::to_array<std::string_view>({"dimensions", "encoding_format", "input", "model", "user"});
constexpr std::uint64_t kDimensionsDefault = 1536;

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t index = 0; index < 3; ++index)
      bits = bits << 8 | (index < group.size() ? static_cast<unsigned char>(group[index]) : 0u);
    for (std::size_t digit = 0; digit < 4; ++digit)
      text += digit <= group.size() ? kDigits[bits >> (18 - 6 * digit) & 63] : '=';
  }
  return text;
}

// Multiples of 1/1024, which are the same number in either encoding.
std::vector<float> embedding_of(std::uint64_t text, std::uint64_t dimensions) {
  Draws draws(text, 0);
  std::vector<float> numbers;
  while (numbers.size() < dimensions)
    numbers.push_back((static_cast<float>(draws.below(2048)) - 1024) / 1024);
  return numbers;
}

OrderedJson encoded(const std::vector<float>& numbers, bool as_base64) {
  if (!as_base64) return numbers;
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return base64(bytes);
}

// A text, or its tokens as numbers.
void add_input(const Json& input, PromptText& prompt, ModelRequest& request) {
  const bool tokens = input.is_array() && !input.empty() && input[0].is_number_integer();
  if (!input.is_string() && !tokens) refuse_value("input", "expected strings or arrays of tokens.");
  const std::string text =
      tokens ? std::string(input.size() * kBytesPerToken, '.') : input.get<std::string>();
  if (text.empty()) refuse_value("input", "expected texts that are not empty.");
  prompt.add(text);
  request.inputs.push_back(fnv1a(tokens ? input.dump() : text));
}

class Embeddings final : public Api {
 public:
  std::string_view path() const override { return "/v1/embeddings"; }
  Dialect dialect() const override { return Dialect::openai; }
  std::span<const std::string_view> parameters() const override { return kEmbeddingsParameters; }

  ModelRequest parse(const Json& json) const override {
    ModelRequest request;
    read_openai_basics(json, request);
    const Json& input = member(json, "input");
    if (input.is_null()) refuse_missing("input");
    PromptText prompt;
    if (input.is_array() && (input.empty() || input.size() > kInputsMax))
      refuse_value("input", "expected from 1 to " + std::to_string(kInputsMax) + " texts.");
    if (input.is_array() && !input[0].is_number())
      for (const Json& text : input)
        add_input(text, prompt, request);
    else
      add_input(input, prompt, request);
    prompt.store_in(request);
    request.max_tokens = 0;
    const std::uint64_t dimensions = tokens_or_none(json, {"dimensions"});
    if (dimensions > kDimensionsMax)
      refuse_value("dimensions", "expected at most " + std::to_string(kDimensionsMax) + ".");
    request.dimensions = dimensions ? dimensions : kDimensionsDefault;
    const std::string format = string_or(json, "encoding_format", "float");
    if (format != "float" && format != "base64") refuse_value("encoding_format", "expected float or base64.");
    request.base64 = format == "base64";
    return request;
  }

  std::string body(const Completion& completion) const override {
    const ModelRequest& request = completion.request;
    OrderedJson data = OrderedJson::array();
    for (const std::uint64_t text : request.inputs)
      data.push_back({{"object", "embedding"},
                      {"index", data.size()},
                      {"embedding", encoded(embedding_of(text, request.dimensions), request.base64)}});
    return OrderedJson{
        {"object", "list"},
        {"data", std::move(data)},
        {"model", request.model},
        {"usage", {{"prompt_tokens", request.prompt_tokens}, {"total_tokens", request.prompt_tokens}}}}
        .dump();
  }
};

}  // namespace

const Api& embeddings_api() {
  static const Embeddings api;
  return api;
}

}  // namespace lanemq::upstream
