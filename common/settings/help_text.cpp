// SPDX-License-Identifier: Apache-2.0
#include "common/settings/help_text.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

namespace lanemq::settings {
namespace {

constexpr std::size_t kColumnsUsual = 80;
/// Where the second column of a help begins, as far as there is room for it.
constexpr std::size_t kSecondColumn = 30;
/// How far what goes on of a flag stands to the right of it.
constexpr std::size_t kFlagHangs = 4;

/// Where what goes on of a line begins.
std::size_t hang_of(std::string_view line, std::size_t columns) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  const std::size_t second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  if (second != std::string_view::npos && second <= columns / 2) return second;
  return begin > 0 && line.substr(begin).starts_with('-') ? begin + kFlagHangs : begin;
}

void add_wrapped(std::string& text, std::string_view line, std::size_t columns) {
  const std::size_t hang = hang_of(line, columns);
  std::size_t indent = 0;
  while (line.size() + indent > columns) {
    // The last space at which the line fits; without one the first space behind the word that is too long.
    const std::size_t from = indent > 0 ? 0 : std::min(hang, line.size());
    std::size_t cut = line.rfind(' ', columns - indent);
    if (cut == std::string_view::npos || cut <= from) cut = line.find(' ', from + 1);
    if (cut == std::string_view::npos) break;
    text.append(indent, ' ').append(line.substr(0, line.find_last_not_of(' ', cut) + 1)).append("\n");
    line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
    indent = hang;
  }
  text.append(indent, ' ').append(line).append("\n");
}

std::size_t columns_of_terminal() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumnsUsual;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t columns) : columns_(columns) {
    column_width(std::min(kSecondColumn, columns * 3 / 8));
  }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return wrapped(CLI::Formatter::make_help(app, std::move(name), mode), columns_);
  }

  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? footer : in_sentences(footer) + "\n";
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return row(make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_display_name(true), command->get_description());
  }

 private:
  /// Two spaces are between the columns at the least: CLI11 leaves one where a name just fits.
  std::string row(const std::string& name, const std::string& meaning) const {
    const std::size_t second = get_column_width();
    std::string line = "  " + name;
    if (meaning.empty()) return line + "\n";
    if (line.size() + 2 > second) line += "\n" + std::string(second, ' ');
    if (line.size() < second) line.resize(second, ' ');
    return line + in_sentences(meaning) + "\n";
  }

  const std::size_t columns_;
};

}  // namespace

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    add_wrapped(all, text.substr(0, end), columns);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::string in_sentences(std::string_view text) {
  std::string all;
  std::string_view before;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const auto stands_alone = [](std::string_view one) {
      return one.empty() || one.front() == ' ' || one.find("  ") != std::string_view::npos;
    };
    const bool sentence_ends = before.ends_with('.') || before.ends_with(':');
    const bool goes_on = !sentence_ends && !stands_alone(before) && !stands_alone(line);
    if (!all.empty()) all += goes_on ? ' ' : '\n';
    all += line;
    before = line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>(columns_of_terminal());
}

}  // namespace lanemq::settings
