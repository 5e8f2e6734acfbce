// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/run/input_file.hpp"
#include "client/cli/run/output_file.hpp"
#include "client/cli/run/run_key.hpp"
#include "common/json/line_reader.hpp"
#include "tests/support/temporary_directory.hpp"

namespace lanemq::cli {
namespace {

using test::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string error_of(const std::function<void()>& doing) {
  try {
    doing();
  } catch (const RunError& error) {
    return error.what();
  }
  return "no error";
}

std::string batch_line(const std::string& id, const std::string& body = "{}") {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/embeddings","body":)" + body + "}\n";
}
/// The id of a job that asked for this.
std::string asking(const RunTarget& target, const std::string& path, const std::string& body) {
  return run_job_id({.salt = "s", .request = request_hash(target, path, body)});
}
/// The answer `body` to batch_line(id).
std::string good(const std::string& id, const std::string& body = "{}") {
  return write_output({.custom_id = id}, asking({}, "/embeddings", "{}"), JobDone{.body = Blob::copy(body)});
}
std::string bad(const std::string& id) {
  return write_output({.custom_id = id}, asking({}, "/embeddings", "{}"),
                      ClientError{.code = "deadline", .message = "over"});
}

// ---- LineReader ---------------------------------------------------------------------------------------

std::vector<std::string> lines_of(const std::string& content, std::size_t line_bytes_max) {
  const TemporaryDirectory directory;
  const FileDescriptor file(::open(directory.write("f", content).c_str(), O_RDONLY));
  LineReader reader(file.get(), line_bytes_max);
  std::vector<std::string> lines;
  FileLine line;
  std::uint64_t expected = 0;
  while (reader.next(line)) {
    EXPECT_EQ(line.offset, expected);
    expected += line.bytes;
    lines.push_back(line.too_long ? "<" + std::to_string(line.bytes) + ">" : std::string(line.text));
    if (!line.complete) lines.back() += "|";
  }
  EXPECT_EQ(expected, content.size());
  return lines;
}

TEST(LineReader, gives_every_line_and_says_whether_it_is_whole) {
  EXPECT_THAT(lines_of("a\n\nbc\n", 10), ElementsAre("a", "", "bc"));
  EXPECT_THAT(lines_of("a\nbc", 10), ElementsAre("a", "bc|"));
  EXPECT_THAT(lines_of("", 10), ElementsAre());
  EXPECT_THAT(lines_of("\n", 10), ElementsAre(""));
}

TEST(LineReader, passes_over_lines_beyond_its_bound) {
  EXPECT_THAT(lines_of("12345\n123456\n1\n", 5), ElementsAre("12345", "<7>", "1"));
  EXPECT_THAT(lines_of("1\n" + std::string(3'000'000, 'x') + "\n2\n", 5), ElementsAre("1", "<3000001>", "2"));
  EXPECT_THAT(lines_of("1\n" + std::string(3'000'000, 'x'), 5), ElementsAre("1", "<3000000>|"));
}

TEST(LineReader, puts_lines_together_across_its_blocks) {
  const std::string long_line(1'000'000, 'y');
  EXPECT_THAT(lines_of(long_line + "\n" + long_line + "z\n", 2'000'000),
              ElementsAre(long_line, long_line + "z"));
}

// ---- RunKey -------------------------------------------------------------------------------------------

TEST(RunJobId, is_the_same_for_the_same_job_and_another_for_any_other) {
  const RunJob job{.salt = "s", .lane = "batch", .key = key_of_custom_id("a"), .request = 7, .attempt = 1};
  const auto with = [&](auto change) {
    RunJob changed = job;
    change(changed);
    return run_job_id(changed);
  };
  const std::string id = run_job_id(job);

  EXPECT_EQ(run_job_id(job), id);
  EXPECT_THAT(id, StartsWith("run-"));
  EXPECT_LE(id.size(), limits::id_bytes_max);
  EXPECT_NE(with([](RunJob& j) { j.salt = "t"; }), id);
  EXPECT_NE(with([](RunJob& j) { j.lane = ""; }), id);
  EXPECT_NE(with([](RunJob& j) { j.key = key_of_custom_id("b"); }), id);
  EXPECT_NE(with([](RunJob& j) { j.request = 8; }), id);
  EXPECT_NE(with([](RunJob& j) { j.attempt = 2; }), id);
  EXPECT_NE(with([](RunJob& j) { j.salt = "sbatch", j.lane = ""; }), id);
}

TEST(RunJobId, says_what_was_asked) {
  const std::uint64_t request = request_hash({.service = "echo", .model = "m"}, "/embeddings", "{}");
  EXPECT_EQ(request_in(run_job_id({.salt = "s", .request = request, .attempt = 12})), request);
  EXPECT_NE(request_hash({.service = "echo", .model = "n"}, "/embeddings", "{}"), request);
  EXPECT_NE(request_hash({.service = "http", .model = "m"}, "/embeddings", "{}"), request);
  EXPECT_NE(request_hash({.service = "echo", .model = "m"}, "", "{}"), request);
  EXPECT_NE(request_hash({.service = "echo", .model = "m"}, "/embeddings", "{ }"), request);
  EXPECT_NE(request_hash({.service = "echom"}, "/embeddings", "{}"), request);
  for (const char* const other :
       {"", "line-3", "run-x-1", "run-00112233445566778899aabbccddeeff-1",
        "run-0011223344556677-8899aabbccddeef-1", "run-0011223344556677-8899aabbccddeefg-1",
        "run-0011223344556677-8899AABBCCDDEEFF-1", "run-0011223344556677-8899aabbccddeeff"})
    EXPECT_EQ(request_in(other), std::nullopt) << other;
}

TEST(RunKey, is_read_as_it_is_written) {
  const RunKey key = key_of_custom_id("request-1");
  EXPECT_EQ(key_from_text(to_text(key)), key);
  EXPECT_FALSE(key_from_text("").names_something());
  EXPECT_FALSE(key_from_text(std::string(32, 'g')).names_something());
  EXPECT_NE(key_of_line(1), key_of_line(2));
}

TEST(Salt, is_another_each_time) {
  EXPECT_NE(new_salt(), new_salt());
}

// ---- InputFile ----------------------------------------------------------------------------------------

TEST(InputFile, knows_where_its_lines_are) {
  const TemporaryDirectory directory;
  const InputFile input(directory.write("in", "\xEF\xBB\xBF" + batch_line("a", "{ \"x\":1}") + "\n  \r\n" +
                                                  batch_line("b", "[2 ]")),
                        std::nullopt, {});
  std::string storage;

  EXPECT_EQ(input.format(), LineFormat::batch);
  ASSERT_EQ(input.entries().size(), 2u);
  EXPECT_EQ(input.entries()[0].number, 1u);
  EXPECT_EQ(input.entries()[1].number, 4u);
  EXPECT_EQ(input.read(input.entries()[1], storage).body, "[2 ]");
  EXPECT_EQ(input.read(input.entries()[0], storage).body, "{ \"x\":1}");
  EXPECT_EQ(input.find(key_of_custom_id("b")), 1u);
  EXPECT_EQ(input.find(key_of_custom_id("c")), std::nullopt);
}

TEST(InputFile, reads_a_last_line_without_line_end_and_windows_line_ends) {
  const TemporaryDirectory directory;
  const InputFile input(directory.write("in", "{\"q\": 1}\r\n{\"q\": 2}"), std::nullopt, {});
  std::string storage;

  EXPECT_EQ(input.format(), LineFormat::plain);
  ASSERT_EQ(input.entries().size(), 2u);
  EXPECT_EQ(input.read(input.entries()[0], storage).body, "{\"q\": 1}");
  EXPECT_EQ(input.read(input.entries()[1], storage).body, "{\"q\": 2}");
}

TEST(InputFile, format_is_told_by_the_first_line_that_is_json) {
  const TemporaryDirectory directory;
  EXPECT_EQ(InputFile(directory.write("in", "{broken\n" + batch_line("a")), std::nullopt, {}).format(),
            LineFormat::batch);
  EXPECT_EQ(InputFile(directory.write("in", batch_line("a")), LineFormat::plain, {}).format(),
            LineFormat::plain);
}

TEST(InputFile, a_name_that_stands_twice_is_said_with_both_lines) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("in", batch_line("a") + batch_line("b") + "\n" + batch_line("a"));

