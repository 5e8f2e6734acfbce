// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/http_client.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <lanemq/version.hpp>
#include <lanemq/words.hpp>

#include "common/json/members.hpp"
#include "worker/handlers/http/upstream_body.hpp"
#include "worker/handlers/http/upstream_failure.hpp"
#include "worker/handlers/http/upstream_headers.hpp"
#include "worker/handlers/limits/providers.hpp"

namespace lanemq::worker {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr long kNoContent = 204;
/// Bytes of an error's body that are kept; the rest is read and dropped.
constexpr std::size_t kErrorBodyMax = std::size_t{1024} * 1024;
/// Memory reserved at once for an answer that states its length.
constexpr std::size_t kReserveMax = std::size_t{1024} * 1024;
/// How long a target that was reached counts as reachable. libcurl caches addresses for a minute.
constexpr std::chrono::seconds kKnownFor{50};
/// Calls to a target that set up TLS connections at once. Handshakes cost CPU at both ends, and a connection
/// that turns out to be HTTP/2 serves many waiting calls.
constexpr std::size_t kHandshakesMax = 32;
/// Calls that one turn begins; the others wait for the next. Each costs a request and perhaps a connection.
constexpr std::size_t kStartsPerTurn = 32;
constexpr std::size_t kEventsPerTurn = 256;
/// Parts of an answer that arrive together are passed on together, up to this size.
constexpr std::size_t kPieceBytes = std::size_t{16} * 1024;
/// How long a complete answer may take to end its transfer; then the connection is closed.
constexpr std::chrono::seconds kTailWait{1};

struct CloseEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
[[noreturn]] void throw_system(const char* what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

std::string text_of(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool is_v4 = address.sa_family == AF_INET;
  const void* const bytes =
      is_v4 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
            : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  inet_ntop(is_v4 ? AF_INET : AF_INET6, bytes, text.data(), text.size());
  return text.data();
}

/// Whether a URL's scheme is https, ignoring case.
bool is_secure(std::string_view url) {
  return begins_with_word(url, "https:");
}

}  // namespace

class HttpClient::Engine {
 public:
  explicit Engine(HttpOptions options) : options_(std::move(options)) {
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialised != CURLE_OK) throw std::runtime_error("libcurl cannot be initialised");
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) throw_system("epoll");
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
  }

  ~Engine() {
    for (auto& [lease, call] : active_)
      if (call->running) curl_multi_remove_handle(multi_, call->easy.get());
    active_.clear();
    idle_.clear();
    curl_multi_cleanup(multi_);
    close(epoll_);
  }

  void call(HttpCall request) {
    CallPtr call = idle_call();
    call->target = &target_of(request.target);
    call->request = std::move(request);
    Call* const begun = call.get();
    begun->engine = this;
    const auto [place, is_new] = active_.try_emplace(begun->request->lease, std::move(call));
    if (!is_new) return;  // no two calls share a lease
    begun->target->waiting.push_back(begun);
    start_waiting(*begun->target);
  }

  void cancel(wire::Lease lease) {
    break_off(lease);
    finish_done();
  }

  void resume(wire::Lease lease) {
    read_on(lease);
    finish_done();
  }

  int descriptor() const { return epoll_; }

  /// Sockets that were ready and got no time go first in the next turn: if each turn looked anew the same few
  /// would be served again and again.
  void on_readable() {
    if (next_ready_ == ready_count_) {
      const int count = epoll_wait(epoll_, ready_.data(), static_cast<int>(ready_.size()), 0);
      ready_count_ = static_cast<std::size_t>(std::max(count, 0));
      next_ready_ = 0;
    }
    const TimePoint end = Clock::now() + kTurnTime;
    while (next_ready_ < ready_count_) {
      const epoll_event& event = ready_[next_ready_++];
      act(event.data.fd, event.events);
      if (Clock::now() >= end) break;
    }
    finish_done();
  }

  std::optional<TimePoint> next_wakeup() const {
    if (starts_wait_) return TimePoint{};
    std::optional<TimePoint> due = timer_due_;
    if (!timers_.empty()) due = std::min(due.value_or(TimePoint::max()), timers_.begin()->first);
    return due;
  }

  void advance(TimePoint now) {
    const auto due = next_wakeup();
    if (!due || *due > now) return;
    starts_left_ = kStartsPerTurn;
    if (std::exchange(starts_wait_, false))
      for (Target& target : targets_)
        start_waiting(target);
    if (timer_due_ && *timer_due_ <= now) {
      timer_due_.reset();
      act(CURL_SOCKET_TIMEOUT, 0);
    }
    end_late(now);
    finish_done();
  }

 private:
  struct Target;

  /// A call with its libcurl handle; both are used again for later calls.
  struct Call {
    std::unique_ptr<CURL, CloseEasy> easy;
    std::optional<HttpCall> request;
    Engine* engine = nullptr;
    Target* target = nullptr;
    TimePoint begun_at{};
    bool running = false;     ///< in the multi handle
    bool connecting = false;  ///< and it has not reached its target yet
    bool leads = false;       ///< went ahead alone, to find out whether the target can be reached
    bool was_sent = false;    ///< the upstream may have seen the request
    bool over_limit = false;
    bool error_cut = false;  ///< the error's body was cut
    std::string url;
    std::vector<curl_slist> lines;  ///< the call's own headers, linked in front of the service's
    UpstreamHeaders headers;
    long status = 0;  ///< of the answer; set together with its body
    std::string answer;
    std::size_t answer_read = 0;  ///< bytes, of a call with a judge
    std::string refused_address;  ///< the last one that the target did not admit
    bool was_admitted = false;    ///< but another one was

    // Of an answer that a reader reads while it arrives:
    std::optional<bool> reads{};             ///< whether it is one; none: not known yet
    bool paused = false;                     ///< the job's reader is behind
    bool has_pieces = false;                 ///< listed in pieces_from_
    TimePoint token_due = TimePoint::max();  ///< when the next token is late
    TimePoint ends_by = TimePoint::max();    ///< the end of the total time
    std::optional<TimePoint> timer{};        ///< its time in timers_: at most these two
    bool ends_with_job = false;              ///< ends_by is the job's own deadline
    bool token_late = false, job_over = false;
    std::string ended{};  ///< if the client ended it: how long it lasted, in words
    std::array<char, CURL_ERROR_SIZE> error{};
  };
  using CallPtr = std::unique_ptr<Call>;

  /// What is kept of a target between calls.
  struct Target {
    std::shared_ptr<const HttpTarget> about;
    bool secure = false;
    TimePoint known_until{};     ///< until then it counts as reachable
    std::size_t connecting = 0;  ///< calls that have not reached it yet
    std::deque<Call*> waiting;   ///< calls that have not begun
    /// Whose API it is; none: nobody asked yet.
    std::optional<const Provider*> provider{};

    const Provider* whose() {
      if (!provider) provider = provider_of(about->url);
      return *provider;
    }
  };

  struct ByJob {
    bool operator()(const wire::Lease& a, const wire::Lease& b) const {
      return a.job != b.job ? a.job < b.job : a.attempt < b.attempt;
    }
  };

  // ---- libcurl -----------------------------------------------------------------------------------------

  void act(curl_socket_t socket, std::uint32_t events) {
    int mask = 0;
    if (events & (EPOLLIN | EPOLLRDHUP)) mask |= CURL_CSELECT_IN;
    if (events & EPOLLOUT) mask |= CURL_CSELECT_OUT;
    if (events & (EPOLLERR | EPOLLHUP)) mask |= CURL_CSELECT_ERR;
    int running = 0;
    curl_multi_socket_action(multi_, socket, mask, &running);
    pass_on_pieces();
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
    // A closed descriptor has left the set by itself, so neither operation is certain to work.
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event) != 0) epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
    return 0;
  }

  static int on_timer(CURLM*, long wait_ms, void* self) {
    auto& due = static_cast<Engine*>(self)->timer_due_;
    if (wait_ms < 0)
      due.reset();
    else if (wait_ms == 0)
      due = TimePoint{};  // in this turn, whose `now` is a little behind the clock
    else
      due = Clock::now() + milliseconds(wait_ms);
    return 0;
  }

  // ---- a call -----------------------------------------------------------------------------------------

  /// A burst of calls to an unknown target would each look its name up, on a thread of libcurl's, and
  /// connect. So one call goes ahead until it has an address, or with TLS a connection, which may carry the
  /// others, too.
  void start_waiting(Target& target) {
    if (target.waiting.empty()) return;
    const TimePoint now = Clock::now();
    const bool known = now < target.known_until;
    const std::size_t connecting_max = !known ? 1 : target.secure ? kHandshakesMax : options_.calls_max;
    while (!target.waiting.empty() && target.connecting < connecting_max) {
      if (starts_left_ == 0) {
        starts_wait_ = true;
        return;
      }
      --starts_left_;
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
    HttpCall& request = *call.request;
    CURL* const easy = call.easy.get();
    const Target& target = *call.target;
    call.url = target.about->url + request.path;
    curl_easy_setopt(easy, CURLOPT_PRIVATE, &call);
    curl_easy_setopt(easy, CURLOPT_URL, call.url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, header_list(call));
    // Asks for no encoding. If an upstream encodes its answer all the same libcurl decodes it, within the
    // bound.
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "identity");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, user_agent_.c_str());
    if (request.method == HttpMethod::post) {
      curl_easy_setopt(easy, CURLOPT_POST, 1L);
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.bytes().data());
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    } else {
      curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
      if (request.method == HttpMethod::del) curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    }
    set_up_limits(call);
    set_up_connection(easy, target.secure);
    set_up_callbacks(call);
    if (request.reader) expect_token(call, times_of(call).first_token);
  }

  /// The call's own headers, linked in front of those that its service shares.
  static curl_slist* header_list(Call& call) {
    HttpCall& request = *call.request;
    curl_slist* next = request.headers->list();
    call.lines.resize(request.lines.size());
    for (std::size_t i = request.lines.size(); i-- > 0;) {
      call.lines[i] = {request.lines[i].data(), next};
      next = &call.lines[i];
    }
    return next;
  }

  const CallTimes& times_of(const Call& call) const {
    return call.request->times ? *call.request->times : options_.times;
  }

  void set_up_limits(Call& call) {
    const CallTimes& times = times_of(call);
    milliseconds timeout = times.total;
    if (call.request->deadline) {
      const auto left = std::chrono::ceil<milliseconds>(*call.request->deadline - Clock::now());
      call.ends_with_job = left <= timeout;
      timeout = std::min(timeout, left);
    }
    // Instead of libcurl's timer, which it moves for each piece of an answer.
    call.ends_by = Clock::now() + timeout;
    look_at(call, call.ends_by);
    CURL* const easy = call.easy.get();
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(times.connect.count()));
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, options_.proxy.c_str());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    // Else ending a call that still looks up its name would block all others.
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    if (!options_.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
    // libcurl caches the parsed CA file only without a CA directory; parsing takes 30 ms of the loop, for
    // each connection.
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  }

  static void set_up_connection(CURL* easy, bool secure) {
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (!secure) {
      curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
      return;
    }
    // Without CURLOPT_PIPEWAIT: calls that wait for a failing connection would fail one after the other.
    // start_waiting() does better.
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
    if (call.target->about->admits) {
      curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &Engine::on_open_socket);
      curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &call);
    }
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &Engine::on_request);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, &call);
  }

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* place) {
    static_cast<Call*>(place)->headers.add_line({data, size}, std::chrono::system_clock::now());
    return size;
  }

  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* place) {
    Call& call = *static_cast<Call*>(place);
    if (!call.reads) call.engine->begin_answer(call);
    if (call.request->judge) return take_judged({data, size}, call);
    if (*call.reads) return call.engine->read_answer({data, size}, call);
    if (call.status < 200 || call.status > 299) {
      const std::size_t limit = std::min(kErrorBodyMax, call.request->answer_bytes_max);
      call.error_cut |= call.answer.size() + size > limit;
      call.answer.append(data, std::min(size, limit - std::min(limit, call.answer.size())));
      return size;
    }
    call.over_limit = call.answer.size() + size > call.request->answer_bytes_max;
    if (call.over_limit) return 0;
    call.answer.append(data, size);
    return size;
  }

  static std::size_t take_judged(std::string_view bytes, Call& call) {
    const std::size_t room = call.request->answer_bytes_max - call.answer.size();
    call.answer.append(bytes.substr(0, room));
    call.answer_read += bytes.size();
    return call.answer_read > kJudgedBytesMax ? 0 : bytes.size();
  }

  /// Decides by an answer's headers what becomes of its body.
  void begin_answer(Call& call) {
    curl_easy_getinfo(call.easy.get(), CURLINFO_RESPONSE_CODE, &call.status);
    const HttpCall& request = *call.request;
    if (call.headers.has_limits()) call.headers.came_from(call.target->whose());
    const bool succeeds = call.status >= 200 && call.status <= 299;
    call.reads = succeeds && request.reader && request.reader->reads(call.headers);
    if (*call.reads) return;
    expect_no_token(call);
    const std::size_t told = call.headers.content_length().value_or(0);
    call.answer.reserve(std::min({told, kReserveMax, request.answer_bytes_max}));
  }

  static int on_new_socket(void* place, curl_socket_t, curlsocktype) {
    Call& call = *static_cast<Call*>(place);
    if (!call.target->secure) on_reached(call);
    return CURL_SOCKOPT_OK;
  }

  /// For targets that do not admit every address. Libcurl tries the name's next one where this one is
  /// refused.
  static curl_socket_t on_open_socket(void* place, curlsocktype, curl_sockaddr* address) {
    Call& call = *static_cast<Call*>(place);
    if (!is_admitted(call, address->addr)) return CURL_SOCKET_BAD;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  static bool is_admitted(Call& call, const sockaddr& address) {
    const bool admits = call.target->about->admits(address);
    call.was_admitted |= admits;
    if (!admits) call.refused_address = text_of(address);
    return admits;
  }

  /// The same for an address as libcurl writes it.
  static bool is_admitted(Call& call, const char* text) {
    if (!call.target->about->admits) return true;
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
      return is_admitted(call, reinterpret_cast<const sockaddr&>(v4));
    if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
      return is_admitted(call, reinterpret_cast<const sockaddr&>(v6));
    call.refused_address = text;
    return false;
  }

  static int on_request(void* place, char* primary_ip, char*, int, int) {
    Call& call = *static_cast<Call*>(place);
    if (!is_admitted(call, primary_ip)) return CURL_PREREQFUNC_ABORT;
    // libcurl would resend a request by itself when a kept connection breaks. The upstream may have acted on
    // the first one, and the broker counts calls and retries.
    if (std::exchange(call.was_sent, true)) return CURL_PREREQFUNC_ABORT;
    on_reached(call);
    return CURL_PREREQFUNC_OK;
  }

  // ---- an answer that is read while it arrives --------------------------------------------------------

  std::size_t read_answer(std::string_view bytes, Call& call) {
    if (call.paused) return CURL_WRITEFUNC_PAUSE;
    AnswerReader& reader = *call.request->reader;
    const AnswerReader::Step step = reader.take(bytes);
    if (reader.is_complete())
      expect_token(call, kTailWait);
    else if (step != AnswerReader::Step::nothing && reader.has_content())
      expect_token(call, times_of(call).between_tokens);
    if (reader.pending() >= kPieceBytes) {
      pass_on(call);
    } else if (reader.pending() > 0 && !std::exchange(call.has_pieces, true)) {
      pieces_from_.push_back(&call);
    }
    return step == AnswerReader::Step::stop ? 0 : bytes.size();
  }

  void pass_on(Call& call) {
    if (call.request->reader->pass_on(call.request->done)) return;
    call.paused = true;
    expect_no_token(call);
  }

  /// Passes on, together, what one read of a connection brought.
  void pass_on_pieces() {
    for (Call* const call : pieces_from_) {
      call->has_pieces = false;
      if (!call->paused) pass_on(*call);
    }
    pieces_from_.clear();
  }

  void read_on(wire::Lease lease) {
    const auto place = active_.find(lease);
    if (place == active_.end() || !place->second->paused) return;
    Call& call = *place->second;
    call.paused = false;
    expect_token(call, times_of(call).between_tokens);
    if (call.request->reader->pending() > 0) pass_on(call);
    if (call.paused) return;
    curl_easy_pause(call.easy.get(), CURLPAUSE_CONT);  // delivers what libcurl has kept meanwhile
    pass_on_pieces();
  }

  /// Sets when the next token is late.
  void expect_token(Call& call, milliseconds within) {
    call.token_due = Clock::now() + within;
    look_at(call, call.token_due);
  }

  static void expect_no_token(Call& call) { call.token_due = TimePoint::max(); }

  /// Moves the call's timer only to an earlier time. A timer that fires early costs one look, and most tokens
  /// come in time.
  void look_at(Call& call, TimePoint due) {
    if (call.timer && *call.timer <= due) return;
    stop_timer(call);
    call.timer = due;
    timers_.emplace(due, &call);
  }

  void stop_timer(Call& call) {
    if (call.timer) timers_.erase({*call.timer, &call});
    call.timer.reset();
  }

  void end_late(TimePoint now) {
    while (!timers_.empty() && timers_.begin()->first <= now) {
      Call& call = *timers_.begin()->second;
      stop_timer(call);
      if (call.ends_by <= now) {
        const auto lasted = std::chrono::duration_cast<milliseconds>(now - call.begun_at).count();
        call.ended = "ended after " + std::to_string(lasted) + " ms";
        call.job_over = call.ends_with_job;
        finish(call, CURLE_OPERATION_TIMEDOUT);
      } else if (call.token_due > now) {
        look_at(call, std::min(call.token_due, call.ends_by));
      } else if (call.request->reader->is_complete()) {
        finish(call, CURLE_OK);
      } else {
        call.token_late = true;
        finish(call, CURLE_OPERATION_TIMEDOUT);
      }
    }
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
    // A call that failed because its job had less time than a connection may take tells nothing about the
    // target.
    const bool speaks_for_all =
        unreached && call.leads &&
        (code != CURLE_OPERATION_TIMEDOUT || Clock::now() - call.begun_at >= times_of(call).connect);
    const std::string refused_address = call.was_admitted ? "" : call.refused_address;
    conclude(call, code);
    curl_multi_remove_handle(multi_, call.easy.get());
    retire(call);
    if (unreached) target.known_until = {};
    if (!speaks_for_all) return;
    // The waiting calls would fail the same way, one after the other.
    for (Call* waiting : std::exchange(target.waiting, {})) {
      waiting->refused_address = refused_address;
      conclude(*waiting, code);
      retire(*waiting);
    }
  }

  /// Hands in the call's outcome.
  void conclude(Call& call, CURLcode code) {
    if (call.running && !call.reads) begin_answer(call);
    HttpCall& request = *call.request;
    if (request.judge) return conclude_judged(call, code);
    if (call.reads.value_or(false)) return conclude_reading(call, code);
    if (code != CURLE_OK) return fail(call, broken(call, code));
    auto bytes = std::make_shared<const std::string>(std::move(call.answer));
    Blob body = bytes->empty() ? Blob() : Blob::own(bytes, *bytes);
    if (call.status >= 200 && call.status <= 299 && body.empty() && request.answers_json &&
        call.status != kNoContent) {
      fail(call, empty_reply_failure(call.status));
    } else if (call.status >= 200 && call.status <= 299) {
      wire::Usage usage;
      bool may_be_error = request.answers_json;
      if (request.takes_no_tokens) {
        usage.input_tokens = usage.output_tokens = 0;
      } else if (call.headers.is_json()) {
        const BodyFacts facts = read_body(body.bytes());
        usage = facts.usage.value_or(usage);
        may_be_error = may_be_error && facts.says_error;
      }
      auto error = may_be_error ? success_failure(call.headers, body.bytes()) : std::nullopt;
      if (error) {
        error->body = body;
        return fail(call, std::move(*error));
      }
      usage.requests = 1;
      // The upstream repeats its request's headers, as echo services do.
      if (request.headers->betrayed_by(body.bytes()))
        body = Blob::copy(request.headers->redacted(std::string(body.bytes())));
      request.done.success(body, usage, call.headers.limits());
    } else {
      JobFailure failure = status_failure(call.status, call.headers, body.bytes());
      failure.detail = where_nothing_is(call.status, call.url, call.target->about->hint_not_found);
      failure.body = call.error_cut && request.answers_json ? left_out_body(failure) : body;
      fail(call, std::move(failure));
    }
  }

  void conclude_judged(Call& call, CURLcode code) const {
    std::optional<JobFailure> why;
    if (code != CURLE_OK) why = broken(call, code);
    const auto lasted = std::chrono::duration_cast<milliseconds>(Clock::now() - call.begun_at);
    call.request->judge({.status = call.status,
                         .headers = call.headers,
                         .body = call.answer,
                         .broken = std::move(why),
                         .refused_address = call.was_admitted ? std::string_view() : call.refused_address,
                         .lasted = lasted},
                        call.request->done);
  }

  /// Replaces an error body that was cut: JSON that the SDKs of both APIs can read.
  static Blob left_out_body(const JobFailure& failure) {
    return Blob::copy(R"({"type":"error","error":{"type":"upstream_error","message":)" +
                      json_text(failure.message +
                                " (the rest of the upstream's error is left out: it has over " +
                                std::to_string(kErrorBodyMax) + " bytes)") +
                      R"(,"param":null,"code":null}})");
  }

  void conclude_reading(Call& call, CURLcode code) {
    HttpCall& request = *call.request;
    const bool ended =
        code == CURLE_OK || code == CURLE_WRITE_ERROR;  // CURLE_WRITE_ERROR: the reader ended it
    AnswerOutcome outcome = request.reader->outcome(ended ? std::nullopt : std::optional(broken(call, code)));
    request.reader->pass_on(request.done);
    if (outcome.failure) return fail(call, std::move(*outcome.failure));
    request.done.success(std::move(outcome.body), outcome.usage, call.headers.limits());
  }

  /// Why the answer is not whole.
  JobFailure broken(const Call& call, CURLcode code) const {
    if (call.job_over) return deadline_failure(call.was_sent, call.ended);
    if (call.token_late) {
      const CallTimes& times = times_of(call);
      return call.request->reader->has_content() ? late_failure(LateToken::next, times.between_tokens)
                                                 : late_failure(LateToken::first, times.first_token);
    }
    const char* const general = curl_easy_strerror(code);
    JobFailure failure = transport_failure(code, {.was_sent = call.was_sent,
                                                  .status = call.status,
                                                  .over_limit = call.over_limit,
                                                  .answer_bytes_max = call.request->answer_bytes_max,
                                                  .detail = call.ended.empty() ? general : call.ended});
    // libcurl's own text names the host and its port.
    const char* const particular = call.error[0] != '\0' ? call.error.data() : failure.message.c_str();
    const std::string& url = call.target->about->url;
    failure.detail = url.substr(0, url.find('?')) + ": " + particular;  // some services have their key there
    return failure;
  }

  /// Redacts messages, too: a secret that JSON escapes in a body shows in its message.
  static void fail(Call& call, JobFailure failure) {
    const HttpHeaders& headers = *call.request->headers;
    failure.message = headers.redacted(std::move(failure.message));
    failure.detail = headers.redacted(std::move(failure.detail));
    if (!failure.body.empty()) failure.body = Blob::copy(headers.redacted(std::string(failure.body.bytes())));
    if (!failure.limits) failure.limits = call.headers.limits();
    call.request->done.failure(std::move(failure));
  }

  void break_off(wire::Lease lease) {
    const auto place = active_.find(lease);
    if (place == active_.end()) return;
    Call& call = *place->second;
    JobFailure failure{
        .error_class = ErrorClass::retry, .code = "cancelled", .message = "the call was broken off"};
    failure.usage.emplace();
    if (call.reads.value_or(false)) failure.usage = call.request->reader->usage_so_far();
    failure.usage->requests = call.was_sent ? 1 : 0;
    fail(call, std::move(failure));
    if (call.running)
      curl_multi_remove_handle(multi_, call.easy.get());
    else
      std::erase(call.target->waiting, &call);
    retire(call);
  }

  /// Takes the call out of all tables, and keeps its handle for another call.
  void retire(Call& call) {
    stop_connecting(call);
    stop_timer(call);
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
    // A call holds its target, too: these have none.
    targets_.remove_if([](const Target& target) { return target.about.use_count() == 1; });
    Target& target = targets_.emplace_back();
    target.about = about;
    target.secure = is_secure(about->url);
    return target;
  }

  const HttpOptions options_;
  const std::string user_agent_ = std::string("lanemq-worker/") + version();
  int epoll_ = -1;
  CURLM* multi_ = nullptr;
  std::optional<TimePoint> timer_due_;

  std::size_t starts_left_ = kStartsPerTurn;
  bool starts_wait_ = false;   ///< for the next turn
  std::list<Target> targets_;  ///< those that somebody holds, and some that nobody holds any more
  std::map<wire::Lease, CallPtr, ByJob> active_;
  std::vector<CallPtr> idle_;                     ///< at most calls_max
  std::set<std::pair<TimePoint, Call*>> timers_;  ///< one for each call that has begun
  std::vector<Call*> pieces_from_;                ///< calls whose readers have something to pass on

  std::array<epoll_event, kEventsPerTurn> ready_;  ///< of the last epoll_wait()
  std::size_t ready_count_ = 0;
  std::size_t next_ready_ = 0;  ///< the first one that was not handled
};

HttpClient::HttpClient(HttpOptions options) : engine_(std::make_unique<Engine>(std::move(options))) {}

HttpClient::~HttpClient() = default;

void HttpClient::call(HttpCall call) {
  engine_->call(std::move(call));
}

void HttpClient::cancel(wire::Lease lease) {
  engine_->cancel(lease);
}

void HttpClient::resume(wire::Lease lease) {
  engine_->resume(lease);
}

int HttpClient::descriptor() const {
  return engine_->descriptor();
}

void HttpClient::on_readable() {
  engine_->on_readable();
}

std::optional<TimePoint> HttpClient::next_wakeup() const {
  return engine_->next_wakeup();
}

void HttpClient::advance(TimePoint now) {
  engine_->advance(now);
}

}  // namespace lanemq::worker
