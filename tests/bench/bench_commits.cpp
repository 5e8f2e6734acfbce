// SPDX-License-Identifier: Apache-2.0
// What a commit of the store costs, with its fsyncs: `scripts/bench commits`. Files lie in the folder that
// LANEMQ_BENCH_FOLDER names, else in the build folder: a disk in memory would show nothing.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "broker/io/store/open/open_store.hpp"
#ifdef LANEMQ_HAS_POSTGRES
#include "common/postgres/connection.hpp"
#include "tests/support/postgres_server.hpp"
#endif

namespace {

using namespace lanemq;
using Clock = std::chrono::steady_clock;
using core::Write;
using core::Writes;

#ifdef LANEMQ_HAS_POSTGRES
const std::vector<std::int64_t> kKinds{0, 1}, kKindsWithStandby{0, 1, 2};
#else
const std::vector<std::int64_t> kKinds{0}, kKindsWithStandby{0};
#endif

/// About what the broker writes beside the body of a job.
constexpr std::size_t kStateBytes = 40, kRecordBytes = 120;

/// In which the rows are.
enum Kind : std::int64_t { in_sqlite, in_postgres, in_postgres_with_standby };

/// A store of its own, gone with it.
class Bench {
 public:
  explicit Bench(std::int64_t kind = in_sqlite) : kind_(static_cast<Kind>(kind)) { open(); }
  ~Bench() {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  io::Store& store() { return *store_; }
  std::string file(const std::string& name) const { return folder_ / name; }
  void close() { store_.reset(); }
  void open() {
    auto opened =
        io::open_store(kind_ == in_sqlite ? io::StoreOptions{.specification = "sqlite:" + file("lanemq.db")}
                                          : options_of_postgres());
    if (!opened) throw std::runtime_error(opened.error().message);
    store_ = std::move(*opened);
  }

  void insert(std::size_t jobs, std::size_t body_bytes) {
    insert(jobs, Blob::copy(std::string(body_bytes, 'b')));
  }
  void insert(std::size_t jobs, const Blob& body) {
    for (std::size_t i = 0; i < jobs; ++i) {
      writes_.add(Write::Kind::insert_job, ++newest_);
      writes_.buffer().write(text_.data(), kStateBytes);
      writes_.end_of_state();
      writes_.buffer().write(text_.data(), kRecordBytes);
      writes_.end_of_record();
      writes_.set_body(body);
    }
  }
  /// Jobs that only wait, behind all others.
  void wait_behind(std::size_t jobs, const Blob& body) {
    const std::uint64_t newest = std::exchange(newest_, std::uint64_t{1} << 40);
    for (std::size_t i = 0; i < jobs; i += 1000) {
      insert(std::min<std::size_t>(jobs - i, 1000), body);
      wait_for(submit());
    }
    newest_ = newest;
  }
  /// The next jobs are handed to a worker.
  void hand_over(std::size_t jobs) {
    for (std::size_t i = 0; i < jobs; ++i) {
      writes_.add(Write::Kind::update_job, ++handed_over_);
      writes_.buffer().write(text_.data(), kStateBytes);
      writes_.end_of_state();
    }
  }
  /// The next ones end with an answer that is kept.
  void end(std::size_t jobs, const Blob& answer) {
    for (std::size_t i = 0; i < jobs; ++i) {
      writes_.add(Write::Kind::insert_result, ++ended_);
      writes_.buffer().write(text_.data(), kRecordBytes);
      writes_.end_of_record();
      writes_.set_body(answer);
      writes_.add(Write::Kind::erase_job, ended_);
    }
  }
  /// The next answers are fetched, and not kept any more.
  void forget(std::size_t jobs) {
    for (std::size_t i = 0; i < jobs; ++i)
      writes_.add(Write::Kind::erase_result, ++forgotten_);
  }
  void erase(std::size_t jobs) {
    for (std::size_t i = 0; i < jobs; ++i)
      writes_.add(Write::Kind::erase_job, ++erased_);
  }
  std::uint64_t submit() { return store_->submit(writes_); }
  /// By the store's descriptor, as the loop waits.
  void wait_for(std::uint64_t ticket) {
    while (store_->committed() < ticket) {
      pollfd readable{.fd = store_->descriptor(), .events = POLLIN, .revents = 0};
      poll(&readable, 1, 1000);
      store_->clear_signal();
      if (store_->condition() == io::StoreCondition::failed) throw std::runtime_error(store_->trouble());
    }
  }

 private:
  static std::filesystem::path make_folder() {
    const char* const named = std::getenv("LANEMQ_BENCH_FOLDER");
    std::string pattern = std::string(named != nullptr ? named : "build") + "/bench-store-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder " + pattern + " can be made");
    return pattern;
  }

