// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <new>
#include <utility>

#include <msgpack.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/shards.hpp>
#include <lanemq/text.hpp>

namespace lanemq {
namespace {

constexpr std::string_view kName = "name", kServices = "services", kTenants = "tenants",
                           kEndpoints = "endpoints";

bool names(const std::vector<std::string>& patterns, std::string_view name) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return glob_match(pattern, name);
         });
}

void write_list(DocumentWriter& writer, std::string_view key, const std::vector<std::string>& texts) {
  writer.text(key).array(texts.size());
  for (const std::string& text : texts)
    writer.text(text);
}

/// False: it is no text of a name's length.
bool read_text(const msgpack::object& value, std::string& text) {
  if (value.type != msgpack::type::STR || value.via.str.size > limits::name_bytes_max) return false;
  text.assign(value.via.str.ptr, value.via.str.size);
  return true;
}

bool read_list(const msgpack::object& value, std::vector<std::string>& texts) {
  if (value.type != msgpack::type::ARRAY || value.via.array.size > limits::list_entries_max) return false;
  texts.resize(value.via.array.size);
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (!read_text(value.via.array.ptr[i], texts[i])) return false;
  return true;
}

bool read_shard(const msgpack::object& value, Shard& shard) {
  if (value.type != msgpack::type::MAP) return false;
  for (std::size_t i = 0; i < value.via.map.size; ++i) {
    const msgpack::object_kv& entry = value.via.map.ptr[i];
    std::string key;
    if (!read_text(entry.key, key)) continue;
    if (key == kName && !read_text(entry.val, shard.name)) return false;
    if (key == kServices && !read_list(entry.val, shard.services)) return false;
    if (key == kTenants && !read_list(entry.val, shard.tenants)) return false;
    if (key == kEndpoints && !read_list(entry.val, shard.endpoints)) return false;
  }
  return !shard.name.empty();
}

bool in_place(msgpack::type::object_type, std::size_t, void*) {
  return true;
}

}  // namespace

bool Shard::matches(std::string_view service, std::string_view tenant) const {
  return names(services, service) && names(tenants, tenant);
}

const Shard* ShardMap::find(std::string_view name) const {
  const auto at =
      std::find_if(shards_.begin(), shards_.end(), [&](const Shard& shard) { return shard.name == name; });
  return at == shards_.end() ? nullptr : &*at;
}

const Shard* ShardMap::of(std::string_view service, std::string_view tenant) const {
  const auto at = std::find_if(shards_.begin(), shards_.end(),
                               [&](const Shard& shard) { return shard.matches(service, tenant); });
  return at == shards_.end() ? nullptr : &*at;
}

std::string encode_shards(const ShardMap& shards) {
  Buffer out;
  DocumentWriter writer(out);
  writer.array(shards.all().size());
  for (const Shard& shard : shards.all()) {
    const bool by_service = !shard.services.empty(), by_tenant = !shard.tenants.empty();
    writer.map(2 + (by_service ? 1 : 0) + (by_tenant ? 1 : 0)).text(kName).text(shard.name);
    if (by_service) write_list(writer, kServices, shard.services);
    if (by_tenant) write_list(writer, kTenants, shard.tenants);
    write_list(writer, kEndpoints, shard.endpoints);
  }
  return std::string(out.view());
}

std::optional<ShardMap> decode_shards(std::string_view msgpack) try {
  ::msgpack::zone zone;
  std::size_t read = 0;
  const ::msgpack::object list = ::msgpack::unpack(zone, msgpack.data(), msgpack.size(), read, in_place);
  if (read != msgpack.size() || list.type != ::msgpack::type::ARRAY ||
      list.via.array.size > ShardMap::kShardsMax)
    return std::nullopt;
  std::vector<Shard> shards(list.via.array.size);
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (!read_shard(list.via.array.ptr[i], shards[i])) return std::nullopt;
  return ShardMap(std::move(shards));
} catch (const ::msgpack::unpack_error&) {
  return std::nullopt;
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

}  // namespace lanemq
