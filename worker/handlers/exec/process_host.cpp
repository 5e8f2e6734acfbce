// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/process_host.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lanemq::worker {
namespace {

using Clock = std::chrono::steady_clock;

/// How long the destructor waits for the last process; one that the kernel holds fast is left to the keeper.
constexpr int kFarewellMs = 2'000;
constexpr unsigned kSourceBits = 3;

struct Pair {
  Descriptor ours, theirs;
};

void make_nonblocking(const Descriptor& descriptor) {
  fcntl(descriptor.get(), F_SETFL, fcntl(descriptor.get(), F_GETFL) | O_NONBLOCK);
}

/// A pipe; ours is its writing end, or its reading end. Does not block on our side.
bool open_pipe(Pair& pair, bool we_write) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  pair.ours = Descriptor(ends[we_write ? 1 : 0]);
  pair.theirs = Descriptor(ends[we_write ? 0 : 1]);
  make_nonblocking(pair.ours);
  return true;
}

bool open_sockets(Pair& pair) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  pair.ours = Descriptor(ends[0]);
  pair.theirs = Descriptor(ends[1]);
  make_nonblocking(pair.ours);
  return true;
}

/// Sends one message with these descriptors.
template <std::size_t kCount>
bool send_with(int socket, const void* bytes, std::size_t size, const std::array<int, kCount>& descriptors) {
  iovec part{const_cast<void*>(bytes), size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kCount * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(kCount * sizeof(int));
  std::memcpy(CMSG_DATA(rights), descriptors.data(), kCount * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
}

std::string of_errno(std::string_view what) {
  return std::string(what) + ": " + std::strerror(errno);
}

/// Writes a request with its texts, each with its NUL. 0: it has no room.
class RequestWriter {
 public:
  explicit RequestWriter(std::array<char, kGuardRequestBytesMax>& into) : into_(into) {}

  void text(std::string_view text) {
    fits_ = fits_ && size_ + text.size() + 1 <= into_.size();
    if (!fits_) return;
    std::memcpy(into_.data() + size_, text.data(), text.size());
    size_ += text.size();
    into_[size_++] = '\0';
  }
  std::size_t finish(const GuardRequest& request) {
    std::memcpy(into_.data(), &request, sizeof request);
    const bool few = request.arguments <= kGuardTextsMax && request.variables <= kGuardTextsMax;
    return fits_ && few ? size_ : 0;
  }

 private:
  std::array<char, kGuardRequestBytesMax>& into_;
  std::size_t size_ = sizeof(GuardRequest);
  bool fits_ = true;
};

}  // namespace

ProcessHost::ProcessHost() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (const char* const why = why_no_guards())
    throw std::runtime_error("this system cannot run programs safely: " + std::string(why));
  if (!epoll_) throw std::runtime_error(of_errno("no epoll descriptor"));
}

ProcessHost::~ProcessHost() {
  guards_.clear();
  keeper_.reset();
  if (keeper_process_ == 0) return;
  // By its number: the header of glibc 2.36 cannot be used from C++.
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, keeper_process_, 0)));
  pollfd ended{process.get(), POLLIN, 0};
  if (process) poll(&ended, 1, kFarewellMs);
  waitpid(keeper_process_, nullptr, WNOHANG);
}

std::unique_ptr<Child> ProcessHost::start(const Program& program, const std::vector<std::string>& variables,
                                          ChildOwner& owner, std::string& problem) {
  RequestWriter writer(request_);
  writer.text(program.path);
  writer.text(program.directory);
  for (const auto* texts : {&program.arguments, &program.variables, &variables})
    for (const std::string& text : *texts)
      writer.text(text);
  const std::size_t size =
      writer.finish({.what = GuardRequest::What::start,
                     .arguments = static_cast<std::uint32_t>(program.arguments.size()),
                     .variables = static_cast<std::uint32_t>(program.variables.size() + variables.size()),
                     .memory_max = program.memory_max,
                     .files_max = program.files_max});
  if (size == 0) {
    problem = "its command line and environment have over " + std::to_string(kGuardRequestBytesMax) +
              " bytes or " + std::to_string(kGuardTextsMax) + " words";
    return nullptr;
  }
  Pair input, output, errors;
  if (!open_pipe(input, true) || !open_pipe(output, false) || !open_pipe(errors, false)) {
    problem = of_errno("no pipe");
    return nullptr;
  }
  const std::array<int, 3> streams{input.theirs.get(), output.theirs.get(), errors.theirs.get()};
  std::uint64_t guard = 0;
  // An idle guard may have been killed meanwhile.
  while ((guard = idle_guard(problem)) != 0 &&
         !send_with(guards_.at(guard).socket.get(), request_.data(), size, streams))
    drop_guard(guard);
  if (guard == 0) return nullptr;

  std::unique_ptr<Child> child(new Child(*this, ++last_id_, owner));
  child->guard_ = guard;
  child->input_.end.descriptor = std::move(input.ours);
  child->output_.end.descriptor = std::move(output.ours);
  child->errors_.end.descriptor = std::move(errors.ours);
  child->watch(child->output_.end, Child::Stream::output);
  child->watch(child->errors_.end, Child::Stream::errors);
  guards_.at(guard).child = child.get();
  children_.emplace(child->id_, child.get());
  return child;
}

