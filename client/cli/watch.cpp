// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <ctime>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <lanemq/text.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/base/explanation.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {
namespace {

/// Changes that wait for the standard output; further ones are left out, and the next one says so.
constexpr std::size_t kWaitingMax = 16'384;

struct WatchOptions {
  WatchRequest request;
  std::uint64_t changes_max = 0;  ///< 0: until interrupted
  bool json = false;
};

/// Changes on their way from the client's thread, which must not wait, to the standard output, which may.
class Changes {
 public:
  WatchReader reader() {
    return {.on_change = [this](JobChange change) { add(std::move(change)); },
            .on_end =
                [this](ClientError error) {
                  const std::lock_guard lock(mutex_);
                  end_ = std::move(error);
                  came_.notify_one();
                }};
  }

  /// The next one; empty: none came within the time, or the watch is over.
  std::optional<JobChange> next(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, time, [this] { return !waiting_.empty() || end_; });
    if (waiting_.empty()) return std::nullopt;
    JobChange change = std::move(waiting_.front());
    waiting_.pop_front();
    return change;
  }
  std::optional<ClientError> end() const {
    const std::lock_guard lock(mutex_);
    return waiting_.empty() ? end_ : std::nullopt;
  }

 private:
  void add(JobChange change) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kWaitingMax) {
      ++left_out_;
      return;
    }
    const std::int64_t left_out = std::exchange(left_out_, 0);
    change.left_out += left_out;
    change.gap = change.gap || left_out > 0;
    waiting_.push_back(std::move(change));
    came_.notify_one();
  }

  mutable std::mutex mutex_;  // guards all
  std::condition_variable came_;
  std::deque<JobChange> waiting_;
  std::int64_t left_out_ = 0;
  std::optional<ClientError> end_;
};

/// 12:03:04.567, of this machine's day.
std::string clock_of(std::chrono::milliseconds at) {
  const std::time_t seconds = at.count() / 1000;
  std::tm day{};
  ::localtime_r(&seconds, &day);
  char text[16];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%03d", day.tm_hour, day.tm_min, day.tm_sec,
                static_cast<int>(at.count() % 1000));
  return text;
}

/// A change as a line for people.
std::string line_of(const JobChange& change) {
  std::string line = clock_of(change.at) + " " + printable(change.what);
  line.resize(std::max<std::size_t>(line.size(), 22), ' ');
  const auto add = [&line](const char* name, const std::string& value) {
    if (!value.empty()) line.append(" ").append(name).append("=").append(printable(value));
  };
  const auto add_ms = [&line](const char* name, std::optional<std::chrono::milliseconds> value) {
    if (value) line.append(" ").append(name).append("=").append(std::to_string(value->count()));
  };
  if (change.what == "group_over") {
    line += " " + printable(change.group);
    for (const auto& [name, count] : ended_of(change))
      if (count > 0) line += " " + std::string(name) + "=" + grouped(static_cast<std::uint64_t>(count));
    return line + (change.incomplete ? " incomplete\n" : "\n");
  }
  line += " " + printable(change.id) + " " + printable(change.state);
  add("code", change.code);
  add("lane", change.lane);
  add("from_lane", change.from_lane);
  add("service", change.service);
  add("model", change.model);
  add("client", change.client);
  add("worker", change.worker);
  add("group", change.group);
  add("shard", change.shard);
  if (change.attempts > 1) line += " attempts=" + std::to_string(change.attempts);
  add_ms("delay_ms", change.delay);
  add_ms("queued_ms", change.queued);
  add_ms("ran_ms", change.ran);
  if (change.dead) line += " dead";
  if (change.pct) line += " pct=" + std::to_string(*change.pct);
  if (!change.note.empty()) line += " note=\"" + printable(change.note) + "\"";
  return line + "\n";
}

void say_gap(const JobChange& change) {
  const std::string shard = change.shard.empty() ? "" : " (shard " + printable(change.shard) + ")";
  if (change.what == "watching")
    say((change.gap ? "the watch was lost and goes on; changes in between are missing" : "watching") + shard);
  else if (change.gap)
    say(grouped(static_cast<std::uint64_t>(change.left_out)) +
        " changes are missing here: they came faster than they were read" + shard);
}

int watch(const Common& common, const WatchOptions& options) {
  catch_interrupts();
  watch_output();
  Changes changes;  // must outlive the client, which calls it
  Client client(client_options(common));
  client.watch(options.request, changes.reader());
  if (!reaches(client, common)) return end_unreached(common, options.json);
  std::uint64_t shown = 0;
  while (interrupted() == 0) {
    const std::optional<JobChange> change = changes.next(kLookForSignalsEvery);
    if (!change) {
      if (const auto error = changes.end()) return end_refused(*error, options.json);
      continue;
    }
    if (options.json) {
      if (!put_json(change_json(*change))) break;
    } else {
      say_gap(*change);
      if (change->what != "watching" && !put_foreign(line_of(*change))) break;
    }
    if (change->what != "watching" && ++shown == options.changes_max) return kExitDone;
  }
  return interrupted() != 0 ? kExitDone : kExitFailed;
}

}  // namespace

void add_watch(CommandLine& line) {
  const auto options = std::make_shared<WatchOptions>();
  CLI::App& command =
      line.add("watch", "Follow what becomes of jobs: a line for each change, until interrupted");
  // `watch "$ID"` with a variable that is not set must not follow everybody's jobs.
  const auto named = [](const std::string& text) {
    return text.empty() ? std::string("is empty; leave it out to follow all jobs") : std::string();
  };
  command.add_option("id", options->request.id, "Of that job alone")->type_name("ID")->check(named);
  command.add_option("--client", options->request.client, "Of that client alone")
      ->type_name("NAME")
      ->check(named);
  command.add_option("--lane", options->request.lane, "Of that lane alone")->type_name("NAME")->check(named);
  command.add_option("--service", options->request.service, "Of that service alone")
      ->type_name("NAME")
      ->check(named);
  command.add_option("--group", options->request.group, "Of that group alone, and when it is over")
      ->type_name("NAME")
      ->check(named);
  command.add_option("-n,--changes", options->changes_max, "End after so many; 0: do not")
      ->check(not_negative)
      ->type_name("N");
  command.add_flag(
      "--json", options->json,
      "Each change as JSON, in a line of its own; `watching` first, and again where some are missing");
  line.on_chosen(command, Asks::either, [options](const Common& common) { return watch(common, *options); });
}

}  // namespace lanemq::cli
