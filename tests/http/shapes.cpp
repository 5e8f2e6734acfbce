// SPDX-License-Identifier: Apache-2.0
#include "tests/http/shapes.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "common/http/request_reader.hpp"

namespace lanemq::http::test {
namespace {

constexpr std::string_view kLineEnd = "↵";
constexpr std::uint64_t kBodyBytesMax = 1'000'000;

/// The text of a row as bytes.
std::string unescaped(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    if (text.starts_with(kLineEnd)) {
      bytes += "\r\n";
      text.remove_prefix(kLineEnd.size());
    } else if (text.starts_with("\\x")) {
      bytes += static_cast<char>(std::stoi(std::string(text.substr(2, 2)), nullptr, 16));
      text.remove_prefix(4);
    } else if (text.front() == '\\' && text.size() > 1) {
      const std::string_view letters = "rnt\\", meant = "\r\n\t\\";
      bytes += meant.at(letters.find(text[1]));
      text.remove_prefix(2);
    } else if (const std::size_t end = text.find('}'); text.front() == '{' && end != std::string_view::npos) {
      const std::string_view inside = text.substr(1, end - 1);
      const std::size_t star = inside.rfind('*');
      const std::string piece = unescaped(inside.substr(0, star));
      for (int left = std::stoi(std::string(inside.substr(star + 1))); left > 0; --left)
        bytes += piece;
      text.remove_prefix(end + 1);
    } else {
      bytes += text.front();
      text.remove_prefix(1);
    }
  }
  return bytes;
}

/// Drives a reader as a server does.
class Driver {
 public:
  bool over() const { return over_; }

  void take(std::string_view bytes) {
    while (!over_) {
      const RequestReader::Taken taken = reader_.take(bytes);
      if (taken.bytes > bytes.size()) throw std::logic_error("took more than there is");
      const std::string_view seen = bytes.substr(0, taken.bytes);
      bytes.remove_prefix(taken.bytes);
      on(taken, seen);
      const bool more = taken.event == RequestReader::Event::more;
      if (more && !bytes.empty()) throw std::logic_error("left bytes without an event");
      if (more) return;
    }
  }

  Reading reading() {
    if (!over_ && !reader_.idle()) say("waits");
    return std::move(reading_);
  }

 private:
  using Event = RequestReader::Event;

  void on(const RequestReader::Taken& taken, std::string_view seen) {
    switch (taken.event) {
      case Event::more:
        return;
      case Event::head: {
        const RequestHead& head = reader_.head();
        reader_.limit_body(kBodyBytesMax);
        reading_.all += head.method + " " + head.path + "?" + head.query + " " + head.authority + "\n";
        for (const auto& [name, value] : head.fields)
          reading_.all += name + ": " + value + "\n";
        body_.clear();
        return;
      }
      case Event::body:
        if (taken.piece.empty() || taken.piece.data() < seen.data() ||
            taken.piece.data() + taken.piece.size() > seen.data() + seen.size())
          throw std::logic_error("a piece of a body is not of the bytes that were given");
        body_ += taken.piece;
        return;
      case Event::end:
        say(reader_.head().method + (body_.empty() ? "" : ":" + std::to_string(body_.size())));
        reading_.all += body_ + "\nend\n";
        over_ = !reader_.head().keep_alive;
        if (over_) say("close");
        reader_.next();
        return;
      case Event::refusal:
        say(std::to_string(reader_.refusal().status));
        reading_.all += reader_.refusal().why;
        over_ = true;
        if (reader_.take("GET / HTTP/1.1\r\nHost: g\r\n\r\n").event != Event::refusal)
          throw std::logic_error("it reads on behind a refusal");
        return;
    }
  }

  void say(const std::string& word) { reading_.does += (reading_.does.empty() ? "" : " ") + word; }

  RequestReader reader_{ReaderLimits{}};
  Reading reading_;
  std::string body_;
  bool over_ = false;
};

}  // namespace

std::vector<Shape> read_shapes(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("there is no " + path);
  std::vector<Shape> shapes;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const auto rest_of = [&](std::string_view word) { return line.substr(word.size()); };
    if (line.empty() || line.starts_with("# ")) continue;
    if (line.starts_with("> ")) {
      shapes.back().bytes = unescaped(rest_of("> "));
    } else if (line.starts_with("wants ")) {
      const std::size_t comma = line.find(", ");
      if (comma == std::string::npos)
        throw std::runtime_error(path + ":" + std::to_string(number) + ": where is that said?");
      shapes.back().wants = line.substr(6, comma - 6);
      shapes.back().where = line.substr(comma + 2);
    } else if (line.starts_with("does ")) {
      shapes.back().does = rest_of("does ");
    } else if (line.starts_with("why ")) {
      shapes.back().why = rest_of("why ");
    } else {
      shapes.push_back({.name = line});
    }
  }
  return shapes;
}

Reading reading_of(std::string_view bytes, const Cuts& cuts) {
  Driver driver;
  while (!bytes.empty() && !driver.over()) {
    // A copy of its own, so that a sanitizer sees who reads beyond it.
    const std::size_t size = std::clamp<std::size_t>(cuts(), 1, bytes.size());
    const std::string piece(bytes.substr(0, size));
    bytes.remove_prefix(size);
    driver.take(piece);
  }
  return driver.reading();
}

void for_every_cut(std::string_view bytes, const std::function<void(std::size_t, const Reading&)>& check) {
  for (std::size_t place = 1; place < bytes.size(); ++place) {
    std::size_t next = place;
    check(place, reading_of(bytes, [&] { return std::exchange(next, bytes.size()); }));
  }
}

}  // namespace lanemq::http::test
