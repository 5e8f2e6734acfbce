// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>
#include <lanemq/codec.hpp>

namespace lanemq::core {

enum class Peer : std::uint8_t { client, worker, admin };

/// One message to send. Its bytes are in the outbox, but for a large body.
struct Send {
  Peer peer;
  std::uint32_t address_begin, envelope_begin, header_begin, end;  ///< in Outbox::bytes
  Blob body;  ///< a frame of its own behind the header; empty: none
};

/// Something that an operator may want to read in a log.
struct Notice {
  enum class Kind : std::uint8_t {
    worker_ready,
    worker_left,
    worker_lost,
    upstream_opened,
    upstream_closed,
    key_spent,
    changed_by_operator
  };
  Kind kind;
  std::string worker{}, session{};
  std::size_t jobs = 0;       ///< that it held, or may hold (worker_ready)
  std::string service{};      ///< whose upstream it is
  std::int64_t retry_ms = 0;  ///< upstream_opened: when it is tried again
  std::string key{}, code{};  ///< key_spent: its name, and how the upstream refused it
  /// changed_by_operator: the verb of the op admin, of what, and how.
  std::string verb{}, what{}, name{}, how{};
};

/// What a turn wants done, in order. Owns everything that it names, so that its sends can wait for its writes
/// while later turns go on.
///
/// Messages are encoded here rather than by the adapter: the bytes of a turn lie in one block that is used
/// again, and nothing points into records that may be gone when they are sent.
class Outbox {
 public:
  bool empty() const { return sends.empty() && notices.empty(); }
  void clear() {
    bytes.clear();
    sends.clear();
    notices.clear();
  }
  std::string_view address(const Send& send) const { return part(send.address_begin, send.envelope_begin); }
  std::string_view envelope(const Send& send) const { return part(send.envelope_begin, send.header_begin); }
  std::string_view header(const Send& send) const { return part(send.header_begin, send.end); }

  /// Appends a message with its body: inside the header when it is small, else as a frame that shares it.
  template <class Message>
  void add(Peer peer, std::string_view address, std::string_view envelope, const Message& message,
           const Blob& body = {}) {
    Send send{
        .peer = peer, .address_begin = here(), .envelope_begin = 0, .header_begin = 0, .end = 0, .body = {}};
    bytes.write(address.data(), address.size());
    send.envelope_begin = here();
    bytes.write(envelope.data(), envelope.size());
    send.header_begin = here();
    if (body.empty()) {
      encode(message, bytes);
    } else if (body.size() <= limits::inline_bytes_max) {
      encode(message, body.bytes(), bytes);
    } else {
      encode(message, bytes);
      send.body = body.owned();
    }
    send.end = here();
    sends.push_back(std::move(send));
  }

  std::vector<Send> sends;
  std::vector<Notice> notices;
  Buffer bytes;

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(bytes.size()); }
  std::string_view part(std::uint32_t begin, std::uint32_t end) const {
    return bytes.view().substr(begin, end - begin);
  }
};

}  // namespace lanemq::core
