// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_documents.hpp"

#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include <lanemq/text.hpp>

namespace lanemq::gateway {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMetadataPairsMax = 16;
constexpr std::size_t kMetadataKeyBytesMax = 64;
constexpr std::size_t kMetadataValueBytesMax = 512;
constexpr std::int64_t kLifetimeSecondsMin = 3'600;
constexpr std::int64_t kLifetimeSecondsMax = 2'592'000;

std::string text_of(const ordered_json& document) {
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// A time of OpenAI's: seconds since 1970.
ordered_json seconds(std::int64_t ms) {
  return ms == 0 ? ordered_json() : ordered_json(ms / 1000);
}

/// A time of Anthropic's: RFC 3339.
ordered_json date(std::int64_t ms) {
  return ms == 0 ? ordered_json() : ordered_json(rfc3339(ms));
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}
ordered_json json_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json::parse(text, nullptr, false);
}

std::string_view openai_status(const StoredBatch& batch) {
  if (batch.cancelling_at != 0 && !is_over(batch.state)) return "cancelling";
  switch (batch.state) {
    case BatchState::validating:
      return "validating";
    case BatchState::in_progress:
      return "in_progress";
    case BatchState::finalizing:
      return "finalizing";
    case BatchState::completed:
      return "completed";
    case BatchState::failed:
      return "failed";
    case BatchState::expired:
      return "expired";
    case BatchState::cancelled:
      return "cancelled";
  }
  return "failed";
}

}  // namespace

std::string openai_batch_document(const StoredBatch& b, std::string_view) {
  const auto ended_as = [&](BatchState state) {
    return b.state == state ? seconds(b.ended_at) : ordered_json();
  };
  ordered_json errors;
  if (!b.errors.empty()) errors = {{"object", "list"}, {"data", json_or_null(b.errors)}};
  return text_of({{"id", b.id},
                  {"object", "batch"},
                  {"endpoint", b.endpoint},
                  {"model", text_or_null(b.model)},
                  {"errors", std::move(errors)},
                  {"input_file_id", b.input_file},
                  {"completion_window", "24h"},
                  {"status", openai_status(b)},
                  {"output_file_id", text_or_null(b.output_file)},
                  {"error_file_id", text_or_null(b.error_file)},
                  {"created_at", seconds(b.created_at)},
                  {"in_progress_at", seconds(b.in_progress_at)},
                  {"expires_at", seconds(b.deadline)},
                  {"finalizing_at", seconds(b.finalizing_at)},
                  {"completed_at", ended_as(BatchState::completed)},
                  {"failed_at", ended_as(BatchState::failed)},
                  {"expired_at", ended_as(BatchState::expired)},
                  {"cancelling_at", seconds(b.cancelling_at)},
                  {"cancelled_at", ended_as(BatchState::cancelled)},
                  {"request_counts",
                   {{"total", b.lines}, {"completed", b.succeeded}, {"failed", b.failed + b.given_up}}},
                  {"usage",
                   {{"input_tokens", b.usage.input_tokens},
                    {"input_tokens_details", {{"cached_tokens", b.usage.cached_tokens}}},
                    {"output_tokens", b.usage.output_tokens},
                    {"output_tokens_details", {{"reasoning_tokens", b.usage.reasoning_tokens}}},
                    {"total_tokens", b.usage.input_tokens + b.usage.output_tokens}}},
                  {"metadata", json_or_null(b.metadata)}});
}

std::string anthropic_batch_document(const StoredBatch& b, std::string_view base_url) {
  const bool over = is_over(b.state);
  const bool cancelled = b.cancelling_at != 0;
  ordered_json results;
  if (over && !b.output_file.empty())
    results = std::string(base_url) + "/v1/messages/batches/" + b.id + "/results";
  return text_of({{"id", b.id},
                  {"type", "message_batch"},
                  {"processing_status", over        ? "ended"
                                        : cancelled ? "canceling"
                                                    : "in_progress"},
                  {"request_counts",
                   {{"processing", b.lines - b.succeeded - b.failed - b.given_up},
                    {"succeeded", b.succeeded},
                    {"errored", b.failed},
                    {"canceled", cancelled ? b.given_up : 0},
                    {"expired", cancelled ? 0 : b.given_up}}},
                  {"ended_at", date(b.ended_at)},
                  {"created_at", date(b.created_at)},
                  {"expires_at", date(b.deadline)},
                  {"archived_at", nullptr},
                  {"cancel_initiated_at", date(b.cancelling_at)},
                  {"results_url", std::move(results)}});
}

