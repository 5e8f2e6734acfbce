// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/workloads.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/bench/pace.hpp"
#include "tests/support/eventually.hpp"

namespace lanemq::bench {
namespace {

constexpr std::size_t kWindow = 1000;  // jobs that the closed loop keeps on the way
constexpr int kRoundtripWorkers = 2;
constexpr int kRoundtripCapacity = 100;
constexpr std::size_t kBatch = 16;
constexpr std::size_t kRepliesAtOnceMax = 1000;  // replies that a client takes before it submits again
constexpr int kLatencyWarmup = 2000;
constexpr int kEnqueueBurst = 100;  // jobs between two looks for a refusal
constexpr auto kWorkTime = std::chrono::milliseconds(5);
constexpr int kGeneralWorkers = 4;
constexpr int kThinkMicrosecondsMax = 3000;  // between two probes, so that they fall at random into the jobs
constexpr Seconds kClientTimeout{120};

double seconds_of(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

/// The smallest sample that `share` of all samples do not exceed.
double percentile_ns(const std::vector<std::uint64_t>& sorted, double share) {
  if (sorted.empty()) throw Failure("a workload took no sample");
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return static_cast<double>(sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1]);
}

std::vector<std::uint64_t> sorted_samples(const Control& control) {
  const auto begin = control.samples_ns.begin();
  std::vector<std::uint64_t> samples(begin, begin + static_cast<std::ptrdiff_t>(control.sample_count.load()));
  std::sort(samples.begin(), samples.end());
  return samples;
}

// ---- roundtrip: as many jobs as go through with a window of kWindow ----

/// Keeps a window of jobs on the way. Each reply is checked to be the one that is due for its slot, so that a
/// lost, doubled or foreign reply is an error and no figure.
class ClosedLoop {
 public:
  ClosedLoop(ClientEnd& client, Control& control) : client_(client), control_(control), due_(kWindow, 0) {}

  void run() {
    for (std::size_t slot = 0; slot < kWindow; ++slot)
      submit(slot);
    client_.push();
    std::vector<std::size_t> finished;
    for (std::size_t outstanding = kWindow; outstanding > 0;) {
      take_replies(finished);
      control_.completed.store(completed_ += finished.size(), std::memory_order_relaxed);
      if (control_.stop.load(std::memory_order_relaxed))
        outstanding -= finished.size();
      else
        for (const std::size_t slot : finished)
          submit(slot);
      client_.push();
    }
  }

 private:
  void submit(std::size_t slot) {
    body_.slot = static_cast<std::uint32_t>(slot);
    body_.sequence = ++due_[slot];
    client_.submit(body_, Lane::high);
  }
  void take_replies(std::vector<std::size_t>& finished) {
    finished.clear();
    JobBody reply;
    for (auto wait = Wait::until_reply; finished.size() < kRepliesAtOnceMax && client_.receive(reply, wait);
         wait = Wait::no) {
      if (reply.slot >= kWindow || reply.sequence != due_[reply.slot])
        throw Failure("a reply came that was not due");
      finished.push_back(reply.slot);
    }
  }

