// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/heavy_shapes.hpp"

#include <functional>

#include <lanemq/limits.hpp>

namespace lanemq::fuzz {
namespace {

std::string number16(std::size_t value) {
  return {static_cast<char>(value >> 8 & 0xFF), static_cast<char>(value & 0xFF)};
}
std::string map(std::size_t entries) {
  return '\xDE' + number16(entries);
}
std::string list(std::size_t entries) {
  return '\xDC' + number16(entries);
}
std::string text(std::string_view value) {
  if (value.size() < 32) return static_cast<char>(0xA0 | value.size()) + std::string(value);
  return '\xDA' + number16(value.size()) + std::string(value);
}
std::string key(std::size_t i, std::size_t digits = 2) {
  std::string name(digits, '0');
  for (std::size_t at = digits; at-- > 0; i /= 36)
    name[at] = "0123456789abcdefghijklmnopqrstuvwxyz"[i % 36];
  return name;
}
std::string header(std::string_view op) {
  return "\x93\xA4LMQ1" + text(op);
}

/// As many of `part` as there is room for behind `start`, at most `most`.
std::string repeated(const std::function<std::string(std::size_t)>& part, std::size_t room, std::size_t most,
                     std::size_t& count) {
  std::string all;
  for (count = 0; count < most; ++count) {
    const std::string next = part(count);
    if (all.size() + next.size() > room) break;
    all += next;
  }
  return all;
}

/// A batch: the first map, and as many others as there is room for.
std::string batch(std::size_t bytes, std::string_view op, const std::string& first,
                  const std::function<std::string(std::size_t)>& later) {
  const std::string start = header(op);
  std::size_t count = 0;
  const std::string maps =
      repeated(later, bytes - start.size() - first.size() - 3, limits::batch_items_max - 1, count);
  return start + list(count + 1) + first + maps;
}

/// A submit whose fields end with `x-` fields that share what is left of `bytes`.
std::string first_map(std::size_t extras, std::size_t bytes, std::string_view more = {},
                      std::size_t more_entries = 0) {
  std::string fields = text("service") + text("s") + text("batch") + "\xCC\xFF" + std::string(more);
  const std::size_t each = extras == 0 ? 0 : (bytes - fields.size()) / extras - 9;
  for (std::size_t i = 0; i < extras; ++i)
    fields += text("x-" + key(i)) + text(std::string(each, 'v'));
  return map(extras + 2 + more_entries) + fields;
}

/// One map inside another, as deep as a header may nest, each as wide as there is room for.
std::string nested(std::size_t depth, std::size_t room) {
  const std::size_t share = depth == 0 ? room : room / 2;
  std::size_t count = 0;
  std::string entries = repeated([](std::size_t i) { return text(key(i)) + '\x01'; }, share,
                                 limits::map_entries_max - 1, count);
  if (depth == 0) return map(count) + entries;
  return map(count + 1) + entries + text("deep") + nested(depth - 1, room - share - 16);
}

/// Maps of so many entries, one behind the other, in a list of a field that passes through.
std::string in_meta(std::size_t bytes, const std::function<std::string(std::size_t)>& entry,
                    std::size_t entries) {
  const std::string start = header("submit") + "\x82" + text("service") + text("s") + text("meta");
  std::size_t count = 0;
  const auto one = [&](std::size_t) {
    std::string all = map(entries);
    for (std::size_t i = 0; i < entries; ++i)
      all += entry(i);
    return all;
  };
  const std::string maps = repeated(one, bytes - start.size() - 3, 65535, count);
  return start + list(count) + maps;
}

}  // namespace

std::vector<HeavyShape> heavy_shapes(std::size_t bytes) {
  const std::size_t most = bytes * 6 / 7;  // of a first map, so that others have room
  const auto own_extra = [](std::size_t i) { return "\x81" + text("x-" + key(i % 10, 1)) + '\x01'; };
  const std::string meta = text("meta") + "\xC5" + number16(most - 64) + std::string(most - 64, 'm');
  std::vector<HeavyShape> shapes;
  const auto add = [&](std::string_view name, std::string frame) {
    shapes.push_back({name, std::move(frame)});
  };
  add("one large x- field, and one of its own in each map",
      batch(bytes, "submit", first_map(1, most), own_extra));
  add("16 x- fields, and one of its own in each map", batch(bytes, "submit", first_map(16, most), own_extra));
  add("60 x- fields, and one of its own in each map", batch(bytes, "submit", first_map(60, most), own_extra));
  add("60 x- fields, and one of its own in each map, short",
      batch(bytes, "submit", first_map(60, 1000), own_extra));
  add("60 x- fields, every second one said anew",
      batch(bytes, "submit", first_map(60, 1000), [](std::size_t) {
        std::string all = map(30);
        for (std::size_t i = 0; i < 30; ++i)
          all += text("x-" + key(2 * i)) + '\x01';
        return all;
      }));
  add("60 x- fields, taken back one by one", batch(bytes, "submit", first_map(60, 1000), [](std::size_t i) {
        return "\x81" + text("x-" + key(i % 60)) + '\xC0';
      }));
  add("60 x- fields, inherited whole",
      batch(bytes, "submit", first_map(60, most), [](std::size_t) { return "\x80"; }));
  add("a large meta, inherited whole",
      batch(bytes, "submit", first_map(0, 0, meta, 1), [](std::size_t) { return "\x80"; }));
  add("a batch of broken maps", batch(bytes, "submit", first_map(0, 0), [](std::size_t) {
        return "\x84" + text("lane") + '\x01' + text("lane") + '\x01' + text("model") + '\x01' + text("id") +
               '\x01';
      }));
  std::size_t ids = 0;
  const std::string names = repeated([](std::size_t i) { return text(key(i)); }, bytes / 16, 256, ids);
  add("the status of many jobs, for each map",
      batch(bytes, "status", "\x81" + text("ids") + list(ids) + names, [](std::size_t) { return "\x80"; }));
  add("one key, again and again", in_meta(
                                      bytes, [](std::size_t) { return std::string("\xA0\x01"); }, 64));
  add("64 keys in each map",
      in_meta(
          bytes, [](std::size_t i) { return text(key(i, 1 + (i >= 36 ? 1 : 0))) + '\x01'; }, 64));
  add("64 keys of 20 bytes that begin and end alike",
      in_meta(
          bytes, [](std::size_t i) { return text("aaaaaaaaa" + key(i) + "zzzzzzzzz") + '\x01'; }, 64));
  add("keys that are no text", in_meta(
                                   bytes, [](std::size_t) { return std::string("\xA1\xFF\x01"); }, 64));
  add("maps in maps", header("submit") + "\x82" + text("service") + text("s") + text("meta") +
                          nested(limits::header_depth_max - 3, bytes - 64));
  const std::string start = header("submit") + "\x82" + text("service") + text("s") + text("meta");
  add("empty lists", start + list(bytes - start.size() - 3) + std::string(bytes - start.size() - 3, '\x90'));
  add("short x- fields", batch(bytes, "submit", "\x81" + text("service") + text("s"), [](std::size_t) {
        std::string all = map(64);
        for (std::size_t i = 0; i < 64; ++i)
          all += text("x-" + key(i)) + '\x01';
        return all;
      }));
  return shapes;
}

}  // namespace lanemq::fuzz
