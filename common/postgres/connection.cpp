// SPDX-License-Identifier: Apache-2.0
#include "common/postgres/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lanemq::postgres {
namespace {

/// How often a wait asks whether it is over.
constexpr int kOverMs = 100;

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using Options = std::unique_ptr<PQconninfoOption, FreeOptions>;

/// What a session is to have whatever the role's defaults are: a commit that is told is on the disks that the
/// server promises, and nothing but the server itself ends a statement.
constexpr const char* kSession =
    "SET synchronous_commit = on; SET statement_timeout = 0; SET lock_timeout = 0; "
    "SET idle_in_transaction_session_timeout = 0; SET client_min_messages = warning; "
    "SET default_transaction_isolation = 'read committed'";

/// libpq's messages have several lines and end with one.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

/// libpq's text without its questions, which begin with a tab (`Is the server running on that host ...?`): of
/// several hosts they would fill a line of the log.
std::string without_questions(const std::string& text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (text[at] != '\t') kept += (kept.empty() ? "" : "\n") + text.substr(at, end - at);
    at = end + 1;
  }
  return kept;
}

/// Null: `why` says what is wrong.
Options parse(const std::string& conninfo, std::string& why) {
  char* error = nullptr;
  Options options(PQconninfoParse(conninfo.c_str(), &error));
  if (options == nullptr) {
    why = error == nullptr ? "out of memory" : one_line(error);
    PQfreemem(error);
  }
  return options;
}

/// The password file of a connection; empty: the user has no home.
std::string passfile_of(const Words& words) {
  if (const auto named = words.find("passfile"); named != words.end()) return named->second;
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? std::string() : std::string(home) + "/.pgpass";
}

/// Why libpq would not read it; empty: it would.
std::string why_no_passfile(const std::string& path) {
  struct stat found {};
  if (path.empty() || ::stat(path.c_str(), &found) != 0) return "is not there";
  if (!S_ISREG(found.st_mode)) return "is no plain file";
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return "may be read by others than its owner, so it is not used (chmod 600)";
  return ::access(path.c_str(), R_OK) == 0 ? "" : "may not be read by this user";
}

template <class Each>
void for_each_option(const Options& options, const Each& each) {
  for (const PQconninfoOption* option = options.get(); option != nullptr && option->keyword != nullptr;
       ++option)
    each(*option);
}

bool is_set(const PQconninfoOption& option) {
  return option.val != nullptr && *option.val != '\0';
}

/// Whether the words of one host lead to this machine.
bool is_here(const Words& words) {
  const auto said = [&](const char* keyword) {
    const auto at = words.find(keyword);
    return at == words.end() ? std::string() : at->second;
  };
  const auto is_local = [](const std::string& host) {
    return host.empty() || host.front() == '/' || host.front() == '@' || host == "localhost" ||
           host == "::1" || host.starts_with("127.");
  };
  return is_local(said("host")) && is_local(said("hostaddr"));
}

/// Whether the text has a password where a URL has one, as people see it. libpq reads it otherwise: a `/` in
/// the password ends the authority, and its pieces become port and database.
bool shows_password(std::string_view conninfo) {
  const std::size_t scheme = conninfo.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::string_view rest = conninfo.substr(scheme + 3, conninfo.find('?', scheme) - scheme - 3);
  const std::size_t at = rest.rfind('@');
  return at != std::string_view::npos && rest.substr(0, at).find(':') != std::string_view::npos;
}

constexpr char kPassword[] =
    "it holds a password, which logs and lists of processes would show; write passfile=PATH instead (the "
    "file has the line HOST:PORT:DATABASE:USER:PASSWORD and is its owner's alone)";

/// Ports, one or several with commas.
bool are_numbers(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || c == ','; });
}

}  // namespace

bool Fault::lost() const {
  // Classes "connection exception" and "operator intervention" (a shutdown, a crash, a standby's conflict),
  // and "read only": a standby where a primary is wanted.
  return state.empty() || state.starts_with("08") || state.starts_with("57P") || state == "25006";
}

