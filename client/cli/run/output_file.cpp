// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/output_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lanemq/text.hpp>

#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {
namespace {

constexpr std::size_t kCopyBytes = std::size_t{1024} * 1024;
constexpr int kLinksMax = 40;  ///< the limit of Linux
constexpr std::size_t kStateLineBytesMax = 256;
constexpr std::string_view kStateHeading = "lanemq-run 1";

[[noreturn]] void fail(const std::string& path, const std::string& doing) {
  throw RunError(printable(path) + ": cannot " + doing + ": " + std::strerror(errno));
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t wrote = write_breaking_off(fd, bytes);
    if (wrote < 0 && errno == EINTR && interrupted() == 0) continue;
    if (wrote < 0) fail(path, "write");
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

/// Syncs the file's directory, so that a rename survives a crash of the machine.
void sync_directory_of(const std::string& path) {
  const FileDescriptor opened(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() >= 0) ::fsync(opened.get());
}

/// The file that links lead to: the run replaces that file and keeps the links.
std::string behind_links(const std::string& path) {
  namespace fs = std::filesystem;
  fs::path at = path;
  std::error_code error;
  for (int links = 0; links < kLinksMax && fs::is_symlink(at, error); ++links)
    at = at.parent_path() / fs::read_symlink(at, error);
  return error ? path : at.string();
}

/// A file that replaces another one when it is complete, and is gone when it never is: it has no name before,
/// so that nothing is left of a process that is killed. Where the file system knows no such files it has one.
class Replacement {
 public:
  Replacement(const std::string& path, mode_t mode) : path_(behind_links(path)) {
    file_ = FileDescriptor(
        ::open(directory_of(path_).c_str(), O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file_.get() < 0) {
      std::string name = path_ + ".new-XXXXXX";
      file_ = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC | O_APPEND));
      if (file_.get() < 0) fail(name, "make a file beside the output");
      name_ = std::move(name);
    }
    ::fchmod(file_.get(), mode);
  }
  ~Replacement() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  int fd() const { return file_.get(); }
  void write(std::string_view bytes) { write_all(file_.get(), bytes, path_); }

  /// Replaces the other file; this one stays open.
  FileDescriptor put_in_place() {
    if (::fsync(file_.get()) != 0) fail(path_, "write to the disk");
    if (name_.empty()) give_name();
    if (::rename(name_.c_str(), path_.c_str()) != 0) fail(path_, "replace");
    name_.clear();
    sync_directory_of(path_);
    return std::move(file_);
  }

 private:
  void give_name() {
    const std::string here = "/proc/self/fd/" + std::to_string(file_.get());
    std::string name = path_ + ".new-" + new_salt().substr(0, 12);
    if (::linkat(AT_FDCWD, here.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      fail(name, "name the file beside the output");
    name_ = std::move(name);
  }

  std::string path_, name_;  ///< an empty `name_`: it has none
  FileDescriptor file_;
};

/// Whether a broken line may be the beginning of an answer's line: only such a line is dropped.
bool is_torn_start(std::string_view text) {
  if (text.starts_with('\0')) return true;  // after a crash of the machine: blocks that were never written
  constexpr std::string_view kStart = "{\"id\":";
  return text.substr(0, kStart.size()) == kStart.substr(0, text.size());
}

RunKey key_of(const LineName& name) {
  if (name.format == LineFormat::plain) return key_of_line(name.number);
  return name.custom_id ? key_of_custom_id(*name.custom_id) : RunKey{};
}

}  // namespace

OutputFile::OutputFile(std::string path, const InputFile& input) : path_(std::move(path)), input_(input) {
  if (path_ == "-") {
    file_ = FileDescriptor(::dup(STDOUT_FILENO));
    if (file_.get() < 0) fail("the standard output", "write to it");
  } else {
    if (input_.is_at(path_)) throw RunError(printable(path_) + " is the input itself; give another --out");
    has_state();
    open_and_lock();
  }
  progressed_.done.assign(input_.entries().size(), false);
}

void OutputFile::open_and_lock() {
  while (true) {
    file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
    is_new_ = file_.get() < 0 && errno == ENOENT;
    if (is_new_) file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (file_.get() < 0) fail(path_, "open for writing");
    struct stat ours {
    }, there{};
    if (::fstat(file_.get(), &ours) != 0) fail(path_, "read");
    regular_ = S_ISREG(ours.st_mode);
    if (!regular_) return;
    // The user deleted the output to get new answers; with the old salt the old answers would return.
    if (is_new_) ::unlink(state_path().c_str());
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0)
      throw RunError(printable(path_) +
                     " is being written by another run; wait for it or give another --out");
    // Another run may have replaced the file between the opening and the lock.
    if (::stat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
      return;
  }
}

// ---- what is there already ----------------------------------------------------------------------------

const Progressed& OutputFile::scan() {
  if (!regular_) return progressed_;
  LineReader reader(file_.get(), kLineBytesMax);
  FileLine line;
  bool torn = false;
  try {
    for (std::uint64_t number = 1; reader.next(line); ++number) {
      if (torn) refuse_line(number - 1, "is no answer of `lanemq run`");
      std::optional<OutputLine> read;
      if (line.complete && !line.too_long) read = read_output(line.text);
      // Only the last line may be broken. If it is the only line the file must be an unfinished run's, and
      // the line look like an answer's.
      torn = !read;
      if (torn && line.complete) refuse_line(number, "is no answer of `lanemq run`");
      if (torn && number == 1 && !(is_torn_start(line.text) && has_state()))
        refuse_line(number, "is no answer of `lanemq run`");
      if (torn || !keep(number, *read)) {
        drops_ = true;
        continue;
      }
      if (!kept_.empty() && kept_.back().offset + kept_.back().bytes == line.offset)
        kept_.back().bytes += line.bytes;
      else
        kept_.push_back({line.offset, line.bytes});
    }
  } catch (const std::system_error& error) {
    throw RunError(printable(path_) + ": " + error.code().message());
  }
  progressed_.torn = torn;
  read_state();
  return progressed_;
}

void OutputFile::refuse_line(std::uint64_t number, const std::string& why) const {
  throw RunError(printable(path_) + " line " + std::to_string(number) + " " + why +
                 "; give another --out or move that file away");
}

/// Whether a line stays in the output. Notes what it says.
bool OutputFile::keep(std::uint64_t number, const OutputLine& read) {
  const std::string input = printable(input_.path());
  if (read.name.format != input_.format())
    refuse_line(number, "answers a file of another format than " + input);
  if (read.failed) {
    if (!request_in(read.job_id) && !read.job_id.starts_with(kLineIdStart))
      refuse_line(number, "is no answer of `lanemq run`");
    ++progressed_.failed_count;
    if (const RunKey key = key_of(read.name); key.names_something()) progressed_.attempts[key] = 2;
    return false;
  }
  const std::optional<std::size_t> place = input_.find(key_of(read.name));
  const std::string name = read.name.custom_id ? "custom_id \"" + printable(*read.name.custom_id) + "\""
                                               : "line " + std::to_string(read.name.number);
  if (!place) refuse_line(number, "answers " + name + ", which " + input + " has not");
  const InputFile::Entry& entry = input_.entries()[*place];
  if (request_in(read.job_id) != entry.request)
    refuse_line(number, "answers another request than " + input + " line " + std::to_string(entry.number) +
                            ": its body, url, --service or --model was another one");
  if (progressed_.done[*place]) return false;
  progressed_.done[*place] = true;
  ++progressed_.done_count;
  return true;
}

/// Whether PATH.run is there. Throws RunError where it is no run's, which would be overwritten.
bool OutputFile::has_state() const {
  const FileDescriptor file(::open(state_path().c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return false;
    fail(state_path(), "read");
  }
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    LineReader reader(file.get(), kStateLineBytesMax);
    FileLine line;
    if (reader.next(line) && line.text == kStateHeading) return true;
  }
  throw RunError(printable(state_path()) +
                 " is in the way: a run keeps a file of that name beside its output, and this is no run's; "
                 "give another --out or move that file away");
}

/// Reads PATH.run: a heading, the salt, then a line with the next attempt for each key.
void OutputFile::read_state() {
  const FileDescriptor file(::open(state_path().c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return;
  LineReader reader(file.get(), kStateLineBytesMax);
  FileLine line;
  if (!reader.next(line) || !reader.next(line) || !line.complete) return;
  salt_ = std::string(line.text);
  while (reader.next(line) && line.complete) {
    const std::size_t space = line.text.find(' ');
    if (space == std::string_view::npos) continue;
    const RunKey key = key_from_text(line.text.substr(0, space));
    const std::uint32_t stored = static_cast<std::uint32_t>(
        std::strtoul(std::string(line.text.substr(space + 1)).c_str(), nullptr, 10));
    if (!key.names_something() || stored < 2) continue;
    if (const auto place = input_.find(key); place && progressed_.done[*place]) continue;
    std::uint32_t& next = progressed_.attempts[key];
    next = next == 0 ? stored : stored + 1;  // the line failed again after this was written
  }
}

// ---- writing ------------------------------------------------------------------------------------------

void OutputFile::begin() {
  if (salt_.empty()) salt_ = new_salt();
  if (!regular_) return;
  // First the attempts, then the failed lines are dropped: a crash in between only skips an attempt's number.
  write_state();
  if (drops_) rewrite(kept_);
}

void OutputFile::note_attempts(const std::map<RunKey, std::uint32_t>& attempts) {
  if (!regular_ || attempts.empty()) return;
  for (const auto& [key, attempt] : attempts)
    progressed_.attempts[key] = attempt;
  write_state();
}

void OutputFile::write_state() {
  Replacement state(state_path(), 0600);
  std::string text(kStateHeading);
  text += '\n' + salt_ + '\n';
  for (const auto& [key, attempt] : progressed_.attempts) {
    text += to_text(key) + ' ' + std::to_string(attempt) + '\n';
    if (text.size() > kCopyBytes) {
      state.write(text);
      text.clear();
    }
  }
  state.write(text);
  state.put_in_place();
}

void OutputFile::rewrite(const std::vector<Span>& spans) {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) fail(path_, "read");
  Replacement fresh(path_, status.st_mode & 0777);
  if (::flock(fresh.fd(), LOCK_EX | LOCK_NB) != 0) fail(path_, "lock");
  std::string block;
  for (Span span : spans) {
    while (span.bytes > 0) {
      read_at(file_.get(), span.offset,
              static_cast<std::size_t>(std::min<std::uint64_t>(span.bytes, kCopyBytes)), block);
      if (block.empty()) throw RunError(printable(path_) + " became shorter meanwhile; run again");
      fresh.write(block);
      span.offset += block.size();
      span.bytes -= block.size();
    }
  }
  file_ = fresh.put_in_place();
}

void OutputFile::forget() {
  if (!is_new_) return;
  ::unlink(path_.c_str());
  ::unlink(state_path().c_str());
}

void OutputFile::append(std::string_view lines) {
  if (path_ == "-" && output_is_terminal()) return write_all(file_.get(), harmless(lines), path_);
  write_all(file_.get(), lines, path_);
}

void OutputFile::finish(OutputOrder order, bool complete) {
  if (!regular_) return;
  if (order == OutputOrder::input) {
    const std::vector<Span> spans = in_input_order();
    if (spans.size() > 1) rewrite(spans);
  }
  if (::fsync(file_.get()) != 0) fail(path_, "write to the disk");
  if (complete) ::unlink(state_path().c_str());
}

/// The file's lines in the input's order; adjacent ones that are in order are joined.
std::vector<OutputFile::Span> OutputFile::in_input_order() const {
  struct Place {
    std::size_t rank;
    Span span;
  };
  std::vector<Place> places;
  LineReader reader(file_.get(), kLineBytesMax);
  FileLine line;
  while (reader.next(line)) {
    std::size_t rank = input_.entries().size();  // lines of no input go behind the others, in their order
    if (const std::optional<OutputLine> read = read_output(line.text)) {
      rank = input_.find(key_of(read->name)).value_or(rank);
    }
    places.push_back({rank, {line.offset, line.bytes}});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.rank < b.rank; });
  std::vector<Span> spans;
  for (const Place& place : places) {
    if (!spans.empty() && spans.back().offset + spans.back().bytes == place.span.offset)
      spans.back().bytes += place.span.bytes;
    else
      spans.push_back(place.span);
  }
  return spans;
}

}  // namespace lanemq::cli
