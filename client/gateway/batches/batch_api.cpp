// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_api.hpp"

#include <algorithm>
#include <iterator>

#include "client/gateway/batches/batch_documents.hpp"

namespace lanemq::gateway {
namespace {

/// Anthropic's Files API has the same path, and other documents.
std::optional<ApiError> why_not_openai_files(const HttpRequest& request) {
  if (!request.headers.find(kAnthropic.version_header)) return std::nullopt;
  return ApiError{
      .name = "not_found",
      .message =
          "files of Anthropic's API are not served here (this path is OpenAI's, for requests without "
          "anthropic-version); ask the provider itself"};
}

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"
constinit const BatchApi kOpenaiBatches{.api = &kOpenai,
                                        .path = "/v1/batches",
                                        .id_prefix = "batch_",
                                        .page = {.usual = 20, .most = 100, .askable = 100},
                                        .after = "after",
                                        .before = {},
                                        .list_head = "\"object\":\"list\",",
                                        .lines_max = &BatchSettings::lines_max,
                                        .has_files = true,
                                        .why_not = why_not_openai_files,
                                        .read_line = read_openai_line,
                                        .answer_line = openai_answer_line,
                                        .given_up_line = openai_given_up_line,
                                        .document = openai_batch_document};

constinit const BatchApi kAnthropicBatches{
    .api = &kAnthropic,
    .path = "/v1/messages/batches",
    .id_prefix = "msgbatch_",
    .page = {.usual = 20, .most = 1'000, .askable = 1'000},
    .after = "after_id",
    .before = "before_id",
    .list_head = {},
    .lines_max = &BatchSettings::message_requests_max,
    .has_files = false,
    .why_not = [](const HttpRequest&) -> std::optional<ApiError> { return std::nullopt; },
    .read_line = read_anthropic_line,
    .answer_line = anthropic_answer_line,
    .given_up_line = anthropic_given_up_line,
    .document = anthropic_batch_document};
#pragma GCC diagnostic pop

const BatchApi& batch_api_of(const Api& api) {
  return **std::find_if(std::begin(kBatchApis), std::end(kBatchApis),
                        [&](const BatchApi* batches) { return batches->api == &api; });
}

tl::expected<LineRequest, LineFault> read_batch_line(const Api& api, std::string_view endpoint,
                                                     std::string_view line) {
  return batch_api_of(api).read_line(endpoint, without_mark(line));
}

std::string answer_line(const LineName& name, const Answer& answer) {
  return batch_api_of(*name.api).answer_line(name, answer);
}

std::string given_up_line(const LineName& name, GivenUp why) {
  return batch_api_of(*name.api).given_up_line(name, why);
}

std::string batch_document(const StoredBatch& batch, std::string_view base_url) {
  return batch_api_of(*batch.api).document(batch, base_url);
}

}  // namespace lanemq::gateway
