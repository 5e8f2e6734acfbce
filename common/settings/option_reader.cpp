// SPDX-License-Identifier: Apache-2.0
#include "common/settings/option_reader.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <lanemq/text.hpp>
#include <lanemq/version.hpp>

#include "common/settings/help/help_formatter.hpp"
#include "common/settings/secrets/exposed_files.hpp"
#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::settings {
namespace {

/// How a source spells an option: as a flag, a variable, or a line of the file.
using Spell = std::function<std::string(std::string_view key, const Values& values)>;

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string variable_of(std::string_view prefix, std::string_view key) {
  std::string name(prefix);
  for (const char c : key)
    name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

/// The option's key in the version before; empty: the same as now.
std::string old_key_of(const OptionText& option) {
  return option.before == Before::milliseconds ? std::string(option.key) + "_ms" : "";
}

/// The value in the present spelling.
std::string as_now(const OptionText& option, bool has_old_key, const std::string& value) {
  const bool is_plain =
      !value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (has_old_key && is_plain) return show(parse_duration(value + "ms"));
  if (option.before == Before::bytes && is_plain) return show_size(parse_size(value + "B"));
  return option.kind == Kind::level && value == "warn" ? "warning" : value;
}

/// Where an option is set: with its name for messages, and without.
struct Place {
  std::string whole, source;
};

void apply(const BoundOption& option, bool has_old_key, const std::string& name, const Place& place,
           const Values& values, const Spell& spell, Heard& heard) {
  at_place(place.whole, [&] {
    Values now;
    for (const std::string& value : values)
      now.push_back(as_now(option, has_old_key, value));
    settings::set(option, now);
    if (has_old_key || now != values) heard.old.push_back({place.whole, spell(option.key, now)});
    heard.places[name] = place.source;
  });
}

Values scalars(const toml::node& node, Kind kind) {
  const toml::array* list = node.as_array();
  if (!list) return {scalar(node)};
  if (kind != Kind::list) throw UsageError("must be one value, not a list");
  Values values;
  for (const toml::node& item : *list)
    values.push_back(scalar(item));
  return values;
}

auto option_named(const std::vector<BoundOption>& options, std::string_view name) {
  return std::find_if(options.begin(), options.end(), [&](const BoundOption& option) {
    return option.key == name || (!option.brief.empty() && option.brief == name) ||
           old_key_of(option) == name;
  });
}

std::vector<std::string> keys_of(const std::vector<BoundOption>& options, std::vector<std::string> keys) {
  for (const BoundOption& option : options)
    keys.emplace_back(option.key);
  return keys;
}

/// `key`, or `key of lane.batch` where the prefix is `lane.batch.`.
std::string key_of(const std::string& prefix) {
  return prefix.empty() ? "key" : "key of " + prefix.substr(0, prefix.size() - 1);
}

/// What the packages' units put before a credential's name: `lanemq.broker`, and of a worker that is named by
/// its file `lanemq.openai`.
std::string unit_of(std::string_view program, const std::string& file) {
  std::string name(program);
  std::replace(name.begin(), name.end(), '-', '.');
  return program == "lanemq-worker" ? "lanemq." + std::filesystem::path(file).stem().string() : name;
}

/// Declares the options' flags, and collects those that were given.
class CommandLine {
 public:
  CommandLine(const ProgramText& program, const std::vector<BoundOption>& options)
      : program_(program),
        options_(options),
        app_(std::string(program.sentence), std::string(program.name)),
        given_(options.size()),
        given_old_(options.size()),
        flags_(program.flags.size()) {
    app_.set_version_flag("--version", std::string(program.name) + " " + version());
    app_.formatter(help_formatter());
    app_.allow_extras();
    app_.add_option("--config", file_, std::string(program.config_sentence))->type_name("FILE.toml");
    for (std::size_t i = 0; i < options.size(); ++i)
      add(options[i], i);
    for (std::size_t i = 0; i < program.flags.size(); ++i)
      add(program.flags[i], i);
    app_.add_flag("--print-config", print_, "Print the settings in force, with comments, and exit.");
    app_.add_flag("--check", check_, "Refuse what a start would refuse, and exit; touches nothing.");
    app_.footer("Precedence: defaults < file < environment (" +
                variable_of(program.variables, options.front().key) + " and so on) < flags.\n" +
                std::string(program.footer));
  }

  /// Parses the command line; `print` is set where nothing is to be applied.
  Asked parse(int argc, const char* const* argv) try {
    app_.parse(argc, argv);
    if (const std::vector<std::string> rest = app_.remaining(); !rest.empty()) refuse(rest.front());
    Asked asked{.what = print_   ? Asked::For::print_config
                        : check_ ? Asked::For::check
                                 : Asked::For::run,
                .file = file_};
    for (std::size_t i = 0; i < flags_.size(); ++i)
      if (app_.count(std::string(program_.flags[i].name)) > 0)
        asked.flags[std::string(program_.flags[i].name)] = flags_[i];
    return asked;
  } catch (const CLI::CallForHelp&) {
    return {.what = Asked::For::print, .text = app_.help()};
  } catch (const CLI::CallForVersion&) {
    return {.what = Asked::For::print, .text = app_.version() + "\n"};
  } catch (const CLI::ParseError& error) {
    throw UsageError(printable(error.what()) + "; see --help");
  }

  void apply_to(Heard& heard) const {
    const Spell spell = [](std::string_view key, const Values& values) {
      std::string text;
      for (const std::string& value : values)
        text += (text.empty() ? "" : " ") + flag_of(key) + " " + value;
      return text;
    };
    for (const bool old : {true, false})
      for (std::size_t i = 0; i < options_.size(); ++i)
        if (const Values& values = (old ? given_old_ : given_)[i]; !values.empty()) {
          const std::string flag = flag_of(old ? old_key_of(options_[i]) : options_[i].key);
          apply(options_[i], old, std::string(options_[i].key), {flag, flag}, values, spell, heard);
        }
  }

 private:
  void add(const BoundOption& option, std::size_t i) {
    std::string help(option.sentence);
    const std::string fallback = joined(option.fallback);
    if (!fallback.empty() || !option.empty.empty())
      help += " [" + (fallback.empty() ? std::string(option.empty) : fallback) + "]";
    const std::string brief = option.brief.empty() ? "" : "," + flag_of(option.brief);
    shape(app_.add_option(flag_of(option.key) + brief, given_[i], help), option);
    if (const std::string old = old_key_of(option); !old.empty())
      shape(app_.add_option(flag_of(old), given_old_[i]), option)->group("");  // not in the help
  }
  static CLI::Option* shape(CLI::Option* flag, const BoundOption& option) {
    flag->type_name(std::string(option.unit))->allow_extra_args(false)->type_size(1);
    flag->expected(1)->multi_option_policy(option.kind == Kind::list ? CLI::MultiOptionPolicy::TakeAll
                                                                     : CLI::MultiOptionPolicy::TakeLast);
    // `--insecure` alone means yes.
    if (option.kind == Kind::yes_or_no) flag->expected(0, 1)->default_str("true");
    return flag;
  }
  void add(const Flag& flag, std::size_t i) {
    const std::string name(flag.name), sentence(flag.sentence);
    if (flag.unit.empty())
      app_.add_flag(name, sentence);
    else
      app_.add_option(name, flags_[i], sentence)->type_name(std::string(flag.unit))->allow_extra_args(false);
  }
  [[noreturn]] void refuse(const std::string& word) const {
    if (!word.starts_with("--"))
      throw UsageError("what is \"" + printable(word, 64) + "\"? " +
                       (word.ends_with(".toml") ? "a file of options is named with --config" : "see --help"));
    std::vector<std::string> known{"--config", "--print-config", "--check", "--help", "--version"};
    for (const BoundOption& option : options_)
      known.push_back(flag_of(option.key));
    for (const Flag& flag : program_.flags)
      known.emplace_back(flag.name);
    const std::string flag = word.substr(0, word.find('='));
    const std::string meant = nearest(flag, known);
    throw UsageError("unknown flag \"" + printable(flag, 64) + '"' +
                     (meant.empty() ? "; see --help" : "; did you mean \"" + meant + "\"?"));
  }

  const ProgramText& program_;
  const std::vector<BoundOption>& options_;
  CLI::App app_;
  std::string file_;
  bool print_ = false, check_ = false;
  std::vector<Values> given_, given_old_, flags_;
};

}  // namespace

std::string place_of(const std::string& path, const toml::source_region& source) {
  return printable(path) + ":" + std::to_string(source.begin.line);
}

std::string scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  if (const auto* value = node.as_floating_point()) return std::to_string(value->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  std::ostringstream date;
  if (const auto* day = node.as_date())
    date << day->get();
  else if (const auto* moment = node.as_date_time())
    date << moment->get();
  else
    throw UsageError("must be a string, a number, true or false");
  return date.str();
}

namespace {

void add_flat(const std::string& path, const toml::table& table, const std::string& prefix, FlatTable& flat) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    const auto add = [&](const toml::node& item) {
      at_place(place_of(path, item.source()) + ": " + printable(key),
               [&] { flat.emplace_back(key, scalar(item)); });
    };
    if (const toml::table* inner = node.as_table())
      add_flat(path, *inner, key + ".", flat);
    else if (const toml::array* list = node.as_array())
      for (const toml::node& item : *list)
        add(item);
    else
      add(node);
  }
}

}  // namespace

