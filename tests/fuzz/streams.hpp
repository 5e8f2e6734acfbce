// SPDX-License-Identifier: Apache-2.0
// What any bytes are put through as a stream of events, and as a request's body.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanemq::fuzz {

/// Cuts the bytes into events twice, as a whole and in pieces whose sizes follow from the bytes, reads each
/// event as both model APIs do, and aborts where the two differ or a byte is lost.
void check_events(std::string_view bytes);
/// Edits the bytes as a request's body and aborts where an edit that was made is made again.
void check_request(std::string_view bytes);

std::vector<std::string> event_seeds();
std::vector<std::string> request_seeds();

}  // namespace lanemq::fuzz
