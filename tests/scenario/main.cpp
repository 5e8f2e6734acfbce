// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tests/scenario/stage.hpp"
#include "tests/scenario/transcript.hpp"
#include "tests/support/last_word.hpp"

// scenario_test [--print] FILE... | --all FOLDER: plays transcripts against the broker's core, with --all
// each .txt of a folder. Exit 1 when one differs; a line of each says how it is played alone.
// --print writes each transcript as it would have to read, for whoever writes one.

namespace lanemq::scenario {
namespace {

/// Plays one transcript and compares it, step by step, with what the broker sends.
class Player {
 public:
  Player(std::string name, bool print) : name_(std::move(name)), print_(print) {}

  bool play(std::istream& in) {
    for (std::string source; std::getline(in, source);) {
      ++number_;
      try {
        take(parse_line(source));
      } catch (const TranscriptError& error) {
        std::cerr << name_ << ':' << number_ << ": " << error.what() << "\n  " << source << '\n';
        return false;
      }
    }
    compare();
    return !differs_;
  }

 private:
  void take(Line line) {
    if (line.kind == LineKind::expected) {
      expected_.push_back(std::move(line.words));
      return;
    }
    // What stands between two steps belongs to the first of them.
    if (line.kind != LineKind::empty) compare();
    if (print_) std::cout << line.source << '\n';
    if (line.kind == LineKind::empty) return;
    step_ = number_;
    step_source_ = line.source;
    if (line.kind == LineKind::event)
      stage_.happen(std::move(line.words));
    else
      stage_.direct(std::move(line.words));
    sent_ = stage_.take_sent();
    if (print_)
      for (const Words& words : sent_)
        std::cout << "< " << words.text() << '\n';
  }

  void compare() {
    bool same = expected_.size() == sent_.size();
    for (std::size_t i = 0; same && i < sent_.size(); ++i)
      same = matches(expected_[i], sent_[i]);
    if (!same && !print_) {
      std::cerr << name_ << ':' << step_ << ": after\n    " << step_source_ << '\n';
      std::cerr << "  expected\n";
      for (const Words& words : expected_)
        std::cerr << "    < " << words.text() << '\n';
      std::cerr << "  sent\n";
      for (const Words& words : sent_)
        std::cerr << "    < " << words.text() << '\n';
    }
    differs_ |= !same;
    expected_.clear();
    sent_.clear();
  }

  std::string name_;
  bool print_, differs_ = false;
  Stage stage_;
  int number_ = 0, step_ = 0;
  std::string step_source_;
  std::vector<Words> expected_, sent_;
};

/// The transcripts of a folder, by name.
std::vector<std::string> transcripts(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".txt" && entry.path().filename() != "CMakeLists.txt")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Plays all of them; the number of those that differ, or -1: one cannot be read.
int play(const std::string& program, const std::vector<std::string>& files, bool print) {
  int differ = 0;
  for (const std::string& file : files) {
    std::ifstream in(file);
    if (!in) {
      std::cerr << file << ": cannot be read\n";
      return -1;
    }
    test::say_at_death(program + ' ' + file);
    if (Player(file, print).play(in)) continue;
    ++differ;
    if (!print) std::cerr << "failed; alone: " << program << ' ' << file << '\n';
  }
  return differ;
}

}  // namespace
}  // namespace lanemq::scenario

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  const bool print = !files.empty() && files.front() == "--print";
  if (print) files.erase(files.begin());
  if (files.size() == 2 && files.front() == "--all") files = lanemq::scenario::transcripts(files.back());
  if (files.empty()) {
    std::cerr << "scenario_test: name at least one transcript, or --all and a folder that has some\n";
    return 2;
  }
  const int differ = lanemq::scenario::play(argv[0], files, print);
  if (differ < 0) return 2;
  if (files.size() > 1 && !print) std::cout << files.size() << " transcripts, " << differ << " differ\n";
  return differ == 0 || print ? 0 : 1;
}
