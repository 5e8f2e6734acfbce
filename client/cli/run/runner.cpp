// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/runner.hpp"

#include <algorithm>
#include <cctype>
#include <future>

#include <lanemq/text.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/meta.hpp"
#include "client/cli/run/run_key.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/json/members.hpp"

namespace lanemq::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kProblemsSaidMax = 20;
// For a group that nobody asked for no longer files are read a second time.
constexpr std::size_t kLinesCountedMax = 200'000;
constexpr std::size_t kWriteBytes =
    std::size_t{1024} * 1024;  // output that is collected while more answers wait
constexpr milliseconds kRedrawEvery{100};
constexpr std::chrono::seconds kWordsEvery{30};
constexpr std::chrono::seconds kRefusalSaidEvery{30};

std::string words_of(const ClientError& error) {
  return printable(error.code) + ": " + printable(error.message);
}

}  // namespace

Runner::Runner(const RunOptions& options, const InputFile& input, OutputFile& output,
               const Progressed& progressed, Client& client, const Common& common, LandingStrip& strip)
    : options_(options),
      group_(options.job.group),
      input_(input),
      output_(output),
      progressed_(progressed),
      client_(client),
      common_(common),
      strip_(strip),
      progress_(Clock::now()),
      words_at_(Clock::now() + kWordsEvery),
      served_at_(Clock::now() + kMoment) {
  counts_.total = input.entries().size();
  counts_.before = progressed.done_count;
  if (counts_.before > 0) failures_.note_success();
}

void Runner::run() {
  std::vector<Landed> landed;
  while (true) {
    for (Landed& one : landed)
      settle(std::move(one));
    write();
    if (interrupted() != 0 || !stopped_.empty()) break;
    if (fill() && at_broker_.empty() && waiting_.empty()) break;
    write();  // filling the window settles lines that cannot be sent
    show();
    strip_.take(landed, wait());
  }
  take_last();
  show_live({});
}

void Runner::cancel() {
  if (std::exchange(cancelled_, true)) return;
  std::vector<std::string> ids;
  std::map<RunKey, std::uint32_t> attempts;
  for (const auto& [place, job] : at_broker_) {
    ids.push_back(job.id);
    const RunKey& key = input_.entries()[place].key;
    if (key.names_something()) attempts[key] = job.attempt + 1;
  }
  try {
    output_.note_attempts(attempts);
  } catch (const RunError& error) {
    say(error.what());
  }
  cancel_and_say(client_, ids);
  take_last();  // answers that were on their way
}

void Runner::forsake() {
  forsaken_ = true;
  if (!options_.keep) cancel();
}

bool Runner::has_room() const {
  return at_broker_.size() + waiting_.size() < options_.window &&
         (at_broker_.empty() || in_flight_bytes_ < kInFlightBytesMax);
}

/// Sends as many lines as the window takes; true: no lines are left.
bool Runner::fill() {
  const auto now = Clock::now();
  while (!waiting_.empty() && waiting_.begin()->first <= now) {
    const Flight flight = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    send(flight);
  }
  const auto& entries = input_.entries();
  for (; next_ < entries.size() && has_room(); ++next_) {
    if (progressed_.done[next_]) continue;
    send(flight_of(next_));
  }
  return next_ == entries.size();
}

Flight Runner::flight_of(std::size_t place) const {
  Flight flight{.place = static_cast<std::uint32_t>(place), .retries_left = options_.retries};
  const auto attempt = progressed_.attempts.find(input_.entries()[place].key);
  if (attempt != progressed_.attempts.end()) flight.attempt = attempt->second;
  return flight;
}