bool Fault::passes() const {
  return state.starts_with("40") || state.starts_with("53") || state.starts_with("55") || state == "57014";
}

std::int64_t Answer::changed() const {
  const char* const text = PQcmdTuples(result_.get());
  std::int64_t count = 0;
  std::from_chars(text, text + std::strlen(text), count);
  return count;
}

std::optional<std::string> problem_of(const std::string& conninfo) {
  if (shows_password(conninfo)) return kPassword;
  std::string why;
  const Options options = parse(conninfo, why);
  if (options == nullptr) {
    // libpq's text has words of the string, which may be a password's.
    if (conninfo.find("://") == std::string::npos && conninfo.find("password") == std::string::npos &&
        conninfo.find('@') == std::string::npos)
      return why;
    return "it is neither words as host=NAME dbname=NAME user=NAME nor postgresql://USER@HOST:PORT/DATABASE";
  }
  std::optional<std::string> problem;
  for_each_option(options, [&](const PQconninfoOption& option) {
    if (!is_set(option)) return;
    if (std::string_view(option.keyword) == "password" || std::string_view(option.keyword) == "sslpassword")
      problem = kPassword;
    if (std::string_view(option.keyword) == "port" && !are_numbers(option.val) && !problem)
      problem = "its port is no number";
    if (std::string_view(option.keyword) == "replication")
      problem = "replication makes a connection on which no statement runs; leave it out";
  });
  return problem;
}

void ignore_environment() {
  const Options options(PQconndefaults());
  for_each_option(options, [](const PQconninfoOption& option) {
    if (option.envvar != nullptr) unsetenv(option.envvar);
  });
}

std::string shown(const std::string& conninfo) {
  std::string why, text;
  const Options options = parse(conninfo, why);
  Words words;
  for_each_option(options, [&](const PQconninfoOption& option) {
    const std::string_view keyword = option.keyword;
    if (is_set(option)) words[option.keyword] = option.val;
    if (!is_set(option) || (keyword != "host" && keyword != "hostaddr" && keyword != "port" &&
                            keyword != "dbname" && keyword != "user" && keyword != "sslmode"))
      return;
    text += (text.empty() ? "" : " ") + std::string(keyword) + "=" + option.val;
  });
  const std::vector<Words> hosts = each_host(words);
  if (!words.contains("sslmode") && !std::all_of(hosts.begin(), hosts.end(), is_here))
    text += " sslmode=require";
  return text.empty() ? "libpq's defaults" : text;
}

// ---- making it ----------------------------------------------------------------------------------------

Outcome<Connection> Connection::open(const Target& target, Server server) {
  std::optional<Connection> first;
  const auto tried = open_each(target, server, [&](Connection made) {
    first = std::move(made);
    return false;
  });
  if (first) return std::move(*first);
  return tl::unexpected(tried.error());
}

Outcome<void> Connection::open_each(const Target& target, Server server,
                                    const std::function<bool(Connection)>& take) {
  std::string why;
  const Options options = parse(target.conninfo, why);
  if (options == nullptr) return tl::unexpected(Fault{.state = {}, .message = why});
  Words words;
  for_each_option(options, [&](const PQconninfoOption& option) {
    if (is_set(option)) words[option.keyword] = option.val;
  });
  std::string reasons;
  bool any = false;
  for (const Words& host : each_host(words)) {
    auto made = open_host(host, target, server);
    if (made) {
      any = true;
      if (!take(std::move(*made))) return {};
    } else if (made.error().is_for_now()) {
      reasons += (reasons.empty() ? "" : "; ") + made.error().message;
    } else if (!any) {
      return tl::unexpected(std::move(made.error()));
    }
  }
  if (any) return {};
  return tl::unexpected(Fault{.state = {}, .message = std::move(reasons)});
}