  const std::string error = error_of([&] { const InputFile input(path, std::nullopt, {}); });

  EXPECT_THAT(error, HasSubstr("\"a\""));
  EXPECT_THAT(error, HasSubstr("line 1 "));
  EXPECT_THAT(error, HasSubstr("line 4"));
}

TEST(InputFile, equal_plain_lines_are_different_jobs) {
  const TemporaryDirectory directory;
  const InputFile input(directory.write("in", "1\n1\n"), std::nullopt, {});

  ASSERT_EQ(input.entries().size(), 2u);
  EXPECT_NE(input.entries()[0].key, input.entries()[1].key);
}

TEST(InputFile, lines_with_problems_are_lines_all_the_same) {
  const TemporaryDirectory directory;
  const InputFile input(directory.write("in", batch_line("a") + "{broken\n" + R"({"custom_id":"c"})" + "\n"),
                        std::nullopt, {});
  std::string storage;

  ASSERT_EQ(input.entries().size(), 3u);
  EXPECT_EQ(input.read(input.entries()[0], storage).problem, "");
  EXPECT_THAT(input.read(input.entries()[1], storage).problem, HasSubstr("is no JSON"));
  EXPECT_FALSE(input.entries()[1].key.names_something());
  EXPECT_THAT(input.read(input.entries()[2], storage).problem, HasSubstr("has no `body`"));
  EXPECT_TRUE(input.entries()[2].key.names_something());
}

TEST(InputFile, the_standard_input_is_stored_and_read_like_a_file) {
  const std::string text = batch_line("a") + batch_line("b");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const int before = ::dup(STDIN_FILENO);
  ::dup2(ends[0], STDIN_FILENO);
  const InputFile input("-", std::nullopt, {});
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  ::close(ends[0]);

  ASSERT_EQ(input.entries().size(), 2u);
  std::string storage;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(input.read(input.entries()[1], storage).custom_id, "b");
    EXPECT_EQ(input.read(input.entries()[0], storage).custom_id, "a");
  }
}

