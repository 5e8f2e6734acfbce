// SPDX-License-Identifier: Apache-2.0
// Serves `echo` and `words` until TERM or Ctrl-C.   worker [ENDPOINT]
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <list>
#include <memory>
#include <string_view>
#include <utility>

#include <lanemq/worker.hpp>

namespace {

/// Answers with the body, in pieces where a stream is asked for: its words, or its lines with their ends. The
/// worker keeps the window; a reader that is behind it is waited for.
class Pieces : public lanemq::Handler {
 public:
  explicit Pieces(bool words) : words_(words) {}

 private:
  struct Answer {
    lanemq::wire::Lease lease;
    lanemq::Blob body;
    std::size_t said = 0;  // bytes of the body
    lanemq::Completion done;
  };

  void start(const lanemq::JobCall& job, lanemq::Completion done) override {
    if (!job.stream) return done.success(job.body);
    answers_.push_back({.lease = job.lease, .body = job.body, .said = 0, .done = std::move(done)});
    go_on(std::prev(answers_.end()));
  }

  void resume(lanemq::wire::Lease lease) override {
    if (const auto answer = find(lease); answer != answers_.end()) go_on(answer);
  }

  void cancel(lanemq::wire::Lease lease) override {
    const auto answer = find(lease);
    if (answer == answers_.end()) return;
    answer->done.failure({.error_class = lanemq::ErrorClass::retry, .code = "cancelled"});
    answers_.erase(answer);
  }

  std::list<Answer>::iterator find(lanemq::wire::Lease lease) {
    auto answer = answers_.begin();
    while (answer != answers_.end() && !(answer->lease == lease))
      ++answer;
    return answer;
  }

  /// The piece that begins behind what was said; empty behind the last one.
  std::string_view next_piece(const Answer& answer) const {
    const std::string_view rest = answer.body.bytes().substr(answer.said);
    if (!words_) return rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
    constexpr std::string_view kBlanks = " \t\r\n";
    const std::string_view word = rest.substr(std::min(rest.find_first_not_of(kBlanks), rest.size()));
    return word.substr(0, word.find_first_of(kBlanks));
  }

  void go_on(std::list<Answer>::iterator answer) {
    while (answer->said < answer->body.size()) {
      const std::string_view piece = next_piece(*answer);
      if (piece.empty()) break;
      answer->said = piece.data() + piece.size() - answer->body.bytes().data();
      if (!answer->done.chunk(lanemq::Blob::copy(piece))) return;  // until resume()
    }
    answer->done.success({});
    answers_.erase(answer);
  }

  const bool words_;
  std::list<Answer> answers_;
};

lanemq::Worker* running = nullptr;

}  // namespace

int main(int argc, char** argv) {
  lanemq::WorkerOptions options;
  if (argc > 1) options.broker = argv[1];
  if (const char* key = std::getenv("LANEMQ_BROKER_KEY"))
    options.keys = {.broker = key, .secret = std::getenv("LANEMQ_SECRET_KEY")};
  options.capacity = 4;
  options.log.level = lanemq::LogLevel::warning;
  options.log.write = [](lanemq::LogLevel, std::string_view line) { std::cerr << line << "\n"; };
  lanemq::Worker worker(
      options, {{"echo", std::make_shared<Pieces>(false)}, {"words", std::make_shared<Pieces>(true)}});
  running = &worker;
  for (const int signal : {SIGTERM, SIGINT})
    std::signal(signal, [](int) { running->stop(); });  // the first drains, a second one ends it at once
  return worker.run() == lanemq::WorkerEnd::drained ? 0 : 1;
}
