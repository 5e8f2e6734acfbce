// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "client/cli/broker_link.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/explanation.hpp"
#include "client/cli/meta.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {
namespace {

/// Everything a file holds; empty: it cannot be read or holds too much, and the reason was said.
std::optional<std::string> read_whole(int fd, const std::string& name) {
  constexpr std::size_t kBlock = std::size_t{64} * 1024;
  std::string text;
  while (true) {
    const std::size_t had = text.size();
    if (had > limits::body_bytes_max) {
      say(printable(name) + " has more than " + std::to_string(limits::body_bytes_max) +
          " bytes, the largest body there is; send less");
      return std::nullopt;
    }
    text.resize(had + kBlock);
    const ssize_t got = ::read(fd, text.data() + had, kBlock);
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) {
      say(printable(name) + ": " + std::strerror(errno));
      return std::nullopt;
    }
  }
}

std::optional<std::string> body_of(const std::string& given) {
  if (given == "-") return read_whole(STDIN_FILENO, "the standard input");
  if (!given.starts_with('@')) return given;
  const std::string path = given.substr(1);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() >= 0) return read_whole(file.get(), path);
  say(printable(path) + ": " + std::strerror(errno));
  return std::nullopt;
}

int put_body(std::string_view body) {
  if (!(output_is_terminal() ? put(harmless(body)) : put(body))) return kExitFailed;
  if (output_is_terminal() && !body.empty() && !body.ends_with('\n')) put("\n");
  return kExitDone;
}

int put_done(const JobDone& done, bool json) {
  return json ? put_body(answer_json(done)) : put_body(done.body.bytes());
}

std::string status_text(const JobStatus& status) {
  std::string text = printable(status.id) + " " + status.state;
  if (!status.lane.empty()) text += " lane=" + printable(status.lane);
  if (status.attempts > 0) text += " attempts=" + std::to_string(status.attempts);
  if (status.position) text += " position=" + std::to_string(*status.position);
  if (status.eta) text += " eta=" + short_duration(*status.eta);
  if (!status.blocked_by.empty()) text += " blocked_by=\"" + printable(status.blocked_by) + "\"";
  if (!status.worker.empty()) text += " worker=" + printable(status.worker);
  if (!status.error_json.empty()) text += " error=" + status.error_json;
  return text + "\n";
}

int put_status(const Common& common, Client& client, const JobQuery& query,
               std::future<Reply<JobStatus>> pending) {
  const auto reply = wait_for(pending, client, common);
  if (!reply) return end_unreached(common, query.json);
  if (!*reply) return end_refused(reply->error(), query.json);
  if (!put(query.json ? status_json(**reply) : status_text(**reply))) return kExitFailed;
  return (*reply)->state == "unknown" ? kExitFailed : kExitDone;
}

/// Prints an answer piece by piece. The pieces wait for the caller's thread, so that a slow reader of ours
/// stops no heartbeat: it gets a window of them, and then its upstream pauses.
class Printing {
 public:
  StreamReader reader() {
    return {.on_chunk = [this](JobChunk chunk) { give([&] { pieces_.push_back(std::move(chunk)); }); },
            .on_end = [this](Answer answer) { give([&] { end_ = std::move(answer); }); },
            .takes_at_once = false};
  }

  /// Prints what comes until the end; the exit code.
  int print_all(Client& client, const Common& common) {
    if (!comes_within(std::chrono::milliseconds(50)) && !reaches(client, common) &&
        !comes_within(std::chrono::milliseconds(0)))
      return kExitUnreachable;
    for (bool ended = false; !ended;) {
      std::deque<JobChunk> pieces;
      {
        std::unique_lock lock(mutex_);
        given_.wait(lock, [this] { return something(); });
        pieces.swap(pieces_);
        ended = end_.has_value();
      }
      for (const JobChunk& piece : pieces) {
        if (!print(piece.body.bytes())) return kExitFailed;
        client.seen(piece.id, piece.seq);
      }
    }
    if (*end_ && !print((*end_)->body.bytes())) return kExitFailed;
    if (!ends_line_ && output_is_terminal()) put("\n");
    if (*end_) return kExitDone;
    return end_refused(end_->error(), false);
  }

