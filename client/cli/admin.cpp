// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <lanemq/admin_table.hpp>
#include <lanemq/limits.hpp>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/text/admin_text.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {
namespace {

std::string in_own_words(std::string message);

}  // namespace

std::optional<std::string> ask_operator(Client& client, const Common& common, AdminRequest request,
                                        std::size_t rows_max, bool json, int& code) {
  std::string document;
  for (std::optional<std::int64_t> from = request.from; from;) {
    request.from = *from;
    std::future<Reply<AdminDocument>> pending = client.admin(request);
    const std::optional<Reply<AdminDocument>> reply = wait_for(pending, client, common);
    if (!reply || !*reply) {
      if (!reply) {
        code = end_unreached(common, json);
        return std::nullopt;
      }
      ClientError error = reply->error();
      error.message = in_own_words(std::move(error.message));
      code = end_refused(error, json);
      return std::nullopt;
    }
    if (rows_max == kNoList) return (*reply)->json;
    from = add_admin_page(document, (*reply)->json, request.verb, rows_max, *from);
  }
  return document;
}

namespace {

/// Rows of a list where the command states no number.
constexpr std::size_t kRowsUsual = 100;

/// A backup takes as long as the disk needs, but at most this long.
constexpr auto kBackupTimeout = std::chrono::hours(24);

/// The request of one operator command.
struct AdminOptions {
  AdminRequest request;
  std::size_t rows_max = kNoList;  ///< of a list; 0: all; kNoList: the answer is no list
  bool json = false;
  bool all_dead = false;  ///< redrive, purge: all dead jobs, without a filter
  bool force = false;     ///< handover: also where nobody would go on
};

bool names_any(const AdminRequest& request) {
  return !request.id.empty() || !request.lane.empty() || !request.service.empty() ||
         !request.client.empty() || !request.model.empty() || !request.code.empty();
}

/// Redrives or purges dead jobs; each answer of the broker covers a part of them.
std::optional<std::string> change_dead(Client& client, const Common& common, AdminRequest request, bool json,
                                       int& code) {
  std::string document;
  for (std::optional<std::int64_t> from = 0; from;) {
    request.from = *from;
    const std::optional<std::string> answer = ask_operator(client, common, request, kNoList, json, code);
    if (!answer) return std::nullopt;
    from = add_dead_change(document, *answer);
  }
  return document;
}

/// Whether a handover may begin: it is forced, or a broker waits. Else the reason was printed, and `code` is
/// the exit code.
bool somebody_goes_on(Client& client, const Common& common, const AdminOptions& options, int& code) {
  if (options.force || options.request.dry_run) return true;
  AdminRequest tried = options.request;
  tried.dry_run = true;
  const std::optional<std::string> answer = ask_operator(client, common, tried, kNoList, options.json, code);
  if (!answer) return false;
  if (!nobody_waits(*answer)) return true;
  code =
      end_refused({.code = std::string(name_of(ErrorCode::conflict)),
                   .message = "no broker waits for the store, so that nobody would serve until one starts: "
                              "start one, or hand over all the same with --force",
                   .local = true},
                  options.json);
  return false;
}

int admin(const Common& common, const AdminOptions& options) {
  const bool changes_dead = options.request.verb == name_of(AdminVerb::redrive) ||
                            options.request.verb == name_of(AdminVerb::purge);
  // Without a filter --all is required, so that a forgotten filter does not change all dead jobs.
  if (changes_dead && !options.all_dead && !names_any(options.request)) {
    say("which dead jobs? give an id, a filter such as --code, or --all; --dry-run says which it would be");
    return kExitUsage;
  }
  Client client(client_options(common));
  AdminRequest request = options.request;
  if (options.rows_max > 0 && options.rows_max < limits::page_rows_max)
    request.limit = static_cast<std::int64_t>(options.rows_max);
  int code = kExitDone;
  if (request.verb == name_of(AdminVerb::handover) && !somebody_goes_on(client, common, options, code))
    return code;
  const std::optional<std::string> answer =
      changes_dead ? change_dead(client, common, request, options.json, code)
                   : ask_operator(client, common, request, options.rows_max, options.json, code);
  if (!answer) return code;
  const std::optional<std::string> text =
      options.json ? *answer + "\n" : admin_text(request.verb, *answer, output_takes_colour());
  if (!text) {
    say("the broker's answer cannot be read; see it with --json");
    return kExitFailed;
  }
  if (!(options.json ? put_json(*text) : put(*text))) return kExitFailed;
  if (!options.json && options.rows_max > 0 && options.rows_max != kNoList &&
      answer->find("\"next\":") != std::string::npos)
    say("there may be more; --limit 0 lists all");
  return kExitDone;
}

// ---- the commands -------------------------------------------------------------------------------------

/// A field of the table of verbs as an argument: in its place, or with `--`.
struct FieldRow {
  std::string_view name;
  std::string AdminRequest::*text;
  const char* type;
  const char* help;
};

constexpr FieldRow kFields[] = {
    {"id", &AdminRequest::id, "ID", "The job's id"},
    {"lane", &AdminRequest::lane, "GLOB", "Of those lanes alone"},
    {"service", &AdminRequest::service, "GLOB", "Of those services alone"},
    {"client", &AdminRequest::client, "GLOB", "Of those clients alone"},
    {"model", &AdminRequest::model, "GLOB", "Of those models alone"},
    {"group", &AdminRequest::group, "GLOB", "Of those groups alone"},
    {"state", &AdminRequest::state, "STATE",
     "queued, delayed, running, succeeded, failed, cancelled or expired"},
    {"code", &AdminRequest::code, "GLOB", "That ended so alone: deadline, upstream_failed, ..."},
    {"what", &AdminRequest::what, "WHAT", "lane, service, client, budget or worker"},
    {"name", &AdminRequest::name, "NAME", "Which of them"},
    {"setting", &AdminRequest::setting, "SETTING", "By its name in the configuration"},
    {"value", &AdminRequest::value, "VALUE", "As in the configuration: 500, 30s"},
    {"key", &AdminRequest::key, "KEY", "Of one of its keys"},
    {"reason", &AdminRequest::reason, "TEXT", "Why, for those who ask what a job waits for"},
};

/// Where the command line differs from the table of verbs.
struct CommandRow {
  AdminVerb verb;
  const char* parent;   ///< the parent command; null: none
  const char* command;  ///< the command's name; null: the verb
  const char* example;  ///< printed behind the description
  /// Fields with another name or help than in kFields.
  std::vector<FieldRow> fields{};
};

const std::vector<CommandRow>& command_rows() {
  static const std::vector<CommandRow> kRows{
      {AdminVerb::lane,
       "lanes",
       "set",
       "until the configuration is read again: lanes set batch depth_max 5000",
       {{"lane", &AdminRequest::name, "LANE", "The lane"}}},
      {AdminVerb::limit,
       "limits",
       "set",
       "until the configuration is read again: limits set openai requests_per_minute 500",
       {{"budget", &AdminRequest::name, "BUDGET", "The budget"}}},
      {AdminVerb::jobs,
       nullptr,
       nullptr,
       nullptr,
       {{"lane", &AdminRequest::lane, "NAME", "Of that lane alone"}}},
      {AdminVerb::pause,
       nullptr,
       nullptr,
       "such as pause lane batch",
       {{"what", &AdminRequest::what, "WHAT", "lane, service, client or budget"}}},
      {AdminVerb::redrive, nullptr, nullptr, "such as redrive ID, redrive --code deadline"},
      {AdminVerb::drain,
       nullptr,
       nullptr,
       nullptr,
       {{"worker", &AdminRequest::name, "WORKER", "Its name or session"}}},
      {AdminVerb::plugin,
       nullptr,
       nullptr,
       "such as plugin guard on",
       {{"name", &AdminRequest::name, "NAME", "The plugin"},
        {"value", &AdminRequest::value, "on|off", "Switch it"}}},
      {AdminVerb::move, nullptr, nullptr, nullptr, {{"lane", &AdminRequest::lane, "LANE", "The lane"}}},
      {AdminVerb::budgets, nullptr, "limits", nullptr},
      {AdminVerb::handover, "cluster", nullptr, nullptr},
  };
  return kRows;
}

const CommandRow* command_row(AdminVerb verb) {
  const std::vector<CommandRow>& rows = command_rows();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const CommandRow& row) { return row.verb == verb; });
  return found == rows.end() ? nullptr : &*found;
}

