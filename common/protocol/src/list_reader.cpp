// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <new>
#include <vector>

#include <msgpack.hpp>

#include <lanemq/list_reader.hpp>

namespace lanemq {
namespace {

bool in_place(msgpack::type::object_type, std::size_t, void*) {
  return true;
}

}  // namespace

struct ListReader::Inside {
  struct Level {
    const msgpack::object* values;
    std::size_t size, at;
  };

  bool enter(const msgpack::object& object) {
    const bool list = object.type == msgpack::type::ARRAY;
    sound = sound && list;
    levels.push_back({list ? object.via.array.ptr : nullptr, list ? object.via.array.size : 0, 0});
    return list;
  }
  const msgpack::object* next() {
    Level& level = levels.back();
    return level.at < level.size ? &level.values[level.at++] : nullptr;
  }

  msgpack::zone zone;
  std::vector<Level> levels;
  bool sound = true;
};

ListReader::ListReader() : inside_(std::make_unique<Inside>()) {}
ListReader::~ListReader() = default;

bool ListReader::open(std::string_view bytes) {
  inside_->zone.clear();
  inside_->levels.clear();
  inside_->sound = true;
  try {
    std::size_t read = 0;
    const msgpack::object object = msgpack::unpack(inside_->zone, bytes.data(), bytes.size(), read, in_place);
    return read == bytes.size() && inside_->enter(object);
  } catch (const msgpack::unpack_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::int64_t ListReader::integer() {
  const msgpack::object* const value = inside_->next();
  if (value == nullptr) return 0;
  if (value->type == msgpack::type::NEGATIVE_INTEGER) return value->via.i64;
  if (value->type == msgpack::type::POSITIVE_INTEGER &&
      value->via.u64 <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return static_cast<std::int64_t>(value->via.u64);
  inside_->sound = false;
  return 0;
}

std::string_view ListReader::text() {
  const msgpack::object* const value = inside_->next();
  if (value == nullptr) return {};
  if (value->type == msgpack::type::STR) return {value->via.str.ptr, value->via.str.size};
  inside_->sound = false;
  return {};
}

std::size_t ListReader::enter() {
  const msgpack::object* const value = inside_->next();
  if (value == nullptr) {
    inside_->levels.push_back({nullptr, 0, 0});
    return 0;
  }
  inside_->enter(*value);
  return inside_->levels.back().size;
}

void ListReader::leave() {
  inside_->levels.pop_back();
}

bool ListReader::more() const {
  const Inside::Level& level = inside_->levels.back();
  return level.at < level.size;
}

bool ListReader::sound() const {
  return inside_->sound;
}

}  // namespace lanemq
