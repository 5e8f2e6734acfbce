// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lanemq::worker {

/// One server-sent event. The views are valid until the parser's next call.
struct SseEvent {
  std::string_view raw;   ///< its bytes as received, with the line ends behind it
  std::string_view name;  ///< of `event:`; empty: none
  std::string_view data;  ///< its `data:` lines, joined by LF
  bool has_data = false;  ///< false: a comment, a blank line, or an event without data
};

/// Cuts a stream of server-sent events (WHATWG HTML, 9.2) into whole events, however its bytes arrive. Lines
/// end in LF, CR or CRLF, also mixed; a byte order mark at the start is skipped.
///
/// The `raw` of all events, then rest(), is the stream, byte for byte. A comment or blank line in front of an
/// event's first field is an event of its own, without data, so that it can be dropped. The LF of a CRLF that
/// arrives after its CR begins the next event's `raw`.
///
/// Neither needs nor checks UTF-8. Holds at most one event, and allocates nothing after its longest one.
/// Pure; not thread-safe.
class SseParser {
 public:
  /// A longer event, with its line ends, ends the parsing.
  static constexpr std::size_t kEventBytesMax = std::size_t{1024} * 1024;

  enum class Found : unsigned char {
    event,     ///< an event was cut
    nothing,   ///< all bytes are used up
    too_long,  ///< an event is over kEventBytesMax; no more events come
  };

  /// Adds bytes of the stream, which must stay valid until next() returns `nothing`. Requires: next() has
  /// returned that since the last call.
  void feed(std::string_view bytes);
  Found next(SseEvent& event);
  /// The bytes that are in no event yet: at the stream's end a broken-off event. Requires: next() has
  /// returned `nothing`.
  std::string_view rest() const { return carried_; }
  /// rest() read as if a blank line followed, for a stream that ends without one.
  SseEvent last_event();

 private:
  /// Finds line ends (LF, CR or CRLF) from left to right.
  class LineEnds {
   public:
    void read(std::string_view text, std::size_t from);
    /// The first CR or LF at or behind `from`, else the text's end. Requires: `from` never decreases.
    std::size_t find(std::size_t from);

   private:
    std::size_t line_feed_from(std::size_t from) const;

    std::string_view text_;
    std::size_t line_feed_ = 0;  ///< the last LF found: a text full of CRs is not searched again for each
  };

  bool next_line(std::string_view& line);
  void cut(SseEvent& event);
  void read_fields(std::string_view raw, SseEvent& event);
  void read_field(std::string_view line, SseEvent& event);
  void keep_rest();

  std::string_view text_;        ///< the bytes being cut: those fed, or carried_
  std::string carried_;          ///< the beginning of an event
  std::string joined_;           ///< data of several lines
  LineEnds ends_;                ///< of text_
  std::size_t event_begin_ = 0;  ///< position in text_
  std::size_t line_begin_ = 0;   ///< position in text_ of the first incomplete line
  std::size_t searched_ = 0;     ///< position in text_: no line end between line_begin_ and it
  bool has_fields_ = false;      ///< the event has a line that is no comment
  bool after_return_ = false;    ///< a LF at line_begin_ belongs to the CR before it
  bool at_start_ = true;         ///< no event was cut yet
  bool too_long_ = false;
};

}  // namespace lanemq::worker