void Runner::size_group(bool goes_on) {
  if (group_.empty()) return;
  std::vector<std::future<Reply<JobStatus>>> asked;
  std::int64_t added = 0, open = 0, again = 0;
  std::vector<bool> is_again;
  const auto take = [&] {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const Reply<JobStatus> known = asked[i].get();
      if (!known)
        throw RunError("the broker does not say which jobs of the group it has: " + known.error().message);
      const bool is_new = known->state == "unknown";
      added += is_new ? 1 : 0;
      again += is_new && is_again[i] ? 1 : 0;
      open += known->group == group_ ? 1 : 0;
    }
    asked.clear();
    is_again.clear();
  };
  for (std::size_t place = 0; place < input_.entries().size() && interrupted() == 0; ++place) {
    if (progressed_.done[place]) continue;
    const InputLine line = input_.read(input_.entries()[place], storage_);
    if (!line.problem.empty()) continue;
    if (!goes_on) {
      ++added;
      continue;
    }
    const Flight flight = flight_of(place);
    if (asked.size() == options_.window) take();
    asked.push_back(client_.status(job_id(flight)));
    is_again.push_back(flight.attempt > 1);
  }
  take();
  if (open > 0 && again > 0)
    throw RunError(
        "group " + printable(group_) + " still has " + grouped(static_cast<std::uint64_t>(open)) +
        " open jobs of the run before, and " + grouped(static_cast<std::uint64_t>(again)) +
        " lines that failed would be more than its size; run again when it is over (lanemq watch --group), "
        "or name another group");
  // While jobs of the run before are open the group has the size that it stated, which counts these lines.
  if (open == 0 && added > 0) group_size_ = added;
  if (group_is_own_ && !group_size_) group_.clear();
}

void Runner::name_group(bool goes_on) {
  constexpr std::size_t kNameBytesMax = 64, kRandomDigits = 8;
  std::string name = options_.file == "-" ? "stdin" : options_.file.substr(options_.file.rfind('/') + 1);
  name.resize(std::min(name.size(), kNameBytesMax));
  for (char& c : name)
    if (std::string_view("-._").find(c) == std::string_view::npos &&
        std::isalnum(static_cast<unsigned char>(c)) == 0)
      c = '_';
  group_ = name + "-" + new_salt().substr(0, kRandomDigits);
  group_is_own_ = true;
  if (input_.entries().size() <= kLinesCountedMax)
    size_group(goes_on);
  else
    group_size_ = static_cast<std::int64_t>(input_.entries().size() - progressed_.done_count);
}

void Runner::send(const Flight& flight) {
  const InputFile::Entry& entry = input_.entries()[flight.place];
  const InputLine line = input_.read(entry, storage_);
  if (!line.problem.empty()) {
    const std::string problem = "line " + std::to_string(entry.number) + " " + line.problem;
    if (problems_said_ < kProblemsSaidMax) say(printable(input_.path()) + " " + problem);
    if (++problems_said_ == kProblemsSaidMax) say("further lines with problems are in the output only");
    return put_down(
        entry, input_.name_of(entry, line), std::string(kLineIdStart) + std::to_string(entry.number),
        ClientError{.code = std::string(name_of(ErrorCode::bad_request)), .message = problem}, false);
  }
  if (request_hash({.service = options_.job.service, .model = options_.job.model}, line.path, line.body) !=
      entry.request)
    throw RunError(printable(input_.path()) + " was changed while this run read it: line " +
                   std::to_string(entry.number) +
                   " is another one by now; give each run a file that stays, as by mv in place of cat >");
  JobOptions job = options_.job;
  job.group = group_;
  if (!group_.empty()) job.group_size = group_size_;
  job.model = model_of(line);
  job.id = job_id(flight);
  const std::size_t body_bytes = line.body.size();
  at_broker_[flight.place] = {job.id, flight.attempt};
  in_flight_bytes_ += body_bytes;
  JobRequest request = request_of(job);
  if (!line.path.empty()) request.meta = meta_of_json("{\"http\":{\"path\":" + json_text(line.path) + "}}");
  client_.submit(std::move(request), Blob::copy(line.body),
                 [strip = &strip_, flight, name = input_.name_of(entry, line), body_bytes](Answer answer) {
                   strip->put({flight, name, body_bytes, std::move(answer)});
                 });
}