void ProcessHost::advance() {
  for (const std::uint64_t id : std::exchange(finishing_, {}))
    if (const auto child = children_.find(id); child != children_.end()) child->second->finish_if_read();
}

// ---- keeper and guards --------------------------------------------------------------------------------

bool ProcessHost::start_keeper(std::string& problem) {
  if (keeper_) return true;
  Pair sockets;
  if (!open_sockets(sockets)) {
    problem = of_errno("no socket");
    return false;
  }
  const pid_t process = fork();
  if (process == 0) keep_guards(sockets.theirs.get());
  if (process < 0) {
    problem = of_errno("no process");
    return false;
  }
  keeper_process_ = process;
  keeper_ = std::move(sockets.ours);
  watch(keeper_.get(), EPOLLIN, Source::keeper, 0);
  return true;
}

void ProcessHost::forget_keeper() {
  keeper_.reset();
  if (keeper_process_ != 0) waitpid(std::exchange(keeper_process_, 0), nullptr, 0);
}

/// The number of a guard that runs nothing; 0: there is none, and `problem` says why.
std::uint64_t ProcessHost::idle_guard(std::string& problem) {
  if (!idle_.empty()) {
    const std::uint64_t id = idle_.back();
    idle_.pop_back();
    return id;
  }
  if (guards_.size() >= kGuardsMax) {
    problem = "there are " + std::to_string(kGuardsMax) + " programs";
    return 0;
  }
  Pair sockets;
  if (!open_sockets(sockets)) {
    problem = of_errno("no socket");
    return 0;
  }
  const char byte = 0;
  for (int tries = 0; tries < 2; ++tries) {
    if (!start_keeper(problem)) return 0;
    if (!send_with(keeper_.get(), &byte, sizeof byte, std::array{sockets.theirs.get()})) {
      forget_keeper();  // it was killed
      continue;
    }
    const std::uint64_t id = ++last_id_;
    watch(sockets.ours.get(), EPOLLIN, Source::guard, id);
    guards_[id].socket = std::move(sockets.ours);
    return id;
  }
  problem = "the keeper of programs was killed";
  return 0;
}

void ProcessHost::drop_guard(std::uint64_t id) {
  guards_.erase(id);
  std::erase(idle_, id);
}

// ---- events -------------------------------------------------------------------------------------------

void ProcessHost::on_readable() {
  if (ready_.next == ready_.count) {
    ready_.next = 0;
    const int count =
        epoll_wait(epoll_.get(), ready_.events.data(), static_cast<int>(ready_.events.size()), 0);
    ready_.count = count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  const auto until = Clock::now() + kTurnTime;
  while (ready_.next < ready_.count) {
    const std::uint64_t about = ready_.events[ready_.next++].data.u64;
    const auto source = static_cast<Source>(about & ((1u << kSourceBits) - 1));
    const std::uint64_t id = about >> kSourceBits;
    if (source == Source::keeper)
      on_keeper();
    else if (source == Source::guard)
      on_guard(id);
    else
      on_child(id, source);
    if (Clock::now() >= until) return;
  }
}

void ProcessHost::on_keeper() {
  char byte = 0;
  if (!keeper_ || (recv(keeper_.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)) return;
  forget_keeper();
}

void ProcessHost::on_guard(std::uint64_t id) {
  const auto found = guards_.find(id);
  if (found == guards_.end()) return;
  GuardReport report;
  const ssize_t size = recv(found->second.socket.get(), &report, sizeof report, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  Child* const child = std::exchange(found->second.child, nullptr);
  if (child) child->guard_ = 0;
  if (size != sizeof report) {
    drop_guard(id);
    if (child) child->end_without_report();
    return;
  }
  idle_.push_back(id);
  if (child) child->end(report);
}

void ProcessHost::on_child(std::uint64_t id, Source source) {
  const auto found = children_.find(id);
  if (found == children_.end()) return;
  Child& child = *found->second;
  if (source == Source::input)
    child.flush();
  else if (source == Source::output)
    child.read_output(Child::kReadsPerEvent);
  else
    child.read_errors(Child::kReadsPerEvent);
}

bool ProcessHost::watch(int descriptor, std::uint32_t events, Source source, std::uint64_t id) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id << kSourceBits | static_cast<std::uint64_t>(source);
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void ProcessHost::unwatch(int descriptor) const {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

}  // namespace lanemq::worker
