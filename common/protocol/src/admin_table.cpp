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

/// Whether a name stands in a list of names with a space between them.
bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

std::string with_commas(std::string_view names) {
  std::string list;
  for (const char c : names)
    list += c == ' ' ? std::string(", ") : std::string(1, c);
  return list;
}

bool is_said(const wire::FieldSpec& spec, wire::AdminQuery query) {
  void* const field = spec.at(&query);
  switch (spec.type) {
    case wire::FieldType::text:
      return static_cast<std::string_view*>(field)->data() != nullptr;
    case wire::FieldType::integer:
      return *static_cast<std::int64_t*>(field) != spec.fallback;
    case wire::FieldType::optional_integer:
      return static_cast<std::optional<std::int64_t>*>(field)->has_value();
    case wire::FieldType::boolean:
      return *static_cast<bool*>(field);
    default:
      return false;
  }
}

std::string usage_of(const AdminInfo& info) {
  const std::string needs = with_commas(info.needs), takes = with_commas(info.takes);
  if (needs.empty() && takes.empty()) return "it takes no fields";
  if (needs.empty()) return "it takes " + takes;
  return "it needs " + needs + (takes.empty() ? "" : " and takes " + takes);
}

}  // namespace

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
    const bool said = is_said(spec, query), needed = lists(info->needs, spec.name);
    const std::string field = "field \"" + std::string(spec.name) + '"';
    if (needed && !said) return verb + ": " + field + " is missing; " + usage_of(*info);
    // A filter that nobody looks at would let more happen than was meant.
    if (said && !needed && !lists(info->takes, spec.name))
      return verb + " takes no " + field + "; " + usage_of(*info);
  }
  return std::nullopt;
}

std::string default_admin_endpoint(std::string_view runtime_directory) {
  const std::string_view first = runtime_directory.substr(0, runtime_directory.find(':'));
  return first.empty() ? "tcp://127.0.0.1:5572" : "ipc://" + std::string(first) + "/admin.sock";
}

}  // namespace lanemq
