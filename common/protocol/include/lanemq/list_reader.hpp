// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace lanemq {

/// Reads a msgpack list of integers, texts and lists, value by value, as DocumentWriter wrote it. What is not
/// there reads as 0 or as nothing, so that what an older version wrote can be read by a newer one that
/// appended to it; what is of another type makes it unsound.
///
/// What it returns lives until the next open(), texts as long as the bytes. Not thread-safe.
class ListReader {
 public:
  ListReader();
  ~ListReader();

  /// False where the bytes are not one list and nothing else.
  bool open(std::string_view bytes);
  std::int64_t integer();
  std::string_view text();
  /// Goes into the list that comes next, and returns how many values it has; leave() comes back.
  std::size_t enter();
  void leave();
  /// Whether something is left of the list that it is in.
  bool more() const;
  /// All values so far were of the types that were asked for.
  bool sound() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace lanemq
