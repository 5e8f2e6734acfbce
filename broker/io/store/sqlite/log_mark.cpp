// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/sqlite/log_mark.hpp"

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include <xxhash.h>

namespace lanemq::io {
namespace {

std::string mark_of(const std::string& store) {
  return store + "-mark";
}
std::string log_of(const std::string& store) {
  return store + "-wal";
}

/// A mark: this, the salts, the pages, and a checksum of the three.
constexpr std::uint64_t kMark = 0x6B72616D31514D4C;  // `LMQ1mark`
using MarkWords = std::array<std::uint64_t, 4>;

std::uint64_t checksum(const MarkWords& words) {
  return XXH3_64bits(words.data(), 3 * sizeof words[0]);
}

// ---- SQLite's log, by https://sqlite.org/fileformat2.html#walformat ------------------------------------

constexpr std::size_t kLogHeaderBytes = 32;
constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::uint32_t kMagic = 0x377f0682;  // the value plus one: checksums are of big-endian words

std::uint32_t big_endian(const char* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i)
    word = word << 8 | static_cast<unsigned char>(bytes[i]);
  return word;
}

std::uint32_t little_endian(const char* bytes) {
  std::uint32_t word = 0;
  for (int i = 3; i >= 0; --i)
    word = word << 8 | static_cast<unsigned char>(bytes[i]);
  return word;
}

/// SQLite's running checksum.
struct LogChecksum {
  bool is_big_endian = false;
  std::uint32_t first = 0, second = 0;

  void add(std::string_view bytes) {
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      first += word(bytes.data() + at) + second;
      second += word(bytes.data() + at + 4) + first;
    }
  }
  bool is(const char* said) const { return big_endian(said) == first && big_endian(said + 4) == second; }

 private:
  std::uint32_t word(const char* bytes) const {
    return is_big_endian ? big_endian(bytes) : little_endian(bytes);
  }
};

}  // namespace

std::uint64_t LogExtent::salts_of(const char* bytes) {
  return static_cast<std::uint64_t>(big_endian(bytes)) << 32 | big_endian(bytes + 4);
}

int LogMark::open(const std::string& store, const std::string& vfs) {
  return file_.open(mark_of(store), sqlite::File::Mode::create, vfs);
}

int LogMark::write(const LogExtent& extent) {
  MarkWords words{kMark, extent.salts, extent.pages, 0};
  words[3] = checksum(words);
  says_something_ = true;
  return file_.write(0, {reinterpret_cast<const char*>(words.data()), sizeof words});
}

int LogMark::clear() {
  if (!says_something_) return SQLITE_OK;
  if (const int code = write({}); code != SQLITE_OK) return code;
  if (const int code = file_.sync(); code != SQLITE_OK) return code;
  says_something_ = false;
  return SQLITE_OK;
}

std::optional<LogExtent> LogMark::read(const std::string& store, const std::string& vfs) {
  sqlite::File file;
  MarkWords words{};
  if (file.open(mark_of(store), sqlite::File::Mode::existing, vfs) != SQLITE_OK) return std::nullopt;
  if (file.read(0, reinterpret_cast<char*>(words.data()), sizeof words) != SQLITE_OK) return std::nullopt;
  if (words[0] != kMark || words[3] != checksum(words)) return std::nullopt;
  return LogExtent{.salts = words[1], .pages = words[2]};
}

std::optional<LogExtent> read_log(const std::string& store, const std::string& vfs) {
  sqlite::File file;
  char header[kLogHeaderBytes];
  if (file.open(log_of(store), sqlite::File::Mode::existing, vfs) != SQLITE_OK) return std::nullopt;
  if (file.read(0, header, sizeof header) != SQLITE_OK) return std::nullopt;
  const std::uint32_t magic = big_endian(header);
  const std::uint32_t page_bytes = big_endian(header + 8);
  LogChecksum sum{.is_big_endian = magic == kMagic + 1};
  sum.add({header, 24});
  constexpr std::uint32_t kPageBytesMax = 65536;
  if ((magic & ~1u) != kMagic || !sum.is(header + 24) || page_bytes < 512 || page_bytes > kPageBytesMax)
    return std::nullopt;

  LogExtent extent{.salts = LogExtent::salts_of(header + LogExtent::kSaltsAt)};
  std::vector<char> frame(kFrameHeaderBytes + page_bytes);
  for (std::uint64_t page = 0;; ++page) {
    if (file.read(kLogHeaderBytes + page * frame.size(), frame.data(), frame.size()) != SQLITE_OK) break;
    sum.add({frame.data(), 8});
    sum.add({frame.data() + kFrameHeaderBytes, page_bytes});
    if (LogExtent::salts_of(frame.data() + 8) != extent.salts || !sum.is(frame.data() + 16)) break;
    const bool commits = big_endian(frame.data() + 4) != 0;
    if (commits) extent.pages = page + 1;
  }
  return extent;
}

Result<void> check_log(const std::string& store, const std::string& vfs) {
  const auto said = LogMark::read(store, vfs);
  if (!said || said->pages == 0) return {};
  const auto log = read_log(store, vfs);
  if (log && (log->salts != said->salts || log->pages >= said->pages)) return {};
  return failure(ErrorCode::internal, "its log " + log_of(store) + " has " +
                                          std::to_string(log ? log->pages : 0) + " of the " +
                                          std::to_string(said->pages) +
                                          " pages that were committed, the rest is missing or damaged");
}

}  // namespace lanemq::io
