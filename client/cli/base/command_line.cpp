// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/command_line.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/client.hpp>
#include <lanemq/endpoints.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>
#include <lanemq/version.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/text/terminal.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/folders.hpp"
#include "common/settings/help/help_formatter.hpp"
#include "common/settings/peer.hpp"
#include "common/settings/secrets/secret_shapes.hpp"
#include "common/settings/start_check.hpp"
#include "common/settings/values.hpp"

namespace lanemq::cli {
namespace {

using std::chrono::milliseconds;

/// Of what is wrong with an argument, which may have anything in it.
constexpr std::size_t kUsageBytesMax = 4'096;

std::string usage_error(const CLI::App*, const CLI::Error& error) {
  return "lanemq: " + settings::without_secrets(printable(error.what(), kUsageBytesMax)) +
         "; see lanemq --help, lanemq COMMAND --help\n";
}

/// Accepts the old name of a variable, in ms, where the new one is not set.
void take_old_variable(const char* old, const char* name) {
  const char* const text = std::getenv(old);
  if (text == nullptr || std::getenv(name) != nullptr) return;
  const std::string time = std::string(text) + "ms";
  say(std::string(old) + " is an old spelling; write " + name + "=" + printable(time));
  ::setenv(name, time.c_str(), 1);
}

/// Where the broker listens for operators: the first of the places where brokers that name none do, and the
/// service of this machine (packaging/systemd), at which somebody listens whom this user may ask; else where
/// a broker of an earlier version does.
std::string usual_admin_endpoint() {
  std::vector<std::string> files = settings::operator_sockets(settings::process_environment);
  files.emplace_back("/run/lanemq/admin.sock");
  for (const std::string& file : files)
    if (settings::listens_at(file)) return "ipc://" + file;
  return "tcp://127.0.0.1:5572";
}

/// Whether the broker may be this machine's.
bool is_of_this_machine(const std::string& endpoint) {
  const std::string host = settings::host_of(endpoint);
  return endpoint.starts_with(settings::kIpc) || host.starts_with("127.") || host == "localhost" ||
         host == "::1";
}

/// Whether a broker at one of the endpoints takes those alone who have keys. `own_machine`: others are not
/// looked at.
bool asks_for_keys(const std::string& endpoints, bool own_machine) {
  const std::vector<std::string> all = Endpoints(endpoints).all();
  return std::any_of(all.begin(), all.end(), [&](const std::string& one) {
    return (!own_machine || is_of_this_machine(one)) &&
           settings::look_at(one, kLookPatience) == settings::Peer::zeromq_keys;
  });
}

/// CLI11 counts an option that a variable has set as given.
bool is_typed(std::string_view option, int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [&](std::string_view word) { return word.substr(0, word.find('=')) == option; });
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({}))
    names.push_back(command->get_name());
  return names;
}

/// All that the help of these commands lists.
std::vector<std::string> flags_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> flags;
  for (const CLI::App* command : commands)
    for (const CLI::Option* option : command->get_options({})) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames())
        flags.push_back("--" + name);
    }
  return flags;
}

}  // namespace

