// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/program/certificate.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>

#include "common/http/server/listen.hpp"
#include "common/log/log.hpp"
#include "common/settings/usage_error.hpp"

namespace lanemq::gateway {
namespace {

/// Below this a certificate's rest is a warning.
constexpr std::chrono::hours kCertificateSoon{30 * 24};

}  // namespace

std::shared_ptr<const TlsIdentity> identity_of(const Settings& settings) {
  if (settings.tls_certificate_file.empty() || (!settings.tls_key.empty() && settings.tls_key_file.empty()))
    return nullptr;
  try {
    return TlsIdentity::read(settings.tls_certificate_file, settings.tls_key_file);
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
}

void encrypt(HttpServer& server, std::shared_ptr<const TlsIdentity> identity) {
  const bool soon = identity->left() < kCertificateSoon;
  log::event(soon ? log::Level::warning : log::Level::info, "tls.certificate",
             {{"ends", identity->ends()},
              {"do", soon ? "renew it and send SIGHUP, which reads it again" : "SIGHUP reads it again"}});
  server.encrypt(std::move(identity));
}

void encrypt(HttpServer& server, const Settings& settings) {
  if (std::shared_ptr<const TlsIdentity> identity = identity_of(settings))
    encrypt(server, std::move(identity));
  if (is_loopback(settings.server.address)) return;
  const char* const missing = settings.keys.empty()              ? "keys"
                              : settings.tls_certificate.empty() ? "TLS"
                                                                 : nullptr;
  if (missing != nullptr)
    log::event(log::Level::warning, "listen.insecure",
               {{"address", settings.server.address},
                {"without", missing},
                {"do", "let nobody else reach this network, or leave out --insecure"}});
}

}  // namespace lanemq::gateway
