// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/handlers/http/http_handler.hpp"
#include "worker/settings.hpp"

namespace lanemq::worker {

/// The headers of a service's calls, as written. An http service has those for all http services, and its own
/// instead of equal names. A model API's service has its own, and the header with the upstream's key unless
/// it sets that itself: the key of the job, where the service has keys, else that of the API's variable.
/// Where there is neither, calls carry no key, and `without_key` gets the variable's name.
std::vector<std::string> service_headers(const Settings& settings, const ServiceSettings& service,
                                         const Environment& environment, std::string& without_key);

/// The result of reading a secret again.
struct SecretChange {
  std::string use;      ///< `key k1` or `header x-org`
  std::string problem;  ///< why it could not be read, and keeps its value; empty: it has a new one
};

/// The headers of a service's calls: as written, and with the secrets that were read last.
///
/// A header is `Name: value`. A word of the value that is_secret_source() stands for that secret, the word
/// `{key}` for the secret of the job's key. Not thread-safe.
class ServiceSecrets {
 public:
  /// Reads all secrets. Throws UsageError where one is missing, a header is invalid, or headers and keys
  /// contradict each other.
  ServiceSecrets(const std::string& service, const std::vector<std::string>& headers,
                 const std::vector<KeySettings>& keys, Environment environment);

  /// Reads all secrets again; one that cannot be read keeps its value. Returns what has changed or failed.
  std::vector<SecretChange> read_again();
  /// The credentials with the present secrets.
  HttpCredentials credentials() const;

  /// Takes the variables among the sources out of the process's environment (settings::hide_secret()).
  void hide_variables() const;

  const std::string& service() const { return service_; }
  bool empty() const { return secrets_.empty(); }

 private:
  struct Secret {
    std::string use, source, value;
  };
  struct Word {
    std::string text{};                   ///< sent as it is, unless one of these is set
    std::optional<std::size_t> secret{};  ///< index in secrets_
    bool is_key = false;
  };
  struct Header {
    std::string name;
    std::vector<Word> words{};
    bool needs_key() const;
  };
  struct Key {
    std::string name;
    std::size_t secret = 0;  ///< index in secrets_
  };

  Header parse_header(const std::string& line);
  void add_key(const KeySettings& key);
  void check_keys() const;
  std::size_t add_secret(const std::string& use, const std::string& source);
  bool needs_key() const;
  std::shared_ptr<const HttpHeaders> headers_with(const Key* key) const;

  std::string service_;
  Environment environment_;
  std::vector<Secret> secrets_;
  std::vector<Header> headers_;
  std::vector<Key> keys_;
};

}  // namespace lanemq::worker
