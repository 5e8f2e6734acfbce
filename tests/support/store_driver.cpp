// SPDX-License-Identifier: Apache-2.0
#include "tests/support/store_driver.hpp"

#include <chrono>
#include <functional>
#include <utility>

#include <poll.h>

namespace lanemq::test {
namespace {

using core::Write;
using Clock = std::chrono::steady_clock;

/// Under sanitizers, on a busy machine, a disk may be slow.
constexpr auto kPatience = std::chrono::seconds(60);

void write(core::Writes& writes, Write::Kind kind, std::uint64_t number, std::string_view state,
           std::string_view record = {}, std::uint64_t renamed = 0) {
  writes.add(kind, number).renamed = renamed;
  writes.buffer().write(state.data(), state.size());
  writes.end_of_state();
  writes.buffer().write(record.data(), record.size());
  writes.end_of_record();
}

class Collector final : public io::StoreReader {
 public:
  explicit Collector(StoreContent& content) : content_(content) {}
  Result<void> note(std::string_view name, std::string_view record) override {
    content_.notes.emplace(name, record);
    return {};
  }
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view> body, std::size_t body_bytes) override {
    if (!body) apart_.push_back(number);
    if (body && body->size() != body_bytes) return failure(ErrorCode::internal, "a body of another size");
    content_.jobs[number] = {std::string(state), std::string(record), std::string(body.value_or(""))};
    return {};
  }
  Result<void> result(std::uint64_t number, std::string_view record, std::optional<std::string_view> body,
                      std::size_t body_bytes) override {
    if (!body) results_apart_.push_back(number);
    if (body && body->size() != body_bytes) return failure(ErrorCode::internal, "a body of another size");
    content_.results[number] = {std::string(record), std::string(body.value_or(""))};
    return {};
  }
  const std::vector<std::uint64_t>& results_apart() const { return results_apart_; }
  const std::vector<std::uint64_t>& apart() const { return apart_; }

 private:
  StoreContent& content_;
  std::vector<std::uint64_t> apart_, results_apart_;
};

template <class Reached>
bool wait_until(io::Store& store, const Reached& reached) {
  const auto end = Clock::now() + kPatience;
  while (!reached()) {
    if (Clock::now() > end) return false;
    wait_for_signal(store);
  }
  return true;
}

}  // namespace

Turn& Turn::insert_job(std::uint64_t number, StoredJob job) {
  write(writes_, Write::Kind::insert_job, number, job.state, job.record);
  writes_.set_body(Blob::copy(job.body));
  effects_.push_back([=](StoreContent& content) { content.jobs[number] = job; });
  return *this;
}
Turn& Turn::update_job(std::uint64_t number, std::string state) {
  write(writes_, Write::Kind::update_job, number, state);
  effects_.push_back([=](StoreContent& content) { content.jobs.at(number).state = state; });
  return *this;
}
Turn& Turn::rename_job(std::uint64_t number, std::uint64_t renamed, std::string state) {
  write(writes_, Write::Kind::rename_job, number, state, {}, renamed);
  effects_.push_back([=](StoreContent& content) {
    StoredJob job = content.jobs.at(number);
    content.jobs.erase(number);
    job.state = state;
    content.jobs[renamed] = job;
  });
  return *this;
}
Turn& Turn::erase_job(std::uint64_t number) {
  write(writes_, Write::Kind::erase_job, number, {});
  effects_.push_back([=](StoreContent& content) { content.jobs.erase(number); });
  return *this;
}
Turn& Turn::insert_result(std::uint64_t number, StoredResult result) {
  write(writes_, Write::Kind::insert_result, number, {}, result.record);
  writes_.set_body(Blob::copy(result.body));
  effects_.push_back([=](StoreContent& content) { content.results[number] = result; });
  return *this;
}
Turn& Turn::erase_result(std::uint64_t number) {
  write(writes_, Write::Kind::erase_result, number, {});
  effects_.push_back([=](StoreContent& content) { content.results.erase(number); });
  return *this;
}
Turn& Turn::put_note(std::string name, std::string record) {
  write(writes_, Write::Kind::put_note, 0, name, record);
  effects_.push_back([=](StoreContent& content) { content.notes[name] = record; });
  return *this;
}

Turn& Turn::erase_note(std::string name) {
  write(writes_, Write::Kind::erase_note, 0, name);
  effects_.push_back([=](StoreContent& content) { content.notes.erase(name); });
  return *this;
}

Turn& Turn::append(const Turn& other) {
  for (const Write& from : other.writes_) {
    write(writes_, from.kind, from.number, other.writes_.state(from), other.writes_.record(from),
          from.renamed);
    if (!from.body.empty()) writes_.set_body(from.body);
  }
  effects_.insert(effects_.end(), other.effects_.begin(), other.effects_.end());
  return *this;
}

void Turn::apply(StoreContent& content) const {
  for (const auto& effect : effects_)
    effect(content);
}

std::uint64_t submit(io::Store& store, Turn turn) {
  return store.submit(turn.writes());
}

bool wait_for_signal(io::Store& store) {
  pollfd readable{.fd = store.descriptor(), .events = POLLIN, .revents = 0};
  const int found = poll(&readable, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
  store.clear_signal();
  return found == 1;
}

bool wait_for(io::Store& store, std::uint64_t ticket) {
  return wait_until(store, [&] { return store.committed() >= ticket || io::is_over(store.condition()); }) &&
         store.committed() >= ticket;
}

bool wait_for(io::Store& store, io::StoreCondition condition) {
  return wait_until(store, [&] { return store.condition() == condition; });
}

namespace {

std::vector<io::StoredBody> take_bodies(io::Store& store, std::size_t count) {
  std::vector<io::StoredBody> bodies;
  wait_until(store, [&] {
    store.take_bodies(bodies);
    return bodies.size() >= count || io::is_over(store.condition());
  });
  return bodies;
}

}  // namespace

std::vector<io::StoredBody> read_bodies(io::Store& store, const std::vector<std::uint64_t>& numbers) {
  store.read(numbers);
  return take_bodies(store, numbers.size());
}

std::vector<io::StoredBody> read_results(io::Store& store, const std::vector<std::uint64_t>& numbers) {
  store.read_results(numbers);
  return take_bodies(store, numbers.size());
}

Result<StoreContent> content_of(io::Store& store) {
  StoreContent content;
  Collector collector(content);
  if (const auto loaded = store.load(collector); !loaded) return tl::unexpected(loaded.error());
  for (io::StoredBody& body : read_bodies(store, collector.apart())) {
    if (!body.body) return failure(ErrorCode::internal, "a job without its body");
    content.jobs[body.number].body = body.body->bytes();
  }
  for (io::StoredBody& result : read_results(store, collector.results_apart())) {
    if (!result.body || result.record != content.results[result.number].record)
      return failure(ErrorCode::internal, "a result without its body, or of another record");
    content.results[result.number].body = result.body->bytes();
  }
  if (io::is_over(store.condition())) return failure(ErrorCode::internal, store.trouble());
  return content;
}

}  // namespace lanemq::test
