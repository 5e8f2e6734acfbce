// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/exec_outcome.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/wait.h>
#include <sysexits.h>

#include <lanemq/text.hpp>

#include "worker/session/session.hpp"

namespace lanemq::worker {
namespace {

constexpr std::string_view kLineBreak = " | ";

ErrorClass class_of_exit(int code) {
  if (code == EX_TEMPFAIL) return ErrorClass::retry;
  return code == EX_UNAVAILABLE ? ErrorClass::overloaded : ErrorClass::permanent;
}

/// Puts the program's last words behind the message, as many as fit.
void add_last_words(JobFailure& failure, const ChildEnd& end) {
  failure.message += "; ";
  const std::string words =
      last_words_of(end, kMessageBytesMax - std::min(kMessageBytesMax, failure.message.size()));
  if (words.empty())
    failure.message.resize(failure.message.size() - 2);
  else
    failure.message += words;
}

}  // namespace

std::string last_words_of(const ChildEnd& end, std::size_t room) {
  std::string_view said = end.last_words;
  while (!said.empty() && (said.back() == '\n' || said.back() == '\r' || said.back() == ' '))
    said.remove_suffix(1);
  // Lines stay apart, without the escapes that line ends would become in a message.
  std::string text;
  for (const char c : said) {
    if (c == '\n')
      text += kLineBreak;
    else if (c == '\t')
      text += ' ';
    else if (c != '\r')
      text += c;
  }
  text = printable(text, 4 * text.size());
  if (text.size() <= room) return text;
  std::size_t begin = text.size() - room;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
    ++begin;
  return text.substr(begin);
}

std::string description_of(const ChildEnd& end) {
  if (!end.started) return end.problem;
  if (!end.guarded) return "lost its guard: that was killed";
  if (WIFEXITED(end.status)) return "ended with " + std::to_string(WEXITSTATUS(end.status));
  const int number = WTERMSIG(end.status);
  const char* const name = sigdescr_np(number);
  return "was killed by signal " + std::to_string(number) + (name ? " (" + std::string(name) + ")" : "");
}

std::optional<JobFailure> failure_of(const ChildEnd& end, const std::string& name) {
  if (end.started && end.guarded && WIFEXITED(end.status) && WEXITSTATUS(end.status) == EX_OK)
    return std::nullopt;
  JobFailure failure{.error_class = ErrorClass::retry,
                     .message = printable(name, 128) + " " + description_of(end)};
  if (!end.started) {
    // Without memory or room for a process fewer of them would do better.
    if (end.error == EAGAIN || end.error == ENOMEM) failure.error_class = ErrorClass::overloaded;
    failure.code = "not_started";
    failure.message = printable(name, 128) + ": " + end.problem;
  } else if (!end.guarded) {
    failure.code = "guard_lost";
  } else if (WIFEXITED(end.status)) {
    failure.error_class = class_of_exit(WEXITSTATUS(end.status));
    failure.code = "exit_" + std::to_string(WEXITSTATUS(end.status));
  } else {
    failure.code = "signal_" + std::to_string(WTERMSIG(end.status));
  }
  add_last_words(failure, end);
  return failure;
}

JobFailure failure_of(ExecStop stop, const ChildEnd& end, const std::string& bound) {
  JobFailure failure{.error_class = ErrorClass::retry};
  switch (stop) {
    case ExecStop::timeout:
      failure.code = "timeout";
      failure.message = "not done within " + bound + " (timeout)";
      break;
    case ExecStop::deadline:
      failure.error_class = ErrorClass::deadline;
      failure.code = "timeout";
      failure.message = "not done within the job's own time";
      break;
    case ExecStop::output:
      failure.error_class = ErrorClass::permanent;
      failure.code = "too_large";
      failure.message = "the answer has over " + bound + " (output_max)";
      break;
    default:
      failure.code = "cancelled";
      failure.message = "cancelled while it ran";
  }
  add_last_words(failure, end);
  return failure;
}

}  // namespace lanemq::worker
