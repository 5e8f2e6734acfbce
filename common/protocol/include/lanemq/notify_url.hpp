// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq {

/// Why a text cannot be the `notify` of a submit; empty: it can. Part of a sentence about the field. Bounds
/// its form, not its length.
///
/// A URL is taken where all who read it later read the same: http or https, then a host, which is a name as
/// DNS has them (RFC 1123, with `_`), an IPv4 address of four decimal numbers or an IPv6 address in brackets
/// without a zone, then perhaps a port, path, query and fragment of visible ASCII with whole
/// percent-encodings (RFC 3986). Other spellings of an address, such as 010.1.2.3, 0x7f.1 or 2130706433, are
/// another address to each reader; they and credentials are refused.
std::string notify_problem(std::string_view url);

/// Who is called: `hooks.example.com:443`, `10.1.2.3:8080`, `[::1]:80`; the host in lower case, the port
/// always. Requires: notify_problem(url) is empty.
std::string receiver_of(std::string_view url);

}  // namespace lanemq