TEST(InputFile, what_cannot_be_read_is_said) {
  const TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] { const InputFile input(directory.path("missing"), std::nullopt, {}); }),
              HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { const InputFile input(directory.path(""), std::nullopt, {}); }),
              HasSubstr("no regular file"));
}

// ---- OutputFile ---------------------------------------------------------------------------------------

/// An input of three lines, a b c, and an output that a test writes first.
class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest()
      : input_(directory_.write("in", batch_line("a") + batch_line("b") + batch_line("c")), std::nullopt,
               {}) {}

  OutputFile open() { return OutputFile(directory_.path("out"), input_); }
  void write(const std::string& content) { directory_.write("out", content); }
  std::string content() const { return directory_.read("out"); }
  std::string scan_error() {
    return error_of([&] { open().scan(); });
  }
  /// Opens, begins and leaves, as a run that is killed does; returns what it would send as.
  Progressed begin(std::string* salt = nullptr) {
    OutputFile output = open();
    Progressed progressed = output.scan();
    output.begin();
    if (salt != nullptr) *salt = output.salt();
    return progressed;
  }
  std::uint32_t attempt_of(const Progressed& progressed, const std::string& id) {
    const auto at = progressed.attempts.find(key_of_custom_id(id));
    return at == progressed.attempts.end() ? 1 : at->second;
  }

  TemporaryDirectory directory_;
  InputFile input_;
};

TEST_F(OutputFileTest, starts_empty_and_takes_lines_as_they_come) {
  OutputFile output = open();
  const Progressed progressed = output.scan();
  output.begin();
  output.append(good("b"));
  EXPECT_EQ(content(), good("b")) << "written when it comes, not when all are there";
  output.append(good("a") + good("c"));
  output.finish(OutputOrder::completion, true);

  EXPECT_EQ(progressed.done_count, 0u);
  EXPECT_EQ(content(), good("b") + good("a") + good("c"));
  EXPECT_EQ(directory_.files(), 2u) << "nothing is left beside it";
}

TEST_F(OutputFileTest, what_is_answered_is_not_sent_again) {
  write(good("b") + good("a"));
  OutputFile output = open();
  const Progressed progressed = output.scan();
  output.begin();
  output.append(good("c"));

  EXPECT_THAT(progressed.done, ElementsAre(true, true, false));
  EXPECT_EQ(progressed.done_count, 2u);
  EXPECT_EQ(content(), good("b") + good("a") + good("c"));
}