 private:
  template <class Give>
  void give(Give give) {
    {
      const std::lock_guard lock(mutex_);
      give();
    }
    given_.notify_one();
  }
  bool something() const { return !pieces_.empty() || end_.has_value(); }
  bool comes_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return given_.wait_for(lock, time, [this] { return something(); });
  }
  bool print(std::string_view bytes) {
    if (bytes.empty()) return true;
    ends_line_ = bytes.ends_with('\n');
    return output_is_terminal() ? put(harmless(bytes)) : put(bytes);
  }

  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<JobChunk> pieces_;  ///< guarded by mutex_; at most a window, and what comes twice of it
  std::optional<Answer> end_;    ///< guarded by mutex_ until it is set
  bool ends_line_ = true;
};

/// Says the id by which the answer can be fetched.
int leave(const Common& common, Client& client, JobRequest request, std::string body, bool json) {
  std::future<Reply<JobAccepted>> pending = client.leave(std::move(request), std::move(body));
  const auto accepted = wait_for(pending, client, common);
  if (!accepted) return end_unreached(common, json);
  if (!*accepted) return end_refused(accepted->error(), json);
  if (!(*accepted)->durable) say("the job is not on disk: it ends with the broker");
  return put(json ? accepted_json(**accepted) : (*accepted)->id + "\n") ? kExitDone : kExitFailed;
}

}  // namespace

int submit(const Common& common, const SubmitOptions& options) {
  std::optional<std::string> body = body_of(options.body);
  if (!body) return kExitUsage;
  Printing printing;  // outlives the client, which calls it
  Client client(client_options(common));
  JobRequest request = request_of(options.job);
  if (options.delay_ms) request.delay = std::chrono::milliseconds(*options.delay_ms);
  if (options.retain_ms) request.retain = std::chrono::milliseconds(*options.retain_ms);
  if (!options.meta.empty()) {
    request.meta = meta_of_json(options.meta);
    if (request.meta.empty()) {
      say("--meta is not JSON: " + printable(options.meta));
      return kExitUsage;
    }
  }
  request.stream = options.stream;
  if (options.leave) return leave(common, client, std::move(request), std::move(*body), options.json);
  if (options.stream) {
    client.stream(std::move(request), Blob::borrow(*body), printing.reader());
    return printing.print_all(client, common);
  }
  std::future<Answer> pending = client.submit(std::move(request), std::move(*body));
  const std::optional<Answer> answer = wait_for(pending, client, common);
  if (!answer) return end_unreached(common, options.json);
  if (!*answer) return end_refused(answer->error(), options.json);
  return put_done(**answer, options.json);
}

int status(const Common& common, const JobQuery& query) {
  Client client(client_options(common));
  return put_status(common, client, query, client.status(query.id));
}

int cancel(const Common& common, const JobQuery& query) {
  Client client(client_options(common));
  return put_status(common, client, query, client.cancel(query.id));
}

int fetch(const Common& common, const JobQuery& query) {
  Printing printing;  // outlives the client, which calls it
  Client client(client_options(common));
  if (query.from_seq) {
    client.follow(query.id, *query.from_seq, printing.reader());
    return printing.print_all(client, common);
  }
  std::future<FetchAnswer> pending = client.fetch(query.id, std::chrono::milliseconds(query.wait_ms));
  const std::optional<FetchAnswer> answer = wait_for(pending, client, common);
  if (!answer) return end_unreached(common, query.json);
  if (!*answer) return end_refused(answer->error(), query.json);
  if (const auto* done = std::get_if<JobDone>(&**answer)) return put_done(*done, query.json);
  const JobStatus& running = std::get<JobStatus>(**answer);
  if (query.json) put(status_json(running));
  say("job " + printable(running.id) + " is " + printable(running.state) + "; give it --wait-ms");
  return kExitFailed;
}

}  // namespace lanemq::cli
