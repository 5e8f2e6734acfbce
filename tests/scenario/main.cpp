// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tests/scenario/stage.hpp"
#include "tests/scenario/transcript.hpp"

// scenario_test [--print] FILE...: plays transcripts against the broker's core. Exit 1 when one differs.
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

}  // namespace
}  // namespace lanemq::scenario

int main(int argc, char** argv) {
  std::vector<std::string> files(argv + 1, argv + argc);
  const bool print = !files.empty() && files.front() == "--print";
  if (print) files.erase(files.begin());
  if (files.empty()) {
    std::cerr << "scenario_test: name at least one transcript\n";
    return 2;
  }
  bool passed = true;
  for (const std::string& file : files) {
    std::ifstream in(file);
    if (!in) {
      std::cerr << file << ": cannot be read\n";
      return 2;
    }
    if (!lanemq::scenario::Player(file, print).play(in)) passed = false;
  }
  return passed || print ? 0 : 1;
}
