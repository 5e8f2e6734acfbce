// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_engine.hpp"

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "client/gateway/batches/batch_desk.hpp"
#include "tests/support/faulty_disk.hpp"
#include "tests/support/temporary_directory.hpp"

namespace lanemq::gateway {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::HasSubstr;

/// A broker that remembers jobs by their ids, as the real one does, and outlives the gateway's process.
class PlayedBroker : public LineBroker {
 public:
  std::optional<ClientError> why_not(const StoredBatch&, std::string_view, std::string_view) override {
    return std::nullopt;
  }
  LineJob job_of(const StoredBatch&, std::string_view model, std::string_view body,
                 std::size_t step) override {
    models.push_back(std::string(model) + (step > 0 ? "/" + std::to_string(step) : ""));
    return {.request = {.model = std::string(model)}, .body = std::string(body)};
  }
  std::string_view without_lane(std::string_view model) const override {
    return model.ends_with("@batch") ? model.substr(0, model.size() - std::string_view("@batch").size())
                                     : model;
  }
  bool falls_back(const StoredBatch&, std::string_view, std::size_t step, const ClientError& error) override {
    return step + 1 < steps && error.code == "upstream_failed";
  }
  std::size_t steps_max() const override { return steps; }
  void submit(BatchLine line, LineJob job) override {
    ++submits[job.request.id];
    timeouts[job.request.id] = *job.request.timeout;
    asked.push_back({line, job.request.id});
    if (!jobs.contains(job.request.id)) order.push_back(job.request.id);
    jobs.emplace(job.request.id, job.body);
  }
  void cancel(const std::string& id) override { cancelled.push_back(id); }
  void collect(BatchLine line, std::vector<std::string> ids) override {
    asked.push_back({line, ids.front()});
    collected.insert(collected.end(), ids.begin(), ids.end());
  }

  struct Asked {
    BatchLine line;
    std::string id;
  };
  std::vector<Asked> asked{};  ///< without an answer, in the order of the submits
  std::map<std::string, std::string> jobs{};
  std::vector<std::string> order{}, cancelled{}, collected{};
  std::vector<std::string> models{};  ///< of the submits, with their step
  std::size_t steps = 1;              ///< of every route
  std::map<std::string, int> submits{};
  std::map<std::string, milliseconds> timeouts{};
};

class Batches : public testing::Test {
 protected:
  Batches() { start(); }

