// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/run/input_file.hpp"
#include "common/json/line_reader.hpp"

namespace lanemq::cli {

/// The order of lines in a finished output.
enum class OutputOrder : unsigned char { completion, input };

/// What an existing output shows of a run.
struct Progressed {
  std::vector<bool> done;  ///< by index in InputFile::entries()
  std::size_t done_count = 0;
  std::size_t failed_count = 0;                ///< lines with a failure, which are sent again
  bool torn = false;                           ///< the last line is incomplete
  std::map<RunKey, std::uint32_t> attempts{};  ///< the next attempt of failed lines, from 2
};

/// The file of answers: lines are appended as they come, and another process can continue where one stopped.
///
/// While the run is unfinished PATH.run beside it has what the output cannot tell: the salt of job ids, and
/// the attempts of failed lines. A crash at any time leaves complete lines, but for the last one. One process
/// writes it at a time (flock). Not thread-safe.
///
/// A path that is no regular file (`-` for the standard output, a pipe, /dev/null) is written from the start,
/// and cannot be continued.
class OutputFile {
 public:
  static constexpr std::size_t kLineBytesMax =
      6 * limits::body_bytes_max + std::size_t{64} * 1024;  ///< a fully escaped body

  /// Opens or creates the file and locks it. Throws RunError, also where PATH.run is a file of somebody
  /// else's.
  OutputFile(std::string path, const InputFile& input);

  /// Reads an existing output; changes nothing. Throws RunError where a line is no answer, or a good one to
  /// another request than the input has.
  const Progressed& scan();

  /// Prepares the file for appending: drops failed and incomplete lines, by a new file that replaces the old
  /// one so that no line is ever lost, and stores the salt. Throws RunError.
  void begin();

  /// Deletes the file, and PATH.run, if this object created it, for a run that comes to nothing.
  void forget();

  /// Appends whole lines. When it throws RunError the file may end in an incomplete line.
  void append(std::string_view lines);

  /// Stores the attempts with which the next run sends lines that have no answer by then. Throws RunError.
  void note_attempts(const std::map<RunKey, std::uint32_t>& attempts);

  /// Ends a run. `order` input: sorts the lines by it, those without a name behind the others. `complete`
  /// (each line has a good answer): deletes PATH.run. Throws RunError.
  void finish(OutputOrder order, bool complete);

  bool can_resume() const { return regular_; }
  const std::string& salt() const { return salt_; }

 private:
  struct Span {
    std::uint64_t offset = 0, bytes = 0;
  };
  void open_and_lock();
  [[noreturn]] void refuse_line(std::uint64_t number, const std::string& why) const;
  bool keep(std::uint64_t number, const OutputLine& read);
  bool has_state() const;
  void read_state();
  void write_state();
  void rewrite(const std::vector<Span>& spans);
  std::vector<Span> in_input_order() const;
  std::string state_path() const { return path_ + ".run"; }

  std::string path_;
  const InputFile& input_;
  FileDescriptor file_;
  bool regular_ = false;
  bool is_new_ = false;  ///< created by this object
  std::string salt_;
  Progressed progressed_;
  std::vector<Span> kept_;  ///< adjacent ones are joined
  bool drops_ = false;
};

}  // namespace lanemq::cli
