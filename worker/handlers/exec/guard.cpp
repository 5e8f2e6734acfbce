// SPDX-License-Identifier: Apache-2.0
// All of this runs in forks of a process with threads: async-signal-safe functions alone, no memory from the
// heap, no exceptions.
#include "worker/handlers/exec/guard.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lanemq::worker {
namespace {

constexpr const char* kChildren = "/proc/thread-self/children";
constexpr int kSocket = 3, kSignals = 4;  ///< descriptors of keeper and guard
constexpr int kNoExec = 127;

/// A guard's memory. Static, so that it needs no heap; each guard is a process of its own.
std::array<char, kGuardRequestBytesMax> request_bytes;
std::array<char*, kGuardTextsMax + 1> arguments, variables;
std::array<pid_t, kGuardsMax> guards;  ///< of the keeper; 0: free
/// Written by the child between vfork() and exec, which shares the guard's memory.
volatile int failed_errno;
volatile GuardReport::Step failed_step;

void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
}

/// Keeps stdin, stdout, stderr and `socket`, which becomes kSocket; then opens kSignals for these signals.
void take_descriptors(int socket, std::initializer_list<int> numbers) {
  if (socket != kSocket) dup3(socket, kSocket, O_CLOEXEC);
  close_range(kSocket + 1, ~0u, 0);
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : numbers)
    sigaddset(&wanted, number);
  const int signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) _exit(kNoExec);
  if (signals != kSignals) dup3(signals, kSignals, O_CLOEXEC);
}

/// Waits for the socket or a signal; false: the socket has nothing.
bool wait_for_socket() {
  std::array<pollfd, 2> ready{{{kSocket, POLLIN, 0}, {kSignals, POLLIN, 0}}};
  while (poll(ready.data(), ready.size(), -1) < 0 && errno == EINTR) {
  }
  signalfd_siginfo taken;
  while ((ready[1].revents & POLLIN) != 0 && read(kSignals, &taken, sizeof taken) == sizeof taken) {
  }
  return ready[0].revents != 0;
}

/// Calls `each` with the number of each child of this process.
template <class Each>
void for_each_child(Each each) {
  const int file = open(kChildren, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::array<char, 4096> text;
  pid_t number = 0;
  for (ssize_t size; (size = read(file, text.data(), text.size())) > 0;)
    for (const char c : std::string_view(text.data(), static_cast<std::size_t>(size))) {
      if (c >= '0' && c <= '9') {
        number = number * 10 + (c - '0');
      } else if (number != 0) {
        each(number);
        number = 0;
      }
    }
  close(file);
}

// ---- the guard ----------------------------------------------------------------------------------------

/// Between vfork() and exec. Fails by failed_errno and failed_step.
[[noreturn]] void become_program(const GuardRequest& request, const char* path, const char* directory,
                                 const int (&streams)[3], pid_t guard) {
  const auto must = [](bool done, GuardReport::Step step) {
    if (done) return;
    failed_errno = errno;
    failed_step = step;
    _exit(kNoExec);
  };
  const auto limit = [&](auto what, std::uint64_t most) {
    rlimit now{};
    getrlimit(what, &now);
    const rlim_t value = std::min<rlim_t>(most, now.rlim_max);
    const rlimit lower{value, value};
    must(setrlimit(what, &lower) == 0, GuardReport::Step::limits);
  };
  using Step = GuardReport::Step;
  must(setsid() >= 0, Step::process);
  must(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0, Step::process);
  if (getppid() != guard) _exit(kNoExec);
  for (int i = 0; i < 3; ++i)
    must(dup2(streams[i], i) == i, Step::process);
  must(*directory == '\0' || chdir(directory) == 0, Step::directory);
  if (request.memory_max != 0) limit(RLIMIT_DATA, request.memory_max);
  if (request.files_max != 0) limit(RLIMIT_NOFILE, request.files_max);
  close_range(3, ~0u, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(path, arguments.data(), variables.data());
  must(false, Step::program);
  _exit(kNoExec);
}

class Guard {
 public:
  explicit Guard(pid_t keeper) : keeper_(keeper) {}

  [[noreturn]] void run() {
    for (;;) {
      const bool told = wait_for_socket();
      if (getppid() != keeper_) leave();
      if (program_ != 0) reap();
      if (told && !obey()) leave();
    }
  }

 private:
  /// Does what the worker says; false: it is gone.
  bool obey() {
    iovec bytes{request_bytes.data(), request_bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(3 * sizeof(int))> control;
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = recvmsg(kSocket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size < static_cast<ssize_t>(sizeof(GuardRequest))) return false;
    GuardRequest request;
    std::memcpy(&request, request_bytes.data(), sizeof request);
    if (request.what == GuardRequest::What::signal) {
      if (program_ != 0) kill(-program_, request.signal);
      return true;
    }
    int streams[3] = {-1, -1, -1};
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&message);
        rights && rights->cmsg_len >= CMSG_LEN(sizeof streams))
      std::memcpy(streams, CMSG_DATA(rights), sizeof streams);
    start(request, static_cast<std::size_t>(size), streams);
    for (const int stream : streams)
      close(stream);
    return true;
  }

  void start(const GuardRequest& request, std::size_t size, const int (&streams)[3]) {
    char* at = request_bytes.data() + sizeof request;
    char* const end = request_bytes.data() + size;
    const auto text = [&] {
      char* const begin = at;
      at = std::min(end, at + strnlen(at, static_cast<std::size_t>(end - at)) + 1);
      return begin;
    };
    if (request.arguments > kGuardTextsMax || request.variables > kGuardTextsMax || end[-1] != '\0')
      return report({GuardReport::What::not_started, GuardReport::Step::request, E2BIG});
    const char* const path = text();
    const char* const directory = text();
    for (std::size_t i = 0; i < request.arguments; ++i)
      arguments[i] = text();
    arguments[request.arguments] = nullptr;
    for (std::size_t i = 0; i < request.variables; ++i)
      variables[i] = text();
    variables[request.variables] = nullptr;

    failed_errno = 0;
    const pid_t self = getpid();
    const pid_t program = vfork();
    if (program == 0) become_program(request, path, directory, streams, self);
    if (program < 0) return report({GuardReport::What::not_started, GuardReport::Step::process, errno});
    program_ = program;
    if (failed_errno == 0) return;
    kill_all();
    report({GuardReport::What::not_started, failed_step, failed_errno});
  }

  /// Reaps those that have ended, and all when the program is one of them.
  void reap() {
    for (;;) {
      siginfo_t ended{};
      if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) return;
      if (ended.si_pid == program_) {
        const int status = kill_all();
        return report({GuardReport::What::ended, GuardReport::Step::request, status});
      }
      waitpid(ended.si_pid, nullptr, 0);
    }
  }

  /// Kills the program's group, and all that has come from it, until nothing is left. Returns how the program
  /// has ended.
  int kill_all() {
    int status = 0;
    // Before it is reaped, since its number may then be another's.
    kill(-program_, SIGKILL);
    while (waitpid(program_, &status, 0) < 0 && errno == EINTR) {
    }
    program_ = 0;
    for (;;) {
      // Orphans are children of this process. A child of theirs is, when they have ended.
      const pid_t ended = waitpid(-1, nullptr, WNOHANG);
      if (ended < 0 && errno == ECHILD) return status;
      if (ended > 0) continue;
      for_each_child([](pid_t child) { kill(child, SIGKILL); });
      waitpid(-1, nullptr, 0);
    }
  }

  static void report(const GuardReport& report) { send(kSocket, &report, sizeof report, MSG_NOSIGNAL); }

  [[noreturn]] void leave() {
    if (program_ != 0) kill_all();
    _exit(0);
  }

  const pid_t keeper_;
  pid_t program_ = 0;  ///< leader of its session and group; 0: none runs
};