CommandLine::CommandLine() : app_("LaneMQ's command line: jobs in, answers out", "lanemq") {
  common_.broker = ClientOptions().endpoint;
  app_.formatter(settings::help_formatter());  // its commands have it from here on
  app_.set_version_flag("--version", std::string("lanemq ") + version());
  app_.require_subcommand(0, 1);  // a missing command gets a better message below
  app_.fallthrough();             // --broker may also stand behind the command
  app_.failure_message(usage_error);
  app_.add_option(
          "--broker", common_.broker,
          "Where the broker listens for clients; several, separated by commas, where another may go on")
      ->envname("LANEMQ_BROKER")
      ->capture_default_str()
      ->type_name("ENDPOINT");
  app_.add_option("--broker-key", keys_said_.broker_key, "The broker's public key, where it asks for keys")
      ->envname("LANEMQ_BROKER_KEY")
      ->type_name("KEY");
  app_.add_option("--secret-key", keys_said_.secret_key,
                  "One's own key for it: file:PATH or env:VARIABLE; lanemq keygen makes it")
      ->envname("LANEMQ_CLIENT_KEY")
      ->type_name("SOURCE");
  app_.add_option("--admin", admin_endpoint_,
                  "Where the broker listens for operators; else admin.sock of this user's broker or of the "
                  "machine's service, or tcp://127.0.0.1:5572")
      ->envname("LANEMQ_ADMIN")
      ->type_name("ENDPOINT");
  take_old_variable("LANEMQ_CONNECT_TIMEOUT_MS", "LANEMQ_CONNECT_TIMEOUT");
  add_duration(app_, "--connect-timeout", milliseconds(1), std::chrono::hours(1),
               "How long to wait for a first word of the broker",
               [this](milliseconds time) { common_.connect_timeout = time; })
      ->default_str(settings::show(common_.connect_timeout))
      ->envname("LANEMQ_CONNECT_TIMEOUT");
}

/// Prints which word nobody knows, with the one that it resembles; false: all words are known.
bool CommandLine::say_unknown() {
  const std::vector<std::string> left = app_.remaining(true);
  if (left.empty()) return false;
  std::vector<const CLI::App*> chosen{&app_};
  std::string name = app_.get_name();
  for (auto below = app_.get_subcommands(); !below.empty(); below = below.front()->get_subcommands()) {
    chosen.push_back(below.front());
    name += " " + below.front()->get_name();
  }
  const auto flag =
      std::find_if(left.begin(), left.end(), [](const auto& word) { return word.starts_with('-'); });
  const std::vector<std::string> commands = commands_of(*chosen.back());
  const bool command_missing = !commands.empty() && flag != left.begin();
  const std::string& word = flag == left.end() || command_missing ? left.front() : *flag;
  const std::string shown = '"' + settings::without_secrets(printable(word.substr(0, word.find('=')))) + '"';
  const auto known = [&](const std::string& meant, const std::string& otherwise) {
    return meant.empty() ? "; " + otherwise : "; did you mean \"" + meant + "\"?";
  };
  if (command_missing)
    say("there is no command " + shown + (chosen.size() > 1 ? " of " + name : "") +
        known(settings::nearest(word, commands), name + " --help lists them"));
  else if (flag != left.end())
    say("unknown flag " + shown + " of " + name +
        known(settings::nearest(word.substr(0, word.find('=')), flags_of(chosen)),
              name + " --help lists them"));
  else
    say(name + " has no place for " + shown + "; a text of several words stands in quotes; see " + name +
        " --help");
  return true;
}

void CommandLine::on_chosen(CLI::App& command, Asks asks, Run run) {
  command.callback([this, &command, asks, run = std::move(run)] {
    if (command.get_subcommands().empty()) choose(asks, run);  // its subcommand takes its place
  });
}

void CommandLine::choose(Asks asks, Run run) {
  asks_ = asks;
  run_ = std::move(run);
}

/// An operator's command goes to a broker of this machine, which may be another one than --broker names.
void CommandLine::check_broker_is_meant(bool is_typed) const {
  if (is_typed)
    throw settings::UsageError(
        "this command asks where a broker listens for operators, and --broker says where it does for "
        "clients; give --admin ENDPOINT (its admin_endpoint), or neither for the broker of this machine");
  const std::vector<std::string> all = Endpoints(common_.broker).all();
  if (std::none_of(all.begin(), all.end(), is_of_this_machine))
    say("asking the broker of this machine at " + printable(common_.admin) + ", whatever LANEMQ_BROKER (" +
        printable(common_.broker) + ") is; --admin names another");
}

