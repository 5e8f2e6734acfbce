// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lanemq::worker {

/// One event of a stream of server-sent events. The views live until the parser's next call.
struct SseEvent {
  std::string_view raw;   ///< its bytes as they came, with the line ends behind it
  std::string_view name;  ///< of `event:`; empty: it has none
  std::string_view data;  ///< its `data:` lines, joined by LF
  bool has_data = false;  ///< false for comments, for blank lines, and for events that say nothing
};

/// Cuts a stream of server-sent events (WHATWG HTML, 9.2) into whole events, in whatever pieces its bytes
/// arrive. Lines end in LF, CR or CRLF, also mixed; a byte order mark at the start is no part of a line.
///
/// The `raw` of all events together, with rest() behind them, is the stream, byte for byte. A comment or a
/// blank line in front of an event's first field is an event of its own, without data, so that it can be left
/// out. The LF of a CRLF that arrives apart from its CR stands in front of the next event's `raw`.
///
/// Bytes only: it neither needs nor checks UTF-8. Holds no more than one event, and allocates nothing once it
/// has held its longest one. Pure; not thread-safe.
class SseParser {
 public:
  /// A longer event, its line ends included, ends the parsing.
  static constexpr std::size_t kEventBytesMax = std::size_t{1024} * 1024;

  enum class Found : unsigned char {
    event,     ///< there is one
    nothing,   ///< all that was fed is used up
    too_long,  ///< an event is over kEventBytesMax; nothing comes any more
  };

  /// More of the stream. The bytes must stay where they are until next() has found nothing. Requires: it has
  /// since the last call, or there was none.
  void feed(std::string_view bytes);
  Found next(SseEvent& event);
  /// What was fed and is in no event yet: at the stream's end, an event that broke off. Requires: next() has
  /// found nothing.
  std::string_view rest() const { return carried_; }
  /// rest() read as if a blank line followed: for a stream that ends without one.
  SseEvent last_event();

 private:
  /// Finds line ends from left to right: LF, CR, or CR LF.
  class LineEnds {
   public:
    void read(std::string_view text, std::size_t from);
    /// The first CR or LF at or behind `from`, else the text's end. Requires: `from` never falls.
    std::size_t find(std::size_t from);

   private:
    std::size_t line_feed_from(std::size_t from) const;

    std::string_view text_;
    std::size_t line_feed_ = 0;  ///< the one found last: a text full of CRs is not searched for it each time
  };

  bool next_line(std::string_view& line);
  void cut(SseEvent& event);
  void read_fields(std::string_view raw, SseEvent& event);
  void read_field(std::string_view line, SseEvent& event);
  void keep_rest();

  std::string_view text_;        ///< what is being cut: the bytes fed, or carried_
  std::string carried_;          ///< the start of an event whose end has not come
  std::string joined_;           ///< data of several lines
  LineEnds ends_;                ///< of text_
  std::size_t event_begin_ = 0;  ///< in text_
  std::size_t line_begin_ = 0;   ///< in text_: the first line that was not seen whole
  std::size_t searched_ = 0;     ///< in text_: no line end stands between line_begin_ and it
  bool has_fields_ = false;      ///< the event has a line that is no comment
  bool after_return_ = false;    ///< a LF at line_begin_ belongs to the CR before it
  bool at_start_ = true;         ///< the first event is not cut yet
  bool too_long_ = false;
};

}  // namespace lanemq::worker
