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

/// The order of the answers' lines in a finished output.
enum class OutputOrder : unsigned char { completion, input };

/// What an output that is already there says of the run.
struct Progressed {
  std::vector<bool> done;  ///< by the place in InputFile::entries()
  std::size_t done_count = 0;
  std::size_t failed_count = 0;                ///< lines that say that they failed: they are sent again
  bool torn = false;                           ///< the last line was not written whole
  std::map<RunKey, std::uint32_t> attempts{};  ///< of lines that failed before: the next attempt, from 2
};

/// The file of answers: appended to while they come, and able to go on where another process stopped.
///
/// Beside it, while the run is unfinished, stands PATH.run with what the output itself cannot say: the salt
/// of the job ids and the attempts of lines that failed. A crash at any point leaves an output whose lines
/// are whole, but for the last. Only one process at a time writes it (flock). Not thread-safe.
///
/// What is no regular file (`-` for the standard output, a pipe, /dev/null) is written from the start and
/// cannot be gone on with.
class OutputFile {
 public:
  static constexpr std::size_t kLineBytesMax =
      6 * limits::body_bytes_max + std::size_t{64} * 1024;  ///< a body escaped at worst

  /// Opens or makes the file and takes it for this process. Throws RunError.
  OutputFile(std::string path, const InputFile& input);

  /// Reads what is there; nothing is changed. Throws RunError where a line is no answer (some other file) or
  /// answers another input.
  const Progressed& scan();

  /// Makes the file ready for appending: drops the failed lines and a torn one (by a new file that takes the
  /// old one's name, so that no line is lost at any time) and stores the salt. Throws RunError.
  void begin();

  /// Takes the file away again if it was made here; for a run that comes to nothing before begin().
  void forget();

  /// Puts whole lines behind the others. Throws RunError, and then a torn line may stand there.
  void append(std::string_view lines);

  /// Ends a run. With `order` input the lines of the input are put into its order, others behind them;
  /// `complete` (every line is answered well) takes PATH.run away. Throws RunError.
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
  void read_state();
  void write_state();
  void rewrite(const std::vector<Span>& spans);
  std::vector<Span> in_input_order() const;
  std::string state_path() const { return path_ + ".run"; }

  std::string path_;
  const InputFile& input_;
  FileDescriptor file_;
  bool regular_ = false;
  bool is_new_ = false;  ///< made here
  std::string salt_;
  Progressed progressed_;
  std::vector<Span> kept_;  ///< neighbours are joined
  bool drops_ = false;
};

}  // namespace lanemq::cli