/// Operators need no key: whoever has none asks at their endpoint what the clients' one would refuse. It is
/// the same broker's, since it is named, or since both are of this machine.
void CommandLine::choose_endpoint(bool is_admin_alone, bool is_broker_typed) {
  const bool is_admin_named = !admin_endpoint_.empty();
  check_endpoints("--broker", common_.broker);
  if (is_admin_named) check_endpoints("--admin", admin_endpoint_);
  bool as_operator = asks_ == Asks::operators || (asks_ == Asks::either && is_admin_alone);
  const bool lacks_keys = !as_operator && (asks_ == Asks::either || asks_ == Asks::both) &&
                          keys_said_.broker_key.empty() && keys_said_.secret_key.empty() &&
                          asks_for_keys(common_.broker, !is_admin_named);
  if (as_operator || lacks_keys || asks_ == Asks::both)
    common_.admin = is_admin_named ? admin_endpoint_ : usual_admin_endpoint();
  if (asks_ == Asks::operators && !is_admin_named) check_broker_is_meant(is_broker_typed);
  common_.lacks_keys =
      lacks_keys && settings::look_at(common_.admin, kLookPatience) == settings::Peer::zeromq;
  if (common_.lacks_keys && asks_ == Asks::either) {
    say("the broker at " + printable(common_.broker) +
        " asks for keys, and none is given: asking as an operator at " + printable(common_.admin));
    as_operator = true;
  }
  if (!as_operator) return;
  common_.broker = common_.admin;
  common_.named_by = "--admin or LANEMQ_ADMIN";
  keys_said_ = {};
}

int CommandLine::run(int argc, char** argv) {
  // Set last, since commands would inherit it.
  app_.footer("Exit codes: 0 done, 1 the job failed, 2 wrong usage, 3 no broker answers.");
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // A word that is misspelt is also one that is missed.
    const bool may_be_misspelt = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                                 dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                                 dynamic_cast<const CLI::RequiresError*>(&error) != nullptr;
    if (may_be_misspelt && say_unknown()) return kExitUsage;
    // CLI11 treats help and version as errors with exit code 0; any other one is wrong usage.
    return app_.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  if (!run_) {
    say("a command is missing, such as submit, run, stats, ping or bench; see lanemq --help");
    return kExitUsage;
  }
  // --admin alone means that there is no clients' endpoint to ask; typed alone it counts more than
  // LANEMQ_BROKER.
  const bool is_admin_alone = (app_.count("--admin") > 0 && app_.count("--broker") == 0) ||
                              (is_typed("--admin", argc, argv) && !is_typed("--broker", argc, argv));
  try {
    if (asks_ != Asks::nobody) choose_endpoint(is_admin_alone, is_typed("--broker", argc, argv));
    if (asks_ != Asks::nobody) common_.keys = read_broker_keys(keys_said_, settings::process_environment);
    const int code = run_(common_);
    // A command that failed because of a signal exits as if the signal had ended it.
    return code == kExitFailed && interrupted() != 0 ? kExitSignal + interrupted() : code;
  } catch (const settings::UsageError& error) {
    say(error.what());
    return kExitUsage;
  } catch (const std::invalid_argument& error) {  // a bad endpoint
    say(settings::without_secrets(error.what()));
    return kExitUsage;
  } catch (const std::exception& error) {
    say(error.what());
    return kExitFailed;
  }
}

std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? "must be 0 or more" : "";
}

CLI::Option* add_duration(CLI::App& command, const std::string& name, milliseconds min, milliseconds max,
                          const std::string& sentence, std::function<void(milliseconds)> set) {
  const auto set_checked = [name, min, max, set = std::move(set)](const std::string& text) {
    try {
      set(settings::duration_in<milliseconds>(text, {min, max}));
    } catch (const settings::UsageError& error) {
      throw CLI::ValidationError(name, error.what());
    }
  };
  CLI::Option* const option =
      command.add_option_function<std::string>(name, set_checked, sentence)->type_name("DURATION");
  // Added behind the new one, so that the old flag wins over the new variable.
  command
      .add_option_function<std::string>(
          name + "-ms",
          [name, set_checked](const std::string& text) {
            say(name + "-ms N is an old spelling; write " + name + " " + printable(text) + "ms");
            set_checked(text + "ms");
          })
      ->group("");  // hidden in --help
  return option;
}

