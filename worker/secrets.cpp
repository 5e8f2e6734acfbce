// SPDX-License-Identifier: Apache-2.0
#include "worker/secrets.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

namespace lanemq::worker {
namespace {

constexpr std::size_t kSecretBytesMax = std::size_t{64} * 1024;
constexpr std::string_view kVariable = "env:", kFile = "file:", kCredential = "credential:",
                           kKeyWord = "{key}";

bool is_header_name(std::string_view name) {
  static constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

/// A value with a line end could forge headers.
bool is_clean(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
  });
}

std::string read_file(const std::string& use, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(kSecretBytesMax + 1, '\0');
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size())) && !file.eof())
    throw UsageError(use + ": file " + printable(path) + " cannot be read");
  content.resize(static_cast<std::size_t>(file.gcount()));
  if (content.size() > kSecretBytesMax)
    throw UsageError(use + ": file " + printable(path) + " has over " + std::to_string(kSecretBytesMax) +
                     " bytes");
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r'))
    content.pop_back();
  if (content.empty()) throw UsageError(use + ": file " + printable(path) + " is empty");
  return content;
}

std::string credential_path(const std::string& use, const std::string& name, const Environment& environment) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    throw UsageError(use + ": a credential is named without a path, as in credential:openai-1");
  const char* directory = environment("CREDENTIALS_DIRECTORY");
  if (!directory || *directory == '\0')
    throw UsageError(use + ": credential " + printable(name, 64) +
                     " needs CREDENTIALS_DIRECTORY, which systemd sets for a unit with LoadCredential=" +
                     printable(name, 64) + ":PATH");
  return std::string(directory) + "/" + name;
}

/// A header's name in lower case.
std::string name_of_header(const std::string& line) {
  std::string name = line.substr(0, line.find(':'));
  for (char& c : name)
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
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
                                 : key && *key != '\0' ? std::string(kVariable) + variable
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

bool is_secret_source(std::string_view word) {
  return word.starts_with(kVariable) || word.starts_with(kFile) || word.starts_with(kCredential);
}

std::string read_secret(const std::string& use, const std::string& source, const Environment& environment) {
  std::string secret;
  if (source.starts_with(kVariable)) {
    const std::string name = source.substr(kVariable.size());
    const char* value = environment(name);
    if (!value || *value == '\0') throw UsageError(use + ": the environment has no " + printable(name, 64));
    secret = value;
  } else if (source.starts_with(kFile)) {
    secret = read_file(use, source.substr(kFile.size()));
  } else {
    secret = read_file(use, credential_path(use, source.substr(kCredential.size()), environment));
  }
  if (!is_clean(secret)) throw UsageError(use + ": " + printable(source) + " holds control characters");
  return secret;
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
  secrets_.push_back({.use = use, .source = source, .value = read_secret(use, source, environment_)});
  return secrets_.size() - 1;
}

std::vector<SecretChange> ServiceSecrets::read_again() {
  std::vector<SecretChange> changes;
  for (Secret& secret : secrets_) {
    try {
      std::string value = read_secret(secret.use, secret.source, environment_);
      if (value == secret.value) continue;
      secret.value = std::move(value);
      changes.push_back({.use = secret.use, .problem = {}});
    } catch (const UsageError& error) {
      changes.push_back({.use = secret.use, .problem = error.what()});
    }
  }
  return changes;
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