TEST_F(OutputFileTest, a_torn_last_line_is_dropped_wherever_it_is_torn) {
  const std::string last = good("b", R"({"text":"\u00e9 \" }"})");
  for (std::size_t length = 1; length < last.size(); ++length) {
    write(good("a") + last.substr(0, length));
    const Progressed progressed = begin();
    ASSERT_TRUE(progressed.torn) << length;
    ASSERT_THAT(progressed.done, ElementsAre(true, false, false)) << length;
    ASSERT_EQ(content(), good("a")) << length;
  }
}

TEST_F(OutputFileTest, blocks_of_zeros_after_a_crash_are_dropped) {
  write(good("a") + std::string(4096, '\0'));
  EXPECT_TRUE(begin().torn);
  EXPECT_EQ(content(), good("a"));
}

TEST_F(OutputFileTest, whatever_stands_behind_our_lines_at_the_end_was_torn) {
  for (const std::string& last : {std::string("{\"custom"), std::string("garbage"), std::string("{}")}) {
    write(good("a") + last);
    EXPECT_TRUE(begin().torn) << last;
    EXPECT_EQ(content(), good("a"));
  }
}

TEST_F(OutputFileTest, failed_lines_are_taken_out_and_sent_again_as_a_further_attempt) {
  write(good("a") + bad("b") + bad("c"));
  const Progressed progressed = begin();

  EXPECT_THAT(progressed.done, ElementsAre(true, false, false));
  EXPECT_EQ(progressed.failed_count, 2u);
  EXPECT_EQ(attempt_of(progressed, "b"), 2u);
  EXPECT_EQ(attempt_of(progressed, "a"), 1u);
  EXPECT_EQ(content(), good("a"));
}

TEST_F(OutputFileTest, a_further_attempt_is_remembered_by_a_run_that_is_killed) {
  std::string first_salt, second_salt;
  write(good("a") + bad("b"));
  begin(&first_salt);
  const Progressed killed_before_the_answer = begin(&second_salt);

  EXPECT_EQ(attempt_of(killed_before_the_answer, "b"), 2u) << "the job of the killed run is joined";
  EXPECT_EQ(attempt_of(killed_before_the_answer, "c"), 1u);
  EXPECT_EQ(first_salt, second_salt);
}

TEST_F(OutputFileTest, every_failure_is_one_more_attempt) {
  write(bad("b"));
  for (std::uint32_t attempt = 2; attempt < 6; ++attempt) {
    OutputFile output = open();
    EXPECT_EQ(attempt_of(output.scan(), "b"), attempt);
    output.begin();
    output.append(bad("b"));
    output.finish(OutputOrder::completion, false);
  }
}

TEST_F(OutputFileTest, what_was_cancelled_is_a_further_attempt_unless_its_answer_came) {
  {
    OutputFile output = open();
    output.scan();
    output.begin();
    output.note_attempts({{key_of_custom_id("a"), 2}, {key_of_custom_id("b"), 2}});
    output.append(good("a"));
  }

  OutputFile next = open();
  const Progressed& progressed = next.scan();

  EXPECT_EQ(attempt_of(progressed, "b"), 2u);
  EXPECT_EQ(progressed.done_count, 1u);
  EXPECT_EQ(progressed.attempts.size(), 1u) << "a is answered";
}

TEST_F(OutputFileTest, attempts_of_what_is_answered_are_forgotten) {
  write(bad("b"));
  begin();
  write(good("b") + good("a"));
  EXPECT_EQ(attempt_of(begin(), "b"), 1u);
}

TEST_F(OutputFileTest, a_complete_run_leaves_nothing_and_the_next_has_another_salt) {
  std::string first, second;
  {
    OutputFile output = open();
    output.scan();
    output.begin();
    first = output.salt();
    output.append(good("a") + good("b") + good("c"));
    EXPECT_TRUE(directory_.has("out.run"));
    output.finish(OutputOrder::completion, true);
  }
  EXPECT_FALSE(directory_.has("out.run"));
  begin(&second);
  EXPECT_NE(first, second);
}

TEST_F(OutputFileTest, who_takes_the_output_away_gets_new_answers) {
  std::string first, second;
  begin(&first);
  ::unlink(directory_.path("out").c_str());
  begin(&second);

  EXPECT_NE(first, second);
}

