// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/codec.hpp>

namespace lanemq::core {

/// One change of what outlives the broker. A store keeps four things and understands their keys alone: a
/// job's record, which never changes; its state, which does; results, by number like jobs; and notes, by
/// name.
///
/// A job's row stays while it may run again: a dead job has one, and a result under the same number.
struct Write {
  enum class Kind : std::uint8_t {
    insert_job,     ///< number, state, record, body
    update_job,     ///< number, state
    rename_job,     ///< number is `renamed` from now on, with this state; record and body stay
    erase_job,      ///< number; its body goes with it
    insert_result,  ///< number, record, body
    erase_result,   ///< number
    put_note,       ///< name (in place of the state), record; replaces the note of that name
    erase_note,     ///< name (in place of the state)
  };
  Kind kind = Kind::put_note;
  std::uint64_t number = 0;                                                  ///< below 2^63; none of a note
  std::uint64_t renamed = 0;                                                 ///< of rename_job alone
  std::uint32_t state_begin = 0, record_begin = 0, body_begin = 0, end = 0;  ///< in Writes' bytes
  Blob body;  ///< where it owns its bytes; else they are in Writes', too
};

/// A turn's writes to the store, in order and atomic. Owns everything that it names, so that another thread
/// can take it while later turns go on. Used again, it keeps its memory.
class Writes {
 public:
  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  const Write& operator[](std::size_t i) const { return items_[i]; }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  /// A job's state, or a note's name.
  std::string_view state(const Write& write) const { return part(write.state_begin, write.record_begin); }
  std::string_view record(const Write& write) const { return part(write.record_begin, write.body_begin); }
  std::string_view body(const Write& write) const {
    return write.body.empty() ? part(write.body_begin, write.end) : write.body.bytes();
  }
  /// Bytes that it holds in memory, bodies included.
  std::size_t bytes() const { return bytes_.size() + body_bytes_ + items_.size() * sizeof(Write); }

  /// Begins a write. The caller then writes the state (or a note's name) to buffer(), calls end_of_state(),
  /// writes the record, calls end_of_record(), and sets the body, as far as the kind has them.
  Write& add(Write::Kind kind, std::uint64_t number) {
    Write& write = items_.emplace_back();
    write.kind = kind;
    write.number = number;
    write.state_begin = write.record_begin = write.body_begin = write.end = here();
    return write;
  }
  Buffer& buffer() { return bytes_; }
  void end_of_state() {
    Write& write = items_.back();
    write.record_begin = write.body_begin = write.end = here();
  }
  void end_of_record() {
    Write& write = items_.back();
    write.body_begin = write.end = here();
  }
  /// Shares a body that owns its bytes, copies any other.
  void set_body(const Blob& body) {
    Write& write = items_.back();
    if (!body.owns()) {
      bytes_.write(body.bytes().data(), body.size());
      write.end = here();
      return;
    }
    body_bytes_ += body.size();
    write.body = body;
  }

  void clear() {
    items_.clear();
    bytes_.clear();
    body_bytes_ = 0;
  }
  void swap(Writes& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(bytes_, other.bytes_);
    std::swap(body_bytes_, other.body_bytes_);
  }

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(bytes_.size()); }
  std::string_view part(std::uint32_t begin, std::uint32_t end) const {
    return bytes_.view().substr(begin, end - begin);
  }

  std::vector<Write> items_;
  Buffer bytes_;
  std::size_t body_bytes_ = 0;
};

}  // namespace lanemq::core