namespace {

/// Reads INPUT or INPUT,OUTPUT, both in tokens.
void read_cost(const std::string& text, JobOptions& job) {
  const std::size_t comma = text.find(',');
  constexpr std::size_t kTokensMax = 1'000'000'000;
  try {
    job.cost_input = static_cast<std::int64_t>(settings::parse_count(text.substr(0, comma), 0, kTokensMax));
    if (comma != std::string::npos)
      job.cost_output =
          static_cast<std::int64_t>(settings::parse_count(text.substr(comma + 1), 0, kTokensMax));
  } catch (const settings::UsageError& error) {
    throw CLI::ValidationError(
        "--cost", std::string("INPUT or INPUT,OUTPUT, in tokens, such as 800,200: ") + error.what());
  }
}

}  // namespace

CLI::Option* add_fate_options(CLI::App& command, JobOptions& job) {
  command.add_flag_function(
      "--durable,!--no-durable", [&job](std::int64_t count) { job.durable = count > 0; },
      "Keep the job on disk, so that it outlives the broker, or do not; the lane's `durable` without it");
  command
      .add_option_function<std::string>(
          "--cost", [&job](const std::string& text) { read_cost(text, job); },
          "What it takes of budgets in tokens, such as 800,200; estimated by the broker without it")
      ->type_name("INPUT[,OUTPUT]");
  command
      .add_option("--notify", job.notify,
                  "A URL that hears of the end, or of its group's, where the broker has workers for that")
      ->type_name("URL");
  return command
      .add_option_function<std::string>(
          "--orphan", [&job](const std::string& what) { job.cancel_when_gone = what == "cancel"; },
          "What the broker does with a job when this program is gone without a word")
      ->check(CLI::IsMember({"keep", "cancel"}))
      ->type_name("keep|cancel");
}

void add_job_options(CLI::App& command, JobOptions& job, bool service_required) {
  command.add_option("--service", job.service, "What does the work; workers say which services they serve")
      ->required(service_required)
      ->type_name("NAME");
  command.add_option("--lane", job.lane, "The lane; the broker's default lane without it")->type_name("NAME");
  add_duration(command, "--timeout", milliseconds(1), milliseconds(limits::duration_ms_max),
               "Until the job must have ended, queueing included, such as 30s",
               [&job](milliseconds time) { job.timeout_ms = time.count(); });
  command.add_option("--client", job.client, "Whose job it is: clients of a lane share it fairly")
      ->type_name("NAME");
  command.add_option("--attempts-max", job.attempts_max, "How often it may be handed to a worker")
      ->check(CLI::Range(1, static_cast<int>(limits::attempts_max)))
      ->type_name("N");
}

void add_help(CommandLine& line) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& command = line.add("help", "Print what --help does, of this program or a command");
  command
      .add_option("command", *words,
                  "The command, such as submit, or cluster status; this program without it")
      ->type_name("COMMAND");
  line.on_chosen(command, Asks::nobody, [&line, words](const Common&) {
    const CLI::App* at = &line.app();
    std::string name = at->get_name();
    for (const std::string& word : *words) {
      const auto below = at->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
      if (below.empty()) {
        const std::string meant = settings::nearest(word, commands_of(*at));
        say("there is no command \"" + settings::without_secrets(printable(word)) + '"' +
            (meant.empty() ? "; " + name + " --help lists them" : "; did you mean \"" + meant + "\"?"));
        return kExitUsage;
      }
      at = below.front();
      name += " " + word;
    }
    return put(at->get_formatter()->make_help(at, name, CLI::AppFormatMode::Normal)) ? kExitDone
                                                                                     : kExitFailed;
  });
}

}  // namespace lanemq::cli