void refuse_empty(const std::string& path, const toml::table& table) {
  for (const auto& [name, node] : table) {
    const toml::array* const list = node.as_array();
    const auto* const text = node.as_string();
    if ((list == nullptr || !list->empty()) && (text == nullptr || !text->get().empty())) continue;
    throw PlacedError(place_of(path, node.source()) + ": " + printable(name.str()) +
                      " is empty; leave it out for the default, or name some");
  }
}

FlatTable flat_table(const std::string& path, const toml::table& table) {
  FlatTable flat;
  add_flat(path, table, "", flat);
  return flat;
}

std::string print_flat(const FlatTable& table) {
  std::string text;
  for (std::size_t at = 0; at < table.size();) {
    const std::string& key = table[at].first;
    std::string values;
    std::size_t count = 0;
    for (; at < table.size() && table[at].first == key; ++at, ++count)
      values += (count == 0 ? "" : ", ") + toml_text(table[at].second);
    text += key + " = " + (count == 1 ? values : "[" + values + "]") + "\n";
  }
  return text;
}

const toml::table& table_in(const toml::node& node, std::string_view example) {
  if (const toml::table* table = node.as_table()) return *table;
  throw UsageError("must be a table, as in " + std::string(example));
}

const toml::array& list_in(const toml::node& node, std::string_view example) {
  if (const toml::array* list = node.as_array()) return *list;
  throw UsageError("must be a list, as in " + std::string(example));
}

