// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/base/message.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>

namespace lanemq::http {
namespace {

struct StatusPhrase {
  int status;
  std::string_view phrase;
};

constexpr StatusPhrase kPhrases[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {413, "Payload Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Entity"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {529, "Overloaded"},
};

}  // namespace

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const auto& field) { return field.first == name; });
  fields_.emplace_back(std::string(name), std::move(value));
}

void Headers::join() {
  // Nearly no request has two of a name, and few have many fields.
  constexpr std::size_t kFew = 32;
  const auto is_again = [this](std::size_t i) {
    return std::any_of(fields_.begin(), fields_.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const auto& field) { return field.first == fields_[i].first; });
  };
  if (fields_.size() <= kFew) {
    std::size_t i = 1;
    while (i < fields_.size() && !is_again(i))
      ++i;
    if (i >= fields_.size()) return;
  }
  std::vector<std::size_t> order(fields_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](std::size_t a, std::size_t b) { return fields_[a].first < fields_[b].first; });
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t first = kNone;
  std::vector<bool> joined(fields_.size());
  for (const std::size_t i : order) {
    if (first == kNone || fields_[i].first != fields_[first].first) {
      first = i;
      continue;
    }
    fields_[first].second += (fields_[i].first == "cookie" ? "; " : ", ") + fields_[i].second;
    joined[i] = true;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < fields_.size(); ++i)
    if (!joined[i] && kept++ != i) fields_[kept - 1] = std::move(fields_[i]);
  fields_.resize(kept);
}

const std::string* Headers::find(std::string_view name) const {
  const auto at =
      std::find_if(fields_.begin(), fields_.end(), [&](const auto& field) { return field.first == name; });
  return at == fields_.end() ? nullptr : &at->second;
}

std::string_view Headers::get(std::string_view name) const {
  const std::string* value = find(name);
  return value ? std::string_view(*value) : std::string_view();
}

const std::string& HttpRequest::param(std::string_view name) const {
  static const std::string kNone;
  const auto at =
      std::find_if(params.begin(), params.end(), [&](const auto& item) { return item.first == name; });
  return at == params.end() ? kNone : at->second;
}

std::string HttpRequest::query_param(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t equals = std::min(item.find('='), item.size());
    if (percent_decoded(item.substr(0, equals)) != name) continue;
    std::string value(item.substr(std::min(item.size(), equals + 1)));
    std::replace(value.begin(), value.end(), '+', ' ');
    return percent_decoded(value);
  }
  return {};
}

std::string_view reason_phrase(int status) {
  for (const StatusPhrase& row : kPhrases)
    if (row.status == status) return row.phrase;
  return "Status";
}

Blob blob_of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const std::string_view bytes = *owner;
  return Blob::own(std::move(owner), bytes);
}

HttpAnswer json_answer(int status, std::string body) {
  return {.status = status,
          .headers = {{"content-type", "application/json"}, {"cache-control", "no-store"}},
          .body = blob_of(std::move(body))};
}

HttpAnswer text_answer(int status, std::string text) {
  return {.status = status,
          .headers = {{"content-type", "text/plain; charset=utf-8"}, {"cache-control", "no-store"}},
          .body = blob_of(std::move(text))};
}

}  // namespace lanemq::http