TEST_F(OutputFileTest, a_second_answer_to_a_line_is_dropped) {
  write(good("a", "1") + good("b") + good("a", "2"));
  begin();
  EXPECT_EQ(content(), good("a", "1") + good("b"));
}

TEST_F(OutputFileTest, answers_to_other_requests_of_the_same_name_are_refused_and_left_alone) {
  const auto refused = [&](const std::string& asked, const RunTarget& target, const std::string& path) {
    const std::string answer =
        write_output({.custom_id = "b"}, asking(target, path, asked), JobDone{.body = Blob::copy("1")});
    write(good("a") + answer);
    const std::string error = scan_error();
    EXPECT_EQ(content(), good("a") + answer);
    return error;
  };
  for (const std::string& error : {refused("{\"q\":1}", {}, "/embeddings"), refused("{}", {}, ""),
                                   refused("{}", {.service = "other"}, "/embeddings"),
                                   refused("{}", {.model = "other"}, "/embeddings")}) {
    EXPECT_THAT(error, HasSubstr("out line 2 answers another request than "));
    EXPECT_THAT(error, HasSubstr("in line 2"));
    EXPECT_THAT(error, HasSubstr("another --out"));
  }
  EXPECT_EQ(refused("{}", {}, "/embeddings"), "no error");

  write(write_output({.custom_id = "a"}, "run-00112233445566778899aabbccddeeff-1", JobDone{}));
  EXPECT_THAT(scan_error(), HasSubstr("another request")) << "an id that does not say what was asked";
}

TEST_F(OutputFileTest, answers_to_lines_that_are_no_more_are_refused) {
  write(good("a") + good("z"));
  EXPECT_THAT(scan_error(), HasSubstr("line 2 answers custom_id \"z\", which "));
  EXPECT_EQ(content(), good("a") + good("z"));
}

TEST_F(OutputFileTest, what_failed_may_be_another_request_by_now) {
  write(good("a") + write_output({.custom_id = "b"}, asking({}, "", "[]"), ClientError{.code = "deadline"}));
  const Progressed progressed = begin();
  EXPECT_EQ(progressed.done_count, 1u);
  EXPECT_EQ(attempt_of(progressed, "b"), 2u);
  EXPECT_EQ(content(), good("a"));
}

TEST_F(OutputFileTest, a_file_of_somebody_else_beside_it_is_left_alone) {
  directory_.write("out.run", "my notes\n");
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("out.run is in the way"));
  EXPECT_EQ(directory_.read("out.run"), "my notes\n");
  EXPECT_FALSE(directory_.has("out"));
  ::unlink(directory_.path("out.run").c_str());
  ASSERT_EQ(::mkdir(directory_.path("out.run").c_str(), 0700), 0);
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("out.run is in the way"));
}

TEST_F(OutputFileTest, a_torn_first_line_is_dropped_of_an_unfinished_run_alone) {
  for (const std::string& torn : {std::string("{\"id"), std::string(4096, '\0')}) {
    write(torn);
    EXPECT_THAT(scan_error(), HasSubstr("line 1 is no answer")) << torn;
    EXPECT_EQ(content(), torn);
  }
  ::unlink(directory_.path("out").c_str());
  begin();
  write("{\"id");
  EXPECT_TRUE(begin().torn);
  EXPECT_EQ(content(), "");
}

TEST_F(OutputFileTest, lines_that_could_not_be_named_are_dropped_and_answered_again) {
  const std::string nameless =
      write_output({}, "line-2", ClientError{.code = "bad_request", .message = "line 2 is no JSON"});
  write(nameless + good("a"));
  EXPECT_EQ(begin().failed_count, 1u);
  EXPECT_EQ(content(), good("a"));
}

TEST_F(OutputFileTest, a_file_of_something_else_is_refused_and_left_alone) {
  for (const std::string& content :
       {std::string("my notes\n"), std::string("my notes"), std::string("{\"a\":1}\n"),
        std::string("{\"a\":1}"), good("a") + "notes\n" + good("b"), "broken {\"id\n" + good("a"),
        good("a") + good("b").substr(0, 30) + "\n" + good("c"), good("a") + "checked by Anna\n",
        good("a") + write_output({.custom_id = "b"}, "other-1", ClientError{.code = "batch_expired"})}) {
    write(content);
    EXPECT_THAT(scan_error(), HasSubstr("is no answer")) << content;
    EXPECT_EQ(this->content(), content);
  }
}

