// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/kept_result.hpp"

#include <cstring>
#include <new>

#include "broker/core/base/check.hpp"

namespace lanemq::core {

Job* Record::job() {
  return is_result ? static_cast<KeptResult*>(this)->job : static_cast<Job*>(this);
}

const Job* Record::job() const {
  return const_cast<Record*>(this)->job();
}

KeptResult* Record::result() {
  return is_result ? static_cast<KeptResult*>(this) : static_cast<Job*>(this)->result();
}

const KeptResult* Record::result() const {
  return const_cast<Record*>(this)->result();
}

std::string_view Record::id() const {
  return is_result ? static_cast<const KeptResult*>(this)->id() : static_cast<const Job*>(this)->id();
}

Terminal KeptResult::terminal() const {
  Terminal end{.id = id(),
               .client_named_it = client_named_it,
               .lane = lane,
               .state = state,
               .attempts = attempts,
               .queued_ms = queued_ms,
               .ran_ms = ran_ms,
               .ending = extra ? extra->ending.get() : nullptr,
               .body = Blob::borrow(body_loose ? std::string_view(loose_body(), body_bytes)
                                               : std::string_view(texts() + names_size(), body_size))};
  if (extra && !extra->body.empty()) end.body = extra->body;
  return end;
}

namespace {

std::size_t bytes_of(const Ending& ending) {
  return sizeof(Ending) + ending.message.size();
}

std::size_t bytes_of(const AnswerStream& answer) {
  return sizeof(AnswerStream) + answer.kept_bytes();
}

}  // namespace

std::size_t KeptResult::bytes() const {
  std::size_t bytes = place_bytes();
  if (extra) bytes += sizeof(Extra) + extra->body.size() + (extra->dead ? extra->dead->bytes() : 0);
  if (extra && extra->ending) bytes += bytes_of(*extra->ending);
  if (answer() != nullptr) bytes += bytes_of(*answer());
  return bytes;
}

std::size_t KeptResult::loose_bytes() const {
  if (!durable || body_stored) return 0;
  std::size_t loose = body_loose ? body_bytes : 0;
  if (!extra) return loose;
  if (extra->dead) return 0;
  loose += extra->body.size() + (extra->answer ? bytes_of(*extra->answer) : 0);
  if (state != JobState::succeeded) return loose;
  // A job that did not succeed keeps its ending in memory: a status reports it.
  return loose + (extra->ending ? bytes_of(*extra->ending) : 0) + (apart() ? 0 : sizeof(Extra));
}

namespace {

/// Whether a result's body stands behind its record.
bool stands_behind(const KeptResults::Of& of, const Terminal& end) {
  return end.body.size() <= (of.durable ? KeptResult::kInlineBytesMax : JobText::kBodyBytesMax);
}

}  // namespace

KeptResults::Of KeptResults::of(const Job& job, std::string_view service, std::uint64_t client,
                                std::uint64_t body_hash) {
  return {.number = job.number,
          .attempt = job.attempt,
          .submitted_lane = job.submitted_lane,
          .durable = job.durable,
          .body_hash = body_hash,
          .service = service,
          .model = job.text.get(JobText::model),
          .client = client};
}

/// Makes a result with its texts, and with its body where that is small.
KeptResult& KeptResults::make(const Of& of, const Terminal& end, bool in_arena) {
  const bool here = stands_behind(of, end);
  const bool loose = !here && in_arena && end.body.size() <= JobText::kBodyBytesMax;
  const std::size_t size = sizeof(KeptResult) + end.id.size() + of.model.size() + of.service.size() +
                           (here    ? end.body.size()
                            : loose ? sizeof(const char*)
                                    : 0);
  KeptResult& kept = *::new (in_arena ? arena_.allocate(size) : ::operator new(size)) KeptResult;
  kept.alone = !in_arena;
  kept.number = of.number;
  kept.attempt = of.attempt;
  kept.attempts = end.attempts;
  kept.lane = end.lane;
  kept.submitted_lane = of.submitted_lane;
  kept.durable = of.durable;
  kept.state = end.state;
  kept.body_hash = of.body_hash;
  kept.queued_ms = end.queued_ms;
  kept.ran_ms = end.ran_ms;
  kept.client_named_it = end.client_named_it;
  kept.id_told = end.id_told;
  kept.id_size = static_cast<std::uint16_t>(end.id.size());
  kept.model_size = static_cast<std::uint16_t>(of.model.size());
  kept.service_size = static_cast<std::uint16_t>(of.service.size());
  kept.body_bytes = static_cast<std::uint32_t>(end.body.size());
  char* place = kept.texts();
  const auto put = [&](std::string_view text) {
    if (!text.empty()) std::memcpy(place, text.data(), text.size());
    place += text.size();
  };
  put(end.id);
  put(of.model);
  put(of.service);
  if (here) {
    kept.body_size = static_cast<std::uint16_t>(end.body.size());
    put(end.body.bytes());
  } else if (loose) {
    char* const body = static_cast<char*>(loose_bodies_.allocate(end.body.size()));
    std::memcpy(body, end.body.bytes().data(), end.body.size());
    std::memcpy(place, &body, sizeof body);
    kept.body_loose = true;
  }
  return kept;
}

KeptResult& KeptResults::add(const Of& of, const Terminal& end, std::unique_ptr<Ending> ending, bool apart,
                             std::unique_ptr<AnswerStream> answer) {
  KeptResult& kept = make(of, end, !apart);
  const bool small = stands_behind(of, end) || kept.body_loose;
  if (!small || ending || apart || answer) {
    kept.extra = std::make_unique<KeptResult::Extra>();
    kept.extra->ending = std::move(ending);
    kept.extra->answer = std::move(answer);
    if (!small) kept.extra->body = end.body.owned();
    if (apart) kept.extra->apart = &kept;
  }
  hold(kept, of.client);
  push_back(kept);
  return kept;
}

KeptResult& KeptResults::restore(const Of& of, const Terminal& end, std::unique_ptr<Ending> ending,
                                 const Restored& restored) {
  KeptResult& kept = make(of, end, false);
  const bool usual = !restored.dead && restored.due - restored.ended_at == retain_;
  const bool small = stands_behind(of, end);
  kept.body_bytes = static_cast<std::uint32_t>(restored.body_bytes);
  kept.body_stored = end.body.size() < restored.body_bytes;
  kept.due = TimerWheel::fires_at(restored.due);
  if (kept.body_stored && kept.state == JobState::succeeded) ending = nullptr;
  if (!small || ending || !usual) {
    kept.extra = std::make_unique<KeptResult::Extra>();
    kept.extra->ending = std::move(ending);
    if (!small) kept.extra->body = end.body.owned();
    if (!usual) kept.extra->apart = &kept;
    kept.extra->ended_at = mark(restored.ended_at);
  }
  restored_.push_back(&kept);
  hold(kept, of.client);
  return kept;
}

/// Counts the result, also for its client.
void KeptResults::hold(KeptResult& result, std::uint64_t client) {
  if (share_.any() && client != kNoMark) {
    const auto [known, fresh] = holder_of_.try_emplace(client, 0);
    if (fresh) {
      if (free_holders_.empty()) {
        free_holders_.push_back(static_cast<std::uint32_t>(holders_.size()));
        holders_.emplace_back();
      }
      known->second = free_holders_.back();
      free_holders_.pop_back();
      holders_[known->second].mark = client;
      bytes_ += kHolderBytes;
    }
    result.holder = known->second;
  }
  count_in(result);
}

void KeptResults::count_in(KeptResult& result) {
  const std::size_t bytes = result.bytes();
  bytes_ += bytes;
  loose_bytes_ += result.loose_bytes();
  stored_bytes_ += bytes_in_store(result);
  if (result.holder == KeptResult::kNobody) return;
  Holder& holder = holders_[result.holder];
  ++holder.results;
  holder.bytes += bytes;
  weigh(result.holder);
}

/// Takes the result out of the counts.
void KeptResults::count_out(KeptResult& result) {
  const std::size_t bytes = result.bytes();
  bytes_ -= bytes;
  loose_bytes_ -= result.loose_bytes();
  stored_bytes_ -= bytes_in_store(result);
  if (result.holder == KeptResult::kNobody) return;
  Holder& holder = holders_[result.holder];
  --holder.results;
  holder.bytes -= bytes;
  weigh(result.holder);
}

/// Takes the result out of the counts, and away from its client.
void KeptResults::let_go(KeptResult& result) {
  count_out(result);
  const std::uint32_t index = std::exchange(result.holder, KeptResult::kNobody);
  if (index == KeptResult::kNobody || holders_[index].results > 0) return;
  holder_of_.erase(holders_[index].mark);
  holders_[index] = {};
  free_holders_.push_back(index);
  bytes_ -= kHolderBytes;
}

/// Finds out whether a client holds more than its share.
void KeptResults::weigh(std::uint32_t index) {
  Holder& holder = holders_[index];
  const bool over = (share_.results > 0 && holder.results >= share_.results) ||
                    (share_.bytes > 0 && holder.bytes >= share_.bytes);
  if (over == holder.over) return;
  holder.over = over;
  if (over)
    over_.push_back(index);
  else
    std::erase(over_, index);
}

/// An estimate: its row, and its share of the file's pages.
std::size_t KeptResults::bytes_in_store(const KeptResult& result) const {
  return result.durable ? KeptResult::kRecordBytes + result.names_size() + result.body_bytes : 0;
}

void KeptResults::push_back(KeptResult& result) {
  list_of(result).push_back(result);
  if (KeptResult*& next = next_loose_of(result); next == nullptr) next = &result;
  if (result.holder == KeptResult::kNobody) return;
  Holder& holder = holders_[result.holder];
  if (result.apart()) return holder.apart.push_back(*result.extra);
  Holder::Line& line = line_of(holder, result);
  (line.last != nullptr ? line.last->next_of_holder : line.first) = &result;
  line.last = &result;
}

void KeptResults::unlist(KeptResult& result) {
  List& list = list_of(result);
  if (KeptResult*& next = next_loose_of(result); next == &result) next = list.next(result);
  list.remove(result);
  if (result.holder == KeptResult::kNobody) return;
  Holder& holder = holders_[result.holder];
  if (result.apart()) return holder.apart.remove(*result.extra);
  Holder::Line& line = line_of(holder, result);
  LANEMQ_CHECK(line.first == &result);
  line.first = std::exchange(result.next_of_holder, nullptr);
  if (line.first == nullptr) line.last = nullptr;
}

KeptResult* KeptResults::older(KeptResult* usual, KeptResult* apart) const {
  if (usual == nullptr || apart == nullptr) return usual != nullptr ? usual : apart;
  return ended_at(*apart) < ended_at(*usual) ? apart : usual;
}

KeptResult* KeptResults::oldest_of_all() const {
  return older(oldest(), apart_.front());
}

KeptResult* KeptResults::oldest_of(const Holder& holder) const {
  const Holder::Line& line = holder.passed_over.first != nullptr ? holder.passed_over : holder.usual;
  return older(line.first, holder.apart.empty() ? nullptr : holder.apart.front()->apart);
}

/// At most eight clients hold more than a quarter: four by number, four by bytes.
KeptResult* KeptResults::next_to_go() const {
  KeptResult* next = nullptr;
  for (const std::uint32_t index : over_) {
    KeptResult* const oldest = oldest_of(holders_[index]);
    if (oldest != nullptr && (next == nullptr || ended_at(*oldest) < ended_at(*next))) next = oldest;
  }
  return next != nullptr ? next : oldest_of_all();
}

bool KeptResults::any_holds_a_place() const {
  for (const List* const list : {&passed_over_, &usual_, &apart_})
    for (const KeptResult* result = list->front(); result != nullptr; result = list->next(*result))
      if (result->job == nullptr) return true;
  return false;
}

/// Moves the oldest result of the arena to memory of its own, so that a younger one can be freed. Its content
/// and its place in the order stay.
KeptResult& KeptResults::move_out(KeptResult& result) {
  const std::size_t texts = result.names_size() + result.body_size;
  const std::size_t behind = result.body_loose || result.pointer_behind ? sizeof(const char*) : 0;
  unlist(result);
  count_out(result);
  if (result.body_loose) {
    if (!result.extra) result.extra = std::make_unique<KeptResult::Extra>();
    result.extra->body = Blob::copy({result.loose_body(), result.body_bytes});
    free_loose_body(result);
  }
  result.pointer_behind = false;
  result.alone = true;
  void* const place = ::operator new(sizeof(KeptResult) + texts);
  std::memcpy(static_cast<std::byte*>(place) + sizeof(KeptResult), result.texts(), texts);
  KeptResult& moved = *::new (place) KeptResult(std::move(result));
  result.~KeptResult();
  arena_.free_oldest(sizeof(KeptResult) + texts + behind);
  push_back(moved);
  count_in(moved);
  return moved;
}

/// The next result with something loose; those without are passed over once.
KeptResult* KeptResults::find_loose(const List& list, KeptResult*& next) {
  while (next != nullptr && next->loose_bytes() == 0)
    next = list.next(*next);
  return next;
}

/// Loose bodies are freed in the order in which they were made, so the oldest must go first.
void KeptResults::free_loose_body(KeptResult& result) {
  if (!result.body_loose) return;
  loose_bodies_.free_oldest(result.body_bytes);
  result.body_loose = false;
  result.pointer_behind = true;
}

bool KeptResults::unload_oldest() {
  if (loose_bytes_ == 0) return false;
  KeptResult* usual = find_loose(passed_over_, next_loose_[0]);
  if (usual == nullptr) usual = find_loose(usual_, next_loose_[1]);
  KeptResult* const apart = find_loose(apart_, next_loose_[2]);
  if (usual == nullptr && apart == nullptr) return false;
  KeptResult& result =
      apart == nullptr || (usual != nullptr && ended_at(*usual) <= ended_at(*apart)) ? *usual : *apart;
  const std::size_t before = result.bytes();
  loose_bytes_ -= result.loose_bytes();
  free_loose_body(result);
  result.body_stored = true;
  if (result.extra) {
    result.extra->body = {};
    result.extra->answer = nullptr;
    if (result.state == JobState::succeeded) result.extra->ending = nullptr;
    if (!result.extra->ending && !result.apart()) result.extra = nullptr;
  }
  const std::size_t less = before - result.bytes();
  bytes_ -= less;
  if (result.holder == KeptResult::kNobody) return true;
  holders_[result.holder].bytes -= less;
  weigh(result.holder);
  return true;
}

void KeptResults::bury(KeptResult& result, std::unique_ptr<DeadJob> job) {
  LANEMQ_CHECK(result.apart() && result.dead() == nullptr);
  unlist(result);
  let_go(result);
  job->number = next_death_++;
  result.extra->dead = std::move(job);
  dead_.push_back(result);
  dead_bytes_ += result.bytes();
}

std::unique_ptr<DeadJob> KeptResults::exhume(KeptResult& result) {
  dead_.remove(result);
  dead_bytes_ -= result.bytes();
  auto job = std::move(result.extra->dead);
  push_back(result);
  count_in(result);
  return job;
}

void KeptResults::shed_answer(KeptResult& result) {
  dead_bytes_ -= result.bytes();
  result.extra->answer = nullptr;
  dead_bytes_ += result.bytes();
}

void KeptResults::remove(KeptResult& result) {
  LANEMQ_CHECK(result.apart() || result.alone || &result == usual_.front());
  if (result.dead() != nullptr)
    dead_.remove(result);
  else
    unlist(result);
  destroy(result);
}

void KeptResults::destroy(KeptResult& result) {
  const std::size_t size = sizeof(KeptResult) + result.names_size() + result.body_size +
                           (result.body_loose || result.pointer_behind ? sizeof(const char*) : 0);
  if (result.dead() != nullptr)
    dead_bytes_ -= result.bytes();
  else
    let_go(result);
  free_loose_body(result);
  const bool alone = result.alone;
  result.~KeptResult();
  if (!alone) return arena_.free_oldest(size);
#ifndef __clang_analyzer__  // it loses track of who points to whom in a list, and sees uses of what is gone
  ::operator delete(&result);
#endif
}

KeptResults::~KeptResults() {
  while (KeptResult* const result = passed_over_.pop_front())
    destroy(*result);
  while (KeptResult* const result = usual_.pop_front())
    destroy(*result);
  while (KeptResult* const result = apart_.pop_front())
    destroy(*result);
  while (KeptResult* const result = dead_.pop_front())
    destroy(*result);
  for (KeptResult* const result : restored_)
    destroy(*result);
}

}  // namespace lanemq::core
