// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lanemq::http {

/// Bounds of a request.
struct ReaderLimits {
  std::size_t head_bytes_max = std::size_t{32} * 1024;  ///< request line and fields, with their line ends
  std::size_t fields_max = 256;
  std::size_t trailer_bytes_max = std::size_t{8} * 1024;
  std::size_t chunk_head_bytes_max = 256;  ///< of one chunk: its size and extensions
  /// Of all chunks' extensions together: they are dropped, but reading them costs.
  std::size_t extension_bytes_max = std::size_t{16} * 1024;
};

/// Why a request is not served. After one that cannot be read the next one's start is unknown: the connection
/// must close.
struct ReaderRefusal {
  int status = 400;   ///< as RFC 9110 and 9112 want it
  std::string why{};  ///< a part of a sentence, as in "the field name \"a b\" is no token"
};

/// Request line and fields.
struct RequestHead {
  std::string method{};     ///< as it came: methods are case-sensitive
  std::string path{};       ///< as it came, percent signs and all; `*` for OPTIONS
  std::string query{};      ///< behind the `?`, as it came
  std::string authority{};  ///< of an absolute target, else of Host; may be empty
  bool http_1_0 = false;
  bool keep_alive = true;
  bool expects_continue = false;  ///< the sender waits for a 100 before it sends the body
  bool chunked = false;           ///< the body's length is not announced
  std::optional<std::uint64_t>
      content_length{};  ///< as announced; greater numbers are cut to the type's greatest
  std::vector<std::pair<std::string, std::string>> fields{};  ///< in their order, names in lower case

  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

/// Reads HTTP/1 requests from bytes, however these are cut: a pure state machine, strict by RFC 9112.
///
/// It keeps the bytes of the head and of the present line. It keeps no body: pieces are views into what
/// take() was given. It allocates nothing for what is only announced.
class RequestReader {
 public:
  enum class Event : unsigned char {
    more,     ///< all bytes were taken; it wants more
    head,     ///< head() is complete; the body, if any, comes next
    body,     ///< `piece` is a part of the body
    end,      ///< the request is complete; next() begins another one
    refusal,  ///< refusal() says why; it takes nothing more
  };
  struct Taken {
    Event event = Event::more;
    std::size_t bytes = 0;     ///< bytes that were taken; the rest is for the next call
    std::string_view piece{};  ///< of the body, within the bytes given
  };

  explicit RequestReader(const ReaderLimits& limits) : limits_(limits) {}

  /// Takes bytes up to the next event. After `head` it may be called without bytes, since `end` may need
  /// none.
  Taken take(std::string_view bytes);
  /// Refuses a longer body with 413 as soon as its length is known. To be called at the event `head`; else
  /// there is no bound.
  void limit_body(std::uint64_t bytes) { body_bytes_max_ = bytes; }
  /// Begins the next request. Requires: this one has ended.
  void next();

  /// Valid from the event `head` on, until next().
  const RequestHead& head() const { return head_; }
  RequestHead take_head() { return std::move(head_); }
  /// Valid from the event `refusal` on.
  const ReaderRefusal& refusal() const { return refusal_; }
  /// Whether nothing of a request was taken yet.
  bool idle() const { return state_ == State::first_line && head_bytes_ == 0; }

 private:
  enum class State : unsigned char {
    first_line,
    field_line,
    sized_body,
    chunk_head,
    chunk_data,
    chunk_end,  ///< the line end behind a chunk
    trailer_line,
    ended,
    refused,
  };

  Taken take_step(std::string_view bytes);
  std::size_t take_line(std::string_view bytes, std::size_t room, bool& whole);
  Taken take_head_line(std::string_view bytes);
  Taken take_data(std::string_view bytes);
  Taken take_chunk_head(std::string_view bytes);
  Taken take_chunk_end(std::string_view bytes);
  Taken take_trailer_line(std::string_view bytes);
  Taken refuse(std::size_t bytes, int status, std::string why);
  bool fail(int status, std::string why);

  bool read_first_line(std::string_view line);
  bool read_target(std::string_view target);
  bool read_field(std::string_view line);
  bool finish_head();
  bool read_transfer_coding();
  bool read_content_length();
  bool read_host();
  bool read_expectation();
  void read_connection();
  bool read_chunk_head(std::string_view line);
  std::size_t count(std::string_view name) const;
  std::string_view value(std::string_view name) const;

  ReaderLimits limits_;
  State state_ = State::first_line;
  bool after_cr_ = false;  ///< of the present line
  std::string line_;       ///< without its end
  std::size_t head_bytes_ = 0, trailer_bytes_ = 0, extension_bytes_ = 0, empty_lines_ = 0;
  std::uint64_t left_ = 0;  ///< of the body, or of its chunk
  std::uint64_t body_bytes_ = 0, body_bytes_max_ = UINT64_MAX;
  bool absolute_ = false;  ///< the target names the authority
  RequestHead head_;
  ReaderRefusal refusal_;
};

}  // namespace lanemq::http
