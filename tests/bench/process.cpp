// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lanemq::bench {
namespace {

constexpr Seconds kReadyTimeout{10};
constexpr std::size_t kReadyLineBytesMax = 1024;
constexpr std::size_t kLastWordsBytesMax = 2048;
constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

std::uint64_t deadline_after(Seconds duration) {
  return now_ns() + static_cast<std::uint64_t>(duration.count() * static_cast<double>(kNanosecondsPerSecond));
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return std::string("by signal ") + strsignal(WTERMSIG(status));
  return "with exit code " + std::to_string(WEXITSTATUS(status));
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// CPU time of this process and of its children that have ended.
double own_cpu_seconds() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    sum += seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return sum;
}

/// CPU time that the whole machine has spent working, stolen time included.
double machine_cpu_seconds() {
  std::ifstream stat("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, irq = 0, soft_irq = 0, steal = 0;
  stat >> label >> user >> nice >> system >> idle >> io_wait >> irq >> soft_irq >> steal;
  return (user + nice + system + irq + soft_irq + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double rss_of(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  double size = 0, resident = 0;
  if (!(statm >> size >> resident)) throw Failure("cannot read the memory of process " + std::to_string(pid));
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

std::uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * kNanosecondsPerSecond +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// ---- Children ----

Children::Children() {
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, &mask_before_);
}

Children::~Children() {
  close_all();
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

void Children::close_all() {
  for (const Child& child : children_) {
    // Nothing that a broker or an end holds is worth a farewell, and none may outlive the run.
    if (!child.ended) kill(child.pid, SIGKILL);
  }
  for (const Child& child : children_) {
    if (!child.ended) waitpid(child.pid, nullptr, 0);
    if (child.stdout_fd >= 0) close(child.stdout_fd);
    if (child.stderr_fd >= 0) close(child.stderr_fd);
  }
  children_.clear();
}

void Children::enter_child(pid_t parent) const {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the driver died before the line above
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

pid_t Children::fork_end(const std::string& name, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw Failure("cannot fork " + name + ": " + std::strerror(errno));
  if (pid > 0) {
    children_.push_back({.pid = pid, .name = name});
    return pid;
  }
  enter_child(parent);
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_wire: %s: %s\n", name.c_str(), error.what());
    _exit(1);
  }
  _exit(0);
}

void Children::run_program(pid_t parent, const std::vector<std::string>& command, int out, int err) const {
  enter_child(parent);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
    _exit(127);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(arguments.front(), arguments.data());
  std::perror(arguments.front());
  _exit(127);
}

BrokerProcess Children::start_broker(const std::vector<std::string>& command) {
  std::array<int, 2> out{-1, -1};
  const int err = memfd_create("broker-stderr", MFD_CLOEXEC);
  if (err < 0 || pipe2(out.data(), O_CLOEXEC) != 0) throw Failure("no pipe for the broker's output");
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw Failure("cannot fork " + command.front() + ": " + std::strerror(errno));
  if (pid == 0) run_program(parent, command, out[1], err);
  close(out[1]);
  children_.push_back({.pid = pid, .name = command.front(), .stdout_fd = out[0], .stderr_fd = err});
  return read_ready_line(children_.back());
}

BrokerProcess Children::read_ready_line(const Child& broker) {
  const std::uint64_t deadline = deadline_after(kReadyTimeout);
  std::string line;
  while (line.find('\n') == std::string::npos) {
    reap();
    if (now_ns() >= deadline)
      throw Failure(broker.name + " printed no ready line within 10 s" + last_words(broker));
    pollfd readable{.fd = broker.stdout_fd, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, 10) <= 0) continue;
    std::array<char, kReadyLineBytesMax> piece{};
    const ssize_t size = read(broker.stdout_fd, piece.data(), piece.size());
    if (size <= 0) {
      sleep_until_child_or(deadline);  // it closed its output, so it is about to end
      continue;
    }
    line.append(piece.data(), static_cast<std::size_t>(size));
    if (line.size() > kReadyLineBytesMax) break;
  }
  std::istringstream words(line);
  std::string ready, clients, workers;
  words >> ready >> clients >> workers;
  if (ready != "ready" || !clients.starts_with("clients=") || !workers.starts_with("workers="))
    throw Failure(broker.name + " printed no line \"ready clients=EP workers=EP\" but: " + line);
  return {.pid = broker.pid, .clients = clients.substr(8), .workers = workers.substr(8)};
}

void Children::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    const auto child =
        std::find_if(children_.begin(), children_.end(), [&](const Child& c) { return c.pid == pid; });
    if (child == children_.end()) continue;
    child->ended = true;
    const bool ended_well = child->stdout_fd < 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!ended_well) throw Failure(child->name + " ended " + how_it_ended(status) + last_words(*child));
  }
}

std::string Children::last_words(const Child& child) {
  if (child.stderr_fd < 0) return "";
  const off_t size = lseek(child.stderr_fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(kLastWordsBytesMax));
  std::string words(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t got = pread(child.stderr_fd, words.data(), words.size(), from);
  words.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return words.empty() ? "; it said nothing on stderr" : "; it said:\n" + words;
}

void Children::sleep_until_child_or(std::uint64_t deadline_ns) {
  const std::uint64_t now = now_ns();
  if (now >= deadline_ns) return;
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  const timespec left{.tv_sec = static_cast<time_t>((deadline_ns - now) / kNanosecondsPerSecond),
                      .tv_nsec = static_cast<long>((deadline_ns - now) % kNanosecondsPerSecond)};
  sigtimedwait(&child_signal, nullptr, &left);
}

void Children::wait_until(const std::string& what, const std::function<bool()>& done, Seconds timeout) {
  const std::uint64_t deadline = deadline_after(timeout);
  for (reap(); !done(); reap()) {
    if (now_ns() >= deadline)
      throw Failure("waited " + std::to_string(timeout.count()) + " s in vain until " + what);
    sleep_until_child_or(now_ns() + kNanosecondsPerSecond / 1000);
  }
}

void Children::wait_for_end(pid_t pid, Seconds timeout) {
  const std::uint64_t deadline = deadline_after(timeout);
  const auto child =
      std::find_if(children_.begin(), children_.end(), [&](const Child& c) { return c.pid == pid; });
  if (child == children_.end()) throw Failure("process " + std::to_string(pid) + " is no end of this run");
  for (reap(); !child->ended; reap()) {
    if (now_ns() >= deadline)
      throw Failure(child->name + " did not end within " + std::to_string(timeout.count()) + " s");
    sleep_until_child_or(deadline);
  }
}

double Children::cpu_seconds_of_ends() const {
  double sum = 0;
  for (const Child& child : children_)
    if (child.stdout_fd < 0 && !child.ended) sum += cpu_seconds_of(child.pid);
  return sum;
}

void Children::rest(Seconds duration) {
  const std::uint64_t deadline = deadline_after(duration);
  for (reap(); now_ns() < deadline; reap())
    sleep_until_child_or(deadline);
}

// ---- the machine ----

PinnedToOneCpu::PinnedToOneCpu() {
  sched_getaffinity(0, sizeof before_, &before_);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0)
    throw Failure(std::string("cannot pin to one CPU: ") + std::strerror(errno));
}

PinnedToOneCpu::~PinnedToOneCpu() {
  sched_setaffinity(0, sizeof before_, &before_);
}

double cpu_seconds_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name before it may hold anything
  if (name_end == std::string::npos)
    throw Failure("cannot read the CPU time of process " + std::to_string(pid));
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field)
    fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double settled_rss_of(Children& children, pid_t pid) {
  double before = rss_of(pid);
  for (int reading = 0; reading < 20; ++reading) {
    children.rest(Seconds{0.05});
    const double now = rss_of(pid);
    if (now == before) break;
    before = now;
  }
  return before;
}

OthersMeter::OthersMeter()
    : began_ns_(now_ns()), machine_before_(machine_cpu_seconds()), ours_before_(own_cpu_seconds()) {}

double OthersMeter::cores() const {
  const double elapsed =
      static_cast<double>(now_ns() - began_ns_) / static_cast<double>(kNanosecondsPerSecond);
  const double machine = machine_cpu_seconds() - machine_before_;
  const double ours = own_cpu_seconds() - ours_before_;
  return std::max(0.0, (machine - ours) / elapsed);
}

}  // namespace lanemq::bench