  ClientEnd& client_;
  Control& control_;
  JobBody body_;
  std::vector<std::uint64_t> due_;  ///< the sequence on the way, by slot
  std::uint64_t completed_ = 0;
};

/// What a closed loop has used up to a moment.
struct Usage {
  std::uint64_t completed = 0;
  std::uint64_t time_ns = 0;
  double broker_cpu = 0;  // seconds
  double ends_cpu = 0;    // seconds
};

Usage usage_of(Rig& rig) {
  return {.completed = rig.control().completed,
          .time_ns = now_ns(),
          .broker_cpu = cpu_seconds_of(rig.broker_pid()),
          .ends_cpu = rig.children().cpu_seconds_of_ends()};
}

std::vector<double> run_roundtrip_of(Rig& rig, std::size_t batch) {
  rig.start_broker({.raw = {"--batch", std::to_string(batch)}});
  rig.start_workers({.general = kRoundtripWorkers, .capacity = kRoundtripCapacity, .batch = batch});
  Control& control = rig.control();
  const pid_t client = rig.start_client(
      "client", SendAhead::unbounded, [&](ClientEnd& end) { ClosedLoop(end, control).run(); }, batch);

  rig.children().rest(rig.settings().warmup);
  const Usage before = usage_of(rig);
  rig.children().rest(rig.settings().seconds);
  // On a machine that stood still for that long the time goes on until there is something to divide by.
  rig.children().wait_until(
      "a job comes back", [&] { return control.completed > before.completed; }, kClientTimeout);
  const Usage after = usage_of(rig);
  const double completed = static_cast<double>(after.completed - before.completed);

  control.stop = true;  // the client ends when it has every reply, so a lost one shows
  rig.children().wait_for_end(client, kClientTimeout);
  return {completed / seconds_of(after.time_ns - before.time_ns),
          (after.broker_cpu - before.broker_cpu) * 1e6 / completed,
          (after.ends_cpu - before.ends_cpu) * 1e6 / completed};
}

std::vector<double> run_roundtrip(Rig& rig) {
  return run_roundtrip_of(rig, 1);
}

// ---- batches: the same with up to kBatch jobs in a message; the bare broker has one, or as many ----

std::vector<double> run_batches(Rig& rig) {
  return run_roundtrip_of(rig, rig.peer() == Peer::raw ? 1 : kBatch);
}

std::vector<double> run_batches_both(Rig& rig) {
  return run_roundtrip_of(rig, kBatch);
}

// ---- latency: one job on the way, everything on one CPU ----

std::vector<double> run_latency(Rig& rig) {
  const PinnedToOneCpu pinned;
  rig.start_broker({});
  rig.start_workers({.general = 1});
  Control& control = rig.control();
  const int round_trips = rig.settings().round_trips;
  const pid_t client = rig.start_client("client", SendAhead::unbounded, [&, round_trips](ClientEnd& end) {
    JobBody body, reply;
    for (int i = 0; i < kLatencyWarmup + round_trips; ++i) {
      body.sequence = static_cast<std::uint64_t>(i);
      const std::uint64_t began = now_ns();
      end.submit(body, Lane::high);
      end.receive(reply, Wait::until_reply);
      if (i >= kLatencyWarmup) control.add_sample(now_ns() - began);
      if (reply.sequence != body.sequence) throw Failure("a reply came that was not due");
    }
  });
  rig.children().wait_for_end(client, kClientTimeout);
  const auto samples = sorted_samples(control);
  return {percentile_ns(samples, 0.50) / 1e3, percentile_ns(samples, 0.99) / 1e3};
}

// ---- enqueue: jobs taken in while no worker takes them out ----

void enqueue(ClientEnd& end, Control& control, int jobs) {
  end.flush();  // the connection stands, and is no part of the figures
  control.prepared = true;
  if (!test::eventually([&] { return control.go.load(); })) throw Failure("nobody said go");
  JobBody body, reply;
  for (std::size_t i = 0; i < body.filler.size(); ++i)
    body.filler[i] = static_cast<char>('a' + i % 26);
  const std::uint64_t began = now_ns();
  for (int i = 0; i < jobs; ++i) {
    body.sequence = static_cast<std::uint64_t>(i);
    end.submit(body, Lane::batch);
    if (i % kEnqueueBurst == 0 && end.receive(reply, Wait::no))
      throw Failure("a reply came without a worker");
  }
  end.flush();  // one connection keeps its order, so every job is in when this is answered
  control.elapsed_ns = now_ns() - began;
}

std::vector<double> run_enqueue(Rig& rig) {
  rig.start_broker({.lanemq = {"--set", "lane.batch.depth_max=2000000"}});
  Control& control = rig.control();
  const int jobs = rig.settings().jobs;
  const pid_t client = rig.start_client("client", SendAhead::high_water_mark,
                                        [&, jobs](ClientEnd& end) { enqueue(end, control, jobs); });
  rig.children().wait_until(
      "the client is connected", [&] { return control.prepared.load(); }, kClientTimeout);
  const double rss_before = settled_rss_of(rig.children(), rig.broker_pid());
  control.go = true;
  rig.children().wait_for_end(client, kClientTimeout);
  const double rss = settled_rss_of(rig.children(), rig.broker_pid()) - rss_before;
  return {jobs / seconds_of(control.elapsed_ns), rss / jobs};
}

// ---- priority: how long a critical job waits while long work is queued ----

void fill_with_work(ClientEnd& end, Control& control, int jobs) {
  const JobBody body{.kind = JobKind::work};
  for (int i = 0; i < jobs; ++i)
    end.submit(body, Lane::batch);
  end.flush();
  control.prepared = true;
  JobBody reply;
  for (int replies = 0; replies < jobs; ++replies)
    end.receive(reply, Wait::until_reply);
}

void probe(ClientEnd& end, Control& control, int probes) {
  std::minstd_rand random(12345);
  std::uniform_int_distribution<int> think(0, kThinkMicrosecondsMax);
  JobBody reply;
  for (int i = 0; i < probes; ++i) {
    const JobBody body{
        .kind = JobKind::probe, .sequence = static_cast<std::uint64_t>(i), .submitted_ns = now_ns()};
    end.submit(body, Lane::critical);
    end.receive(reply, Wait::until_reply);
    if (reply.sequence != body.sequence || reply.started_ns < body.submitted_ns)
      throw Failure("a reply came that was not due");
    control.add_sample(reply.started_ns - body.submitted_ns);
    spend(std::chrono::microseconds(think(random)));
  }
}

std::vector<double> run_priority(Rig& rig) {
  rig.start_broker({.raw = {"--urgent-first", "--reserved", std::to_string(kGeneralWorkers)},
                    .lanemq = {"--set", "lane.batch.depth_max=2000000"}});
  Control& control = rig.control();
  const int jobs = rig.settings().batch_jobs, probes = rig.settings().probes;
  rig.start_client("batch client", SendAhead::unbounded,
                   [&, jobs](ClientEnd& end) { fill_with_work(end, control, jobs); });
  rig.children().wait_until(
      "the batch jobs are queued", [&] { return control.prepared.load(); }, kClientTimeout);
  rig.start_workers({.general = kGeneralWorkers, .reserved = 1});
  rig.children().wait_until(
      "the workers are busy", [&] { return control.work_done >= kGeneralWorkers; }, kClientTimeout);
  const pid_t prober = rig.start_client("critical client", SendAhead::unbounded,
                                        [&, probes](ClientEnd& end) { probe(end, control, probes); });
  rig.children().wait_for_end(prober, kClientTimeout);
  if (control.work_done + kGeneralWorkers >= static_cast<std::uint64_t>(jobs))
    throw Failure("the batch jobs ran out before the probes did; raise --batch-jobs or lower --probes");
  const auto samples = sorted_samples(control);
  return {percentile_ns(samples, 0.50) / 1e6, percentile_ns(samples, 0.99) / 1e6,
          percentile_ns(samples, 1.0) / 1e6};
}

constexpr Goal ratio_at_least(double value) {
  return {Goal::Of::ratio, Goal::Bound::at_least, value};
}
constexpr Goal ratio_at_most(double value) {
  return {Goal::Of::ratio, Goal::Bound::at_most, value};
}
constexpr Goal at_least(double value) {
  return {Goal::Of::figure, Goal::Bound::at_least, value};
}
constexpr Goal at_most(double value) {
  return {Goal::Of::figure, Goal::Bound::at_most, value};
}

}  // namespace

void Performer::perform_timed(void* body) const {
  const std::uint64_t started = now_ns();
  std::memcpy(static_cast<char*>(body) + offsetof(JobBody, started_ns), &started, sizeof started);
  if (kind_of(body) != JobKind::work) return;
  spend(kWorkTime);
  ++work_done_;
}

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {"roundtrip",
       {{"rate", "jobs/s", 0, ratio_at_least(0.60)}, {"broker_cpu", "us/job", 2}, {"ends_cpu", "us/job", 2}},
       run_roundtrip},
      {"batches",
       {{"rate", "jobs/s", 0, ratio_at_least(0.80)}, {"broker_cpu", "us/job", 2}, {"ends_cpu", "us/job", 2}},
       run_batches},
      {"batches-both",
       {{"rate", "jobs/s", 0}, {"broker_cpu", "us/job", 2}, {"ends_cpu", "us/job", 2}},
       run_batches_both},
      {"latency", {{"p50", "us", 1, ratio_at_most(1.15)}, {"p99", "us", 1}}, run_latency},
      {"enqueue",
       {{"rate", "jobs/s", 0, at_least(300'000)}, {"rss", "bytes/job", 0, at_most(300)}},
       run_enqueue},
      {"priority", {{"p50", "ms", 3}, {"p99", "ms", 3, at_most(5)}, {"max", "ms", 3}}, run_priority},
  };
  return all;
}

}  // namespace lanemq::bench