  /// A schema for each store; one server for all, which syncs as a server for others does.
  io::StoreOptions options_of_postgres() const {
#ifdef LANEMQ_HAS_POSTGRES
    return {.specification = "postgres:" + server().conninfo(),
            .schema = folder_.filename(),
            .instance = "bench"};
#else
    throw std::runtime_error("this build has no PostgreSQL");
#endif
  }

#ifdef LANEMQ_HAS_POSTGRES
  test::PostgresServer& server() const {
    constexpr auto kSyncs = test::PostgresServer::Sync::yes;
    const auto in = std::filesystem::absolute(folder_.parent_path());
    if (kind_ == in_postgres) {
      static test::PostgresServer alone(kSyncs, in);
      return alone;
    }
    static test::PostgresServer primary(kSyncs, in), standby(primary, kSyncs, in);
    return primary;
  }

 public:
  /// Bytes of the store's heaps: of its tables without their indexes.
  std::int64_t heap_bytes() const {
    auto session = postgres::Connection::open({.conninfo = server().conninfo()}, postgres::Server::any);
    const auto bytes = session ? session->run(
                                     "SELECT sum(pg_relation_size(c.oid))::bigint FROM pg_class c JOIN "
                                     "pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND "
                                     "n.nspname = '" +
                                         folder_.filename().string() + "'",
                                     postgres::Clock::now() + std::chrono::seconds(60))
                               : postgres::Outcome<postgres::Answer>(tl::unexpected(session.error()));
    if (!bytes) throw std::runtime_error(bytes.error().message);
    return bytes->integer(0, 0);
  }

 private:
#endif
  const Kind kind_;
  const std::filesystem::path folder_ = make_folder();
  const std::string text_ = std::string(256, 't');
  std::unique_ptr<io::Store> store_;
  Writes writes_;
  std::uint64_t newest_ = 0, erased_ = 0, handed_over_ = 0, ended_ = 0, forgotten_ = 0;
};

/// What one commit must cost at least: a page that is written to a file, and its fsync.
void bare_fsync(benchmark::State& state) {
  const Bench bench;
  const std::string page(4096, 'p');
  const int file = ::open(bench.file("bare").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  constexpr int kPages = 1000;  // begun anew after as many as a log has
  for (int at = 0; at < kPages; ++at)
    benchmark::DoNotOptimize(pwrite(file, page.data(), page.size(), at * 4096));
  fsync(file);
  int at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pwrite(file, page.data(), page.size(), at++ % kPages * 4096));
    if (fdatasync(file) != 0) state.SkipWithError("fdatasync failed");
  }
  ::close(file);
}
BENCHMARK(bare_fsync)->Name("store/bare_fsync")->UseRealTime()->Unit(benchmark::kMicrosecond);