  void start() {
    engine_.reset();
    store_.reset();
    store_ = std::make_unique<BatchStore>(folder_.path("state"), disk_ ? disk_->vfs() : std::string());
    engine_ = std::make_unique<BatchEngine>(settings_, *store_, broker_);
    desk_ = std::make_unique<BatchDesk>(settings_, *store_, *engine_);
  }
  /// The process dies: nothing that is not on the disk is there any more, and nobody waits for answers.
  void crash() {
    broker_.asked.clear();
    start();
  }
  void turns() {
    for (int i = 0; engine_->turn(now_); ++i)
      ASSERT_LT(i, 10'000) << "there is always more to do";
  }

  static std::string line(int number, const std::string& model = "gpt-x") {
    return R"({"custom_id":"c)" + std::to_string(number) +
           R"(","method":"POST","url":"/v1/chat/completions","body":{"model":")" + model + R"(","n":)" +
           std::to_string(number) + "}}\n";
  }
  static std::string lines(int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += line(i);
    return text;
  }
  BatchDesk::Reply create_file(const std::string& form) {
    return desk_->begin_upload(acme_, kOpenai, form.size()).and_then([&](Upload upload) {
      return read_file_form(settings_, "multipart/form-data; boundary=XX", form, upload).and_then([&] {
        return desk_->create_file(acme_, upload, now_);
      });
    });
  }
  BatchDesk::Reply create_message_batch(const std::string& body) {
    return desk_->begin_upload(acme_, kAnthropic, body.size()).and_then([&](Upload upload) {
      return read_message_batch(settings_, body, upload).and_then([&] {
        return desk_->create_message_batch(acme_, upload, now_);
      });
    });
  }
  std::string upload(const std::string& content) {
    const std::string form =
        "--XX\r\ncontent-disposition: form-data; name=purpose\r\n\r\nbatch\r\n"
        "--XX\r\ncontent-disposition: form-data; name=file; filename=in.jsonl\r\n\r\n" +
        content + "\r\n--XX--";
    const auto file = create_file(form);
    EXPECT_TRUE(file) << file.error().message;
    return file ? json::parse(*file)["id"].get<std::string>() : "";
  }
  std::string create(const std::string& content) {
    const auto batch = desk_->create_batch(acme_,
                                           json{{"input_file_id", upload(content)},
                                                {"endpoint", "/v1/chat/completions"},
                                                {"completion_window", "24h"}}
                                               .dump(),
                                           now_);
    EXPECT_TRUE(batch) << batch.error().message;
    return batch ? json::parse(*batch)["id"].get<std::string>() : "";
  }
  json batch(const std::string& id, const Api& api = kOpenai) {
    const auto document = desk_->batch(acme_, api, id);
    EXPECT_TRUE(document) << document.error().message;
    return document ? json::parse(*document) : json();
  }
  void answer(std::size_t count) {
    count = std::min(count, broker_.asked.size());
    const std::vector<PlayedBroker::Asked> answered(broker_.asked.begin(), broker_.asked.begin() + count);
    broker_.asked.erase(broker_.asked.begin(), broker_.asked.begin() + count);
    for (const auto& [line, id] : answered)
      engine_->answered(line, JobDone{.usage = wire::Usage{.input_tokens = 2, .output_tokens = 3},
                                      .body = Blob::copy(R"({"answer":)" + broker_.jobs.at(id) + "}")});
  }
  void answer_with(const ClientError& error) {
    for (const auto& [line, id] : std::exchange(broker_.asked, {}))
      engine_->answered(line, error);
  }
  std::vector<json> content(const tl::expected<OpenFile, ApiError>& file) {
    EXPECT_TRUE(file) << file.error().message;
    std::vector<json> result;
    if (!file) return result;
    std::string text(static_cast<std::size_t>(file->bytes), '\0');
    EXPECT_EQ(::pread(file->fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    ::close(file->fd);
    std::istringstream stream(text);
    for (std::string row; std::getline(stream, row);)
      result.push_back(json::parse(row));
    return result;
  }

  test::TemporaryDirectory folder_;
  std::unique_ptr<test::FaultyDisk> disk_;      ///< under the rows, where a test wants that
  BatchSettings settings_{.in_flight_max = 5};  // of which one batch has four
  BatchCaller acme_{.owner = "acme", .client = "acme", .base_url = "http://here"};
  WallTime now_{milliseconds(1'700'000'000'000)};
  PlayedBroker broker_;
  std::unique_ptr<BatchStore> store_;
  std::unique_ptr<BatchEngine> engine_;
  std::unique_ptr<BatchDesk> desk_;
};

TEST_F(Batches, runs_every_line_and_writes_the_answers_in_order) {
  const std::string id = create(lines(10));
  EXPECT_EQ(batch(id)["status"], "validating");

  turns();
  EXPECT_EQ(broker_.asked.size(), 4u);
  EXPECT_EQ(batch(id)["status"], "in_progress");
  while (!broker_.asked.empty()) {
    std::reverse(broker_.asked.begin(), broker_.asked.end());
    answer(2);
    turns();
  }

  const json done = batch(id);
  EXPECT_EQ(done["status"], "completed");
  EXPECT_EQ(done["request_counts"], (json{{"total", 10}, {"completed", 10}, {"failed", 0}}));
  EXPECT_EQ(done["usage"]["total_tokens"], 50);
  EXPECT_EQ(done["error_file_id"], json());
  const std::vector<json> output = content(desk_->open_file(acme_, done["output_file_id"]));
  ASSERT_EQ(output.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(output[i]["custom_id"], "c" + std::to_string(i));
    EXPECT_EQ(output[i]["response"]["body"]["answer"]["n"], i);
  }
}

TEST_F(Batches, of_one_owner_hold_up_no_other_while_they_are_read_and_written) {
  settings_.in_flight_max = 100;
  std::vector<std::string> many;
  for (int count = 0; count < 10; ++count)
    many.push_back(create(lines(8'000)));  // several slices each
  acme_.owner = acme_.client = "bravo";
  const std::string one = create(lines(1));
  const auto turns_until = [&](const std::string& state) {
    int count = 0;
    for (; count < 20 && batch(one)["status"] != state; ++count)
      EXPECT_TRUE(engine_->turn(now_));
    return count;
  };
  EXPECT_LE(turns_until("in_progress"), 3);
  turns();
  answer_with({.code = "upstream_rejected"});
  acme_.owner = acme_.client = "acme";
  EXPECT_EQ(desk_->cancel_all_of("acme", now_), many.size());
  EXPECT_EQ(desk_->cancel_all_of("acme", now_), many.size()) << "said again it changes nothing";
  acme_.owner = acme_.client = "bravo";
  EXPECT_LE(turns_until("completed"), 4);
}

TEST_F(Batches, puts_lines_that_failed_into_the_error_file) {
  const std::string id = create(lines(3));
  turns();
  answer(1);
  answer_with({.code = "upstream_rejected", .upstream_status = 400, .body = Blob::copy(R"({"error":1})")});
  turns();

  const json done = batch(id);
  EXPECT_EQ(done["request_counts"], (json{{"total", 3}, {"completed", 1}, {"failed", 2}}));
  EXPECT_EQ(content(desk_->open_file(acme_, done["output_file_id"])).size(), 1u);
  const std::vector<json> errors = content(desk_->open_file(acme_, done["error_file_id"]));
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0]["custom_id"], "c1");
  EXPECT_EQ(errors[0]["response"]["status_code"], 400);
}

TEST_F(Batches, names_the_lines_that_are_wrong) {
  const std::string id = create(line(0) + "\n" + line(0) + "nonsense\n" + line(1, ""));
  turns();

  const json failed = batch(id);
  EXPECT_EQ(failed["status"], "failed");
  std::vector<std::pair<std::string, int>> errors;
  for (const json& error : failed["errors"]["data"])
    errors.emplace_back(error["code"], error["line"]);
  EXPECT_THAT(errors,
              testing::ElementsAre(std::pair("duplicate_custom_id", 3), std::pair("invalid_json_line", 4),
                                   std::pair("missing_required_parameter", 5)));
  EXPECT_TRUE(broker_.jobs.empty());
}

TEST_F(Batches, hold_models_against_those_of_the_key_without_their_lane) {
  acme_.models = "gpt-x\n";
  const std::string allowed = create(line(0, "gpt-x@batch"));
  const std::string refused = create(line(0, "gpt-y@batch"));
  turns();

  EXPECT_EQ(batch(allowed)["status"], "in_progress");
  EXPECT_EQ(batch(refused)["status"], "failed");
  EXPECT_EQ(batch(refused)["errors"]["data"][0]["code"], "model_not_allowed");
}

TEST_F(Batches, refuse_an_empty_file_and_too_many_lines) {
  const std::string empty = create("\n\n");
  settings_.lines_max = 3;
  const std::string long_one = create(lines(4));
  turns();

  EXPECT_EQ(batch(empty)["errors"]["data"][0]["code"], "empty_file");
  EXPECT_EQ(batch(long_one)["errors"]["data"][0]["code"], "too_many_requests");
}

TEST_F(Batches, wait_out_refusals_under_the_same_id) {
  create(lines(1));
  turns();
  const std::string id = broker_.asked[0].id;

  answer_with({.code = "lane_full", .retry_after = milliseconds(500)});
  turns();
  EXPECT_TRUE(broker_.asked.empty());
  now_ += milliseconds(500);
  turns();
  ASSERT_EQ(broker_.asked.size(), 1u);
  EXPECT_EQ(broker_.asked[0].id, id);
}

TEST_F(Batches, take_the_next_step_of_a_route_where_the_error_is_a_reason) {
  broker_.steps = 3;
  const std::string id = create(lines(2));
  turns();
  answer_with({.code = "upstream_failed"});
  turns();
  EXPECT_EQ(broker_.order, (std::vector<std::string>{id + ".1", id + ".2", id + ".1-1", id + ".2-1"}));
  answer(1);
  answer_with({.code = "upstream_rejected", .upstream_status = 400});
  turns();

  EXPECT_EQ(broker_.models, (std::vector<std::string>{"gpt-x", "gpt-x", "gpt-x/1", "gpt-x/1"}));
  EXPECT_EQ(batch(id)["request_counts"], (json{{"total", 2}, {"completed", 1}, {"failed", 1}}));
  const std::vector<json> errors = content(desk_->open_file(acme_, batch(id)["error_file_id"]));
  ASSERT_EQ(errors.size(), 1u) << "only the last answer of a line is kept";
  EXPECT_EQ(errors[0]["custom_id"], "c1");
}

TEST_F(Batches, end_a_line_whose_last_step_failed) {
  broker_.steps = 2;
  const std::string id = create(lines(1));
  turns();
  answer_with({.code = "upstream_failed"});
  turns();
  answer_with({.code = "upstream_failed"});
  turns();

  EXPECT_EQ(batch(id)["request_counts"], (json{{"total", 1}, {"completed", 0}, {"failed", 1}}));
}

TEST_F(Batches, wait_out_a_refusal_of_a_later_step_under_its_id) {
  broker_.steps = 2;
  const std::string id = create(lines(1));
  turns();
  answer_with({.code = "upstream_failed"});
  turns();
  answer_with({.code = "lane_full", .retry_after = milliseconds(500)});
  turns();
  now_ += milliseconds(500);
  turns();

  ASSERT_EQ(broker_.asked.size(), 1u);
  EXPECT_EQ(broker_.asked[0].id, id + ".1-1");
  ASSERT_TRUE(desk_->cancel_batch(acme_, kOpenai, id, now_));
  turns();
  EXPECT_EQ(broker_.cancelled, std::vector<std::string>{id + ".1-1"});
}

TEST_F(Batches, come_to_the_same_step_again_after_a_crash) {
  broker_.steps = 2;
  const std::string id = create(lines(1));
  turns();
  answer_with({.code = "upstream_failed"});
  turns();
  crash();
  turns();
  ASSERT_EQ(broker_.asked.size(), 1u);
  EXPECT_EQ(broker_.asked[0].id, id + ".1") << "the broker knows how it ended";
  answer_with({.code = "upstream_failed"});
  turns();
  EXPECT_EQ(broker_.asked[0].id, id + ".1-1");
  crash();
  ASSERT_TRUE(desk_->cancel_batch(acme_, kOpenai, id, now_));
  turns();

  EXPECT_EQ(broker_.collected, (std::vector<std::string>{id + ".1", id + ".1-1"}));
}

TEST_F(Batches, are_counted) {
  const std::string id = create(lines(10));
  turns();
  answer(1);
  turns();
  BatchFigures figures;
  engine_->count(figures);
  store_->count(figures);

  EXPECT_EQ(figures.lines_running, 4);
  EXPECT_EQ(figures.lines_waiting, 5);
  EXPECT_EQ(figures.batches[static_cast<std::size_t>(BatchState::in_progress)], 1);
  EXPECT_EQ(figures.files, 1);
  EXPECT_EQ(figures.file_bytes, static_cast<std::int64_t>(lines(10).size()));
  EXPECT_GT(figures.database_bytes, 0);

  while (!broker_.asked.empty()) {
    answer(4);
    turns();
  }
  engine_->count(figures);
  store_->count(figures);
  EXPECT_EQ(figures.lines_running + figures.lines_waiting, 0);
  EXPECT_EQ(figures.batches[static_cast<std::size_t>(BatchState::completed)], 1);
  EXPECT_EQ(figures.files, 2) << "the input and the output";
}

TEST_F(Batches, go_on_after_a_crash_with_every_line_answered_once) {
  std::mt19937_64 random(3);
  const int count = 60;
  const std::string id = create(lines(count));
  for (int round = 0; round < 200 && batch(id)["status"] != "completed"; ++round) {
    // A crash at any point: before the turn, after it, with answers on their way.
    turns();
    answer(random() % 4);
    if (random() % 2 == 0) engine_->turn(now_);
    if (random() % 3 == 0) crash();
  }
  turns();

  const json done = batch(id);
  EXPECT_EQ(done["status"], "completed");
  EXPECT_EQ(done["request_counts"], (json{{"total", count}, {"completed", count}, {"failed", 0}}));
  EXPECT_EQ(done["usage"]["input_tokens"], 2 * count) << "tokens of a line count once";
  const std::vector<json> output = content(desk_->open_file(acme_, done["output_file_id"]));
  ASSERT_EQ(output.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(output[i]["response"]["body"]["answer"]["n"], i);
  EXPECT_EQ(broker_.order.size(), static_cast<std::size_t>(count)) << "no line has two ids";
}

TEST_F(Batches, wait_for_a_full_disk_take_no_new_work_and_go_on_by_themselves) {
  disk_ = std::make_unique<test::FaultyDisk>();
  start();
  const std::string next_input = upload(lines(1));
  const std::string id = create(lines(8));
  turns();
  ASSERT_EQ(broker_.asked.size(), 4u);
  const auto next_batch = [&] {
    return desk_->create_batch(
        acme_,
        json{
            {"input_file_id", next_input}, {"endpoint", "/v1/chat/completions"}, {"completion_window", "24h"}}
            .dump(),
        now_);
  };

  disk_->set_capacity(1);
  answer(4);
  turns();
  EXPECT_THAT(engine_->trouble(), HasSubstr("full"));
  EXPECT_TRUE(broker_.asked.empty()) << "no line is submitted whose answer has no room";
  EXPECT_EQ(next_batch().error().name, "store_full");
  EXPECT_EQ(next_batch().error().retry_after, std::chrono::seconds(60));
  EXPECT_EQ(create_message_batch(R"({"requests":[]})").error().name, "store_full");
  EXPECT_EQ(batch(id)["status"], "in_progress") << "what is there can be asked for";
  BatchFigures figures;
  engine_->count(figures);
  EXPECT_TRUE(figures.disk_refuses);
  EXPECT_EQ(figures.commit_failed_at, ms_of(now_));

  for (int second = 0; second < 3; ++second) {
    now_ += milliseconds(1'000);
    turns();
    EXPECT_FALSE(engine_->trouble().empty());
  }

  disk_->set_capacity(UINT64_MAX / 4);
  now_ += milliseconds(1'000);
  turns();
  EXPECT_EQ(engine_->trouble(), "");
  EXPECT_TRUE(next_batch());
  while (batch(id)["status"] != "completed" && !broker_.asked.empty()) {
    answer(4);
    turns();
  }
  EXPECT_EQ(batch(id)["request_counts"], (json{{"total", 8}, {"completed", 8}, {"failed", 0}}));
  for (const auto& [job, count] : broker_.submits)
    EXPECT_EQ(count, 1) << job << " ran twice";
  engine_->count(figures);
  EXPECT_FALSE(figures.disk_refuses);
  EXPECT_EQ(figures.commits_failed, 4u);
}

TEST_F(Batches, refuse_an_upload_that_has_no_room_and_keep_nothing_of_it) {
  disk_ = std::make_unique<test::FaultyDisk>();
  start();
  disk_->set_capacity(1);
  try {
    static_cast<void>(
        create_file("--XX\r\ncontent-disposition: form-data; name=purpose\r\n\r\nbatch\r\n"
                    "--XX\r\ncontent-disposition: form-data; name=file; filename=a\r\n\r\n" +
                    lines(1) + "\r\n--XX--"));
    FAIL() << "there was room";
  } catch (const StoreFault& fault) {
    EXPECT_TRUE(fault.full) << fault.what();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path("state/files")));
}

TEST_F(Batches, finish_their_output_after_a_crash_while_it_was_written) {
  const std::string id = create(lines(2));
  turns();
  answer(2);
  // The answers are kept, and the batch is over but for its output.
  engine_->turn(now_);
  crash();
  turns();

  EXPECT_EQ(batch(id)["status"], "completed");
  EXPECT_EQ(content(desk_->open_file(acme_, batch(id)["output_file_id"])).size(), 2u);
  const test::TemporaryDirectory& folder = folder_;
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path("state/files")))
    ++files;
  EXPECT_EQ(files, 2u) << "the input and one output, and nothing half written";
}

TEST_F(Batches, are_cancelled_with_what_is_done_kept) {
  const std::string id = create(lines(10));
  turns();
  answer(1);
  turns();

  ASSERT_TRUE(desk_->cancel_batch(acme_, kOpenai, id, now_));
  turns();
  EXPECT_EQ(batch(id)["status"], "cancelling");
  EXPECT_EQ(broker_.cancelled.size(), 4u);
  answer_with({.code = "cancelled"});
  turns();

  const json done = batch(id);
  EXPECT_EQ(done["status"], "cancelled");
  EXPECT_EQ(done["request_counts"], (json{{"total", 10}, {"completed", 1}, {"failed", 9}}));
  EXPECT_EQ(content(desk_->open_file(acme_, done["output_file_id"])).size(), 1u);
  EXPECT_EQ(content(desk_->open_file(acme_, done["error_file_id"]))[8]["error"]["code"], "batch_cancelled");
  EXPECT_EQ(desk_->cancel_batch(acme_, kOpenai, id, now_).error().name, "over");
}

TEST_F(Batches, keep_after_a_crash_what_has_ended_at_the_broker) {
  const std::string id = create(lines(10));
  turns();
  const std::vector<std::string> left = broker_.order;
  ASSERT_TRUE(desk_->cancel_batch(acme_, kOpenai, id, now_));
  crash();
  turns();

  EXPECT_EQ(broker_.collected, left);
  answer(2);
  answer_with({.code = "cancelled"});
  turns();

  const json done = batch(id);
  EXPECT_EQ(done["status"], "cancelled");
  EXPECT_EQ(done["request_counts"], (json{{"total", 10}, {"completed", 2}, {"failed", 8}}));
  EXPECT_EQ(content(desk_->open_file(acme_, done["output_file_id"])).size(), 2u);
}

TEST_F(Batches, whose_window_ended_while_the_gateway_was_away_keep_what_is_done) {
  const std::string id = create(lines(6));
  turns();
  now_ += hours(24);
  crash();
  turns();
  answer(3);
  answer_with({.code = "cancelled"});
  turns();

  const json done = batch(id);
  EXPECT_EQ(done["status"], "expired");
  EXPECT_EQ(done["request_counts"], (json{{"total", 6}, {"completed", 3}, {"failed", 3}}));
  EXPECT_EQ(content(desk_->open_file(acme_, done["output_file_id"]))[2]["custom_id"], "c2");
}

TEST_F(Batches, expire_after_their_window) {
  const std::string id = create(lines(6));
  turns();
  EXPECT_GT(broker_.timeouts.begin()->second, hours(24)) << "the batch expires before its jobs";
  now_ += hours(24);
  turns();
  answer_with({.code = "cancelled"});
  turns();

  EXPECT_EQ(batch(id)["status"], "expired");
  EXPECT_EQ(content(desk_->open_file(acme_, batch(id)["error_file_id"]))[0]["error"]["code"],
            "batch_expired");
}

TEST_F(Batches, fail_the_lines_that_cannot_be_read_any_more) {
  const std::string id = create(lines(10));
  turns();
  std::filesystem::resize_file(folder_.path("state/files/" + batch(id)["input_file_id"].get<std::string>()),
                               0);
  answer(4);
  turns();

  EXPECT_EQ(batch(id)["request_counts"], (json{{"total", 10}, {"completed", 4}, {"failed", 6}}));
  EXPECT_EQ(batch(id)["status"], "completed");
}

TEST_F(Batches, of_messages_have_one_file_of_results) {
  json requests = json::array();
  for (int i = 0; i < 3; ++i)
    requests.push_back(
        {{"custom_id", "r" + std::to_string(i)}, {"params", {{"model", "claude-x"}, {"n", i}}}});
  const auto made = create_message_batch(json{{"requests", requests}}.dump(1));
  ASSERT_TRUE(made) << made.error().message;
  const std::string id = json::parse(*made)["id"];
  EXPECT_EQ(json::parse(*made)["request_counts"]["processing"], 3);
  EXPECT_EQ(json::parse(*made)["created_at"], "2023-11-14T22:13:20.000Z");
  EXPECT_FALSE(desk_->open_results(acme_, id));

  turns();
  answer(1);
  turns();
  ASSERT_TRUE(desk_->cancel_batch(acme_, kAnthropic, id, now_));
  EXPECT_EQ(batch(id, kAnthropic)["processing_status"], "canceling");
  turns();
  answer_with({.code = "cancelled"});
  turns();

  const json done = batch(id, kAnthropic);
  EXPECT_EQ(done["processing_status"], "ended");
  EXPECT_EQ(done["request_counts"],
            (json{{"processing", 0}, {"succeeded", 1}, {"errored", 0}, {"canceled", 2}, {"expired", 0}}));
  EXPECT_EQ(done["results_url"], "http://here/v1/messages/batches/" + id + "/results");
  const std::vector<json> results = content(desk_->open_results(acme_, id));
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0]["result"]["message"]["answer"]["n"], 0);
  EXPECT_EQ(results[2]["result"], (json{{"type", "canceled"}}));
  EXPECT_EQ(json::parse(*desk_->files(acme_, {}))["data"].size(), 0u) << "its files are nobody's";

  EXPECT_TRUE(desk_->delete_message_batch(acme_, id));
  EXPECT_FALSE(desk_->batch(acme_, kAnthropic, id));
}

TEST_F(Batches, of_messages_are_refused_as_a_whole) {
  const auto refusal_of = [&](const std::string& body) {
    const auto made = create_message_batch(body);
    return made ? "" : made.error().message;
  };
  EXPECT_THAT(refusal_of("{"), HasSubstr("no JSON"));
  EXPECT_THAT(refusal_of(R"({"requests":[]})"), HasSubstr("at least one"));
  EXPECT_THAT(
      refusal_of(
          R"({"requests":[{"custom_id":"a","params":{"model":"c"}},{"custom_id":"a","params":{"model":"c"}}]})"),
      HasSubstr("requests.1.custom_id"));
  EXPECT_THAT(refusal_of(R"({"requests":[{"custom_id":"a","params":{"model":"c","stream":true}}]})"),
              HasSubstr("requests.0"));
}

TEST_F(Batches, that_are_asked_for_again_are_the_same) {
  const std::string file = upload(lines(1));
  const auto ask = [&](BatchCaller caller, const std::string& request) {
    caller.request = request;
    return desk_->create_batch(
        caller,
        json{{"input_file_id", file}, {"endpoint", "/v1/chat/completions"}, {"completion_window", "24h"}}
            .dump(),
        now_);
  };
  const auto id_of = [](const BatchDesk::Reply& reply) {
    EXPECT_TRUE(reply) << reply.error().message;
    return reply ? json::parse(*reply)["id"].get<std::string>() : "";
  };
  BatchCaller keyed = acme_, sdk = acme_, retry = acme_;
  keyed.asked.idempotency_key = "k";
  keyed.asked_retain = hours(24);
  sdk.asked = {.sdk_retries = true};
  retry.asked = {.sdk_retries = true, .is_retry = true};

  const std::string first = id_of(ask(keyed, "hash"));
  crash();
  EXPECT_EQ(id_of(ask(keyed, "hash")), first);
  EXPECT_EQ(ask(keyed, "another").error().name, "conflict");
  BatchCaller other = keyed;
  other.owner = "other";
  EXPECT_EQ(ask(other, "hash").error().name, "not_found") << "the file is not its own";

  const std::string second = id_of(ask(sdk, "hash"));
  EXPECT_NE(second, first);
  EXPECT_EQ(id_of(ask(retry, "hash")), second);
  EXPECT_NE(id_of(ask(sdk, "hash")), second) << "it is no retry";
  now_ += minutes(3);
  EXPECT_NE(id_of(ask(retry, "hash")), second);
  EXPECT_EQ(id_of(ask(keyed, "hash")), first);
  now_ += hours(24);
  EXPECT_NE(id_of(ask(keyed, "another")), first);
}

TEST_F(Batches, are_seen_by_their_owner_alone) {
  const std::string id = create(lines(1));
  const BatchCaller other{.owner = "other"};

  EXPECT_EQ(desk_->batch(other, kOpenai, id).error().name, "not_found");
  EXPECT_EQ(desk_->batch(acme_, kAnthropic, id).error().name, "not_found");
  EXPECT_EQ(desk_->file(other, batch(id)["input_file_id"]).error().name, "not_found");
  EXPECT_EQ(json::parse(*desk_->batches(other, kOpenai, {}))["data"].size(), 0u);
}

TEST_F(Batches, are_listed_in_pages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i)
    ids.push_back(create(lines(1)));
  const auto page = [&](const ListRequest& list, const Api& api = kOpenai) {
    const json document = json::parse(*desk_->batches(acme_, api, list));
    std::vector<std::string> found;
    for (const json& item : document["data"])
      found.push_back(item["id"]);
    return std::pair(found, document["has_more"].get<bool>());
  };
  using Page = std::pair<std::vector<std::string>, bool>;

