// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/figures/account_figures.hpp"
#include "tests/figures/turns_world.hpp"
#include "tests/sim/bank_world.hpp"
#include "tests/sim/cluster/cluster_world.hpp"
#include "tests/sim/neighbour.hpp"
#include "tests/sim/world.hpp"

// lanemq-sim [SEED] [--seeds A..B] [--except A,B] [--crashes | --cluster | --neighbour [--open] | --bank
// [--figures] | --accounts [--figures] | --turns] [--events N] [--verbose] [--all] [--digests]: runs the
// broker's core in a simulated world; with --crashes one in which it has a store on disk, and dies; with
// --cluster several brokers that share a database; with --neighbour one in which a client does the worst it
// may, --open: also what is not bounded yet; with --bank a budget that several shards share, --figures: also
// how much of its limit they use; with --accounts a broker before an upstream's account that others use as
// well, each seed of another kind, beside a client that obeys Retry-After, --figures: also those kinds that
// are within their bounds; with --turns one in which somebody is new all the time, beside those who wait.
// Equal seeds give equal runs: --digests says of each what it came to. Exit 1 at the first seed that breaks a
// promise, with the last things that happened; with --all it goes on, says a line of each that does, and
// exits 1 at the end.
// --except leaves seeds out.

namespace lanemq::sim {
namespace {

struct Arguments {
  std::uint64_t first = 1, last = 1;
  std::set<std::uint64_t> except;
  std::size_t events = 5000;
  bool verbose = false, all = false;
  bool digests = false;  ///< says that of each seed
  enum class Mode { forgetful, crashing, cluster, neighbour, bank, accounts, turns } mode = Mode::forgetful;
  bool open = false;     ///< of a neighbour, with what is not bounded yet
  bool figures = false;  ///< of a bank, or of accounts, also its figures
};

constexpr std::size_t kLinesShown = 60;
/// Every so many seeds one is run twice.
constexpr std::uint64_t kTwiceEvery = 10;

bool parse_number(const char* text, std::uint64_t& number) {
  char* end = nullptr;
  number = std::strtoull(text, &end, 10);
  return end != text && *end == '\0';
}

bool parse_range(const std::string& text, Arguments& arguments) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return false;
  return parse_number(text.substr(0, dots).c_str(), arguments.first) &&
         parse_number(text.substr(dots + 2).c_str(), arguments.last) && arguments.first <= arguments.last;
}

bool parse_list(std::string text, std::set<std::uint64_t>& numbers) {
  for (std::size_t end = 0; end != std::string::npos; text.erase(0, end + 1)) {
    end = text.find(',');
    std::uint64_t number = 0;
    if (!parse_number(text.substr(0, end).c_str(), number)) return false;
    numbers.insert(number);
    if (end == std::string::npos) break;
  }
  return true;
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto value = [&]() -> std::string {
      if (equals != std::string::npos) return word.substr(equals + 1);
      return i + 1 < argc ? argv[++i] : "";
    };
    if (name == "--verbose") {
      arguments.verbose = true;
    } else if (name == "--all") {
      arguments.all = true;
    } else if (name == "--digests") {
      arguments.digests = true;
    } else if (name == "--crashes") {
      arguments.mode = Arguments::Mode::crashing;
    } else if (name == "--cluster") {
      arguments.mode = Arguments::Mode::cluster;
    } else if (name == "--neighbour") {
      arguments.mode = Arguments::Mode::neighbour;
    } else if (name == "--bank") {
      arguments.mode = Arguments::Mode::bank;
    } else if (name == "--accounts") {
      arguments.mode = Arguments::Mode::accounts;
    } else if (name == "--turns") {
      arguments.mode = Arguments::Mode::turns;
    } else if (name == "--figures") {
      arguments.figures = true;
    } else if (name == "--open") {
      arguments.open = true;
    } else if (name == "--seeds") {
      if (!parse_range(value(), arguments)) return std::nullopt;
    } else if (name == "--except") {
      if (!parse_list(value(), arguments.except)) return std::nullopt;
    } else if (name == "--events") {
      if (!parse_number(value().c_str(), arguments.events)) return std::nullopt;
    } else {
      if (!parse_number(argv[i], arguments.first)) return std::nullopt;
      arguments.last = arguments.first;
    }
  }
  return arguments;
}

/// The seed under way, for the last word of a process that aborts, and what happened in it, if that is known.
std::uint64_t running_seed = 0;
const Trace* running_trace = nullptr;

/// A check of the core has failed. The process ends in any case, so that more is done here than is safe.
void say_seed(int) {
  if (running_trace != nullptr)
    for (const std::string& line : running_trace->lines())
      std::printf("%s\n", line.c_str());
  std::printf("seed %llu: aborted\n", static_cast<unsigned long long>(running_seed));
  std::fflush(stdout);
}

