// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include <lanemq/text.hpp>

#include "client/cli/base/command_line.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/zmq/curve.hpp"

namespace lanemq::cli {
namespace {

struct KeygenOptions {
  std::string name, role, tenant, out;
  bool broker = false;
};

/// Writes the secret to a new file that its owner alone can read; false: it cannot, which is said.
bool write_secret(const std::string& path, const std::string& secret) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    say("cannot make the file " + printable(path) + ": " + std::strerror(errno) +
        (errno == EEXIST ? "; a key is never written over: choose another with --out, or remove it" : ""));
    return false;
  }
  const std::string line = secret + '\n';
  const bool written =
      ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && ::fsync(file) == 0;
  if (::close(file) == 0 && written) return true;
  say("cannot write " + printable(path) + ": " + std::strerror(errno));
  ::unlink(path.c_str());
  return false;
}

int keygen(const KeygenOptions& options) {
  const std::string name = options.broker ? "broker" : options.name;
  if (name.empty()) {
    say("name the peer, such as lanemq keygen alice --role client; the broker's own key: lanemq keygen "
        "--broker");
    return kExitUsage;
  }
  if (!options.broker && options.role.empty()) {
    say("say what " + printable(name) + " is: --role client, gateway or worker");
    return kExitUsage;
  }
  const std::string path = options.out.empty() ? name + ".key" : options.out;
  const socket::KeyPair keys = socket::make_keys();
  if (!write_secret(path, keys.secret_key)) return kExitFailed;
  if (options.broker) {
    say("the secret is in " + printable(path) +
        ": give it to the broker (secret_key = \"file:PATH\"); "
        "below is the public key, for its peers (broker_key)");
    return put(keys.public_key + "\n") ? kExitDone : kExitFailed;
  }
  say("the secret is in " + printable(path) + ": give it to " + printable(name) +
      " (secret_key = \"file:PATH\"); below is " + printable(name) + ".toml for the broker's keys_folder");
  const std::string tenant = options.tenant.empty() ? "" : "tenant = \"" + printable(options.tenant) + "\"\n";
  return put("public_key = \"" + keys.public_key + "\"\nrole = \"" + options.role + "\"\n" + tenant)
             ? kExitDone
             : kExitFailed;
}

}  // namespace

void add_keygen(CommandLine& line) {
  const auto options = std::make_shared<KeygenOptions>();
  CLI::App& command =
      line.add("keygen", "Make a key: a file with the secret, and what the broker is told of it");
  command.add_option("name", options->name, "Whose key it is")->type_name("NAME");
  CLI::Option* const broker = command.add_flag("--broker", options->broker, "The broker's own key");
  command.add_option("--role", options->role, "What the peer is")
      ->check(CLI::IsMember({"client", "gateway", "worker"}))
      ->excludes(broker)
      ->type_name("client|gateway|worker");
  command.add_option("--tenant", options->tenant, "Whose ids and clients it shares; its own space of both")
      ->excludes(broker)
      ->type_name("NAME");
  command.add_option("--out", options->out, "The file of the secret; NAME.key without it")->type_name("FILE");
  line.on_chosen(command, Asks::nobody, [options](const Common&) { return keygen(*options); });
}

}  // namespace lanemq::cli
