// SPDX-License-Identifier: Apache-2.0
#include "client/cli/check/http_look.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lanemq::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAnswerBytesMax = std::size_t{16} * 1024;

struct Url {
  bool encrypted = false;
  std::string host, port, authority;
};

/// Empty: it is no URL of a gateway.
std::optional<Url> read_url(std::string text) {
  Url url;
  for (const auto& [scheme, encrypted] : {std::pair("http://", false), std::pair("https://", true)}) {
    if (!text.starts_with(scheme)) continue;
    text.erase(0, std::strlen(scheme));
    url.encrypted = encrypted;
    url.authority = text.substr(0, text.find('/'));
    const std::size_t colon = url.authority.rfind(':');
    const bool named = colon != std::string::npos && url.authority.find(']', colon) == std::string::npos;
    url.port = named ? url.authority.substr(colon + 1) : encrypted ? "443" : "80";
    url.host = named ? url.authority.substr(0, colon) : url.authority;
    if (url.host.starts_with('[') && url.host.ends_with(']'))
      url.host = url.host.substr(1, url.host.size() - 2);
    if (!url.host.empty()) return url;
  }
  return std::nullopt;
}

/// A descriptor of this process.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Waits until the socket can be read or written; false: not in time.
bool wait_for(const Socket& socket, short events, Clock::time_point until) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd watched{.fd = socket.get(), .events = events, .revents = 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// Connects to the first address that takes a connection; a socket below 0: none, and `why_not` says why.
Socket connect_to(const Url& url, Clock::time_point until, std::string& why_not) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int refused = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); refused != 0) {
    why_not = ::gai_strerror(refused);
    return Socket(-1);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
    if (socket.get() < 0) continue;
    int error = ::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      error = ETIMEDOUT;
      if (wait_for(socket, POLLOUT, until)) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return socket;
    why_not = error == ECONNREFUSED ? "nothing listens there" : std::strerror(error);
  }
  return Socket(-1);
}

std::string tls_trouble() {
  const unsigned long code = ::ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  ::ERR_clear_error();
  return reason == nullptr ? "the connection was closed" : reason;
}

/// The connection's bytes, encrypted or not. Calls return false when the time is over, or the peer refuses.
class Stream {
 public:
  Stream(Socket socket, Clock::time_point until) : socket_(std::move(socket)), until_(until) {}

  bool encrypt(const Url& url, std::string& why_not) {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!context_) return false;
    SSL_CTX_set_default_verify_paths(context_.get());
    ssl_.reset(SSL_new(context_.get()));
    if (!ssl_ || SSL_set_fd(ssl_.get(), socket_.get()) != 1) return false;
    // Trust is found out and told, but does not end the handshake.
    SSL_set_verify(ssl_.get(), SSL_VERIFY_NONE, nullptr);
    X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl_.get());
    if (X509_VERIFY_PARAM_set1_ip_asc(wanted, url.host.c_str()) != 1) {
      SSL_set1_host(ssl_.get(), url.host.c_str());
      SSL_set_tlsext_host_name(ssl_.get(), url.host.c_str());
    }
    if (repeat([&] { return SSL_connect(ssl_.get()); }) == 1) return true;
    why_not =
        Clock::now() >= until_ ? "no TLS handshake in time" : "no TLS is spoken there: " + tls_trouble();
    return false;
  }

  /// Writes all of it.
  bool write(std::string_view data) {
    while (!data.empty()) {
      const long written =
          ssl_
              ? repeat([&] { return SSL_write(ssl_.get(), data.data(), static_cast<int>(data.size())); })
              : plain(POLLOUT, [&] { return ::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL); });
      if (written <= 0) return false;
      data.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  /// Bytes that came; 0: the end, or the time is over.
  std::size_t read(char* to, std::size_t size) {
    const long came = ssl_ ? repeat([&] { return SSL_read(ssl_.get(), to, static_cast<int>(size)); })
                           : plain(POLLIN, [&] { return ::recv(socket_.get(), to, size, 0); });
    return came > 0 ? static_cast<std::size_t>(came) : 0;
  }

  SSL* tls() const { return ssl_.get(); }

 private:
  template <class Step>
  long repeat(Step step) {
    while (true) {
      const int done = step();
      if (done > 0) return done;
      const int wants = SSL_get_error(ssl_.get(), done);
      if (wants != SSL_ERROR_WANT_READ && wants != SSL_ERROR_WANT_WRITE) return 0;
      if (!wait_for(socket_, wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until_)) return 0;
    }
  }
  template <class Step>
  long plain(short events, Step step) {
    while (wait_for(socket_, events, until_)) {
      const long done = step();
      if (done >= 0 || (errno != EAGAIN && errno != EINTR)) return done;
    }
    return 0;
  }

  Socket socket_;
  const Clock::time_point until_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{nullptr, SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

void look_at_certificates(SSL* tls, GatewayFacts& facts) {
  const STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(tls);
  for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
    int days = 0, seconds = 0;
    if (ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(sk_X509_value(chain, i))) != 1) continue;
    const std::chrono::seconds left = std::chrono::hours(24) * days + std::chrono::seconds(seconds);
    facts.certificate_left = std::min(facts.certificate_left.value_or(left), left);
  }
  if (const long verdict = SSL_get_verify_result(tls); verdict != X509_V_OK)
    facts.distrust = X509_verify_cert_error_string(verdict);
}

/// Reads the status and the body of what came. The answer ends with its connection, as was asked for.
void read_answer(const std::string& answer, GatewayFacts& facts) {
  constexpr std::string_view kVersion = "HTTP/1.";
  const std::size_t head = answer.find("\r\n\r\n");
  if (!answer.starts_with(kVersion) || head == std::string::npos || answer.size() < kVersion.size() + 5) {
    facts.why_not = answer.empty() ? "it closes the connection, or says nothing in time"
                                   : "what answers there speaks no HTTP";
    return;
  }
  const char* const status = answer.data() + kVersion.size() + 2;
  std::from_chars(status, status + 3, facts.status);
  facts.body = answer.substr(head + 4);
}

}  // namespace

GatewayFacts look_at_gateway(const std::string& text, std::chrono::milliseconds patience) {
  GatewayFacts facts{.url = text, .why_not = {}, .body = {}, .distrust = {}};
  const std::optional<Url> url = read_url(text);
  if (!url) {
    facts.why_not = "write http://HOST:PORT or https://HOST:PORT";
    return facts;
  }
  const Clock::time_point until = Clock::now() + patience;
  Socket socket = connect_to(*url, until, facts.why_not);
  if (socket.get() < 0) return facts;
  facts.why_not.clear();  // of an earlier address
  Stream stream(std::move(socket), until);
  facts.encrypted = url->encrypted;
  if (url->encrypted) {
    if (!stream.encrypt(*url, facts.why_not)) return facts;
    look_at_certificates(stream.tls(), facts);
  }
  std::string answer;
  char piece[4096];
  if (stream.write("GET /readyz HTTP/1.1\r\nhost: " + url->authority + "\r\nconnection: close\r\n\r\n"))
    while (answer.size() < kAnswerBytesMax) {
      const std::size_t came = stream.read(piece, sizeof piece);
      if (came == 0) break;
      answer.append(piece, came);
    }
  read_answer(answer, facts);
  return facts;
}

}  // namespace lanemq::cli
