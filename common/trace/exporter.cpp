// SPDX-License-Identifier: Apache-2.0
#include "common/trace/exporter.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <curl/curl.h>

#include <lanemq/text.hpp>

#include "common/json/members.hpp"
#include "common/log/log.hpp"
#include "common/signals/signals_blocked.hpp"
#include "common/url/http_url.hpp"

namespace lanemq::trace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::minutes kSaidEvery{1};
constexpr std::string_view kPath = "/v1/traces";
constexpr const char* kFull = "more spans came than the collector takes in time";

std::string with_path(const std::string& endpoint) {
  const std::size_t slash = endpoint.find('/', endpoint.find("://") + 3);
  if (slash == std::string::npos) return endpoint + std::string(kPath);
  return slash + 1 == endpoint.size() ? endpoint.substr(0, slash) + std::string(kPath) : endpoint;
}

/// How many spans a collector says that it has not taken, of a request that it has.
std::size_t rejected_of(std::string_view answer) {
  JsonMember partial{.key = "partialSuccess"};
  if (!look_into_json(answer, {&partial, 1}).valid || partial.kind != JsonMember::Kind::object) return 0;
  const std::string_view number = member_bytes(member_bytes(answer, partial.key), "rejectedSpans");
  const std::string text = unquoted_json(number).value_or(std::string(number));
  if (text.empty() || text.size() > 9 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return 0;
  return std::stoul(text);
}

}  // namespace

/// One connection to the collector, kept between batches.
class Exporter::Post {
 public:
  /// `agent`: who calls, as the collector's log may say it.
  Post(const std::string& url, const std::string& agent, std::function<bool()> goes_on)
      : curl_(curl_easy_init()), goes_on_(std::move(goes_on)) {
    headers_.reset(curl_slist_append(nullptr, "content-type: application/json"));
    CURL* const curl = curl_.get();
    if (curl == nullptr) return;
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(curl, CURLOPT_USERAGENT, agent.c_str());
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");  // whatever the environment says
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Post::take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Post::goes_on);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  }

  /// Why the collector did not take it; empty: it did.
  std::string send(const std::string& body, milliseconds time) {
    CURL* const curl = curl_.get();
    if (curl == nullptr) return "no memory";
    answer_.clear();
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(std::min(time, kConnectTimeout).count()));
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(time.count()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
    if (const CURLcode code = curl_easy_perform(curl); code != CURLE_OK) return curl_easy_strerror(code);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) return {};
    return "the collector answers with status " + std::to_string(status);
  }
  const std::string& answer() const { return answer_; }

 private:
  /// An answer over the bound ends the call as a failed one.
  static std::size_t take(const char* bytes, std::size_t size, std::size_t count, void* self) {
    std::string& answer = static_cast<Post*>(self)->answer_;
    if (answer.size() + size * count > kAnswerBytesMax) return 0;
    answer.append(bytes, size * count);
    return size * count;
  }

  /// Called about once a second while the collector is silent.
  static int goes_on(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Post*>(self)->goes_on_() ? 0 : 1;
  }

  struct Free {
    void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  std::unique_ptr<curl_slist, Free> headers_;
  std::unique_ptr<CURL, Free> curl_;
  const std::function<bool()> goes_on_;
  std::string answer_;
};

/// Without what may be a secret: the query and the fragment.
std::string where_of(const std::string& endpoint) {
  return endpoint.substr(0, endpoint.find_first_of("?#"));
}

void require_collector(const Collector& collector) {
  const std::string& endpoint = collector.endpoint;
  if (const std::string problem = http_url_problem(endpoint); !problem.empty())
    throw std::invalid_argument("otlp \"" + printable(endpoint) + "\": " + problem +
                                "; name a collector as in http://127.0.0.1:4318");
  if (!collector.in_clear && goes_in_clear(endpoint))
    throw std::invalid_argument(
        "otlp \"" + printable(endpoint) +
        "\" is on another machine and not https://: who is on the way reads the spans; use "
        "https://, or say otlp_in_clear = true");
}

Exporter::Exporter(ExporterOptions options) : options_(std::move(options)) {
  require_collector(options_.collector);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

Exporter::~Exporter() {
  leave_by_ = Clock::now() + kFarewell;
  leaving_ = true;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stirred_.notify_one();
  thread_.join();
}

void Exporter::add(Span span) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kWaitingMax) {
    // The thread says so when it comes to it.
    lost_.fetch_add(1, std::memory_order_relaxed);
    unsaid_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  waiting_.push_back(std::move(span));
  if (waiting_.size() == kBatchMax) stirred_.notify_one();
}

void Exporter::run() {
  Post post(with_path(options_.collector.endpoint), options_.service + "/" + options_.version,
            [this] { return !leaving_ || Clock::now() < leave_by_; });
  std::vector<Span> batch;
  for (bool last = false; !last;) {
    batch.clear();
    {
      std::unique_lock lock(mutex_);
      if (waiting_.size() < kBatchMax && !stopping_)
        stirred_.wait_for(lock, kBatchEvery, [this] { return stopping_ || waiting_.size() >= kBatchMax; });
      const auto count = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kBatchMax));
      std::move(waiting_.begin(), waiting_.begin() + count, std::back_inserter(batch));
      waiting_.erase(waiting_.begin(), waiting_.begin() + count);
      last = stopping_ && waiting_.empty();
    }
    if (!batch.empty()) send(post, batch);
    if (unsaid_.exchange(0, std::memory_order_relaxed) > 0) lose(0, kFull);
  }
}

void Exporter::send(Post& post, const std::vector<Span>& batch) {
  milliseconds time = kTimeout;
  if (leaving_) {
    time = std::chrono::duration_cast<milliseconds>(leave_by_ - Clock::now());
    if (time <= milliseconds(0)) return lose(batch.size(), "the program ended before they were sent");
  }
  const std::string why = post.send(otlp_json(options_.service, options_.version, batch), time);
  if (!why.empty()) return lose(batch.size(), why);
  const std::size_t rejected = std::min(rejected_of(post.answer()), batch.size());
  sent_.fetch_add(batch.size() - rejected, std::memory_order_relaxed);
  if (rejected > 0) lose(rejected, "the collector has not taken all of a batch");
}

void Exporter::lose(std::size_t count, const std::string& why) {
  lost_.fetch_add(count, std::memory_order_relaxed);
  const auto now = Clock::now();
  if (said_at_ != Clock::time_point{} && now - said_at_ < kSaidEvery) return;
  said_at_ = now;
  log::event(log::Level::warning, "traces.lost",
             {{"collector", where_of(options_.collector.endpoint)},
              {"reason", why},
              {"spans", lost()},
              {"sent", sent()}});
}

}  // namespace lanemq::trace
