// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/base/tls.hpp"

#include <optional>
#include <stdexcept>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::http {
namespace {

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

/// All have forward secrecy and authenticate what they encrypt. TLS 1.3 has no others.
constexpr const char* kCiphers12 =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr const char* kGroups = "X25519:P-256:P-384";
/// As ALPN writes it.
constexpr unsigned char kHttp11[] = "\x08http/1.1";
constexpr unsigned int kHttp11Bytes = sizeof kHttp11 - 1;

/// Why the last call failed, for people; forgets it.
std::string last_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "it cannot be read" : reason;
}

/// A peer that offers other protocols alone gets an alert; one that offers none speaks HTTP/1.1.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                    const unsigned char* offered, unsigned int offered_bytes, void*) {
  unsigned char* at = nullptr;
  if (SSL_select_next_proto(&at, chosen_bytes, kHttp11, kHttp11Bytes, offered, offered_bytes) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = at;
  return SSL_TLSEXT_ERR_OK;
}

/// A key with a passphrase has nobody to ask for it.
int no_passphrase(char*, int, int, void*) {
  return -1;
}

void set_rules(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  // A write may take a part, and an idle connection gives its buffers back.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  // Peers that come back bring a ticket: the server keeps nothing for them.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (SSL_CTX_set_cipher_list(context, kCiphers12) != 1 || SSL_CTX_set1_groups_list(context, kGroups) != 1)
    throw std::runtime_error("OpenSSL refuses the ciphers of TLS: " + last_error());
}

}  // namespace

// ---- a connection -------------------------------------------------------------------------------------

struct TlsStream::Impl {
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl;

  TlsStep after(int result) const {
    const int why = SSL_get_error(ssl.get(), result);
    ERR_clear_error();  // what one connection did must not be taken for another's fault
    switch (why) {
      case SSL_ERROR_NONE:
        return TlsStep::done;
      case SSL_ERROR_WANT_READ:
        return TlsStep::wants_read;
      case SSL_ERROR_WANT_WRITE:
        return TlsStep::wants_write;
      case SSL_ERROR_ZERO_RETURN:
      case SSL_ERROR_SYSCALL:
        return TlsStep::ended;
      default:
        return TlsStep::broken;
    }
  }
};

TlsStream::TlsStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsStream::~TlsStream() = default;

TlsStep TlsStream::handshake() {
  return impl_->after(SSL_accept(impl_->ssl.get()));
}

TlsStep TlsStream::read(char* to, std::size_t size, std::size_t& came) {
  came = 0;
  return impl_->after(SSL_read_ex(impl_->ssl.get(), to, size, &came));
}

TlsStep TlsStream::write(std::string_view data, std::size_t& went) {
  went = 0;
  return impl_->after(SSL_write_ex(impl_->ssl.get(), data.data(), data.size(), &went));
}

bool TlsStream::holds_bytes() const {
  return SSL_pending(impl_->ssl.get()) > 0;
}

void TlsStream::say_end() {
  static_cast<void>(SSL_shutdown(impl_->ssl.get()));
  ERR_clear_error();
}

// ---- the certificate ----------------------------------------------------------------------------------

struct TlsIdentity::Impl {
  Context context;
};

TlsIdentity::TlsIdentity(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsIdentity::~TlsIdentity() = default;

std::shared_ptr<const TlsIdentity> TlsIdentity::read(const std::string& certificate, const std::string& key) {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) throw std::runtime_error("OpenSSL makes no TLS: " + last_error());
  set_rules(context.get());
  for (const std::string& file : {certificate, key})
    if (const std::optional<std::string> why_not = settings::why_no_plain_file(file))
      throw std::runtime_error(file + " " + *why_not);
  if (SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) != 1)
    throw std::runtime_error("the certificate " + certificate + " cannot be used: " + last_error() +
                             "; it must be a file in PEM form, the server's own certificate first");
  if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
    throw std::runtime_error("the key " + key + " cannot be used with " + certificate + ": " + last_error() +
                             "; it must be a file in PEM form without a passphrase");
  if (SSL_CTX_check_private_key(context.get()) != 1)
    throw std::runtime_error("the key " + key + " is not that of " + certificate + ": " + last_error());
  const X509* const own = SSL_CTX_get0_certificate(context.get());
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0)
    throw std::runtime_error("the certificate " + certificate + " has ended; renew it");
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0)
    throw std::runtime_error(
        "the certificate " + certificate +
        " is not valid yet: callers would refuse it; look at this machine's clock, or wait");
  return std::make_shared<TlsIdentity>(std::make_unique<Impl>(Impl{std::move(context)}));
}

std::unique_ptr<TlsStream> TlsIdentity::accept(int socket) const {
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(impl_->context.get()), SSL_free);
  if (!ssl || SSL_set_fd(ssl.get(), socket) != 1)
    throw std::runtime_error("no memory for TLS: " + last_error());
  return std::make_unique<TlsStream>(std::make_unique<TlsStream::Impl>(TlsStream::Impl{std::move(ssl)}));
}

std::string TlsIdentity::ends() const {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), BIO_free);
  if (!text) return {};
  ASN1_TIME_print(text.get(), X509_get0_notAfter(SSL_CTX_get0_certificate(impl_->context.get())));
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::chrono::seconds TlsIdentity::left() const {
  int days = 0, seconds = 0;
  ASN1_TIME_diff(&days, &seconds, nullptr,
                 X509_get0_notAfter(SSL_CTX_get0_certificate(impl_->context.get())));
  return std::chrono::hours(24) * days + std::chrono::seconds(seconds);
}

}  // namespace lanemq::http