void at_place(const std::string& place, const std::function<void()>& read) {
  try {
    read();
  } catch (const PlacedError&) {
    throw;
  } catch (const UsageError& error) {
    throw PlacedError(place + ": " + error.what());
  }
}

void about(const std::string& what, const std::function<void()>& read) {
  try {
    read();
  } catch (const PlacedError&) {
    throw;
  } catch (const UsageError& error) {
    throw UsageError(what + ": " + error.what());
  }
}

void read_table(const std::string& path, const toml::table& table, const std::string& prefix,
                const std::vector<BoundOption>& options, const std::vector<std::string>& blocks,
                const ReadNode& besides, Heard& heard) {
  const Spell spell = [&](std::string_view key, const Values& values) {
    const auto option =
        std::find_if(options.begin(), options.end(), [&](const auto& other) { return other.key == key; });
    return prefix + std::string(key) + " = " + toml_value(option->kind, values);
  };
  for (const bool old : {true, false}) {
    for (const auto& [key, node] : table) {
      const std::string place = place_of(path, node.source());
      const std::string_view name = key.str();
      const auto option = option_named(options, name);
      const bool is_old = option != options.end() && old_key_of(*option) == name;
      if (is_old != old) continue;
      if (besides(name, node)) continue;
      if (option == options.end())
        at_place(place, [&] { unknown_key(key_of(prefix), name, keys_of(options, blocks)); });
      std::string whole = place + ": " + prefix;
      whole += printable(name, 64);
      Values values;
      at_place(whole, [&, &said = node] { values = scalars(said, option->kind); });
      apply(*option, is_old, prefix + std::string(option->key), {whole, place}, values, spell, heard);
    }
  }
}

