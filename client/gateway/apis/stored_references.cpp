// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/stored_references.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <lanemq/text.hpp>

#include "common/json/cursor.hpp"
#include "common/json/named.hpp"

namespace lanemq::gateway {
namespace {

bool is_given(std::string_view value) {
  return !value.empty() && value != "null";
}

/// Whether a value has content for a model.
bool has_content(std::string_view value) {
  JsonCursor cursor(value);
  if (cursor.enter_array()) return cursor.element();
  return is_given(value) && value != "\"\"";
}

/// An item of `input`, or a tool: the bytes of the wanted members; empty: absent.
struct Item {
  std::string_view id{}, type{}, role{}, content{}, encrypted_content{}, result{}, container{},
      container_id{}, environment{}, tools{};
};

constexpr std::pair<std::string_view, std::string_view Item::*> kMembers[] = {
    {"id", &Item::id},
    {"type", &Item::type},
    {"role", &Item::role},
    {"content", &Item::content},
    {"encrypted_content", &Item::encrypted_content},
    {"result", &Item::result},
    {"container", &Item::container},
    {"container_id", &Item::container_id},
    {"environment", &Item::environment},
    {"tools", &Item::tools}};

/// False: readers would disagree about the item.
bool read_item(std::string_view text, Item& item) {
  JsonCursor cursor(text);
  if (!cursor.enter_object()) return true;
  for (std::string_view escaped; cursor.member(escaped);) {
    const std::string_view value = cursor.value();
    const std::optional<std::string> key = unquoted_json("\"" + std::string(escaped) + "\"");
    if (!key) return false;
    for (const auto& [name, member] : kMembers) {
      if (!reads_as(*key, name)) continue;
      if (*key != name || !(item.*member).empty()) return false;
      item.*member = value;
    }
  }
  return !cursor.failed();
}

/// Whether the upstream would look up the item's content.
bool is_reference(const Item& item) {
  if (!is_given(item.id)) return false;
  const std::string type = unquoted_json(item.type).value_or("");
  if (type == "reasoning") return !has_content(item.encrypted_content) && !has_content(item.content);
  if (type == "image_generation_call") return !has_content(item.result);
  if (type.empty()) return !(is_given(item.role) && is_given(item.content));
  return type == "item_reference";
}

/// What a list holds.
enum class Holds : unsigned char { items, tools };

tl::expected<void, ApiError> add_references(const std::string& name, Holds holds, std::string_view list,
                                            int depth, std::vector<StoredReference>& references);

class References {
 public:
  References(std::string list, Holds holds, int depth, std::vector<StoredReference>& references)
      : list_(std::move(list)), holds_(holds), depth_(depth), references_(references) {}

  tl::expected<void, ApiError> add(std::string_view text, std::size_t number) {
    Item item;
    place_ = list_ + "[" + std::to_string(number) + "]";
    if (!read_item(text, item))
      return wrong(place_ + " says something twice, or in another case, or is no JSON", place_);
    if (holds_ == Holds::items && is_reference(item))
      if (auto added = add_id(item.id, "id"); !added) return added;
    // A tool's `container` may be an object, which asks for a new one.
    if (holds_ == Holds::tools && item.container.starts_with('"'))
      if (auto added = add_id(item.container, "container"); !added) return added;
    if (is_given(item.container_id))
      if (auto added = add_id(item.container_id, "container_id"); !added) return added;
    // Items may bring tools, and tools others.
    if (auto added = add_references(place_ + ".tools", Holds::tools, item.tools, depth_ + 1, references_);
        !added)
      return added;
    Item environment;
    if (!read_item(item.environment, environment))
      return wrong(place_ + ".environment says something twice, or in another case", place_);
    if (is_given(environment.container_id))
      return add_id(environment.container_id, "environment.container_id");
    return {};
  }

 private:
  tl::expected<void, ApiError> add_id(std::string_view value, std::string_view member) {
    std::string param = place_ + "." + std::string(member);
    std::optional<std::string> id = unquoted_json(value);
    if (!id) return wrong(param + " must be a string", param);
    if (references_.size() >= kReferencesMax)
      return wrong("the request refers to over " + std::to_string(kReferencesMax) + " stored items", param);
    references_.push_back({.param = std::move(param), .id = *std::move(id)});
    return {};
  }