/// One turn after the other: so many jobs come and as many of those before them go, and each is waited for.
void turns_one_by_one(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(1)),
             bytes = static_cast<std::size_t>(state.range(2));
  Bench bench(state.range(0));
  bench.insert(jobs, bytes);
  bench.wait_for(bench.submit());
  for (auto _ : state) {
    bench.insert(jobs, bytes);
    bench.erase(jobs);
    bench.wait_for(bench.submit());
  }
  state.counters["commits"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["jobs"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(1)),
                                              benchmark::Counter::kIsRate);
}
BENCHMARK(turns_one_by_one)
    ->Name("store/one_by_one")
    ->ArgNames({"postgres", "jobs", "bytes"})
    ->ArgsProduct({kKinds, {1, 16, 256, 1000}, {200, 4096}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// One turn after the other brings so many jobs, and each is waited for.
void accepts(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(1));
  const Blob body = Blob::copy(std::string(static_cast<std::size_t>(state.range(2)), 'b'));
  Bench bench(state.range(0));
  std::vector<double> took;
  for (auto _ : state) {
    const auto began = Clock::now();
    bench.insert(jobs, body);
    bench.wait_for(bench.submit());
    took.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  std::nth_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2), took.end());
  state.counters["p50_us"] = took[took.size() / 2];
  state.counters["jobs"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(1)),
                                              benchmark::Counter::kIsRate);
}
BENCHMARK(accepts)
    ->Name("store/accepts")
    ->ArgNames({"postgres", "jobs", "bytes"})
    ->ArgsProduct({kKindsWithStandby, {1, 16, 256, 1024}, {200, 4096}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// A turn of lives: so many jobs come, as many of the turn before are handed over, of the one before that end
/// with an answer, and of the one before that are fetched.
void live(Bench& bench, std::size_t jobs, const Blob& body) {
  bench.insert(jobs, body);
  bench.hand_over(jobs);
  bench.end(jobs, body);
  bench.forget(jobs);
}

void begin_lives(Bench& bench, std::size_t jobs, const Blob& body) {
  bench.insert(3 * jobs, body);
  bench.hand_over(2 * jobs);
  bench.wait_for(bench.submit());
  bench.end(jobs, body);
  bench.wait_for(bench.submit());
}

void lives(benchmark::State& state) {
  const auto jobs = static_cast<std::size_t>(state.range(1));
  const Blob body = Blob::copy(std::string(static_cast<std::size_t>(state.range(2)), 'b'));
  Bench bench(state.range(0));
  begin_lives(bench, jobs, body);
  for (auto _ : state) {
    live(bench, jobs, body);
    bench.wait_for(bench.submit());
  }
  state.counters["lives"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(1)),
                                               benchmark::Counter::kIsRate);
}
BENCHMARK(lives)
    ->Name("store/lives")
    ->ArgNames({"postgres", "jobs", "bytes"})
    ->ArgsProduct({kKindsWithStandby, {1, 16, 256, 1024}, {200, 4096}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

#ifdef LANEMQ_HAS_POSTGRES
/// Lives for a time; how many a second.
double rate_of_lives(Bench& bench, Clock::duration time, const Blob& body) {
  constexpr std::size_t kAtOnce = 256;
  std::size_t lived = 0;
  const auto began = Clock::now();
  for (; Clock::now() - began < time; lived += kAtOnce) {
    live(bench, kAtOnce, body);
    bench.wait_for(bench.submit());
  }
  return static_cast<double>(lived) / std::chrono::duration<double>(Clock::now() - began).count();
}

/// Lives over 100,000 jobs that wait, for LANEMQ_BENCH_CHURN_SECONDS (30): does the rate stay, do the tables?
/// In ten parts, each beside a tenth of its time of the same in an empty file: a machine that is slower for a
/// while is slower for both, so that their ratio tells what the tables do.
void churn(benchmark::State& state) {
  constexpr std::size_t kWaiting = 100'000, kAtOnce = 256, kParts = 10;
  const char* const named = std::getenv("LANEMQ_BENCH_CHURN_SECONDS");
  const Clock::duration part = std::chrono::seconds(named != nullptr ? std::atoi(named) : 30) / kParts;
  const Blob body = Blob::copy(std::string(200, 'b'));
  Bench bench(in_postgres), file(in_sqlite);
  std::vector<double> rates, to_file;
  std::int64_t of_waiting = 0;
  for (auto _ : state) {
    begin_lives(file, kAtOnce, body);
    begin_lives(bench, kAtOnce, body);
    // They wait behind those that live: their numbers are never reached.
    bench.wait_behind(kWaiting, body);
    of_waiting = bench.heap_bytes();
    while (rates.size() < kParts) {
      const double before = rate_of_lives(file, part / 20, body);
      rates.push_back(rate_of_lives(bench, part, body));
      to_file.push_back(rates.back() * 2 / (before + rate_of_lives(file, part / 20, body)));
    }
  }
  const auto half = static_cast<std::ptrdiff_t>(kParts / 2);
  const auto mean = [](auto begin, auto end) {
    return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
  };
  state.counters["first"] = rates.front();
  state.counters["last"] = rates.back();
  state.counters["first_half_to_file"] = mean(to_file.begin(), to_file.begin() + half);
  state.counters["last_half_to_file"] = mean(to_file.begin() + half, to_file.end());
  state.counters["heap_of_waiting"] =
      static_cast<double>(bench.heap_bytes()) / static_cast<double>(of_waiting);
}
BENCHMARK(churn)->Name("store/churn")->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);
#endif

/// As the loop works: turns are handed over without a wait, as long as a bounded backlog has room, and those
/// that queue up during an fsync are committed together.
void turns_in_flight(benchmark::State& state) {
  constexpr std::size_t kBacklogBytes = 4u << 20;
  const auto jobs = static_cast<std::size_t>(state.range(1)),
             bytes = static_cast<std::size_t>(state.range(2));
  Bench bench(state.range(0));
  bench.insert(jobs, bytes);
  std::uint64_t last = bench.submit();
  for (auto _ : state) {
    bench.insert(jobs, bytes);
    bench.erase(jobs);
    last = bench.submit();
    if (bench.store().backlog_bytes() > kBacklogBytes) bench.wait_for(bench.store().committed() + 1);
  }
  bench.wait_for(last);
  state.counters["jobs"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(1)),
                                              benchmark::Counter::kIsRate);
}
BENCHMARK(turns_in_flight)
    ->Name("store/in_flight")
    ->ArgNames({"postgres", "jobs", "bytes"})
    ->ArgsProduct({kKinds, {10, 100}, {128, 4096}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

class Counter final : public io::StoreReader {
 public:
  Result<void> note(std::string_view, std::string_view) override { return {}; }
  Result<void> job(std::uint64_t, std::string_view, std::string_view, std::optional<std::string_view>,
                   std::size_t) override {
    ++jobs;
    return {};
  }
  Result<void> result(std::uint64_t, std::string_view, std::optional<std::string_view>,
                      std::size_t) override {
    return {};
  }
  std::size_t jobs = 0;
};

/// What a job's body of 64 MiB costs those who commit one small job after the other meanwhile: in its turn,
/// or put ahead of it.
void beside_a_large_body(benchmark::State& state) {
  constexpr std::size_t kLarge = std::size_t{64} << 20, kSmall = 200;
  Bench bench(state.range(0));
  io::Store& store = bench.store();
  const bool ahead = store.wants_ahead(kLarge) && state.range(1) == 1;
  const Blob body = Blob::copy(std::string(kLarge, 'b'));
  Clock::duration longest{};
  std::size_t commits = 0;
  for (auto _ : state) {
    std::vector<Blob> put;
    std::uint64_t large = 0;
    if (ahead) {
      store.put_ahead(body);
    } else {
      bench.insert(1, body);
      large = bench.submit();
    }
    while (large == 0 || store.committed() < large) {
      if (large == 0) store.take_put(put);
      if (large == 0 && !put.empty()) {
        bench.insert(1, body);
        large = bench.submit();
      }
      bench.insert(1, kSmall);
      const auto began = Clock::now();
      bench.wait_for(bench.submit());
      longest = std::max(longest, Clock::now() - began);
      ++commits;
    }
  }
  state.counters["longest_ms"] = std::chrono::duration<double, std::milli>(longest).count();
  state.counters["commits"] = static_cast<double>(commits);
}
BENCHMARK(beside_a_large_body)
    ->Name("store/beside_a_large_body")
    ->ArgNames({"postgres", "ahead"})
    ->Args({in_sqlite, 0})
#ifdef LANEMQ_HAS_POSTGRES
    ->Args({in_postgres, 0})
    ->Args({in_postgres, 1})
#endif
    ->Iterations(3)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// A start over a file of so many jobs: to open it, read it and check its checksums.
void start(benchmark::State& state) {
  constexpr std::size_t kAtOnce = 10'000;
  const auto jobs = static_cast<std::size_t>(state.range(1));
  Bench bench(state.range(0));
  for (std::size_t made = 0; made < jobs; made += kAtOnce) {
    bench.insert(kAtOnce, static_cast<std::size_t>(state.range(2)));
    bench.wait_for(bench.submit());
  }
  for (auto _ : state) {
    state.PauseTiming();
    bench.close();
    state.ResumeTiming();
    bench.open();
    Counter counter;
    if (!bench.store().load(counter) || counter.jobs != jobs) state.SkipWithError("not all came back");
  }
}
BENCHMARK(start)
    ->Name("store/start")
    ->ArgNames({"postgres", "jobs", "bytes"})
    ->ArgsProduct({kKinds, {1'000'000}, {128}})
    ->ArgsProduct({kKinds, {100'000}, {4096}})
    ->Iterations(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// The longest that a commit takes while a backup of the file is written.
void backup(benchmark::State& state) {
  constexpr std::size_t kAtOnce = 1000;
  Bench bench;
  for (std::size_t made = 0; made < 50'000; made += kAtOnce) {
    bench.insert(kAtOnce, 4096);
    bench.wait_for(bench.submit());
  }
  std::vector<double> waits;
  for (auto _ : state) {
    const std::string path = bench.file("backup" + std::to_string(waits.size()));
    if (!bench.store().begin_backup(path)) state.SkipWithError("no backup");
    std::optional<Result<void>> done;
    while (!(done = bench.store().take_backup())) {
      const auto begun = Clock::now();
      bench.insert(1, 128);
      bench.wait_for(bench.submit());
      waits.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
    }
    if (!*done) state.SkipWithError("the backup failed");
  }
  std::sort(waits.begin(), waits.end());
  state.counters["commit_p50_ms"] = waits[waits.size() / 2];
  state.counters["commit_p99_ms"] = waits[waits.size() * 99 / 100];
  state.counters["commit_max_ms"] = waits.back();
}
BENCHMARK(backup)
    ->Name("store/backup_of_200MiB")
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