Outcome<Connection> Connection::open_host(const Words& words, const Target& target, Server server) {
  std::vector<const char*> keywords, values;
  const auto set = [&](const char* keyword, const char* value) {
    keywords.push_back(keyword);
    values.push_back(value);
  };
  // The last of one keyword counts.
  const std::string host_seconds = std::to_string(kHostSeconds);
  set("connect_timeout", host_seconds.c_str());
  set("application_name", target.application.c_str());
  if (!is_here(words)) set("sslmode", "require");
  for (const auto& [keyword, value] : words)
    set(keyword.c_str(), value.c_str());
  set("client_encoding", "UTF8");
  // libpq would say on each attempt, on the process's standard error, that it does not use the file.
  const std::string file = passfile_of(words);
  const std::string why_not_file = why_no_passfile(file);
  const std::string no_file = file + "/none";
  if (!file.empty() && !why_not_file.empty()) set("passfile", no_file.c_str());
  if (server == Server::writable) set("target_session_attrs", "read-write");
  set(nullptr, nullptr);

  Connection made;
  made.warning_ = std::make_unique<std::string>();
  made.connection_.reset(PQconnectdbParams(keywords.data(), values.data(), 0));
  if (made.connection_ == nullptr) return tl::unexpected(Fault{.state = {}, .message = "out of memory"});
  PGconn* const connection = made.connection_.get();
  if (PQstatus(connection) != CONNECTION_OK) {
    Fault fault = made.fault_of_connection();
    if (PQconnectionNeedsPassword(connection) == 1 && !file.empty() && !why_not_file.empty())
      fault.message = "the password file " + file + " " + why_not_file + ": " + fault.message;
    return tl::unexpected(std::move(fault));
  }
  PQsetNoticeReceiver(
      connection,
      [](void* warning, const PGresult* notice) {
        auto& text = *static_cast<std::string*>(warning);
        const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
        if (!text.empty() || severity == nullptr || std::strcmp(severity, "WARNING") != 0) return;
        const char* const message = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
        text = message == nullptr ? "a warning without a text" : one_line(message);
      },
      made.warning_.get());
  if (PQsetnonblocking(connection, 1) != 0) return tl::unexpected(made.fault_of_connection());
  std::string session = kSession;
  if (!target.search_path.empty()) session += "; SET search_path = " + made.quoted(target.search_path);
  if (auto done = made.run_script(session, Clock::now() + std::chrono::seconds(kHostSeconds)); !done)
    return tl::unexpected(std::move(done.error()));
  return made;
}

std::string Connection::refusal(const Target& target) {
  std::string why;
  const Options options = parse(target.conninfo, why);
  if (options == nullptr) return {};
  Words words;
  for_each_option(options, [&](const PQconninfoOption& option) {
    if (is_set(option)) words[option.keyword] = option.val;
  });
  for (const Words& host : each_host(words))
    if (std::string state = refusal_of_host(host, target); !state.empty()) return state;
  return {};
}

std::string Connection::refusal_of_host(const Words& words, const Target& target) {
  std::vector<const char*> keywords{"application_name"}, values{target.application.c_str()};
  for (const auto& [keyword, value] : words) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  const std::unique_ptr<PGconn, Finish> made(PQconnectStartParams(keywords.data(), values.data(), 0));
  if (made == nullptr) return {};
  PQsetErrorVerbosity(made.get(), PQERRORS_SQLSTATE);
  const auto end = Clock::now() + std::chrono::seconds(kHostSeconds);
  for (auto next = PGRES_POLLING_WRITING; next != PGRES_POLLING_FAILED; next = PQconnectPoll(made.get())) {
    if (next == PGRES_POLLING_OK) return {};
    pollfd watched{PQsocket(made.get()), short(next == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || ::poll(&watched, 1, static_cast<int>(left)) <= 0) return {};
  }
  if (PQconnectionNeedsPassword(made.get()) == 1) return "28P01";
  // The last line is `FATAL:  3D000`.
  const std::string text = one_line(PQerrorMessage(made.get()));
  const std::size_t last = text.rfind(' ');
  const std::string state = last == std::string::npos ? std::string() : text.substr(last + 1);
  const bool is_state = state.size() == 5 && std::all_of(state.begin(), state.end(), [](char one) {
                          return (one >= '0' && one <= '9') || (one >= 'A' && one <= 'Z');
                        });
  return is_state ? state : std::string();
}

std::string Connection::quoted(const std::string& name) const {
  const std::unique_ptr<char, void (*)(void*)> text(
      PQescapeIdentifier(connection_.get(), name.data(), name.size()), PQfreemem);
  return text == nullptr ? std::string() : text.get();  // then no statement with it is one
}

Fault Connection::fault_of_connection() const {
  const std::string text = one_line(without_questions(PQerrorMessage(connection_.get())));
  return Fault{.state = {}, .message = text.empty() ? "the connection is lost" : text};
}

Fault Connection::fault_of(const PGresult* result) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const char* const detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
  Fault fault{.state = state == nullptr ? "" : state,
              .message = one_line(message == nullptr ? PQresultErrorMessage(result) : message)};
  if (detail != nullptr) fault.message += " (" + one_line(detail) + ")";
  if (!fault.state.empty()) fault.message += ", SQLSTATE " + fault.state;
  return fault;
}

