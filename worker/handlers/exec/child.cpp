// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/child.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lanemq/text.hpp>

#include "worker/handlers/exec/process_host.hpp"

namespace lanemq::worker {
namespace {

std::string_view name_of(GuardReport::Step step) {
  switch (step) {
    case GuardReport::Step::request:
      return "read its command line and environment";
    case GuardReport::Step::process:
      return "make a process";
    case GuardReport::Step::directory:
      return "enter its directory";
    case GuardReport::Step::limits:
      return "set its limits";
    case GuardReport::Step::program:
      break;
  }
  return "start the program";
}

}  // namespace

Child::~Child() {
  if (guard_ != 0) host_.drop_guard(std::exchange(guard_, 0));
  host_.children_.erase(id_);
}

void Child::write(Blob bytes) {
  if (!input_.end.descriptor || bytes.empty()) return;
  input_.unsent += bytes.size();
  input_.queue.push_back(std::move(bytes));
}

void Child::flush() {
  while (input_.end.descriptor && !input_.queue.empty()) {
    const std::string_view rest = input_.queue.front().bytes().substr(input_.sent);
    const ssize_t size = ::write(input_.end.descriptor.get(), rest.data(), rest.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return watch(input_.end, Stream::input);
    if (size < 0) {
      // It reads no more. That is no fault: what it has read may be enough.
      input_.queue.clear();
      input_.unsent = 0;
      return close(input_.end);
    }
    input_.sent += static_cast<std::size_t>(size);
    input_.unsent -= static_cast<std::size_t>(size);
    if (input_.sent < input_.queue.front().size()) continue;
    input_.queue.pop_front();
    input_.sent = 0;
  }
  if (input_.closes) return close(input_.end);
  unwatch(input_.end);
}

void Child::close_input() {
  input_.closes = true;
  if (input_.queue.empty()) close(input_.end);
}

void Child::resume() {
  if (!std::exchange(output_.paused, false)) return;
  if (ended_)
    host_.finishing_.push_back(id_);
  else
    watch(output_.end, Stream::output);
}

void Child::signal(int number) {
  if (guard_ == 0) return;
  const GuardRequest request{.what = GuardRequest::What::signal, .signal = number};
  ::send(host_.guards_.at(guard_).socket.get(), &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Whether there may be more at once.
bool Child::read_output(std::size_t reads_max) {
  for (std::size_t i = 0; i < reads_max; ++i) {
    if (!output_.end.descriptor || output_.paused) return false;
    const ssize_t size = ::read(output_.end.descriptor.get(), host_.buffer_.data(), host_.buffer_.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (size <= 0) {
      close(output_.end);
      return false;
    }
    if (output_.discards || owner_.on_output(*this, {host_.buffer_.data(), static_cast<std::size_t>(size)}))
      continue;
    output_.paused = true;
    unwatch(output_.end);
  }
  return true;
}

void Child::read_errors(std::size_t reads_max) {
  for (std::size_t i = 0; i < reads_max && errors_.end.descriptor; ++i) {
    const ssize_t size = ::read(errors_.end.descriptor.get(), host_.buffer_.data(), host_.buffer_.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) return close(errors_.end);
    const auto count = static_cast<std::size_t>(size);
    owner_.on_errors(*this, {host_.buffer_.data(), count});
    const std::size_t kept = std::min(count, kLastWordsMax);
    if (errors_.text.size() + kept > 2 * kLastWordsMax)
      errors_.text.erase(0, errors_.text.size() - (kLastWordsMax - kept));
    errors_.text.append(host_.buffer_.data() + count - kept, kept);
  }
}

void Child::end(const GuardReport& report) {
  result_.started = report.what == GuardReport::What::ended;
  if (result_.started)
    result_.status = report.status;
  else {
    result_.error = report.status;
    result_.problem = "cannot " + std::string(name_of(report.step)) + ": " + std::strerror(report.status);
  }
  ended_ = true;
  finish_if_read();
}

void Child::end_without_report() {
  result_.guarded = false;
  ended_ = true;
  finish_if_read();
}

/// Hands over what is left in the pipes, and the end. Nothing may follow this call.
void Child::finish_if_read() {
  close(input_.end);
  read_errors(kReadsAtEnd);
  close(errors_.end);
  read_output(kReadsAtEnd);
  if (output_.paused) return;
  close(output_.end);
  if (errors_.text.size() > kLastWordsMax) errors_.text.erase(0, errors_.text.size() - kLastWordsMax);
  result_.last_words = std::move(errors_.text);
  owner_.on_end(*this, std::move(result_));
}

void Child::watch(End& end, Stream stream) {
  if (end.watched || !end.descriptor) return;
  using Source = ProcessHost::Source;
  const Source source = stream == Stream::input    ? Source::input
                        : stream == Stream::output ? Source::output
                                                   : Source::errors;
  end.watched = host_.watch(end.descriptor.get(), stream == Stream::input ? EPOLLOUT : EPOLLIN, source, id_);
}

void Child::unwatch(End& end) {
  if (std::exchange(end.watched, false)) host_.unwatch(end.descriptor.get());
}

void Child::close(End& end) {
  // A descriptor that is closed leaves the epoll set by itself: nobody else has this end of the pipe.
  end.watched = false;
  end.descriptor.reset();
}

}  // namespace lanemq::worker