void read_table(const std::string& path, const toml::table& table, const std::string& prefix,
                const std::vector<BoundOption>& options, Heard& heard) {
  read_table(
      path, table, prefix, options, {}, [](std::string_view, const toml::node&) { return false; }, heard);
}

void set_key(const std::vector<BoundOption>& options, const std::string& place, const std::string& prefix,
             std::string_view key, const std::string& value, Heard& heard,
             const std::vector<std::string>& blocks) {
  const auto option = option_named(options, key);
  if (std::find(blocks.begin(), blocks.end(), key) != blocks.end())
    throw UsageError(place + ": " + printable(key, 64) + " is a table; write " + printable(key, 64) +
                     ".NAME.OPTION=VALUE");
  if (option == options.end())
    at_place(place, [&] { unknown_key(key_of(prefix), key, keys_of(options, blocks)); });
  apply(
      *option, old_key_of(*option) == key, prefix + std::string(option->key),
      {place + ": " + prefix + printable(key, 64), place}, {value},
      [&](std::string_view name, const Values& values) {
        return prefix + std::string(name) + "=" + joined(values);
      },
      heard);
}

namespace {

/// What the parser says, in words where a text has no end: it then complains of the line's end, which is a
/// control character.
std::string why_not_toml(const std::string& path, const toml::parse_error& error) {
  const std::string said(error.description());
  const bool of_text = said.find("parsing string") != std::string::npos;
  if (!of_text ||
      (said.find("control character") == std::string::npos && said.find("end-of-file") == std::string::npos))
    return said;
  std::ifstream file(path);
  std::string line;
  for (toml::source_index at = 0; at < error.source().begin.line; ++at)
    std::getline(file, line);
  const bool has_control = std::any_of(line.begin(), line.end(),
                                       [](unsigned char c) { return c < ' ' && c != '\t' && c != '\r'; });
  return has_control ? said : "a text that begins in this line has no end: its closing quote is missing";
}

}  // namespace

toml::table parse_file(const std::string& path) try {
  // A pipe would be waited for, and a running program stands meanwhile.
  std::error_code unknown;
  if (const auto status = std::filesystem::status(path, unknown); std::filesystem::is_fifo(status))
    throw UsageError(printable(path) + " is a pipe, which cannot be read again; write a file");
  errno = 0;
  std::FILE* const file = std::fopen(path.c_str(), "re");
  const bool begins = file != nullptr && std::fgetc(file) != EOF;
  // A folder can be opened, and the parser takes it for an empty file.
  const bool readable = file != nullptr && (begins || std::ferror(file) == 0);
  const int error = errno;
  if (file != nullptr) std::fclose(file);
  // Of /dev/zero the parser takes nothing, and says nothing.
  if (begins && std::filesystem::is_character_file(path, unknown))
    throw UsageError(printable(path) + " is a device; name a plain file");
  if (!readable) throw UsageError(printable(path) + " " + why_unreadable(error));
  note_program_file(path);
  return toml::parse_file(path);
} catch (const toml::parse_error& error) {
  throw UsageError(place_of(path, error.source()) + ": " + why_not_toml(path, error));
}

std::string toml_text(std::string_view text) {
  std::ostringstream out;
  const toml::value<std::string> value{std::string(text)};
  out << toml::toml_formatter(value, toml::format_flags::allow_unicode_strings);
  return out.str();
}

