// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_client.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <lanemq/version.hpp>

#include "worker/handlers/http/upstream_body.hpp"
#include "worker/handlers/http/upstream_failure.hpp"
#include "worker/handlers/http/upstream_headers.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Of an error's body; what comes behind is read and forgotten.
constexpr std::size_t kErrorBodyMax = std::size_t{1024} * 1024;
/// Set aside at once for an answer that tells its length.
constexpr std::size_t kReserveMax = std::size_t{1024} * 1024;
/// How long a target that was reached counts as reachable. libcurl keeps its address for a minute.
constexpr std::chrono::seconds kKnownFor{50};
/// Calls to a target that set up TLS connections at once. Handshakes cost both ends CPU, and a connection
/// that turns out to be HTTP/2 takes many of the calls that wait.
constexpr std::size_t kHandshakesMax = 32;
constexpr int kEventsPerTurn = 256;

struct CloseEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
[[noreturn]] void throw_system(const char* what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

/// Whether a URL's scheme, in any case, is https.
bool is_secure(std::string_view url) {
  static constexpr std::string_view kScheme = "https:";
  return url.size() >= kScheme.size() &&
         std::equal(kScheme.begin(), kScheme.end(), url.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

}  // namespace

class HttpClient::Engine {
 public:
  explicit Engine(HttpOptions options) : options_(std::move(options)) {
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialised != CURLE_OK) throw std::runtime_error("libcurl cannot be initialised");
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) throw_system("epoll");
    wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_ < 0) throw_system("eventfd");
    epoll_event event{.events = EPOLLIN, .data = {.fd = wake_}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0) throw_system("epoll_ctl");
    multi_ = curl_multi_init();
    if (!multi_) throw std::runtime_error("libcurl has no memory");
    const long calls_max = static_cast<long>(options_.calls_max);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Engine::on_socket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Engine::on_timer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, calls_max);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, calls_max);
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    thread_ = std::thread([this] { run(); });
  }

  ~Engine() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
    for (auto& [lease, call] : active_)
      if (call->running) curl_multi_remove_handle(multi_, call->easy.get());
    active_.clear();
    idle_.clear();
    curl_multi_cleanup(multi_);
    close(wake_);
    close(epoll_);
  }

  void post(HttpCall call) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    wake();
  }

  void post_cancel(wire::Lease lease) {
    {
      const std::lock_guard lock(mutex_);
      cancels_.push_back(lease);
    }
    wake();
  }

 private:
  struct Target;

  /// A call under way, with its libcurl handle; both are used again for later calls.
  struct Call {
    std::unique_ptr<CURL, CloseEasy> easy;
    std::optional<HttpCall> request;
    Target* target = nullptr;
    TimePoint begun_at{};
    bool running = false;     ///< in the multi handle
    bool connecting = false;  ///< and it has not reached its target yet
    bool leads = false;       ///< it went ahead alone, to see whether the target can be reached
    bool was_sent = false;    ///< the upstream may have seen the request
    bool over_limit = false;
    std::string job_line, attempt_line;
    curl_slist job_header{}, attempt_header{};
    UpstreamHeaders headers;
    std::string answer;
    std::array<char, CURL_ERROR_SIZE> error{};
  };
  using CallPtr = std::unique_ptr<Call>;

  /// What is kept of a target between calls.
  struct Target {
    std::shared_ptr<const HttpTarget> about;
    bool secure = false;
    TimePoint known_until{};     ///< it counts as reachable until then
    std::size_t connecting = 0;  ///< calls under way that have not reached it yet
    std::deque<Call*> waiting;   ///< calls that have not begun
  };

  struct ByJob {
    bool operator()(const wire::Lease& a, const wire::Lease& b) const {
      return a.job != b.job ? a.job < b.job : a.attempt < b.attempt;
    }
  };

  // ---- the loop ---------------------------------------------------------------------------------------

  void run() {
    std::array<epoll_event, kEventsPerTurn> events;
    for (;;) {
      const int count = epoll_wait(epoll_, events.data(), kEventsPerTurn, wait_ms());
      for (int i = 0; i < count; ++i) {
        if (events[i].data.fd == wake_)
          clear_wake();
        else
          act(events[i].data.fd, events[i].events);
      }
      if (timer_due_ && *timer_due_ <= Clock::now()) {
        timer_due_.reset();
        act(CURL_SOCKET_TIMEOUT, 0);
      }
      if (!take_orders()) return;
      finish_done();
    }
  }

  void act(curl_socket_t socket, std::uint32_t events) {
    int mask = 0;
    if (events & (EPOLLIN | EPOLLRDHUP)) mask |= CURL_CSELECT_IN;
    if (events & EPOLLOUT) mask |= CURL_CSELECT_OUT;
    if (events & (EPOLLERR | EPOLLHUP)) mask |= CURL_CSELECT_ERR;
    int running = 0;
    curl_multi_socket_action(multi_, socket, mask, &running);
  }

  int wait_ms() const {
    if (!timer_due_) return -1;
    const auto left = std::chrono::ceil<milliseconds>(*timer_due_ - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }

  void wake() {
    const std::uint64_t one = 1;
    static_cast<void>(!write(wake_, &one, sizeof one));
  }

  void clear_wake() {
    std::uint64_t count = 0;
    static_cast<void>(!read(wake_, &count, sizeof count));
  }

  /// Begins and breaks off what was asked for. False when the end has come.
  bool take_orders() {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return false;
      std::swap(calls_taken_, calls_);
      std::swap(cancels_taken_, cancels_);
    }
    for (HttpCall& request : calls_taken_)
      begin(std::move(request));
    for (const wire::Lease lease : cancels_taken_)
      break_off(lease);
    calls_taken_.clear();
    cancels_taken_.clear();
    return true;
  }

  static int on_socket(CURL*, curl_socket_t socket, int what, void* self, void*) {
    const int epoll = static_cast<Engine*>(self)->epoll_;
    if (what == CURL_POLL_REMOVE) {
      epoll_ctl(epoll, EPOLL_CTL_DEL, socket, nullptr);
      return 0;
    }
    epoll_event event{.events = 0, .data = {.fd = socket}};
    if (what & CURL_POLL_IN) event.events |= EPOLLIN;
    if (what & CURL_POLL_OUT) event.events |= EPOLLOUT;
    // A descriptor that was closed has left the set by itself, so neither order is certain.
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event) != 0) epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
    return 0;
  }

  static int on_timer(CURLM*, long wait_ms, void* self) {
    auto& due = static_cast<Engine*>(self)->timer_due_;
    if (wait_ms < 0)
      due.reset();
    else
      due = Clock::now() + milliseconds(wait_ms);
    return 0;
  }

  // ---- a call -----------------------------------------------------------------------------------------

  void begin(HttpCall request) {
    CallPtr call = idle_call();
    call->target = &target_of(request.target);
    call->request = std::move(request);
    Call* const begun = call.get();
    const auto [place, is_new] = active_.try_emplace(begun->request->lease, std::move(call));
    if (!is_new) return;  // No two calls have one lease.
    begun->target->waiting.push_back(begun);
    start_waiting(*begun->target);
  }

  /// A burst of calls to an unknown target would look its name up once each, for which libcurl takes a thread
  /// each, and try a connection each. So one call goes ahead until it has an address, or with TLS a
  /// connection, which may turn out to carry the others too.
  void start_waiting(Target& target) {
    if (target.waiting.empty()) return;
    const TimePoint now = Clock::now();
    const bool known = now < target.known_until;
    const std::size_t connecting_max = !known ? 1 : target.secure ? kHandshakesMax : options_.calls_max;
    while (!target.waiting.empty() && target.connecting < connecting_max) {
      Call& call = *target.waiting.front();
      target.waiting.pop_front();
      call.begun_at = now;
      call.leads = !known;
      call.connecting = true;
      ++target.connecting;
      set_up(call);
      call.running = true;
      curl_multi_add_handle(multi_, call.easy.get());
    }
  }

  static void on_reached(Call& call) {
    call.target->known_until = Clock::now() + kKnownFor;
    stop_connecting(call);
  }

  static void stop_connecting(Call& call) {
    if (std::exchange(call.connecting, false)) --call.target->connecting;
  }

  void set_up(Call& call) {
    const HttpCall& request = *call.request;
    CURL* const easy = call.easy.get();
    const Target& target = *call.target;
    call.job_line = "x-lanemq-job: " + request.job;
    call.attempt_line = "x-lanemq-attempt: " + std::to_string(request.lease.attempt);
    call.job_header = {call.job_line.data(), &call.attempt_header};
    call.attempt_header = {call.attempt_line.data(), request.headers->list()};
    curl_easy_setopt(easy, CURLOPT_PRIVATE, &call);
    curl_easy_setopt(easy, CURLOPT_URL, target.about->url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, &call.job_header);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, user_agent_.c_str());
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.bytes().data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set_up_limits(call);
    set_up_connection(easy, target.secure);
    set_up_callbacks(call);
  }

  void set_up_limits(Call& call) const {
    milliseconds timeout = options_.timeout;
    if (call.request->deadline)
      timeout = std::min(timeout, std::chrono::ceil<milliseconds>(*call.request->deadline - Clock::now()));
    timeout = std::max(timeout, milliseconds(1));  // 0 would mean none
    CURL* const easy = call.easy.get();
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, options_.proxy.c_str());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    // Else ending a call that still looks up its name would hold up all others.
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    if (!options_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
    // libcurl keeps the authorities that it read only where there is no directory of them as well; reading
    // them takes 30 ms of this one thread, for each connection.
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  }

  static void set_up_connection(CURL* easy, bool secure) {
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (!secure) {
      curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
      return;
    }
    // Without CURLOPT_PIPEWAIT: of calls that wait for a connection that fails, it lets one after the other
    // fail. start_waiting() does better.
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  }

  static void set_up_callbacks(Call& call) {
    CURL* const easy = call.easy.get();
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call.error.data());
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Engine::on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Engine::on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &call);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &Engine::on_new_socket);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, &call);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &Engine::on_request);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, &call);
  }

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* place) {
    static_cast<Call*>(place)->headers.add_line({data, size}, std::chrono::system_clock::now());
    return size;
  }

  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* place) {
    Call& call = *static_cast<Call*>(place);
    long status = 0;
    if (call.answer.empty()) {
      const std::size_t told = call.headers.content_length().value_or(0);
      call.answer.reserve(std::min({told, kReserveMax, call.request->answer_bytes_max}));
    }
    curl_easy_getinfo(call.easy.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status > 299) {
      const std::size_t limit = std::min(kErrorBodyMax, call.request->answer_bytes_max);
      call.answer.append(data, std::min(size, limit - std::min(limit, call.answer.size())));
      return size;
    }
    call.over_limit = call.answer.size() + size > call.request->answer_bytes_max;
    if (call.over_limit) return 0;
    call.answer.append(data, size);
    return size;
  }

  static int on_new_socket(void* place, curl_socket_t, curlsocktype) {
    Call& call = *static_cast<Call*>(place);
    if (!call.target->secure) on_reached(call);
    return CURL_SOCKOPT_OK;
  }

  static int on_request(void* place, char*, char*, int, int) {
    Call& call = *static_cast<Call*>(place);
    call.was_sent = true;
    on_reached(call);
    return CURL_PREREQFUNC_OK;
  }

  // ---- its end ----------------------------------------------------------------------------------------

  void finish_done() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      Call* call = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
      finish(*call, message->data.result);
    }
    for (Target& target : targets_)
      start_waiting(target);
  }

  void finish(Call& call, CURLcode code) {
    Target& target = *call.target;
    const bool unreached = call.connecting && code != CURLE_OK;
    // A job that had less time left than a connection may take tells nothing of the target.
    const bool speaks_for_all =
        unreached && call.leads &&
        (code != CURLE_OPERATION_TIMEDOUT || Clock::now() - call.begun_at >= options_.connect_timeout);
    conclude(call, code);
    curl_multi_remove_handle(multi_, call.easy.get());
    retire(call);
    if (unreached) target.known_until = {};
    if (!speaks_for_all) return;
    // The others would fare no better, only one after the other.
    for (Call* waiting : std::exchange(target.waiting, {})) {
      conclude(*waiting, code);
      retire(*waiting);
    }
  }

  /// Says what came of the call.
  static void conclude(Call& call, CURLcode code) {
    HttpCall& request = *call.request;
    long status = 0;
    if (call.running) curl_easy_getinfo(call.easy.get(), CURLINFO_RESPONSE_CODE, &status);
    const bool succeeded = code == CURLE_OK && status >= 200 && status <= 299;
    std::string answer = std::move(call.answer);
    if (!succeeded) answer = request.headers->redacted(std::move(answer));
    auto bytes = std::make_shared<const std::string>(std::move(answer));
    const Blob body = bytes->empty() ? Blob() : Blob::own(bytes, *bytes);
    if (code != CURLE_OK) {
      const std::string detail = call.error[0] != '\0' ? call.error.data() : curl_easy_strerror(code);
      fail(request, transport_failure(code, {.was_sent = call.was_sent,
                                             .status = status,
                                             .over_limit = call.over_limit,
                                             .answer_bytes_max = request.answer_bytes_max,
                                             .detail = detail}));
    } else if (succeeded) {
      wire::Usage usage;
      if (call.headers.is_json()) usage = read_body(body.bytes()).usage.value_or(usage);
      usage.requests = 1;
      request.done.success(body, usage, call.headers.limits());
    } else {
      JobFailure failure = status_failure(status, call.headers, body.bytes());
      failure.body = body;
      fail(request, std::move(failure));
    }
  }

  /// What JSON escapes in a body comes to light in a message, so that is looked through too.
  static void fail(HttpCall& request, JobFailure failure) {
    failure.message = request.headers->redacted(std::move(failure.message));
    request.done.failure(std::move(failure));
  }

  void break_off(wire::Lease lease) {
    const auto place = active_.find(lease);
    if (place == active_.end()) return;
    Call& call = *place->second;
    JobFailure failure{.error_class = ErrorClass::retry,
                       .code = "cancelled",
                       .message = "the call was broken off",
                       .body = {},
                       .usage = std::nullopt,
                       .limits = call.headers.limits()};
    failure.usage.emplace().requests = call.was_sent ? 1 : 0;
    call.request->done.failure(std::move(failure));
    if (call.running)
      curl_multi_remove_handle(multi_, call.easy.get());
    else
      std::erase(call.target->waiting, &call);
    retire(call);
  }

  /// Takes the call out of all tables and keeps its handle for another one.
  void retire(Call& call) {
    stop_connecting(call);
    const auto place = active_.find(call.request->lease);
    CallPtr owned = std::move(place->second);
    active_.erase(place);
    if (idle_.size() >= options_.calls_max) return;
    curl_easy_reset(owned->easy.get());
    auto easy = std::move(owned->easy);
    *owned = Call{};
    owned->easy = std::move(easy);
    idle_.push_back(std::move(owned));
  }

  CallPtr idle_call() {
    if (!idle_.empty()) {
      CallPtr call = std::move(idle_.back());
      idle_.pop_back();
      return call;
    }
    auto call = std::make_unique<Call>();
    call->easy.reset(curl_easy_init());
    if (!call->easy) throw std::bad_alloc();
    return call;
  }

  Target& target_of(const std::shared_ptr<const HttpTarget>& about) {
    for (Target& target : targets_)
      if (target.about == about) return target;
    Target& target = targets_.emplace_back();
    target.about = about;
    target.secure = is_secure(about->url);
    return target;
  }

  const HttpOptions options_;
  const std::string user_agent_ = std::string("lanemq-worker/") + kVersion;
  int epoll_ = -1, wake_ = -1;
  CURLM* multi_ = nullptr;
  std::optional<TimePoint> timer_due_;

  std::deque<Target> targets_;  ///< one a service; addresses are kept
  std::map<wire::Lease, CallPtr, ByJob> active_;
  std::vector<CallPtr> idle_;  ///< at most calls_max

  std::mutex mutex_;  ///< guards the next three
  std::vector<HttpCall> calls_;
  std::vector<wire::Lease> cancels_;
  bool stopping_ = false;
  std::vector<HttpCall> calls_taken_;
  std::vector<wire::Lease> cancels_taken_;
  std::thread thread_;
};

HttpClient::HttpClient(HttpOptions options) : engine_(std::make_unique<Engine>(std::move(options))) {}

HttpClient::~HttpClient() = default;

void HttpClient::call(HttpCall call) {
  engine_->post(std::move(call));
}

void HttpClient::cancel(wire::Lease lease) {
  engine_->post_cancel(lease);
}

}  // namespace lanemq::worker
