// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace lanemq {

/// Reads a msgpack list of integers, texts and lists, as DocumentWriter writes it, value by value. Missing
/// values read as 0 or empty, so that newer versions can append to what older ones wrote. A value of another
/// type makes the list unsound.
///
/// Returned values are valid until the next open(), texts as long as the bytes. Not thread-safe.
class ListReader {
 public:
  ListReader();
  ~ListReader();

  /// False where the bytes are not exactly one list.
  bool open(std::string_view bytes);
  std::int64_t integer();
  std::string_view text();
  /// Enters the list that comes next, and returns its size; leave() returns from it.
  std::size_t enter();
  void leave();
  /// Whether the present list has more values.
  bool more() const;
  /// Whether all values so far had the types that were asked for.
  bool sound() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace lanemq