  EXPECT_EQ(page({.limit = "2"}), (Page{{ids[4], ids[3]}, true}));
  EXPECT_EQ(page({.after = ids[3], .limit = "2"}), (Page{{ids[2], ids[1]}, true}));
  EXPECT_EQ(page({.after = ids[1], .limit = "2"}), (Page{{ids[0]}, false}));
  EXPECT_EQ(page({.before = ids[1], .limit = "2"}), (Page{{ids[3], ids[2]}, true}));
  EXPECT_EQ(page({.before = ids[3], .limit = "2"}), (Page{{ids[4]}, false}));
  EXPECT_EQ(desk_->batches(acme_, kOpenai, {.limit = "0"}).error().param, "limit");
}

TEST_F(Batches, files_are_paged_through_while_what_was_shown_is_deleted) {
  for (const std::string order : {"asc", "desc"}) {
    std::vector<std::string> ids;
    for (int i = 0; i < 5; ++i)
      ids.push_back(upload(lines(1)));
    if (order == "desc") std::reverse(ids.begin(), ids.end());

    ListRequest list{.limit = "2", .order = order};
    std::vector<std::string> found;
    for (bool more = true; more;) {
      const json page = json::parse(desk_->files(acme_, list).value());
      for (const json& file : page["data"]) {
        found.push_back(file["id"]);
        ASSERT_TRUE(desk_->delete_file(acme_, found.back()));
      }
      more = page["has_more"];
      list.after = page["last_id"];
    }

    EXPECT_EQ(found, ids) << order;
  }
}

TEST_F(Batches, of_messages_are_paged_through_while_what_was_shown_is_deleted) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    const std::string body = R"({"requests":[{"custom_id":"a","params":{"model":"claude-x"}}]})";
    ids.push_back(json::parse(create_message_batch(body).value())["id"]);
    turns();
    answer(1);
    turns();
  }
  ASSERT_TRUE(desk_->delete_message_batch(acme_, ids[1]));

  const auto behind = [&](const ListRequest& list) {
    std::string found;
    const json page = json::parse(desk_->batches(acme_, kAnthropic, list).value());
    for (const json& item : page["data"])
      found += item["id"];
    return found;
  };
  EXPECT_EQ(behind({.after = ids[1]}), ids[0]);
  EXPECT_EQ(behind({.before = ids[1]}), ids[2]);
}

