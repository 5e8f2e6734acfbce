// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/settings/help/help_text.hpp"

// In the file that has CLI11 anyway: it takes long to compile, and programs without it do not link it.
namespace lanemq::settings {

/// How CLI11 prints a program's help: at most so wide, with sentences whole.
class HelpFormatter final : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t columns) : columns_(columns) {
    constexpr std::size_t kSecondColumn = 30;  // as far as there is room for it
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

/// As wide as the terminal at the standard output; 80 columns where there is none.
inline std::shared_ptr<CLI::FormatterBase> help_formatter() {
  winsize size{};
  const bool is_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return std::make_shared<HelpFormatter>(is_terminal ? size.ws_col : 80);
}

}  // namespace lanemq::settings