TEST_F(OutputFileTest, answers_to_other_requests_are_refused_in_plain_files) {
  const InputFile plain(directory_.write("plain", "1\n2\n"), LineFormat::plain, {});
  const auto answer = [](std::uint64_t number, const std::string& body) {
    return write_output({.format = LineFormat::plain, .number = number}, asking({}, "", body),
                        JobDone{.body = Blob::copy("0")});
  };
  const auto scan = [&] { OutputFile(directory_.path("out"), plain).scan(); };

  write(answer(1, "1"));
  EXPECT_EQ(error_of(scan), "no error");
  write(answer(1, "changed"));
  EXPECT_THAT(error_of(scan), HasSubstr("another request than "));
  write(answer(3, "1"));
  EXPECT_THAT(error_of(scan), HasSubstr("answers line 3, which "));
  write(good("a"));
  EXPECT_THAT(error_of(scan), HasSubstr("another format"));
}

TEST_F(OutputFileTest, the_input_is_not_written_over) {
  EXPECT_THAT(error_of([&] { const OutputFile output(directory_.path("in"), input_); }),
              HasSubstr("input itself"));
}

TEST_F(OutputFileTest, one_run_at_a_time) {
  const OutputFile first = open();
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("another run"));
}

TEST_F(OutputFileTest, one_run_at_a_time_after_the_file_was_replaced_too) {
  write(bad("a"));
  OutputFile first = open();
  first.scan();
  first.begin();
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("another run"));
}

TEST_F(OutputFileTest, finishes_in_the_order_of_the_input) {
  const std::string nameless = write_output({}, "line-4", ClientError{.code = "bad_request"});
  write(good("c"));
  OutputFile output = open();
  output.scan();
  output.begin();
  output.append(nameless + good("b") + bad("a"));
  output.finish(OutputOrder::input, false);

  EXPECT_EQ(content(), bad("a") + good("b") + good("c") + nameless);
  EXPECT_TRUE(directory_.has("out.run"));
  EXPECT_EQ(directory_.files(), 3u);
}

TEST_F(OutputFileTest, keeps_the_permissions_of_the_file_it_replaces) {
  write(bad("a"));
  ::chmod(directory_.path("out").c_str(), 0640);
  begin();
  struct stat status {};
  ASSERT_EQ(::stat(directory_.path("out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(OutputFileTest, a_link_stays_one) {
  directory_.write("real", bad("a"));
  ASSERT_EQ(::symlink("real", directory_.path("out").c_str()), 0);
  begin();
  struct stat status {};
  ASSERT_EQ(::lstat(directory_.path("out").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(directory_.read("real"), "") << "what failed was taken out where it stands";
}

TEST_F(OutputFileTest, what_is_no_file_is_written_from_the_start) {
  OutputFile output("/dev/null", input_);
  EXPECT_FALSE(output.can_resume());
  EXPECT_EQ(output.scan().done_count, 0u);
  output.begin();
  EXPECT_FALSE(output.salt().empty());
  output.append(good("a"));
  output.finish(OutputOrder::completion, true);
}

TEST_F(OutputFileTest, a_run_that_comes_to_nothing_leaves_what_it_found) {
  {
    OutputFile output = open();
    output.scan();
    output.begin();
    output.forget();
  }
  EXPECT_FALSE(directory_.has("out"));
  EXPECT_FALSE(directory_.has("out.run"));
  write(good("a") + bad("b"));
  {
    OutputFile output = open();
    output.scan();
    output.forget();
  }
  EXPECT_EQ(content(), good("a") + bad("b"));
}

TEST_F(OutputFileTest, a_full_disk_is_said) {
  OutputFile output("/dev/full", input_);
  output.scan();
  output.begin();
  EXPECT_THAT(error_of([&] { output.append(good("a")); }), HasSubstr("cannot write"));
}

TEST_F(OutputFileTest, a_directory_that_is_not_there_is_said) {
  EXPECT_THAT(error_of([&] { const OutputFile output(directory_.path("no/such/out"), input_); }),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace lanemq::cli
