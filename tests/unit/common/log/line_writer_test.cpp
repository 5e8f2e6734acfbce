// SPDX-License-Identifier: Apache-2.0
#include "common/log/line_writer.hpp"

#include <atomic>
#include <chrono>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

namespace lanemq::log {
namespace {

/// A pipe that is read when the test says so.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  int writes() const { return ends_[1]; }

  /// Takes all that fits.
  void fill() {
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string much(4096, '-');
    while (::write(ends_[1], much.data(), much.size()) > 0) {
    }
    fcntl(ends_[1], F_SETFL, 0);
  }
  /// What is in it now.
  std::string now() {
    std::string text;
    for (pollfd readable{ends_[0], POLLIN, 0}; poll(&readable, 1, 0) > 0;)
      read_some(text);
    return text;
  }
  /// Reads on until `end` has come.
  void read_until(std::string_view end, std::string& text) {
    while (text.find(end) == std::string::npos)
      read_some(text);
  }

 private:
  void read_some(std::string& text) {
    char bytes[65536];
    const auto count = ::read(ends_[0], bytes, sizeof bytes);
    ASSERT_GT(count, 0);
    text.append(bytes, static_cast<std::size_t>(count));
  }

  int ends_[2] = {};
};

TEST(LineWriter, writes_at_once_while_it_has_no_thread) {
  Pipe pipe;
  LineWriter writer(pipe.writes());

  writer.write("first\n");
  EXPECT_EQ(pipe.now(), "first\n");

  pipe.fill();
  for (int i = 0; i < 1000; ++i)
    writer.write("left out\n");  // the first has waited, and nobody reads
  EXPECT_EQ(pipe.now().find("left out"), std::string::npos);
}

TEST(LineWriter, what_is_settled_is_written) {
  Pipe pipe;
  LineWriter writer(pipe.writes());
  writer.start();

  std::string all;
  for (int i = 0; i < 100; ++i) {
    writer.write("line " + std::to_string(i) + "\n");
    writer.settle();
    all += "line " + std::to_string(i) + "\n";
  }
  std::string text;
  pipe.read_until("line 99\n", text);

  EXPECT_EQ(text, all);
}

TEST(LineWriter, a_reader_that_stands_still_holds_nobody_up_and_is_told_what_was_left_out) {
  Pipe pipe;
  std::atomic<LineWriter*> self{nullptr};
  LineWriter writer(pipe.writes(), [&self](std::uint64_t lines) {
    (*self).write("left out " + std::to_string(lines) + ".\n");
  });
  self = &writer;
  pipe.fill();
  writer.start();
  const std::string line(999, 'x');

  std::uint64_t written = 0;
  for (std::size_t bytes = 0; bytes <= 2 * LineWriter::kWaitingBytesMax; bytes += line.size() + 1) {
    writer.write(line + "\n");
    ++written;
  }
  EXPECT_FALSE(writer.settle());
  std::string text;
  pipe.read_until(".\n", text);

  std::uint64_t read = 0;
  for (std::size_t at = 0; (at = text.find(line + "\n", at)) != std::string::npos; ++at)
    ++read;
  EXPECT_GE(read, LineWriter::kWaitingBytesMax / (line.size() + 1));
  EXPECT_NE(text.find("left out " + std::to_string(written - read) + ".\n"), std::string::npos)
      << written << " " << read;
}

TEST(LineWriter, ends_though_nobody_reads) {
  Pipe pipe;
  pipe.fill();
  LineWriter writer(pipe.writes());
  writer.start();
  writer.write("never read\n");

  writer.stop();
  writer.write("nor this\n");

  EXPECT_EQ(pipe.now().find("nor this"), std::string::npos);
}

TEST(LineWriter, its_last_lines_are_written_at_its_end) {
  Pipe pipe;
  {
    LineWriter writer(pipe.writes());
    writer.start();
    for (int i = 0; i < 50; ++i)
      writer.write("line " + std::to_string(i) + "\n");
  }
  EXPECT_NE(pipe.now().find("line 49\n"), std::string::npos);
}

TEST(LineWriter, tells_of_what_a_full_disk_did_not_take_when_there_is_room_again) {
  Pipe pipe;
  const int descriptor = open("/dev/full", O_WRONLY | O_CLOEXEC);
  std::atomic<LineWriter*> self{nullptr};
  LineWriter writer(descriptor, [&self](std::uint64_t lines) {
    (*self).write("left out " + std::to_string(lines) + ".\n");
  });
  self = &writer;
  writer.start();

  for (int i = 0; i < 3; ++i) {
    writer.write("lost\n");
    while (!writer.settle()) {
    }
  }
  dup2(pipe.writes(), descriptor);
  writer.write("there\n");
  std::string text;
  pipe.read_until(".\n", text);

  EXPECT_EQ(text, "there\nleft out 3.\n");
  writer.stop();
  close(descriptor);
}

TEST(LineWriter, waits_for_room_where_another_owner_of_the_pipe_wants_no_waiting) {
  Pipe pipe;
  LineWriter writer(pipe.writes());
  writer.start();
  pipe.fill();
  fcntl(pipe.writes(), F_SETFL, O_NONBLOCK);

  writer.write("there\n");
  std::string text;
  pipe.read_until("there\n", text);

  EXPECT_TRUE(text.ends_with("-there\n"));
}

}  // namespace
}  // namespace lanemq::log
