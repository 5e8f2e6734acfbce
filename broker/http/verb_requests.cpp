// SPDX-License-Identifier: Apache-2.0
#include "broker/http/verb_requests.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include <lanemq/text.hpp>

namespace lanemq::admin {
namespace {

constexpr std::size_t kShownBytes = 64;

bool takes(const AdminInfo& verb, std::string_view field) {
  for (const std::string_view names : {verb.needs, verb.takes}) {
    const std::vector<std::string_view> fields = fields_of(names);
    if (std::find(fields.begin(), fields.end(), field) != fields.end()) return true;
  }
  return false;
}

tl::unexpected<std::string> unknown(const AdminInfo& verb, std::string_view field) {
  std::string known;
  for (const std::string_view names : {verb.needs, verb.takes})
    for (const std::string_view one : fields_of(names))
      known += (known.empty() ? "" : ", ") + std::string(one);
  return tl::unexpected(std::string(verb.name) + " takes no field \"" + printable(field, kShownBytes) +
                        "\"; it takes " + (known.empty() ? "none" : known));
}

Question question_of(const AdminInfo& verb) {
  return {.op = "admin", .fields = {{"do", std::string(verb.name)}}, .patience = patience_of(verb.verb)};
}

tl::expected<std::variant<std::string, std::int64_t, bool>, std::string> value_of_text(
    std::string_view field, const std::string& text) {
  const auto wrong = [&](const char* what) {
    return tl::unexpected("field \"" + std::string(field) + "\" must be " + what + ", not \"" +
                          printable(text, kShownBytes) + '"');
  };
  if (type_of_field(field) == "integer") {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return wrong("a number");
    return number;
  }
  if (type_of_field(field) == "boolean") {
    if (text != "true" && text != "false") return wrong("true or false");
    return text == "true";
  }
  return text;
}

}  // namespace

std::string_view type_of_field(std::string_view field) {
  if (field == "from" || field == "limit" || field == "top") return "integer";
  return field == "dry_run" ? "boolean" : "string";
}

bool only_looks(AdminVerb verb) {
  switch (verb) {
    case AdminVerb::jobs:
    case AdminVerb::job:
    case AdminVerb::lanes:
    case AdminVerb::services:
    case AdminVerb::workers:
    case AdminVerb::clients:
    case AdminVerb::budgets:
    case AdminVerb::dead:
    case AdminVerb::pauses:
    case AdminVerb::config:
    case AdminVerb::changes:
      return true;
    default:
      return false;  // a verb that nobody has thought of here needs an operator
  }
}

std::chrono::milliseconds patience_of(AdminVerb verb) {
  // A backup is answered when the copy is on the disk.
  return verb == AdminVerb::backup ? std::chrono::hours(1) : Question{}.patience;
}

tl::expected<Question, std::string> question_of_query(const AdminInfo& verb,
                                                      const http::HttpRequest& request) {
  Question question = question_of(verb);
  std::string_view rest = request.query;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    if (pair.empty()) continue;
    const std::string field = http::percent_decoded(pair.substr(0, pair.find('=')));
    if (!takes(verb, field)) return unknown(verb, field);
    for (const auto& [said, value] : question.fields)
      if (said == field) return tl::unexpected("field \"" + field + "\" stands there twice");
    auto value = value_of_text(field, request.query_param(field));
    if (!value) return tl::unexpected(value.error());
    question.fields.emplace_back(field, std::move(*value));
  }
  return question;
}

tl::expected<Question, std::string> question_of_body(const AdminInfo& verb,
                                                     const http::HttpRequest& request) {
  Question question = question_of(verb);
  if (request.body.empty()) return question;
  const Json body = Json::parse(request.body.bytes(), nullptr, false);
  if (!body.is_object()) return tl::unexpected(std::string("the body must be an object of JSON"));
  for (const auto& [field, value] : body.items()) {
    if (!takes(verb, field)) return unknown(verb, field);
    const std::string_view type = type_of_field(field);
    if (type == "integer" && value.is_number_integer())
      question.fields.emplace_back(field, value.get<std::int64_t>());
    else if (type == "boolean" && value.is_boolean())
      question.fields.emplace_back(field, value.get<bool>());
    else if (type == "string" && value.is_string())
      question.fields.emplace_back(field, value.get<std::string>());
    else
      return tl::unexpected("field \"" + field + "\" must be of the type " + std::string(type));
  }
  return question;
}

}  // namespace lanemq::admin