/// A broker's message with commands in the place of verbs: `lanemq limits` for `do "budgets"`.
std::string in_own_words(std::string message) {
  for (const AdminInfo& info : admin_table()) {
    const std::string verb = "do \"" + std::string(info.name) + '"';
    const CommandRow* const row = command_row(info.verb);
    std::string command = "lanemq ";
    if (row != nullptr && row->parent != nullptr) command.append(row->parent).append(" ");
    command += row != nullptr && row->command != nullptr ? row->command : std::string(info.name);
    for (std::size_t at = message.find(verb); at != std::string::npos; at = message.find(verb, at))
      message.replace(at, verb.size(), command);
  }
  return message;
}

const FieldRow* field_row(const CommandRow* row, std::string_view name) {
  const auto general = std::find_if(std::begin(kFields), std::end(kFields),
                                    [&](const FieldRow& field) { return field.name == name; });
  if (general == std::end(kFields)) return nullptr;
  if (row != nullptr)
    for (const FieldRow& field : row->fields)
      if (field.text == general->text) return &field;
  return general;
}

/// The description of a command: the table's text with a capital.
std::string description_of(const AdminInfo& info, const CommandRow* row) {
  std::string text(info.meaning);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (row != nullptr && row->example != nullptr) text += std::string(", ") + row->example;
  return text;
}

