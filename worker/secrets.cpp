// SPDX-License-Identifier: Apache-2.0
#include "worker/secrets.hpp"

#include <algorithm>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::worker {
namespace {

using settings::is_clean;
using settings::is_secret_source;

constexpr std::string_view kKeyWord = "{key}";

bool is_header_name(std::string_view name) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

std::string name_of_header(const std::string& line);

/// Whether all of this header's value is secret by its name.
bool is_for_secrets(const std::string& name) {
  static constexpr std::string_view kNames[] = {"authorization", "proxy-authorization", "x-api-key",
                                                "api-key",       "x-goog-api-key",      "cookie"};
  return std::find(std::begin(kNames), std::end(kNames), name_of_header(name)) != std::end(kNames);
}

/// Reads a secret. Throws UsageError; its message begins with `use`.
std::string read_secret_of(const std::string& use, const std::string& source,
                           const Environment& environment) try {
  return settings::read_secret(source, environment);
} catch (const UsageError& error) {
  throw UsageError(use + ": " + error.what());
}

/// The name of a header line, in lower case.
std::string name_of_header(const std::string& line) {
  std::string name = line.substr(0, line.find(':'));
  for (char& c : name)
    c = lower(c);
  return name;
}

bool has_header(const std::vector<std::string>& lines, const std::string& name) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return name_of_header(line) == name_of_header(name); });
}

}  // namespace

std::vector<std::string> service_headers(const Settings& settings, const ServiceSettings& service,
                                         const Environment& environment, std::string& without_key) {
  std::vector<std::string> lines;
  if (const ModelApi* api = find_model_api(service.handler)) {
    const std::string header(api->key_header), variable(api->key_variable);
    if (!has_header(service.headers, header)) {
      const char* const key = environment(variable);
      const std::string source = !service.keys.empty() ? std::string(kKeyWord)
                                 : key && *key != '\0' ? "env:" + variable
                                                       : std::string();
      if (source.empty())
        without_key = variable;
      else
        lines.push_back(header + ": " + std::string(api->key_prefix) + source);
    }
  } else {
    for (const std::string& common : settings.http_headers)
      if (!has_header(service.headers, common)) lines.push_back(common);
  }
  lines.insert(lines.end(), service.headers.begin(), service.headers.end());
  return lines;
}

ServiceSecrets::ServiceSecrets(const std::string& service, const std::vector<std::string>& headers,
                               const std::vector<KeySettings>& keys, Environment environment) try
    : service_(service), environment_(std::move(environment)) {
  for (const std::string& line : headers)
    headers_.push_back(parse_header(line));
  for (const KeySettings& key : keys)
    add_key(key);
  check_keys();
} catch (const UsageError& error) {
  throw UsageError("service \"" + printable(service) + "\": " + error.what());
}

bool ServiceSecrets::Header::needs_key() const {
  return std::any_of(words.begin(), words.end(), [](const Word& word) { return word.is_key; });
}

bool ServiceSecrets::needs_key() const {
  return std::any_of(headers_.begin(), headers_.end(),
                     [](const Header& header) { return header.needs_key(); });
}

ServiceSecrets::Header ServiceSecrets::parse_header(const std::string& line) {
  const std::size_t colon = line.find(':');
  Header header{.name = line.substr(0, colon)};
  if (colon == std::string::npos || !is_header_name(header.name))
    throw UsageError("a header must be written 'Name: value'");
  const std::string use = "header " + header.name;
  std::size_t at = colon + 1;
  while (at < line.size()) {
    const std::size_t begin = line.find_first_not_of(' ', at);
    if (begin == std::string::npos) break;
    at = std::min(line.find(' ', begin), line.size());
    const std::string word = line.substr(begin, at - begin);
    if (word == kKeyWord)
      header.words.push_back({.is_key = true});
    else if (is_secret_source(word))
      header.words.push_back({.secret = add_secret(use, word)});
    else
      header.words.push_back({.text = word});
    if (word != kKeyWord && word.find(kKeyWord) != std::string::npos)
      throw UsageError(use + ": {key} must be a word of its own, as in 'Authorization: Bearer {key}'");
    if (!is_clean(word)) throw UsageError(use + ": its value holds control characters");
  }
  if (header.words.empty()) throw UsageError(use + ": its value is empty");
  const bool shows_secret = std::any_of(header.words.begin(), header.words.end(),
                                        [](const Word& word) { return word.is_key || word.secret; });
  if (!shows_secret && is_for_secrets(header.name))
    throw UsageError(use +
                     ": write what is secret of it as env:VARIABLE, file:PATH or credential:NAME; others see "
                     "what stands here, with ps for one");
  return header;
}

void ServiceSecrets::add_key(const KeySettings& key) {
  const std::string use = "key " + printable(key.name, 64);
  if (key.name.empty() || key.name.size() > limits::name_bytes_max || !is_utf8(key.name))
    throw UsageError(use + ": a key's name must be 1.." + std::to_string(limits::name_bytes_max) +
                     " bytes of UTF-8");
  if (!is_secret_source(key.source))
    throw UsageError(use + " must be env:VARIABLE, file:PATH or credential:NAME, never the secret itself");
  keys_.push_back({.name = key.name, .secret = add_secret(use, key.source)});
}

void ServiceSecrets::check_keys() const {
  if (needs_key() && keys_.empty())
    throw UsageError(
        "a header holds {key}, but there are no keys; add keys = { NAME = \"env:VARIABLE\" } or --key " +
        printable(service_) + "/NAME=env:VARIABLE");
  if (!needs_key() && !keys_.empty())
    throw UsageError("it has keys, but no header holds {key}, as in 'Authorization: Bearer {key}'");
}

std::size_t ServiceSecrets::add_secret(const std::string& use, const std::string& source) {
  secrets_.push_back({.use = use, .source = source, .value = read_secret_of(use, source, environment_)});
  return secrets_.size() - 1;
}

std::vector<SecretChange> ServiceSecrets::read_again() {
  std::vector<SecretChange> changes;
  for (Secret& secret : secrets_) {
    try {
      std::string value = read_secret_of(secret.use, secret.source, environment_);
      if (value == secret.value) continue;
      secret.value = std::move(value);
      changes.push_back({.use = secret.use, .problem = {}});
    } catch (const UsageError& error) {
      changes.push_back({.use = secret.use, .problem = error.what()});
    }
  }
  return changes;
}

void ServiceSecrets::hide_variables() const {
  for (const Secret& secret : secrets_)
    settings::hide_secret(secret.source);
}

HttpCredentials ServiceSecrets::credentials() const {
  HttpCredentials result{.keyless = needs_key() ? nullptr : headers_with(nullptr)};
  for (const Key& key : keys_)
    result.by_key.emplace(key.name, headers_with(&key));
  return result;
}

std::shared_ptr<const HttpHeaders> ServiceSecrets::headers_with(const Key* key) const {
  std::vector<std::string> lines, used;
  for (const Header& header : headers_) {
    std::string line = header.name + ":";
    for (const Word& word : header.words) {
      const std::optional<std::size_t> secret = word.is_key ? std::optional(key->secret) : word.secret;
      if (secret) used.push_back(secrets_[*secret].value);
      line += " " + (secret ? secrets_[*secret].value : word.text);
    }
    lines.push_back(std::move(line));
  }
  return std::make_shared<const HttpHeaders>(lines, std::move(used));
}

}  // namespace lanemq::worker
