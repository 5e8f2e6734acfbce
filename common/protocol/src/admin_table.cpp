// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <lanemq/admin_table.hpp>
#include <lanemq/text.hpp>

#include "common/protocol/src/field_table.hpp"

namespace lanemq {
namespace {

constexpr AdminInfo kAdminVerbs[] = {
#define LANEMQ_ADMIN_ROW(verb, needs, takes, meaning) {AdminVerb::verb, #verb, needs, takes, meaning},
    LANEMQ_ADMIN_TABLE(LANEMQ_ADMIN_ROW)
#undef LANEMQ_ADMIN_ROW
};

bool lists(std::string_view names, std::string_view name) {
  const std::vector<std::string_view> fields = fields_of(names);
  return std::find(fields.begin(), fields.end(), name) != fields.end();
}

std::string with_commas(std::string_view names) {
  std::string list;
  for (const char c : names)
    list += c == ' ' ? std::string(", ") : std::string(1, c);
  return list;
}

std::string usage_of(const AdminInfo& info) {
  const std::string needs = with_commas(info.needs), takes = with_commas(info.takes);
  if (needs.empty() && takes.empty()) return "it takes no fields";
  if (needs.empty()) return "it takes " + takes;
  return "it needs " + needs + (takes.empty() ? "" : " and takes " + takes);
}

}  // namespace

std::vector<std::string_view> fields_of(std::string_view names) {
  std::vector<std::string_view> fields;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    fields.push_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return fields;
}

std::span<const AdminInfo> admin_table() {
  return kAdminVerbs;
}

std::string_view name_of(AdminVerb verb) {
  return kAdminVerbs[static_cast<std::size_t>(verb)].name;
}

const AdminInfo* admin_info(const wire::AdminQuery& query) {
  for (const AdminInfo& info : kAdminVerbs)
    if (info.name == query.verb) return &info;
  return nullptr;
}

std::optional<std::string> admin_fault(const wire::AdminQuery& query) {
  const AdminInfo* const info = admin_info(query);
  if (info == nullptr) {
    std::string known;
    for (const AdminInfo& other : kAdminVerbs)
      known += (known.empty() ? "" : ", ") + std::string(other.name);
    return "field \"do\" is \"" + printable(query.verb) + "\"; it must be one of " + known;
  }
  const std::string verb = "do \"" + std::string(info->name) + '"';
  for (const wire::FieldSpec& spec : wire::Spec<wire::AdminQuery>::fields) {
    if (spec.name == "do" || spec.name == "ref") continue;
    const bool said = is_said(spec, static_cast<const void*>(&query)), needed = lists(info->needs, spec.name);
    const std::string field = "field \"" + std::string(spec.name) + '"';
    if (needed && !said) return verb + ": " + field + " is missing; " + usage_of(*info);
    // An ignored filter would let the request do more than was meant, so it is refused.
    if (said && !needed && !lists(info->takes, spec.name))
      return verb + " takes no " + field + "; " + usage_of(*info);
  }
  return std::nullopt;
}

}  // namespace lanemq
