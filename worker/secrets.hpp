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

/// The headers that a service's calls carry, as written. Of http services those for all http services, but
/// for the ones that it has of its own. Of model APIs its own, and the one that carries the upstream's key,
/// if it does not set that itself: with the key of the job where it has keys, else with that of the API's
/// variable. Where there is neither, the calls carry none, and `without_key` names the variable.
std::vector<std::string> service_headers(const Settings& settings, const ServiceSettings& service,
                                         const Environment& environment, std::string& without_key);

/// Whether what is sent there can be read on the way: `http://`, and not to this machine.
bool goes_in_clear(std::string_view url);

/// What reading a secret again came to.
struct SecretChange {
  std::string use;      ///< `key k1` or `header x-org`
  std::string problem;  ///< why it could not be read and stays what it was; empty: it is another one now
};

/// The headers of one service's calls: as they are written, and with the secrets that were read last.
///
/// A header is `Name: value`. Each word of the value that is_secret_source() stands for that secret, the word
/// `{key}` for the secret of the job's key. Not thread-safe.
class ServiceSecrets {
 public:
  /// Reads all secrets. Throws UsageError where one is absent, a header cannot be sent, or headers and keys
  /// do not fit together.
  ServiceSecrets(const std::string& service, const std::vector<std::string>& headers,
                 const std::vector<KeySettings>& keys, Environment environment);

  /// Reads all secrets again; what cannot be read stays what it was. Returns what is not as before.
  std::vector<SecretChange> read_again();
  /// With the secrets as they are now.
  HttpCredentials credentials() const;

  const std::string& service() const { return service_; }
  bool empty() const { return secrets_.empty(); }

 private:
  struct Secret {
    std::string use, source, value;
  };
  struct Word {
    std::string text{};                   ///< as it is sent, unless one of these is set
    std::optional<std::size_t> secret{};  ///< of secrets_
    bool is_key = false;
  };
  struct Header {
    std::string name;
    std::vector<Word> words{};
    bool needs_key() const;
  };
  struct Key {
    std::string name;
    std::size_t secret = 0;  ///< of secrets_
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
