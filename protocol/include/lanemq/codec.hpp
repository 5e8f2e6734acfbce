// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <lanemq/error_table.hpp>
#include <lanemq/limits.hpp>
#include <lanemq/messages.hpp>

namespace lanemq {

/// Whether a frame is a header: it starts with `93 A4 "LMQ1"` or `94 A4 "LMQ1"`. Frames before it are
/// envelope.
bool is_header(std::string_view frame);
/// Whether a header holds its body as a fourth element, so that no body frame may follow it.
bool has_inline_body(std::string_view header);

/// Why a message could not be read, with what a reply needs to be matched to it, where that could be read.
struct DecodeError {
  ErrorCode code = ErrorCode::bad_request;  ///< bad_request or too_large
  std::string message;
  std::string id;   ///< empty: not read
  std::string ref;  ///< msgpack; empty: not read
};

namespace wire {
struct OpSpec;  // private to the codec
}

/// Reads headers: one pass, no tree, no allocation for what the hot path carries. All limits are checked
/// while reading (docs/protocol.md, "Limits").
///
/// Not thread-safe: one decoder per thread. Views in a decoded message live until the next decode() and as
/// long as the frame.
class Decoder {
 public:
  /// `body_bytes_max` bounds a body inside the header; a body frame is for the caller to bound.
  explicit Decoder(std::size_t body_bytes_max = limits::body_bytes_max);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// A header frame that said `Message` (wire::ClientRequest, ClientReply, WorkerReport or WorkerCommand).
  /// Returns null on success, with `message` set and `body()` the body inside the header; else the error,
  /// which lives until the next decode().
  template <class Message>
  const DecodeError* decode(std::string_view header, Message& message);

  /// The fourth element of the header last decoded; empty if there was none.
  std::string_view body() const;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

extern template const DecodeError* Decoder::decode(std::string_view, wire::ClientRequest&);
extern template const DecodeError* Decoder::decode(std::string_view, wire::ClientReply&);
extern template const DecodeError* Decoder::decode(std::string_view, wire::WorkerReport&);
extern template const DecodeError* Decoder::decode(std::string_view, wire::WorkerCommand&);

/// A growing byte buffer that keeps its memory between messages.
class Buffer {
 public:
  void clear() { size_ = 0; }
  void write(const char* data, std::size_t size) {
    if (size > 0) std::memcpy(extend(size), data, size);
  }
  /// Makes room for `size` more bytes and returns their place.
  char* extend(std::size_t size) {
    if (size_ + size > bytes_.size()) grow(size);
    char* place = bytes_.data() + size_;
    size_ += size;
    return place;
  }
  /// Gives back room that was made and not used: the content ends at `end`, which lies inside it.
  void end_at(const char* end) { size_ = static_cast<std::size_t>(end - bytes_.data()); }
  /// Drops what was written behind the first `size` bytes. Requires: there are as many.
  void shrink(std::size_t size) { size_ = size; }
  std::string_view view() const { return {bytes_.data(), size_}; }
  std::size_t size() const { return size_; }

 private:
  void grow(std::size_t size) { bytes_.resize((size_ + size) * 2 + 256); }

  std::vector<char> bytes_;
  std::size_t size_ = 0;
};

/// Writes the header of `message` to `out`, after what is there. Fields at their default are left out.
/// `Message` is one of the structures in messages.hpp.
template <class Message>
void encode(const Message& message, Buffer& out);
/// The same with the body inside the header, as its fourth element. For bodies up to
/// limits::inline_bytes_max.
template <class Message>
void encode(const Message& message, std::string_view body, Buffer& out);

/// Writes the fields of `message` alone, as one msgpack map: an entry of a list inside another message.
void encode_fields(const wire::StatusReply& message, Buffer& out);

/// Writes a document (a msgpack map, an array, ...) value by value; for `stats` and for values that pass
/// through.
class DocumentWriter {
 public:
  explicit DocumentWriter(Buffer& out) : out_(out) {}
  DocumentWriter& map(std::size_t entries);
  DocumentWriter& array(std::size_t entries);
  DocumentWriter& text(std::string_view value);
  DocumentWriter& integer(std::int64_t value);
  DocumentWriter& number(double value);
  DocumentWriter& boolean(bool value);
  /// What another writer wrote, as it is.
  DocumentWriter& written(std::string_view msgpack);

 private:
  Buffer& out_;
};

/// msgpack as JSON text, for people and for tools: binary becomes a string, other exotic values become null.
/// Returns an empty string when the bytes are not one well-formed value within the header limits.
std::string to_json(std::string_view msgpack);

/// A ref that is a non-negative integer, as a number.
std::optional<std::uint64_t> ref_number(wire::Raw ref);
/// A ref that is a non-negative integer, as msgpack in `storage`.
wire::Raw number_ref(std::uint64_t number, Buffer& storage);

}  // namespace lanemq