TEST_F(Batches, and_files_have_no_place_in_a_list_that_is_no_id_of_it) {
  const std::string batch = create(lines(1));
  for (const std::string& wrong :
       {std::string("file-"), std::string("3"), batch, std::string("file-" + std::string(26, '~'))}) {
    EXPECT_EQ(desk_->files(acme_, {.after = wrong}).error().name, "bad_request") << wrong;
    EXPECT_EQ(desk_->files(acme_, {.after = wrong}).error().param, "after");
    EXPECT_EQ(desk_->batches(acme_, kAnthropic, {.before = wrong}).error().param, "before_id");
  }
}

TEST_F(Batches, files_are_listed_a_thousand_at_a_time_whatever_is_asked_for) {
  constexpr int kCount = 2'001;
  store_->transaction([&] {
    for (int i = 0; i < kCount; ++i) {
      StoredFile file{
          .id = store_->make_id("file-"), .owner = "acme", .purpose = "batch", .filename = std::to_string(i)};
      store_->add_file(file);
    }
  });
  ListRequest list{.limit = "10000"};
  std::vector<std::size_t> pages;
  int next = kCount - 1;
  for (bool more = true; more;) {
    const json page = json::parse(*desk_->files(acme_, list));
    pages.push_back(page["data"].size());
    for (const json& file : page["data"])
      ASSERT_EQ(file["filename"], std::to_string(next--));
    more = page["has_more"];
    list.after = page["last_id"];
  }
  EXPECT_EQ(pages, (std::vector<std::size_t>{1'000, 1'000, 1}));
  EXPECT_EQ(json::parse(*desk_->files(acme_, {}))["data"].size(), 1'000u);
  EXPECT_EQ(desk_->files(acme_, {.limit = "10001"}).error().param, "limit");
}

TEST_F(Batches, are_kept_beside_who_made_which_response) {
  const auto known = [&] {
    std::string all;
    for (const OwnedResponse& made : store_->responses())
      all += made.id + "=" + made.owner + " ";
    return all;
  };
  const auto add = [&](std::vector<OwnedResponse> made) {
    store_->transaction([&] { store_->add_responses(made, 3); });
  };
  add({{.id = "r1", .owner = "acme"}, {.id = "r2", .owner = "other"}});
  add({{.id = "r1", .owner = "other"}});
  crash();
  EXPECT_EQ(known(), "r1=acme r2=other ");
  add({{.id = "r3", .owner = "acme"}, {.id = "r4", .owner = "acme"}});
  crash();
  EXPECT_EQ(known(), "r2=other r3=acme r4=acme ") << "the oldest makes way";
}

TEST_F(Batches, keep_their_bounds) {
  settings_.batches_max = 1;
  settings_.files_max = 2;
  create(lines(1));
  const std::string file = upload(lines(1));

  const auto second = desk_->create_batch(
      acme_,
      json{{"input_file_id", file}, {"endpoint", "/v1/chat/completions"}, {"completion_window", "24h"}}
          .dump(),
      now_);
  EXPECT_EQ(second.error().name, "caller_limit");
  const auto third = create_file(
      "--XX\r\ncontent-disposition: form-data; name=purpose\r\n\r\nbatch\r\n"
      "--XX\r\ncontent-disposition: form-data; name=file; filename=f\r\n\r\n{}\r\n--XX--");
  EXPECT_THAT(third.error().message, HasSubstr("files_per_caller_max"));
}

TEST_F(Batches, leave_room_for_files_of_others) {
  const auto file = [&](char letter) {
    const std::string text = "{\"a\":\"" + std::string(52, letter) + "\"}";
    return create_file(
        "--XX\r\ncontent-disposition: form-data; name=purpose\r\n\r\nbatch\r\n"
        "--XX\r\ncontent-disposition: form-data; name=file; filename=f\r\n\r\n" +
        text + "\r\n--XX--");
  };
  settings_.caller_files_bytes_max = 230;
  EXPECT_TRUE(file('a'));
  const auto second = file('b');
  EXPECT_THAT(second.error().message, HasSubstr("files_bytes_per_caller_max"));
  acme_.owner = "other";
  EXPECT_TRUE(file('c'));
  // A key's own bound counts instead, be it more or less.
  acme_.files_bytes_max = 500;
  EXPECT_TRUE(file('d'));
  acme_.files_bytes_max = 100;
  EXPECT_THAT(file('e').error().message, HasSubstr("up to 100 bytes together (files_bytes_max)"));
}

TEST_F(Batches, and_files_go_when_their_time_is_over) {
  const std::string id = create(lines(1));
  turns();
  answer(1);
  turns();
  const std::string output = batch(id)["output_file_id"];

  now_ += settings_.keep + hours(1);
  turns();

  EXPECT_FALSE(desk_->batch(acme_, kOpenai, id));
  EXPECT_FALSE(desk_->file(acme_, output));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path("state/files")));
}

TEST_F(Batches, do_not_lose_their_input_before_they_are_over) {
  const std::string id = create(lines(1));
  const std::string input = batch(id)["input_file_id"];

  EXPECT_EQ(desk_->delete_file(acme_, input).error().name, "conflict");
  turns();
  answer(1);
  turns();
  EXPECT_TRUE(desk_->delete_file(acme_, input));
}

TEST_F(Batches, have_their_folder_alone) {
  EXPECT_THROW(BatchStore(folder_.path("state")), std::runtime_error);
}

}  // namespace
}  // namespace lanemq::gateway
