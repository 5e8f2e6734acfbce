// SPDX-License-Identifier: Apache-2.0
#include "common/settings/secrets/secret_shapes.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace lanemq::settings {
namespace {

constexpr std::string_view kInstead = "...";
constexpr std::size_t kShown = 4;
/// Of a word, and of its longest part without - and _: names have short parts.
constexpr std::size_t kWordMin = 20, kPartMin = 12;
/// Of a CURVE key, and how many marks of the sentence around it may touch it.
constexpr std::size_t kCurveKey = 40, kTouching = 4;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_alphanumeric(char c) {
  return is_digit(c) || is_lower(c) || is_upper(c);
}
bool is_of_word(char c) {
  return is_alphanumeric(c) || c == '-' || c == '_';
}
/// The marks of Z85 that paths, times and endpoints do not have.
bool is_rare_mark(char c) {
  return std::string_view("+^!*?&<>()[]{}@%$#").find(c) != std::string_view::npos;
}
bool is_z85(char c) {
  return is_alphanumeric(c) || is_rare_mark(c) || std::string_view(".-:=/").find(c) != std::string_view::npos;
}

std::string_view run_of(std::string_view text, bool (*belongs)(char)) {
  return text.substr(
      0, static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), belongs) - text.begin()));
}

template <typename Is>
bool has(std::string_view text, Is is) {
  return std::any_of(text.begin(), text.end(), is);
}

bool is_long_mixture(std::string_view word) {
  if (word.size() < kWordMin) return false;
  while (!word.empty()) {
    const std::string_view part = run_of(word, is_alphanumeric);
    if (part.size() >= kPartMin && has(part, is_digit) && !std::all_of(part.begin(), part.end(), is_digit))
      return true;
    word.remove_prefix(std::min(part.size() + 1, word.size()));
  }
  return false;
}

bool is_curve_key(std::string_view word) {
  return word.size() >= kCurveKey && word.size() <= kCurveKey + kTouching && has(word, is_digit) &&
         has(word, is_lower) && has(word, is_upper) && has(word, is_rare_mark);
}

/// How many bytes of a secret `text` begins with; 0: with none. `before`: the character before it, or 0.
std::size_t secret_at(std::string_view text, char before) {
  if ((!is_z85(before) || before == '=' || before == ':') &&
      is_curve_key(run_of(text.substr(0, kCurveKey + kTouching + 1), is_z85)))
    return kCurveKey;
  if (is_of_word(before) || before == '/') return 0;
  const std::string_view word = run_of(text, is_of_word);
  return is_long_mixture(word) ? word.size() : 0;
}

/// Parameters of a URL's query whose value is a secret, whatever it looks like.
constexpr std::string_view kSecretParameters[] = {
    "key",    "api_key",       "apikey",   "api-key", "token", "access_token", "auth_token", "auth",
    "secret", "client_secret", "password", "passwd",  "pwd",   "sig",          "signature"};

bool is_same_name(std::string_view said, std::string_view name) {
  return std::equal(said.begin(), said.end(), name.begin(), name.end(),
                    [](char a, char b) { return (is_upper(a) ? static_cast<char>(a - 'A' + 'a') : a) == b; });
}

/// Where `text` begins with `?NAME=` or `&NAME=` of such a parameter: how many bytes these are; 0: it does
/// not.
std::size_t secret_parameter_at(std::string_view text) {
  if (text.empty() || (text.front() != '?' && text.front() != '&')) return 0;
  const std::string_view name = run_of(text.substr(1), is_of_word);
  const std::size_t size = 1 + name.size();
  if (size >= text.size() || text[size] != '=') return 0;
  const bool is_secret = std::any_of(std::begin(kSecretParameters), std::end(kSecretParameters),
                                     [&](std::string_view one) { return is_same_name(name, one); });
  return is_secret ? size + 1 : 0;
}

/// How many bytes a URL's user and password have where `text` begins behind its scheme.
std::size_t userinfo_at(std::string_view text) {
  const std::string_view authority = text.substr(0, text.find_first_of("/ \"'"));
  const std::size_t at = authority.rfind('@');
  return at == std::string_view::npos ? 0 : at;
}

}  // namespace