std::string Runner::job_id(const Flight& flight) const {
  const InputFile::Entry& entry = input_.entries()[flight.place];
  return run_job_id({.salt = output_.salt(),
                     .lane = options_.job.lane,
                     .key = entry.key,
                     .request = entry.request,
                     .attempt = flight.attempt});
}

/// Settles the answers that came with the signal.
void Runner::take_last() {
  std::vector<Landed> landed;
  strip_.take(landed, milliseconds(0));
  for (Landed& one : landed)
    settle(std::move(one));
  write();
}

void Runner::settle(Landed landed) {
  at_broker_.erase(landed.flight.place);
  in_flight_bytes_ -= landed.body_bytes;
  if (!landed.answer) {
    if (cancelled_ && landed.answer.error().known_code() == ErrorCode::cancelled) return;
    const AfterError what = after_error(landed.answer.error(), landed.flight);
    if (what == AfterError::stop && !options_.keep_going)
      return stop("the broker refuses every line: " + words_of(landed.answer.error()));
    if (what == AfterError::send_again || what == AfterError::run_again)
      return wait_and_retry(landed.flight, landed.answer.error(), what);
  }
  const std::string id = landed.answer ? landed.answer->id : landed.answer.error().id;
  put_down(input_.entries()[landed.flight.place], landed.name, id, landed.answer, true);
  if (failures_.looks_hopeless() && !options_.keep_going)
    stop("the first " + std::to_string(Failures::kAlikeMax) + " lines failed alike; --keep-going sends all");
}

void Runner::stop(std::string why) {
  if (stopped_.empty()) stopped_ = std::move(why);
}

void Runner::put_down(const InputFile::Entry& entry, const LineName& name, std::string_view job_id,
                      const Answer& answer, bool sent) {
  served_at_ = Clock::now() + kWordsEvery;
  if (answer) {
    ++counts_.done;
    failures_.note_success();
  } else {
    ++counts_.failed;
    failures_.note(entry.number, answer.error(), sent);
  }
  lines_ += write_output(name, job_id, answer);
  if (lines_.size() > kWriteBytes) write();
}

void Runner::wait_and_retry(Flight flight, const ClientError& error, AfterError what) {
  const auto now = Clock::now();
  const double chance = std::uniform_real_distribution<double>(0, 1)(random_);
  const milliseconds delay = wait_before_retry(error, flight, chance);
  if (what == AfterError::send_again) {
    // A group that nobody asked for is no reason to wait.
    if (group_is_own_ && !group_.empty() && error.limiter == "groups_max") {
      group_.clear();
      waiting_.emplace(now, flight);
      return;
    }
    ++flight.refusals;
    if (now - refusal_said_ > kRefusalSaidEvery) {
      refusal_said_ = now;
      say("the broker takes no more for now, going on when it does: " + words_of(error));
    }
  } else {
    ++flight.attempt;
    --flight.retries_left;
    flight.refusals = 0;
  }
  waiting_.emplace(now + delay, flight);
}

void Runner::write() {
  if (lines_.empty() || forsaken_) return;
  output_.append(lines_);
  lines_.clear();
}

void Runner::show() {
  const auto now = Clock::now();
  counts_.in_flight = at_broker_.size();
  progress_.sample(counts_, now);
  if (now >= served_at_ && !at_broker_.empty()) {
    served_at_ = now + kWordsEvery;
    say_if_nobody_serves(client_, common_, at_broker_.begin()->second.id);
  }
  if (options_.quiet) return;
  if (error_is_terminal()) {
    if (now < bar_at_) return;
    bar_at_ = now + kRedrawEvery;
    return show_live(progress_.bar(counts_, error_columns()));
  }
  if (now < words_at_) return;
  words_at_ = now + kWordsEvery;
  say("run: " + progress_.words(counts_));
}

milliseconds Runner::wait() const {
  if (waiting_.empty()) return kRedrawEvery;
  const auto left = std::chrono::ceil<milliseconds>(waiting_.begin()->first - Clock::now());
  return std::clamp(left, milliseconds(0), kRedrawEvery);
}

}  // namespace lanemq::cli
