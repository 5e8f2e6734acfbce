// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/exchange.hpp"

#include <algorithm>
#include <cctype>

#include "tests/support/upstream/errors.hpp"

namespace lanemq::upstream {
namespace {

bool equal_names(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::string_view Request::header(std::string_view name) const {
  for (const auto& [field, value] : headers)
    if (equal_names(field, name)) return value;
  return {};
}

Dialect Request::dialect() const {
  return header(kVersionHeader).empty() ? Dialect::openai : Dialect::anthropic;
}

Reply refusal(const Request& request, unsigned status, const ApiError& error) {
  return {.status = status, .body = error_body(request.dialect(), status, error, "")};
}

Reply not_found(const Request& request) {
  return refusal(request, 404,
                 {.message = "Unknown request URL: " + std::string(request.method) + " " +
                             std::string(request.target.substr(0, 200)) +
                             ". lanemq-upstream --help tells what there is.",
                  .code = "unknown_url"});
}

Reply wrong_method(const Request& request, std::string_view method) {
  Reply reply = refusal(request, 405,
                        {.message = "Not allowed to " + std::string(request.method) + " on " +
                                    std::string(request.path()) + "; use " + std::string(method) + ".",
                         .code = "method_not_allowed"});
  reply.headers.emplace_back("allow", method);
  return reply;
}

}  // namespace lanemq::upstream
