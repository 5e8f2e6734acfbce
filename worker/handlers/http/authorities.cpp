// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/http/authorities.hpp"

#include <memory>
#include <optional>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <lanemq/text.hpp>

#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::worker {

void check_authorities(const std::string& path) {
  if (const std::optional<std::string> why_not = settings::why_no_plain_file(path))
    throw settings::UsageError("file " + printable(path) + " " + *why_not);
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "r"), BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> first(
      file ? PEM_read_bio_X509_AUX(file.get(), nullptr, nullptr, nullptr) : nullptr, X509_free);
  ERR_clear_error();
  if (!first)
    throw settings::UsageError(
        "file " + printable(path) +
        " has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----; each "
        "call would fail");
}

}  // namespace lanemq::worker