[[noreturn]] void guard(int socket, pid_t keeper) {
  take_descriptors(socket, {SIGCHLD, SIGTERM});
  prctl(PR_SET_NAME, "lanemq-guard", 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (getppid() != keeper) _exit(0);
  Guard(keeper).run();
}

// ---- the keeper ---------------------------------------------------------------------------------------

/// The socket of a new guard; -1: none came. `over`: the worker has closed its end.
int receive_socket(bool& over) {
  char byte = 0;
  iovec bytes{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(kSocket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  over = size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
  const cmsghdr* const rights = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (!rights) return -1;
  int socket = -1;
  std::memcpy(&socket, CMSG_DATA(rights), sizeof socket);
  return socket;
}

void make_guard(int socket) {
  const auto free = std::find(guards.begin(), guards.end(), 0);
  const pid_t keeper = getpid();
  const pid_t child = free == guards.end() ? -1 : fork();
  if (child == 0) guard(socket, keeper);
  if (child > 0) *free = child;
  close(socket);  // where there is no guard the worker sees that by its end
}

/// Reaps who has ended, and kills what is no guard: its guard was killed, and left it. False: no child is
/// left.
bool reap_guards(int how) {
  bool all_known = true;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, how);
    if (ended == 0) break;
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) return false;
    const auto known = std::find(guards.begin(), guards.end(), ended);
    all_known = all_known && known != guards.end() && WIFEXITED(status);
    if (known != guards.end()) *known = 0;
    how |= WNOHANG;
  }
  if (!all_known)
    for_each_child([](pid_t child) {
      if (std::find(guards.begin(), guards.end(), child) == guards.end()) kill(child, SIGKILL);
    });
  return true;
}

/// Makes this process a keeper: its own session, no ears for signals, nothing of the worker's.
void settle() {
  block_all_signals();
  setsid();
  for (int number = 1; number < NSIG; ++number)
    signal(number, SIG_DFL);  // what is ignored would stay so in programs
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    explicit_bzero(*entry, std::strlen(*entry));
  if (const int null = open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0)
    for (int stream = 0; stream < 3; ++stream)
      dup2(null, stream);
  umask(S_IRWXG | S_IRWXO);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  prctl(PR_SET_NAME, "lanemq-keeper", 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // No program gets rights by setuid: the guard could not kill it.
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

}  // namespace

void keep_guards(int socket) {
  settle();
  take_descriptors(socket, {SIGCHLD});
  for (bool over = false; !over;) {
    const bool told = wait_for_socket();
    reap_guards(WNOHANG);
    if (!told) continue;
    if (const int other = receive_socket(over); other >= 0) make_guard(other);
  }
  // The guards see that the worker is gone, too.
  while (reap_guards(0)) {
  }
  _exit(0);
}

const char* why_no_guards() {
  const int file = open(kChildren, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "/proc/thread-self/children cannot be read, by which lost processes are found";
  close(file);
  return nullptr;
}

}  // namespace lanemq::worker