/// Runs a seed. `kind`: what the run is like, in a few lines; also where it fails.
RunReport run_seed(std::uint64_t seed, const Arguments& arguments, Trace* trace, std::string* kind) {
  const auto run = [&](auto& world) {
    if (kind != nullptr) *kind = world.describe();
    return world.run();
  };
  if (arguments.mode == Arguments::Mode::neighbour) {
    NeighbourWorld world(seed, arguments.events, arguments.open, trace);
    return run(world);
  }
  if (arguments.mode == Arguments::Mode::turns) {
    figures::TurnsWorld world(seed, trace);
    return run(world);
  }
  if (arguments.mode == Arguments::Mode::bank) {
    BankWorld world(seed, BankWorld::draw_plan(seed), trace);
    return run(world);
  }
  if (arguments.mode == Arguments::Mode::cluster) {
    ClusterWorld world(seed, arguments.events, trace);
    return run(world);
  }
  const bool crashing = arguments.mode == Arguments::Mode::crashing;
  World world(seed, crashing ? World::Kind::crashing : World::Kind::forgetful, arguments.events, trace);
  return run(world);
}

/// Runs a seed that failed again, this time with a trace, and shows the end of it.
int show_failure(std::uint64_t seed, const Arguments& arguments) {
  Trace trace(kLinesShown, arguments.verbose);
  std::string what = "it does not fail a second time: the run hangs on something besides its seed";
  std::string kind;
  try {
    running_trace = &trace;
    run_seed(seed, arguments, &trace, &kind);
  } catch (const Violation& violation) {
    what = violation.what();
  }
  std::printf("%s\n", kind.c_str());
  if (!arguments.verbose)
    for (const std::string& line : trace.lines())
      std::printf("%s\n", line.c_str());
  std::printf("seed %llu: %s\nagain: scripts/sim %llu%s --events %zu\n",
              static_cast<unsigned long long>(seed), what.c_str(), static_cast<unsigned long long>(seed),
              arguments.mode == Arguments::Mode::crashing  ? " --crashes"
              : arguments.mode == Arguments::Mode::cluster ? " --cluster"
              : arguments.mode == Arguments::Mode::bank    ? " --bank"
              : arguments.mode == Arguments::Mode::turns   ? " --turns"
              : arguments.mode == Arguments::Mode::neighbour
                  ? arguments.open ? " --neighbour --open" : " --neighbour"
                  : "",
              arguments.events);
  return 1;
}

/// Each in a process of its own, so that one that aborts is only one.
int run_all(const Arguments& arguments) {
  std::uint64_t failed = 0;
  for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
    if (arguments.except.contains(seed)) continue;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      running_seed = seed;
      try {
        run_seed(seed, arguments, nullptr, nullptr);
      } catch (const Violation& violation) {
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), violation.what());
        std::fflush(stdout);
        _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    failed += status == 0 ? 0 : 1;
  }
  std::printf("%llu of %llu seeds failed\n", static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(arguments.last - arguments.first + 1));
  return failed == 0 ? 0 : 1;
}

int run(const Arguments& arguments) {
  std::signal(SIGABRT, say_seed);
  if (arguments.mode == Arguments::Mode::accounts)
    return figures::run_accounts(arguments.first, arguments.last, arguments.figures) ? 0 : 1;
  if (arguments.all) return run_all(arguments);
  const auto begun = std::chrono::steady_clock::now();
  RunReport total;
  std::uint64_t seeds = 0;
  for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
    if (arguments.except.contains(seed)) continue;
    running_seed = seed;
    if (arguments.verbose) {
      Trace trace(kLinesShown, true);
      try {
        run_seed(seed, arguments, &trace, nullptr);
      } catch (const Violation& violation) {
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), violation.what());
        return 1;
      }
      continue;
    }
    try {
      const RunReport report = run_seed(seed, arguments, nullptr, nullptr);
      if (seed % kTwiceEvery == 0 && run_seed(seed, arguments, nullptr, nullptr).digest != report.digest) {
        std::printf("seed %llu: two runs differ\n", static_cast<unsigned long long>(seed));
        return 1;
      }
      if (arguments.digests)
        std::printf("seed %llu: %016llx\n", static_cast<unsigned long long>(seed),
                    static_cast<unsigned long long>(report.digest));
      ++seeds;
      total.events += report.events;
      total.messages += report.messages;
      total.jobs += report.jobs;
      total.dispatches += report.dispatches;
      total.simulated += report.simulated;
      total.digest ^= report.digest;
    } catch (const Violation&) {
      return show_failure(seed, arguments);
    }
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
  std::printf(
      "%llu seeds, %zu events, %zu messages, %zu jobs, %zu hand-overs, %.1f h simulated, digest %016llx\n",
      static_cast<unsigned long long>(seeds), total.events, total.messages, total.jobs, total.dispatches,
      static_cast<double>(total.simulated.count()) / 3.6e9, static_cast<unsigned long long>(total.digest));
  std::fprintf(stderr, "%.1f s, %.0f events/s\n", spent.count(),
               static_cast<double>(total.events) / spent.count());
  return arguments.figures && !print_bank_figures() ? 1 : 0;
}

}  // namespace
}  // namespace lanemq::sim

int main(int argc, char** argv) {
  const auto arguments = lanemq::sim::parse(argc, argv);
  if (!arguments) {
    std::fprintf(stderr,
                 "usage: lanemq-sim [SEED] [--seeds A..B] [--except A,B] [--crashes | --cluster | "
                 "--neighbour [--open] | --bank [--figures] | --accounts [--figures] | --turns] "
                 "[--events N] "
                 "[--verbose] [--all] [--digests]\n");
    return 2;
  }
  return lanemq::sim::run(*arguments);
}
