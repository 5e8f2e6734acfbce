// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/input_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lanemq/text.hpp>

#include "common/settings/secrets/secret_shapes.hpp"

namespace lanemq::cli {
namespace {

constexpr std::size_t kStoredPieceBytes = std::size_t{256} * 1024;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Removes a byte order mark and a CR, which editors of other systems add.
void bare(FileLine& line) {
  if (line.offset == 0 && line.text.starts_with(kByteOrderMark)) {
    line.text.remove_prefix(kByteOrderMark.size());
    line.offset += kByteOrderMark.size();
  }
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// The standard input as an unnamed file, since lines are read again when they are sent or retried.
FileDescriptor stored_standard_input() {
  const char* const folder = std::getenv("TMPDIR");
  std::string path =
      std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/lanemq-run-XXXXXX";
  FileDescriptor file(::mkostemp(path.data(), O_CLOEXEC));
  const auto check = [&](bool fine, const std::string& what) {
    if (!fine) throw RunError("cannot " + what + ": " + std::strerror(errno));
  };
  check(file.get() >= 0, "store the standard input at " + path + " (TMPDIR)");
  ::unlink(path.c_str());
  std::string piece(kStoredPieceBytes, '\0');
  while (true) {
    const ssize_t size = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    check(size >= 0, "read the standard input");
    if (size == 0) break;
    for (ssize_t done = 0; done < size;) {
      const ssize_t wrote = ::write(file.get(), piece.data() + done, static_cast<std::size_t>(size - done));
      if (wrote < 0 && errno == EINTR) continue;
      check(wrote >= 0, "store the standard input at " + path + " (TMPDIR)");
      done += wrote;
    }
  }
  check(::lseek(file.get(), 0, SEEK_SET) == 0, "read the standard input again");
  return file;
}

std::string message_of(const std::string& path, const std::system_error& error) {
  return printable(path) + ": " + error.code().message();
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(const std::string& path, std::optional<LineFormat> format, const RunTarget& target)
    : path_(path),
      file_(path == "-" ? stored_standard_input()
                        : FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC))),
      format_(format.value_or(LineFormat::plain)) {
  if (file_.get() < 0)
    throw RunError(settings::without_secrets(printable(path)) + ": " + std::strerror(errno));
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw RunError(printable(path) + " is no regular file; it is read more than once, so store it first");
  try {
    if (!format) detect_format();
    index(target);
  } catch (const std::system_error& error) {
    throw RunError(message_of(path, error));
  }
  sort_keys();
}

/// The first line that is JSON decides.
void InputFile::detect_format() {
  LineReader reader(file_.get(), kLineBytesMax);
  FileLine line;
  while (reader.next(line)) {
    bare(line);
    if (const std::optional<LineFormat> format = format_of(line.text)) {
      format_ = *format;
      return;
    }
  }
}

void InputFile::index(const RunTarget& target) {
  LineReader reader(file_.get(), kLineBytesMax);
  FileLine line;
  for (std::uint32_t number = 1; reader.next(line); ++number) {
    bare(line);
    if (is_blank(line.text) && !line.too_long) continue;
    if (entries_.size() >= kLinesMax)
      throw RunError(printable(path_) + " has more than " + std::to_string(kLinesMax) + " lines; split it");
    add(line, number, target);
  }
}

void InputFile::add(const FileLine& line, std::uint32_t number, const RunTarget& target) {
  Entry entry{.offset = line.offset, .number = number};
  entry.length = line.too_long ? kTooLong : static_cast<std::uint32_t>(line.text.size());
  if (format_ == LineFormat::plain) {
    entry.key = key_of_line(number);
    if (!line.too_long) entry.request = request_hash(target, {}, line.text);
  } else if (!line.too_long) {
    const InputLine read = read_input(format_, line.text);
    if (read.custom_id) entry.key = key_of_custom_id(*read.custom_id);
    if (read.problem.empty()) entry.request = request_hash(target, read.path, read.body);
  }
  entries_.push_back(entry);
}

void InputFile::sort_keys() {
  by_key_.reserve(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].key.names_something())
      by_key_.emplace_back(entries_[i].key, static_cast<std::uint32_t>(i));
  std::sort(by_key_.begin(), by_key_.end());
  const auto twin = std::adjacent_find(by_key_.begin(), by_key_.end(), [](const auto& one, const auto& two) {
    return one.first == two.first;
  });
  if (twin == by_key_.end()) return;
  const Entry& first = entries_[twin->second];
  const Entry& second = entries_[std::next(twin)->second];
  std::string storage;
  const std::string custom_id = read(first, storage).custom_id.value_or("");
  throw RunError(printable(path_) + ": custom_id \"" + printable(custom_id) + "\" stands in line " +
                 std::to_string(first.number) + " and in line " + std::to_string(second.number) +
                 "; give each line its own");
}

std::optional<std::size_t> InputFile::find(const RunKey& key) const {
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), std::pair(key, std::uint32_t{0}));
  if (at == by_key_.end() || at->first != key) return std::nullopt;
  return at->second;
}

bool InputFile::is_at(const std::string& path) const {
  struct stat ours {
  }, other{};
  return ::fstat(file_.get(), &ours) == 0 && ::stat(path.c_str(), &other) == 0 &&
         ours.st_dev == other.st_dev && ours.st_ino == other.st_ino;
}

InputLine InputFile::read(const Entry& entry, std::string& storage) const {
  InputLine line;
  if (entry.length == kTooLong) {
    line.problem = "has more than " + std::to_string(kLineBytesMax) + " bytes";
    return line;
  }
  try {
    read_at(file_.get(), entry.offset, entry.length, storage);
  } catch (const std::system_error& error) {
    throw RunError(message_of(path_, error));
  }
  return read_input(format_, storage);
}

LineName InputFile::name_of(const Entry& entry, const InputLine& line) const {
  return {.format = format_,
          .custom_id = line.custom_id,
          .number = format_ == LineFormat::plain ? entry.number : 0};
}

}  // namespace lanemq::cli
