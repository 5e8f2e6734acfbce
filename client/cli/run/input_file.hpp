// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/limits.hpp>

#include "client/cli/run/json_lines.hpp"
#include "client/cli/run/run_key.hpp"
#include "common/json/line_reader.hpp"

namespace lanemq::cli {

/// Why a run cannot go on; the text tells a person what to change.
struct RunError : std::runtime_error {
  using runtime_error::runtime_error;
};

/// Closes its file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// The file of jobs. Reads it once for the places of lines and to find doubled names, then line by line in
/// any order. The file must not change meanwhile; a changed line is reported if it is no job any more.
class InputFile {
 public:
  static constexpr std::size_t kLineBytesMax = limits::body_bytes_max + std::size_t{64} * 1024;
  static constexpr std::size_t kLinesMax = 10'000'000;

  /// Where a line is. Blank lines have no entry.
  struct Entry {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;   ///< without its line end; kTooLong: over kLineBytesMax
    std::uint32_t number = 0;   ///< from 1
    RunKey key{};               ///< key 0 for a line without a name
    std::uint64_t request = 0;  ///< request_hash(), of a line that is a job
  };
  static constexpr std::uint32_t kTooLong = 0xFFFF'FFFF;

  /// Without `format` the first line that is JSON decides. Throws RunError: the file cannot be read, is too
  /// long, or has two lines with one name.
  InputFile(const std::string& path, std::optional<LineFormat> format, const RunTarget& target);

  LineFormat format() const { return format_; }
  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }
  /// The index in entries() of the entry with that key; empty: there is none.
  std::optional<std::size_t> find(const RunKey& key) const;
  /// Whether the path leads to this file.
  bool is_at(const std::string& path) const;

  /// Reads a line again; its views are into `storage`. Throws RunError when the file cannot be read.
  InputLine read(const Entry& entry, std::string& storage) const;
  /// The name of a line in its answer.
  LineName name_of(const Entry& entry, const InputLine& line) const;

 private:
  void detect_format();
  void index(const RunTarget& target);
  void add(const FileLine& line, std::uint32_t number, const RunTarget& target);
  void sort_keys();

  std::string path_;
  FileDescriptor file_;
  LineFormat format_ = LineFormat::plain;
  std::vector<Entry> entries_;
  std::vector<std::pair<RunKey, std::uint32_t>> by_key_;  ///< sorted; with indexes in entries_
};

}  // namespace lanemq::cli