namespace {

/// Without those of URLs, and with `shapes` without what is shaped like a secret.
std::string without(std::string_view message, bool shapes) {
  constexpr std::string_view kScheme = "://";
  std::string text;
  for (std::size_t at = 0; at < message.size();) {
    const std::string_view rest = message.substr(at);
    const std::size_t userinfo = rest.starts_with(kScheme) ? userinfo_at(rest.substr(kScheme.size())) : 0;
    if (userinfo > 0) {
      text.append(kScheme).append(kInstead);
      at += kScheme.size() + userinfo;
    } else if (const std::size_t name = secret_parameter_at(rest); name > 0) {
      text.append(rest.substr(0, name)).append(kInstead);
      at += name + std::min(rest.substr(name).find_first_of("& \t\n\"'#"), rest.size() - name);
    } else if (const std::size_t secret = shapes ? secret_at(rest, at == 0 ? '\0' : message[at - 1]) : 0;
               secret > 0) {
      text.append(rest.substr(0, kShown)).append(kInstead);
      at += secret;
    } else {
      text += message[at++];
    }
  }
  return text;
}

}  // namespace

std::string without_secrets(std::string_view message) {
  return without(message, true);
}

std::string without_url_secrets(std::string_view text) {
  return without(text, false);
}

std::string without_secrets_in_config(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end), key = run_of(line, is_of_word);
    // Where a secret's source, or its file, is named: the secret itself may stand there.
    const bool is_source =
        key == "secret" || key == "secret_key" || key == "metrics_key" || key.ends_with("tls_key");
    const bool is_shown_already = line.starts_with('#') || key == "store" || key == "bank";
    shown += is_shown_already ? std::string(line) : without(line, is_source);
    text.remove_prefix(end);
  }
  return shown;
}

namespace {

/// The end of a word's value: behind its last quote, or at the space after it.
std::size_t value_end(std::string_view text, std::size_t at) {
  if (at >= text.size() || text[at] != '\'') return std::min(text.find_first_of(" \t\n", at), text.size());
  for (++at; at < text.size() && text[at] != '\''; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

/// Whether the value of a word, or of a URI's parameter, is a secret by its name: password, sslpassword,
/// oauth_client_secret, scram_client_key, also in capitals and as other programs have it.
bool is_secret_word(std::string_view said) {
  std::string name(said);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const std::string_view part : {"password", "passwd", "secret", "token"})
    if (name.find(part) != std::string::npos) return true;
  return name == "pass" || name == "pwd" || name == "key" || name.ends_with("_key");
}

/// Of `password = value`.
std::string words_without_passwords(std::string_view text) {
  std::string shown;
  std::size_t at = 0;
  for (std::size_t equals = text.find('='); equals != std::string_view::npos; equals = text.find('=', at)) {
    std::size_t end = equals, value = std::min(text.find_first_not_of(" \t\n", equals + 1), text.size());
    while (end > at && std::string_view(" \t\n").find(text[end - 1]) != std::string_view::npos)
      --end;
    std::size_t begin = end;
    while (begin > at && is_of_word(text[begin - 1]))
      --begin;
    const bool is_secret = is_secret_word(text.substr(begin, end - begin));
    const std::size_t behind = value_end(text, value);
    shown.append(text.substr(at, (is_secret ? value : behind) - at)).append(is_secret ? kInstead : "");
    at = behind;
  }
  return shown.append(text.substr(at));
}

/// `user:password@` in front of a host; a password may have a `/`, which ends the authority for libpq.
std::size_t userinfo_of(std::string_view text) {
  const std::size_t at = text.substr(0, text.find('?')).rfind('@');
  return at == std::string_view::npos ? 0 : at;
}

/// A password may stand behind the user, and in the query: there any value goes whose name is not plain.
std::string uri_without_passwords(std::string_view text, std::size_t authority) {
  std::string shown(text.substr(0, authority));
  const std::string_view userinfo = text.substr(authority, userinfo_of(text.substr(authority)));
  shown.append(userinfo.substr(0, userinfo.find(':')));
  if (userinfo.find(':') != std::string_view::npos) shown.append(":").append(kInstead);
  std::string_view rest = text.substr(authority + userinfo.size());
  const std::size_t query = std::min(rest.find('?'), rest.size());
  shown.append(rest.substr(0, query));
  rest.remove_prefix(query);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&', 1));
    const std::string_view name = pair.substr(0, pair.find('='));
    const bool plain = !is_secret_word(name.substr(std::min<std::size_t>(1, name.size()))) &&
                       name.find('%') == std::string_view::npos;
    shown.append(plain ? pair : name);
    if (!plain && name.size() < pair.size()) shown.append("=").append(kInstead);
    rest.remove_prefix(pair.size());
  }
  return shown;
}

}  // namespace

std::string without_passwords(std::string_view connection) {
  constexpr std::string_view kScheme = "://";
  const std::size_t scheme = connection.find(kScheme);
  if (scheme == std::string_view::npos && connection.find('=') == std::string_view::npos)
    return uri_without_passwords(connection, std::min(connection.find(':') + 1, connection.size()));
  return scheme == std::string_view::npos ? words_without_passwords(connection)
                                          : uri_without_passwords(connection, scheme + kScheme.size());
}

}  // namespace lanemq::settings
