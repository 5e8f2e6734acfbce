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

/// What is known of each item of a message without knowing what it says; the half of Items that the decoder
/// fills.
class ItemList {
 public:
  /// At least 1 after a message was read; more than 1 only of a batch.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// The message is a batch, of one item perhaps.
  bool is_batch() const { return batch_; }
  /// Why this item of a batch is refused; null: it is well-formed.
  const DecodeError* error(std::size_t i) const {
    return places_[i].error == 0 ? nullptr : &errors_[places_[i].error - 1];
  }
  /// The item's body; of a message that is no batch, the one inside its header.
  std::string_view body(std::size_t i) const { return places_[i].body; }

 protected:
  ItemList() = default;
  ~ItemList() = default;

 private:
  friend class Decoder;
  struct Place {
    std::string_view body;
    void* message = nullptr;  ///< of a batch: the structure in its variant
    std::uint32_t error = 0;  ///< from 1, in errors_; 0: none
    std::uint32_t extras_begin = 0, extras_end = 0, extras_count = 0;  ///< in the decoder's buffer
  };
  std::vector<Place> places_;
  std::vector<DecodeError> errors_;
  std::size_t size_ = 0;
  bool batch_ = false;
};

/// The items of a message as they were read, in their order. Used again from message to message, it keeps its
/// memory, which limits::batch_items_max bounds. What it holds lives until the next decode() into it or by
/// the same decoder, and as long as the frames.
template <class Message>
class Items : public ItemList {
 public:
  const Message& operator[](std::size_t i) const { return messages_[i]; }

 private:
  friend class Decoder;
  std::vector<Message> messages_;
};

/// Says whether a peer may send a batch.
class BatchRule {
 public:
  /// Why one of so many maps is refused as a whole; empty: it is taken. `first_says`: the field `batch` of
  /// its first map, 0 where there is none.
  virtual std::string refusal(std::size_t maps, std::int64_t first_says) const = 0;

 protected:
  ~BatchRule() = default;
};

/// Reads headers: one pass, no tree, no allocation for what the hot path carries. All limits are checked
/// while reading (docs/protocol.md, "Limits").
///
/// Not thread-safe: one decoder per thread. Views in a decoded message live until the next decode() and as
/// long as the frame.
class Decoder {
 public:
  /// `body_bytes_max` bounds a body inside the header; a body frame is for the caller to bound.
  /// `header_bytes_max`: another bound than that of the wire, for what was written by the reader itself.
  explicit Decoder(std::size_t body_bytes_max = limits::body_bytes_max,
                   std::size_t header_bytes_max = limits::header_bytes_max);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// A header frame that said `Message` (wire::ClientRequest, ClientReply, WorkerReport or WorkerCommand).
  /// Returns null on success, with `message` set and `body()` the body inside the header; else the error,
  /// which lives until the next decode().
  template <class Message>
  const DecodeError* decode(std::string_view header, Message& message);

  /// The same for a message that may be a batch. `body_frame` is the frame behind the header, if there is
  /// one: that of a batch is read, any other is left alone. Returns null when the message can be gone by,
  /// with `items` set; single items of a batch may be broken nevertheless. Else the error, and nothing of
  /// the message counts. `rule` is asked about a batch when its first map was read and before the others are;
  /// null: every batch is taken.
  template <class Message>
  const DecodeError* decode(std::string_view header, std::optional<std::string_view> body_frame,
                            Items<Message>& items, const BatchRule* rule = nullptr);

  /// The fourth element of the header last decoded; empty if there was none.
  std::string_view body() const;

  /// What the last decode() did, in bytes read or copied and keys compared: never more than
  /// kWorkPerByte times the header, and what a batch may inherit (limits::batch_inherited_bytes_max).
  std::size_t work() const;
  static constexpr std::size_t kWorkPerByte = 32;

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

extern template const DecodeError* Decoder::decode(std::string_view, wire::ClientRequest&);
extern template const DecodeError* Decoder::decode(std::string_view, std::optional<std::string_view>,
                                                   Items<wire::ClientRequest>&, const BatchRule*);
extern template const DecodeError* Decoder::decode(std::string_view, wire::ClientReply&);
extern template const DecodeError* Decoder::decode(std::string_view, std::optional<std::string_view>,
                                                   Items<wire::ClientReply>&, const BatchRule*);
extern template const DecodeError* Decoder::decode(std::string_view, wire::WorkerReport&);
extern template const DecodeError* Decoder::decode(std::string_view, std::optional<std::string_view>,
                                                   Items<wire::WorkerReport>&, const BatchRule*);
extern template const DecodeError* Decoder::decode(std::string_view, wire::WorkerCommand&);
extern template const DecodeError* Decoder::decode(std::string_view, std::optional<std::string_view>,
                                                   Items<wire::WorkerCommand>&, const BatchRule*);

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

/// Whether messages of this kind may go in batches: those about one job.
template <class Message>
bool can_be_batched();

/// A map that stands at the end of a buffer, ready to be put into a batch, and where its fields are.
struct BatchItem {
  static constexpr std::size_t kFieldsMax = 32;

  const wire::OpSpec* op = nullptr;
  std::size_t begin = 0, bytes = 0;         ///< of the map, in the buffer
  std::uint32_t said = 0;                   ///< which fields of the operation the map names, a bit each
  std::uint32_t extras = 0;                 ///< `x-` fields behind them
  std::uint16_t ends[kFieldsMax + 1] = {};  ///< from `begin`: of the map's head, then of each field
};

/// Writes the fields of `message` to the end of `buffer`. The caller puts the item into a batch before
/// anything else is written there. Requires: can_be_batched<Message>().
template <class Message>
BatchItem write_item(const Message& message, Buffer& buffer);
/// Writes the map of an item that was written before, to this buffer or another.
BatchItem copy_item(const BatchItem& item, std::string_view map, Buffer& buffer);

/// Messages of one operation to one peer that leave as one. A map that comes later leaves out what it shares
/// with the first one.
///
/// The items lie in a buffer that the owner names with each call, always the same one, and that may hold
/// anything else between them: many batches share one buffer, and none allocates. Ends with the buffer's
/// content.
class Batch {
 public:
  /// Begins with an item that was just written to the buffer.
  Batch(const BatchItem& first, std::string_view body, Buffer& buffer);
  /// Takes another item that was just written to the buffer. False: it belongs into a batch of its own, since
  /// the operation is another one, the batch has `items_max` already or grew too large for one message; the
  /// item is as it was. Requires: body.size() <= limits::inline_bytes_max.
  bool add(const BatchItem& item, std::string_view body, std::size_t items_max, Buffer& buffer);

  std::size_t items() const { return items_; }
  /// Where in the buffer each item stands: it tells which of several batches was given one first.
  std::vector<std::size_t> places(const Buffer& buffer) const;
  /// Writes the message, bodies inside it, to the end of `out`, which is another buffer. A single item makes
  /// an ordinary message.
  void write(const Buffer& buffer, Buffer& out) const;

 private:
  void append(const BatchItem& item, std::string_view body, Buffer& buffer);

  BatchItem first_;
  std::size_t last_ = 0;  ///< where the link of the last item stands
  std::size_t items_ = 0, maps_bytes_ = 0, bodies_bytes_ = 0;
  bool has_bodies_ = false;
};

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
