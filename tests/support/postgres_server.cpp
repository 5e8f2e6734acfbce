// SPDX-License-Identifier: Apache-2.0
#include "tests/support/postgres_server.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/postgres/connection.hpp"
#include "tests/support/eventually.hpp"

namespace lanemq::test {
namespace {

constexpr const char* kVersions = "/usr/lib/postgresql";
constexpr auto kPatience = std::chrono::seconds(60);

/// The folder of the programs of the newest version that is there.
std::filesystem::path programs() {
  std::vector<std::filesystem::path> found;
  std::error_code none;
  for (const auto& version : std::filesystem::directory_iterator(kVersions, none))
    if (std::filesystem::exists(version.path() / "bin/initdb")) found.push_back(version.path() / "bin");
  if (found.empty())
    throw std::runtime_error(std::string("there is no PostgreSQL in ") + kVersions + ": install postgresql");
  return *std::max_element(found.begin(), found.end());
}

/// Starts a program, in a group of its own and as `nobody` where this is root. What it says goes to `log`.
pid_t spawn(const std::string& program, std::initializer_list<std::string> arguments,
            const std::string& log) {
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments);
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const passwd* const nobody = getpwnam("nobody");
  const pid_t process = fork();
  if (process != 0) return process;
  setpgid(0, 0);
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  dup2(output, 1);
  dup2(output, 2);
  if (getuid() == 0 && nobody != nullptr &&
      (setgroups(0, nullptr) != 0 || setgid(nobody->pw_gid) != 0 || setuid(nobody->pw_uid) != 0))
    _exit(126);
  execv(pointers.front(), pointers.data());
  _exit(127);
}

}  // namespace

PostgresServer::PostgresServer(Sync sync, const std::filesystem::path& in) : sync_(sync), folder_(in) {
  make_folder();
  make_by("initdb", {"-D", folder_.path("data"), "-U", "lanemq", "-A", "trust", "-E", "UTF8", "--locale=C",
                     "--no-sync", "--no-instructions"});
  start();
}

PostgresServer::PostgresServer(const PostgresServer& primary, Sync sync, const std::filesystem::path& in)
    : sync_(sync), folder_(in) {
  make_folder();
  make_by("pg_basebackup", {"-d", primary.conninfo() + " application_name=standby", "-D",
                            folder_.path("data"), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"});
  std::filesystem::remove(socket() + ".lock");  // the primary's socket lies in the folder that was copied
  start();
  const auto end = std::chrono::steady_clock::now() + kPatience;
  auto session = postgres::Connection::open({.conninfo = primary.conninfo()}, postgres::Server::writable);
  for (const std::string statement :
       {"ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()"})
    if (!session || !session->run(statement, end))
      throw std::runtime_error("the primary takes no standby: " + primary.folder_.read("log"));
  const auto follows = [&] {
    const auto rows = session->run("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'", end);
    return rows && rows->rows() > 0;
  };
  if (!eventually(follows)) throw std::runtime_error("the standby does not follow: " + folder_.read("log"));
}

void PostgresServer::make_folder() {
  const std::string data = folder_.path("data");
  std::filesystem::create_directory(data);
  std::filesystem::permissions(data, std::filesystem::perms::owner_all);
  if (const passwd* const nobody = getpwnam("nobody"); getuid() == 0 && nobody != nullptr)
    for (const std::string& path : {folder_.path(""), data})
      if (chown(path.c_str(), nobody->pw_uid, nobody->pw_gid) != 0)
        throw std::runtime_error("the folder of PostgreSQL cannot be given away");
}

void PostgresServer::make_by(const std::string& program, std::initializer_list<std::string> arguments) {
  const pid_t made = spawn(programs() / program, arguments, folder_.path("log"));
  int status = 0;
  if (waitpid(made, &status, 0) != made || status != 0)
    throw std::runtime_error(program + " has failed: " + folder_.read("log"));
}

PostgresServer::~PostgresServer() {
  kill_all(SIGCONT);
  kill(process_, SIGQUIT);
  waitpid(process_, nullptr, 0);
}

std::string PostgresServer::socket() const {
  return folder_.path("data/.s.PGSQL.5432");
}

std::string PostgresServer::conninfo() const {
  return "host=" + folder_.path("data") + " user=lanemq dbname=postgres";
}

void PostgresServer::start() {
  const std::string data = folder_.path("data");
  process_ = spawn(
      programs() / "postgres",
      {"-D", data, "-k", data, "-c", "listen_addresses=", "-c", sync_ == Sync::yes ? "fsync=on" : "fsync=off",
       "-c", "max_connections=40", "-c", "shared_buffers=32MB", "-c", "autovacuum=off"},
      folder_.path("log"));
  const auto serves = [&] {
    return postgres::Connection::open({.conninfo = conninfo()}, postgres::Server::any).has_value();
  };
  const auto has_ended = [&] { return waitpid(process_, nullptr, WNOHANG) == process_; };
  if (!eventually([&] { return serves() || has_ended(); }) || !serves())
    throw std::runtime_error("PostgreSQL does not start: " + folder_.read("log"));
}

/// The server's processes are one group each; those of sessions are its children.
void PostgresServer::kill_all(int signal) const {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char digit) { return digit >= '0' && digit <= '9'; }))
      continue;
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    std::getline(stat, line);
    const std::size_t end = line.rfind(')');
    if (end == std::string::npos || end + 4 >= line.size()) continue;
    const pid_t process = std::stoi(name);
    if (process == process_ || std::stoi(line.substr(end + 4)) == process_) kill(process, signal);
  }
}

void PostgresServer::crash_and_start() {
  kill_all(SIGKILL);
  waitpid(process_, nullptr, 0);
  start();
}

void PostgresServer::stop_processes() {
  kill_all(SIGSTOP);
}

void PostgresServer::continue_processes() {
  kill_all(SIGCONT);
}

PostgresServer& PostgresServer::shared() {
  static PostgresServer server;
  return server;
}

}  // namespace lanemq::test
