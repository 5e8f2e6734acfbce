// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/calls/tenant_words.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

namespace lanemq::gateway {
namespace {

constexpr std::string_view kBudget = "budget";

/// Whether an upstream speaks of the operator's account or money, under whichever status: 400 of Anthropic
/// ("Your credit balance is too low"), 500 to 503 of others.
bool speaks_of_account(std::string_view said) {
  said = said.substr(0, std::size_t{64} * 1024);
  constexpr std::string_view kWords[] = {"credit balance",
                                         "insufficient_quota",
                                         "insufficient credits",
                                         "insufficient balance",
                                         "\u4f59\u989d",
                                         "billing",
                                         "organization",
                                         "your account",
                                         "the account",
                                         "acct_",
                                         "org-",
                                         "proj_",
                                         "api key",
                                         "api_key",
                                         "payment",
                                         "spending limit"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
    return std::search(said.begin(), said.end(), word.begin(), word.end(), [](char a, char b) {
             return std::tolower(static_cast<unsigned char>(a)) == b;
           }) != said.end();
  });
}

/// What is said instead of an error about the operator's account, or one of its budgets. Empty: it is about
/// the request.
std::string_view account_words(std::string_view code, std::optional<int> status, std::string_view message,
                               std::string_view body = {}) {
  if (code == "upstream_quota" && status == 401) return "its operator's logs say more";
  if (code == "upstream_quota")
    return "what the upstream allows its operator is used up; its operator's logs say more";
  if (code == name_of(ErrorCode::limited) || status == 429)
    return "the upstream limits its operator's requests; its operator's logs say more";
  if (code == name_of(ErrorCode::unsatisfiable))
    return "the job costs more tokens than whoever runs this gateway lets a job have; ask for fewer "
           "(max_tokens), or send less";
  const bool refused = status == 401 || status == 402 || status == 403;
  if (refused || (status && (speaks_of_account(message) || speaks_of_account(body))))
    return "the upstream refuses its operator's account; its operator's logs say more";
  return {};
}

std::string_view without_name(std::string_view blocker) {
  return blocker.starts_with(kBudget) ? kBudget : blocker;
}

/// The error of a job that is over, as JSON.
std::string without_account(const std::string& text) {
  nlohmann::ordered_json error = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!error.is_object()) return text;
  const auto status = error.find("upstream_status");
  const auto code = error.find("code");
  const std::string_view words = account_words(
      code != error.end() && code->is_string() ? std::string_view(code->get_ref<const std::string&>()) : "",
      status != error.end() && status->is_number_integer() ? std::optional(status->get<int>()) : std::nullopt,
      text);
  if (!words.empty()) error["message"] = words;
  error.erase("limiter");
  return error.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

template <class Value>
std::optional<Reply<Value>> error_retold(const Settings& settings, const Reply<Value>& answer) {
  if (settings.auth != Auth::keys || answer) return std::nullopt;
  return Reply<Value>(for_tenant(answer.error()));
}

}  // namespace

ClientError for_tenant(ClientError error) {
  if (const std::string_view words =
          account_words(error.code, error.upstream_status, error.message, error.body.bytes());
      !words.empty()) {
    error.message = words;
    error.body = {};
  }
  error.limiter = without_name(error.limiter);
  return error;
}

JobStatus for_tenant(JobStatus status) {
  status.blocked_by = without_name(status.blocked_by);
  if (!status.error_json.empty()) status.error_json = without_account(status.error_json);
  return status;
}

std::optional<FetchAnswer> retold(const Settings& settings, const FetchAnswer& answer) {
  if (settings.auth != Auth::keys) return std::nullopt;
  if (!answer) return FetchAnswer(for_tenant(answer.error()));
  const auto* const status = std::get_if<JobStatus>(&*answer);
  if (status == nullptr) return std::nullopt;
  return FetchAnswer(std::variant<JobDone, JobStatus>(for_tenant(*status)));
}

std::optional<Reply<JobStatus>> retold(const Settings& settings, const Reply<JobStatus>& answer) {
  if (settings.auth == Auth::keys && answer) return Reply<JobStatus>(for_tenant(*answer));
  return error_retold(settings, answer);
}

std::optional<Reply<JobAccepted>> retold(const Settings& settings, const Reply<JobAccepted>& answer) {
  return error_retold(settings, answer);
}

}  // namespace lanemq::gateway
