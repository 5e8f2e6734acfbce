// SPDX-License-Identifier: Apache-2.0
#include "settings/option_reader.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include <lanemq/text.hpp>
#include <lanemq/version.hpp>

namespace lanemq::settings {
namespace {

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

Values scalars(const std::string& place, bool is_list, const toml::node& node) {
  const toml::array* list = node.as_array();
  if (!list) return {scalar(place, node)};
  if (!is_list) throw UsageError(place + ": must be one value, not a list");
  Values values;
  for (const toml::node& item : *list)
    values.push_back(scalar(place, item));
  return values;
}

}  // namespace

std::string place_of(const std::string& path, const toml::node& node) {
  return printable(path) + ":" + std::to_string(node.source().begin.line);
}

std::string scalar(const std::string& place, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* value = node.as_integer()) return std::to_string(value->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  throw UsageError(place + ": must be a string, a whole number, true or false");
}

std::string OptionReader::variable_of(const Row& row) const {
  std::string name = std::string(program_.name) + "_" + std::string(row.key);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    if (c == '-') return '_';
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

void OptionReader::apply(std::size_t row, const std::string& source, const Values& values) const try {
  for (const std::string& value : values)
    if (value.empty()) throw UsageError("must not be empty");
  if (!values.empty()) apply_(row, values);
} catch (const UsageError& error) {
  throw UsageError(source + ": " + error.what());
}

void OptionReader::read_file(const std::string& path, std::string_view besides,
                             const ReadNode& read_node) const {
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw UsageError(printable(path) + ":" + std::to_string(error.source().begin.line) + ": " +
                     std::string(error.description()));
  }
  for (const auto& [key, node] : file) {
    if (read_node(path, key.str(), node)) continue;
    const std::string place = place_of(path, node) + ": " + printable(key.str(), 64);
    const auto row =
        std::find_if(rows_.begin(), rows_.end(), [&](const Row& other) { return other.key == key.str(); });
    if (row == rows_.end()) {
      std::string complaint = place + ": no such key; there are " + std::string(besides);
      for (const Row& other : rows_)
        complaint.append(", ").append(other.key);
      throw UsageError(complaint);
    }
    apply(static_cast<std::size_t>(row - rows_.begin()), place, scalars(place, row->is_list, node));
  }
}

std::optional<std::string> OptionReader::read(int argc, const char* const* argv,
                                              const Environment& environment, std::string_view besides,
                                              const ReadNode& read_node, std::string* file) const {
  CLI::App app{std::string(program_.sentence), std::string(program_.name)};
  app.set_version_flag("--version", std::string(program_.name) + " " + kVersion);
  app.get_formatter()->column_width(46);
  std::string path;
  app.add_option("--config", path, std::string(program_.config_sentence))->type_name("FILE.toml");
  std::vector<Values> flags(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    std::string help(row.sentence);
    if (!row.fallback.empty()) help += " [" + std::string(row.fallback) + "]";
    auto* option = app.add_option(flag_of(row.key), flags[i], help);
    option->type_name(std::string(row.unit))->allow_extra_args(false)->type_size(1);
    option->expected(1)->multi_option_policy(row.is_list ? CLI::MultiOptionPolicy::TakeAll
                                                         : CLI::MultiOptionPolicy::TakeLast);
  }
  app.footer("Each option is also read from the environment, as " + variable_of(rows_.front()) +
             " and so on.\n" + std::string(program_.footer));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help() + "\n";
  } catch (const CLI::CallForVersion&) {
    return app.version() + "\n";
  } catch (const CLI::ParseError& error) {
    throw UsageError(printable(error.what()) + "; see --help");
  }
  if (file != nullptr) *file = path;
  if (!path.empty()) read_file(path, besides, read_node);
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (const char* value = environment(variable_of(rows_[i]))) apply(i, variable_of(rows_[i]), {value});
  for (std::size_t i = 0; i < rows_.size(); ++i)
    apply(i, flag_of(rows_[i].key), flags[i]);
  return std::nullopt;
}

}  // namespace lanemq::settings