  const std::string list_;
  const Holds holds_;
  const int depth_;
  std::vector<StoredReference>& references_;
  std::string place_{};
};

tl::expected<void, ApiError> add_references(const std::string& name, Holds holds, std::string_view list,
                                            int depth, std::vector<StoredReference>& references) {
  JsonCursor cursor(list);
  if (list.empty() || !cursor.enter_array()) return {};
  if (depth > kToolsDeepMax)
    return wrong(name + ": tools stand in over " + std::to_string(kToolsDeepMax) + " others", name);
  References found(name, holds, depth, references);
  for (std::size_t number = 0; cursor.element(); ++number) {
    const std::string_view element = cursor.value();
    if (!element.starts_with('{')) continue;
    if (auto added = found.add(element, number); !added) return added;
  }
  if (cursor.failed()) return wrong(name + " is no JSON that can be read", name);
  return {};
}

void add_id(std::string_view value, std::vector<std::string>& ids) {
  std::optional<std::string> id = unquoted_json(value);
  if (id && !id->empty() && ids.size() < kStoredIdsMax) ids.push_back(*std::move(id));
}

void add_item(std::string_view item, std::vector<std::string>& ids) {
  for (const std::string_view key : {"id", "container_id"})
    add_id(member_bytes(item, key), ids);
  add_id(member_bytes(member_bytes(item, "environment"), "container_id"), ids);
}

}  // namespace

tl::expected<void, ApiError> add_references_of_input(std::string_view input,
                                                     std::vector<StoredReference>& references) {
  return add_references("input", Holds::items, input, 0, references);
}

tl::expected<void, ApiError> add_references_of_tools(std::string_view tools,
                                                     std::vector<StoredReference>& references) {
  return add_references("tools", Holds::tools, tools, 0, references);
}

std::vector<std::string> stored_ids_of(std::string_view answer) {
  std::vector<std::string> ids;
  add_id(member_bytes(answer, "id"), ids);
  for (const std::string_view list : {"output", "data"}) {
    JsonElements items(member_bytes(answer, list));
    for (std::string_view item = items.next(); !item.empty() && ids.size() < kStoredIdsMax;
         item = items.next())
      add_item(item, ids);
  }
  return ids;
}

void add_references_of_messages(std::string_view body, std::vector<StoredReference>& references) {
  if (!says(body, "audio\"") && !says(body, "\\u")) return;  // most chats are not read again
  const auto note = [&](std::string_view id) {
    std::optional<std::string> text = unquoted_json(id);
    if (text && references.size() < kReferencesMax)
      references.push_back({.param = "messages", .id = *std::move(text)});
  };
  each_member(body, "messages", [&](std::string_view list) {
    JsonElements messages(list);
    for (std::string_view message = messages.next(); !message.empty(); message = messages.next())
      each_member(message, "audio", [&](std::string_view audio) { each_member(audio, "id", note); });
  });
}

namespace {

/// Of the choices of a chat, or of a piece of one: the audio that a later chat may name.
void add_audio(std::string_view choices, std::vector<std::string>& ids) {
  JsonElements list(choices);
  for (std::string_view choice = list.next(); !choice.empty(); choice = list.next())
    for (const std::string_view part : {"message", "delta"})
      add_id(member_bytes(member_bytes(member_bytes(choice, part), "audio"), "id"), ids);
}

}  // namespace

std::vector<std::string> part_ids_of(std::string_view answer) {
  std::vector<std::string> ids;
  add_id(member_bytes(member_bytes(answer, "container"), "id"), ids);
  if (member_bytes(answer, "type") == "\"message\"") add_id(member_bytes(answer, "id"), ids);
  add_audio(member_bytes(answer, "choices"), ids);
  return ids;
}

std::vector<std::string> StreamedIds::take(std::string_view bytes) {
  std::vector<std::string> ids;
  const std::size_t most = found_ == 0 ? kFirstLineBytesMax : kLineBytesMax;
  while (found_ < kStoredIdsMax && !bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > most) skips_ = true;
    if (end == std::string_view::npos) {
      if (!skips_) line_ += part;
      break;
    }
    if (!skips_) take_line(line_.empty() ? part : line_ += part, ids);
    line_.clear();
    skips_ = false;
    bytes.remove_prefix(end + 1);
  }
  if (skips_ || found_ >= kStoredIdsMax) line_ = std::string();
  return ids;
}

void StreamedIds::take_line(std::string_view line, std::vector<std::string>& ids) {
  constexpr std::string_view kData = "data:";
  if (!line.starts_with(kData)) return;
  JsonCursor cursor(line.substr(kData.size()));
  if (!cursor.enter_object()) return;
  const std::size_t before = ids.size();
  for (std::string_view key; cursor.member(key);) {
    const std::string_view value = cursor.value();
    if (key == "item") add_item(value, ids);
    if (key == "message" || key == "delta")
      for (std::string& id : part_ids_of(value))
        ids.push_back(std::move(id));
    if (key == "choices") add_audio(value, ids);
    if (key == "response")
      for (std::string& id : stored_ids_of(value))
        ids.push_back(std::move(id));
  }
  if (found_ == 0 && ids.size() > before) first_ = ids[before];
  found_ += ids.size() - before;
}

}  // namespace lanemq::gateway