Fault Connection::give_up(const char* what) {
  close();
  return Fault{.state = {}, .message = what};
}

// ---- waiting ------------------------------------------------------------------------------------------

/// Sends what is to be sent, and waits until something was received.
Connection::Waited Connection::wait(Clock::time_point end) {
  while (true) {
    const int left = PQflush(connection_.get());
    if (left < 0) return Waited::lost;
    const auto now = Clock::now();
    if (now >= end || (over_ && over_())) return Waited::late;
    pollfd ready{.fd = PQsocket(connection_.get()),
                 .events = static_cast<short>(POLLIN | (left > 0 ? POLLOUT : 0)),
                 .revents = 0};
    // One millisecond more: poll() would wake before the time and be called again without a pause.
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(end - now).count() + 1;
    const int found = poll(&ready, 1, static_cast<int>(std::min<long long>(ms, over_ ? kOverMs : 60'000)));
    if (found < 0 && errno != EINTR) return Waited::lost;
    if (found <= 0) continue;
    if ((ready.revents & ~POLLOUT) == 0) continue;
    return PQconsumeInput(connection_.get()) == 1 ? Waited::ready : Waited::lost;
  }
}

// ---- one statement ------------------------------------------------------------------------------------

Outcome<Answer> Connection::finish_run(Clock::time_point end) {
  Answer answer;
  std::optional<Fault> refusal;
  while (true) {
    while (PQisBusy(connection_.get()) == 1) {
      const Waited waited = wait(end);
      if (waited == Waited::lost) return tl::unexpected(fault_of_connection());
      if (waited == Waited::late) return tl::unexpected(give_up("the server did not answer in time"));
    }
    Answer next(PQgetResult(connection_.get()));
    if (next.result() == nullptr) break;
    const ExecStatusType status = PQresultStatus(next.result());
    if (status == PGRES_FATAL_ERROR && !refusal) refusal = fault_of(next.result());
    if (status == PGRES_COPY_OUT) return next;
    answer = std::move(next);
  }
  if (refusal) return tl::unexpected(std::move(*refusal));
  if (PQstatus(connection_.get()) != CONNECTION_OK) return tl::unexpected(fault_of_connection());
  return answer;
}

Outcome<Answer> Connection::run(const std::string& sql, const Values& values, Clock::time_point end) {
  if (!is_open()) return tl::unexpected(Fault{.state = {}, .message = "the connection is closed"});
  if (PQsendQueryParams(connection_.get(), sql.c_str(), values.count(), values.types(), values.values(),
                        values.lengths(), values.formats(), 1) != 1)
    return tl::unexpected(fault_of_connection());
  return finish_run(end);
}

Outcome<void> Connection::run_script(const std::string& sql, Clock::time_point end) {
  if (!is_open()) return tl::unexpected(Fault{.state = {}, .message = "the connection is closed"});
  if (PQsendQuery(connection_.get(), sql.c_str()) != 1) return tl::unexpected(fault_of_connection());
  if (auto answer = finish_run(end); !answer) return tl::unexpected(std::move(answer.error()));
  return {};
}

Outcome<bool> Connection::copy_out(const std::string& sql, std::chrono::milliseconds silence_max,
                                   const std::function<bool(Fields row)>& take) {
  constexpr std::size_t kSignatureBytes = 11;
  const auto soon = [&] { return Clock::now() + silence_max; };
  if (PQsendQuery(connection_.get(), sql.c_str()) != 1) return tl::unexpected(fault_of_connection());
  if (auto begun = finish_run(soon()); !begun) return tl::unexpected(std::move(begun.error()));
  bool at_head = true;
  while (true) {
    char* data = nullptr;
    const int size = PQgetCopyData(connection_.get(), &data, 1);
    const std::unique_ptr<char, void (*)(void*)> owned(data, PQfreemem);
    if (size == -2) return tl::unexpected(fault_of_connection());
    if (size == -1) break;
    if (size == 0) {
      const Waited waited = wait(soon());
      if (waited == Waited::lost) return tl::unexpected(fault_of_connection());
      if (waited == Waited::late) return tl::unexpected(give_up("the server did not answer in time"));
      continue;
    }
    Fields row({data, static_cast<std::size_t>(size)});
    if (std::exchange(at_head, false)) {
      row.skip(kSignatureBytes + 4);  // and the flags
      row.skip(static_cast<std::size_t>(row.int32()));
      if (row.whole()) continue;  // the head stood alone
    }
    if (row.int16() < 0) continue;  // the end
    if (take(row)) continue;
    close();
    return false;
  }
  if (auto ended = finish_run(soon()); !ended) return tl::unexpected(std::move(ended.error()));
  return true;
}

// ---- pipelines ----------------------------------------------------------------------------------------

Outcome<void> Connection::begin_pipeline() {
  if (PQenterPipelineMode(connection_.get()) != 1) return tl::unexpected(fault_of_connection());
  return {};
}

Outcome<void> Connection::end_pipeline() {
  if (PQexitPipelineMode(connection_.get()) != 1) return tl::unexpected(fault_of_connection());
  return {};
}

Outcome<void> Connection::prepare(const std::string& name, const std::string& sql, Clock::time_point end) {
  if (PQsendPrepare(connection_.get(), name.c_str(), sql.c_str(), 0, nullptr) != 1)
    return tl::unexpected(fault_of_connection());
  if (auto answer = finish_run(end); !answer) return tl::unexpected(std::move(answer.error()));
  return {};
}

std::size_t Connection::send(const char* name, const Values& values) {
  if (PQsendQueryPrepared(connection_.get(), name, values.count(), values.values(), values.lengths(),
                          values.formats(), 1) != 1)
    send_failed_ = true;
  return sent_++;
}

void Connection::sync() {
  answers_.clear();
  refusal_.reset();
  refused_ = sent_ = 0;
  if (PQpipelineSync(connection_.get()) != 1) send_failed_ = true;
}

Outcome<bool> Connection::answers_by(Clock::time_point end) {
  if (std::exchange(send_failed_, false)) return tl::unexpected(fault_of_connection());
  while (true) {
    while (PQisBusy(connection_.get()) == 1) {
      const Waited waited = wait(end);
      if (waited == Waited::lost) return tl::unexpected(fault_of_connection());
      if (waited == Waited::late) return false;
    }
    Answer answer(PQgetResult(connection_.get()));
    if (answer.result() == nullptr) {  // between the answers of two statements
      if (PQstatus(connection_.get()) != CONNECTION_OK) return tl::unexpected(fault_of_connection());
      continue;
    }
    const ExecStatusType status = PQresultStatus(answer.result());
    if (status == PGRES_PIPELINE_SYNC) break;
    if (status == PGRES_FATAL_ERROR && !refusal_) {
      refusal_ = fault_of(answer.result());
      refused_ = answers_.size();
    }
    answers_.push_back(std::move(answer));
  }
  if (refusal_) return tl::unexpected(*refusal_);
  return true;
}

std::string Connection::take_warning() {
  return std::exchange(*warning_, {});
}

}  // namespace lanemq::postgres