std::string toml_value(Kind kind, const Values& values) {
  if (kind == Kind::count || kind == Kind::share || kind == Kind::yes_or_no) return values.front();
  if (kind != Kind::list) return toml_text(values.front());
  std::string text;
  for (const std::string& value : values)
    text += (text.empty() ? "" : ", ") + toml_text(value);
  return "[" + text + "]";
}

void OptionReader::read_file(const std::string& path, const ReadFileNode& besides, Heard& heard) const {
  toml::table table;
  try {
    table = parse_file(path);
  } catch (const UsageError& error) {
    // A brief name may also be a table's: `clients = ENDPOINT` beside [clients.NAME].
    const std::string why = error.what();
    for (const BoundOption& option : options_)
      if (!option.brief.empty() &&
          why.find("redefine existing string '" + std::string(option.brief)) != std::string::npos)
        throw UsageError(why.substr(0, why.find(": ")) + ": " + std::string(option.brief) +
                         " is a key and a table there; write " + std::string(option.key) +
                         " = ... for the key");
    for (const std::string& block : program_.blocks)
      if (why.find("redefine existing table '" + block + "'") != std::string::npos)
        throw UsageError(why.substr(0, why.find(": ")) + ": [[" + block + "]] is a list, and [" + block +
                         ".NAME] above it a part of a table; write one of both");
    throw;
  }
  read_table(
      path, table, "", options_, program_.blocks,
      [&](std::string_view key, const toml::node& node) { return besides(path, key, node, heard); }, heard);
}

void OptionReader::read_environment(const Environment& environment, Heard& heard) const {
  const Spell spell = [&](std::string_view key, const Values& values) {
    return variable_of(program_.variables, key) + "=" + joined(values);
  };
  for (const BoundOption& option : options_) {
    for (const std::string& key : {old_key_of(option), std::string(option.key)}) {
      if (key.empty()) continue;
      const std::string variable = variable_of(program_.variables, key);
      if (const char* const value = environment(variable))
        apply(option, key != option.key, std::string(option.key), {variable, variable}, {value}, spell,
              heard);
    }
  }
}

/// Refuses a variable whose name is nearly that of an option's. What is further off may be anybody's, such as
/// a secret that env:LANEMQ_MY_KEY names.
void OptionReader::refuse_misspelt() const {
  std::vector<std::string> known;
  for (const BoundOption& option : options_)
    for (const std::string& key : {std::string(option.key), old_key_of(option), std::string(option.brief)})
      if (!key.empty()) known.push_back(key);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with(program_.variables) ||
        std::find(program_.foreign.begin(), program_.foreign.end(), name) != program_.foreign.end())
      continue;
    std::string key = name.substr(program_.variables.size());
    std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string meant = nearest(key, known);
    if (!meant.empty() && std::find(known.begin(), known.end(), key) == known.end())
      throw UsageError(printable(name) + ": no option has this variable; did you mean " +
                       variable_of(program_.variables, meant) + "?");
  }
}

Asked OptionReader::read(int argc, const char* const* argv, const Environment& environment,
                         const ReadFileNode& besides) const {
  CommandLine line(program_, options_);
  Asked asked = line.parse(argc, argv);
  if (asked.what == Asked::For::print) return asked;
  take_credentials_as_given(
      asked.what == Asked::For::run ? std::nullopt : std::optional(unit_of(program_.name, asked.file)));
  if (!asked.file.empty()) read_file(asked.file, besides, asked.heard);
  refuse_misspelt();
  read_environment(environment, asked.heard);
  line.apply_to(asked.heard);
  return asked;
}

std::string print_options(const std::vector<BoundOption>& options) {
  std::string out;
  for (const BoundOption& option : options)
    if (!option.in_blocks)
      out += "\n# " + std::string(option.sentence) + "\n" + std::string(option.key) + " = " +
             toml_value(option.kind, option.get()) + "\n";
  return out;
}

}  // namespace lanemq::settings