namespace {

tl::expected<std::string, ApiError> read_metadata(const ordered_json& metadata) {
  const std::string rule =
      "`metadata` holds up to 16 pairs of texts, keys up to 64 and values up to 512 bytes";
  if (metadata.is_null()) return std::string();
  if (!metadata.is_object() || metadata.size() > kMetadataPairsMax) return wrong(rule, "metadata");
  for (const auto& [key, value] : metadata.items())
    if (key.size() > kMetadataKeyBytesMax || !value.is_string() ||
        value.get_ref<const std::string&>().size() > kMetadataValueBytesMax)
      return wrong(rule, "metadata");
  return text_of(metadata);
}

tl::expected<std::int64_t, ApiError> read_expires_after(const ordered_json& rule) {
  const std::string param = "output_expires_after";
  if (rule.is_null()) return 0;
  if (!rule.is_object() || rule.value("anchor", ordered_json()) != "created_at" ||
      !rule.value("seconds", ordered_json()).is_number_integer())
    return wrong("`output_expires_after` is {\"anchor\": \"created_at\", \"seconds\": number}", param);
  return read_lifetime(rule["seconds"].get<std::int64_t>(), param + ".seconds");
}

}  // namespace

std::string file_document(const StoredFile& file) {
  ordered_json document = {{"id", file.id},
                           {"object", "file"},
                           {"bytes", file.bytes},
                           {"created_at", seconds(file.created_at)},
                           {"filename", file.filename},
                           {"purpose", file.purpose},
                           {"status", "processed"}};
  if (file.expires_at != 0) document["expires_at"] = seconds(file.expires_at);
  return text_of(document);
}

std::string file_deleted_document(std::string_view id) {
  return text_of({{"id", id}, {"object", "file"}, {"deleted", true}});
}

std::string batch_deleted_document(std::string_view id) {
  return text_of({{"id", id}, {"type", "message_batch_deleted"}});
}

std::string faults_document(const std::vector<BatchFault>& faults) {
  ordered_json list = ordered_json::array();
  for (const BatchFault& fault : faults)
    list.push_back({{"code", fault.code},
                    {"message", fault.message},
                    {"param", text_or_null(fault.param)},
                    {"line", fault.line == 0 ? ordered_json() : ordered_json(fault.line)}});
  return text_of(list);
}

std::string list_document(std::string_view head, const std::vector<std::string>& documents,
                          std::string_view first_id, std::string_view last_id, bool has_more) {
  std::string data;
  for (const std::string& document : documents)
    data += (data.empty() ? "" : ",") + document;
  const auto id = [](std::string_view text) {
    return text.empty() ? "null" : "\"" + std::string(text) + "\"";
  };
  return "{" + std::string(head) + "\"data\":[" + data + "],\"first_id\":" + id(first_id) +
         ",\"last_id\":" + id(last_id) + ",\"has_more\":" + (has_more ? "true" : "false") + "}";
}

tl::expected<std::int64_t, ApiError> read_lifetime(std::int64_t seconds, const std::string& param) {
  if (seconds < kLifetimeSecondsMin || seconds > kLifetimeSecondsMax)
    return wrong("`" + param + "` is from 3600 (one hour) to 2592000 (30 days) seconds", param);
  return seconds * 1000;
}

tl::expected<BatchParams, ApiError> read_batch_params(std::string_view json) {
  const ordered_json body = ordered_json::parse(json, nullptr, false);
  if (!body.is_object()) return wrong("the body must be a JSON object");
  const auto text = [&](const char* key) {
    const ordered_json value = body.value(key, ordered_json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  BatchParams params{.input_file_id = text("input_file_id"), .endpoint = text("endpoint")};
  if (params.input_file_id.empty())
    return wrong("`input_file_id` is missing: the id of a file", "input_file_id");
  if (params.endpoint.empty()) return wrong("`endpoint` is missing", "endpoint");
  if (text("completion_window") != "24h")
    return wrong("`completion_window` must be \"24h\"", "completion_window");
  auto metadata = read_metadata(body.value("metadata", ordered_json()));
  if (!metadata) return tl::unexpected(metadata.error());
  params.metadata = *std::move(metadata);
  const auto lifetime = read_expires_after(body.value("output_expires_after", ordered_json()));
  if (!lifetime) return tl::unexpected(lifetime.error());
  params.output_lifetime_ms = *lifetime;
  return params;
}

}  // namespace lanemq::gateway
