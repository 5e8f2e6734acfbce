// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lanemq {

/// Why a URL cannot be a target: it must be http or https, with a host and without credentials, which belong
/// into a header. Empty: it can.
std::string http_url_problem(const std::string& url);

/// What a URL is made of, as libcurl reads it: whoever judges these parts and calls what is put together from
/// them again judges what is called.
struct HttpUrlParts {
  std::string scheme;      ///< `http` or `https`
  std::string host;        ///< in lower case; an IPv6 address in brackets
  std::uint16_t port = 0;  ///< that of the scheme, where the URL names none
  std::string target;      ///< path and query, still encoded; without the fragment, which is not sent
};
/// Requires: http_url_problem(url) is empty.
HttpUrlParts parts_of_url(const std::string& url);

/// Whether others can read what is sent there: http, and not to this machine. A name but localhost may stand
/// for any address. Requires: http_url_problem(url) is empty.
bool goes_in_clear(const std::string& url);

/// Whether the URL's host is of one's own network: this machine, a private or link-local address (RFC 1918,
/// RFC 4193), or a name that the public DNS does not have (without a dot, or below local, internal, lan or
/// home.arpa). Looks at the text alone. Requires: http_url_problem(url) is empty.
bool is_own_host(const std::string& url);

}  // namespace lanemq