/// A file's path as the broker needs it: absolute, since the broker has another working directory.
void add_path(CLI::App& command, AdminRequest& request) {
  command
      .add_option_function<std::string>(
          "file",
          [&request](const std::string& file) {
            request.path = std::filesystem::absolute(file).lexically_normal().string();
            request.timeout = kBackupTimeout;
          },
          "The new file; the broker writes it, and replaces none")
      ->required()
      ->type_name("FILE");
}

/// Adds the arguments that choose dead jobs: one id, filters, or all.
void add_which_dead(CLI::App& command, AdminOptions& options, CLI::Option& id,
                    const std::vector<CLI::Option*>& filters) {
  CLI::Option* const all = command.add_flag("--all", options.all_dead, "All dead jobs")->excludes(&id);
  for (CLI::Option* filter : filters)
    filter->excludes(&id)->excludes(all);
}

void add_fields(CLI::App& command, AdminOptions& options, const AdminInfo& info, const CommandRow* row) {
  AdminRequest& request = options.request;
  for (const std::string_view name : fields_of(info.needs)) {
    if (name == "path") add_path(command, request);
    if (const FieldRow* field = field_row(row, name))
      command.add_option(std::string(field->name), request.*field->text, field->help)
          ->required()
          ->type_name(field->type);
  }
  const bool changes = info.takes.find("dry_run") != std::string_view::npos;
  CLI::Option* id = nullptr;
  std::vector<CLI::Option*> filters;
  for (const std::string_view name : fields_of(info.takes)) {
    if (name == "limit") {
      if (changes) continue;  // redrive and purge have no limit
      options.rows_max = kRowsUsual;
      command.add_option("-n,--limit", options.rows_max, "Rows at most; 0: all")
          ->check(not_negative)
          ->capture_default_str()
          ->type_name("N");
    } else if (name == "top") {
      command.add_option("--top", request.top, "So many alone, those with the most tokens, then jobs, first")
          ->check(CLI::Range(std::size_t{1}, limits::timed_clients_max))
          ->type_name("N");
    } else if (name == "dry_run") {
      command.add_flag("--dry-run", request.dry_run, "Say what would happen, and change nothing");
    } else if (const FieldRow* field = field_row(row, name)) {
      const bool in_its_place = name == "id" || info.verb == AdminVerb::plugin;
      CLI::Option* const option = command.add_option((in_its_place ? "" : "--") + std::string(field->name),
                                                     request.*field->text, field->help);
      option->type_name(field->type);
      if (name == "id")
        id = option;
      else
        filters.push_back(option);
    }
  }
  if (id != nullptr && changes) add_which_dead(command, options, *id, filters);
}

/// Adds the command for a verb; so a new verb in the table is a command at once.
void add_verb(CommandLine& line, const AdminInfo& info) {
  const CommandRow* const row = command_row(info.verb);
  const std::string name = row != nullptr && row->command != nullptr ? row->command : std::string(info.name);
  CLI::App& parent =
      row != nullptr && row->parent != nullptr ? *line.app().get_subcommand(row->parent) : line.app();
  CLI::App& command = *parent.add_subcommand(name, description_of(info, row));
  const auto options = std::make_shared<AdminOptions>();
  options->request.verb = info.name;
  add_fields(command, *options, info, row);
  if (info.verb == AdminVerb::handover)
    command.add_flag("--force", options->force, "Also where no broker waits for the store");
  command.add_flag("--json", options->json, "The broker's answer as it is");
  line.on_chosen(command, Asks::operators,
                 [options](const Common& common) { return admin(common, *options); });
}

}  // namespace

void add_operator_commands(CommandLine& line) {
  // `limits` lists budgets, in a table of its own.
  for (const AdminInfo& info : admin_table())
    if (info.verb != AdminVerb::budgets) add_verb(line, info);
}

}  // namespace lanemq::cli
