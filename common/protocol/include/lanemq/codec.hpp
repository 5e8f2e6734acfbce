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

/// Whether a frame is a header: it starts with `93 A4 "LMQ1"` or `94 A4 "LMQ1"`. Frames before the header are
/// the envelope.
bool is_header(std::string_view frame);
/// Whether a header holds its body as a fourth element, so that no body frame may follow it.
bool has_inline_body(std::string_view header);

/// Why a message could not be read, with the fields by which a reply is matched to it, as far as they were
/// read.
struct DecodeError {
  ErrorCode code = ErrorCode::bad_request;  ///< bad_request or too_large
  std::string message;
  std::string id;                      ///< empty: not read
  std::string ref;                     ///< as msgpack; empty: not read
  std::optional<std::uint64_t> job{};  ///< of a job handed over, or of an outcome; none: not read
  std::int64_t attempt = 1;            ///< of that job
};

namespace wire {
struct OpSpec;  // private to the codec
}

/// What is known of each item of a message, whatever its type: the part of Items that the decoder fills.
class ItemList {
 public:
  /// At least 1 after a message was read; more than 1 only for a batch.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Whether the message is a batch, perhaps of one item.
  bool is_batch() const { return batch_; }
  /// Why this item of a batch is refused; null: it is well-formed.
  const DecodeError* error(std::size_t i) const {
    return places_[i].error == 0 ? nullptr : &errors_[places_[i].error - 1];
  }
  /// The item's body; of a message that is no batch, the body inside its header.
  std::string_view body(std::size_t i) const { return places_[i].body; }

 protected:
  ItemList() = default;
  ~ItemList() = default;

 private:
  friend class Decoder;
  struct Place {
    std::string_view body;
    void* message = nullptr;  ///< of a batch: the structure inside its variant
    std::uint32_t error = 0;  ///< from 1, in errors_; 0: none
    std::uint32_t extras_begin = 0, extras_end = 0, extras_count = 0;  ///< in the decoder's buffer
  };
  std::vector<Place> places_;
  std::vector<DecodeError> errors_;
  std::size_t size_ = 0;
  bool batch_ = false;
};

/// The items of a message, in order. Used again for the next message, it keeps its memory, which
/// limits::batch_items_max bounds. Valid until the next decode() into it or by the same decoder, and as long
/// as the frames.
template <class Message>
class Items : public ItemList {
 public:
  const Message& operator[](std::size_t i) const { return messages_[i]; }
  Message& operator[](std::size_t i) { return messages_[i]; }

 private:
  friend class Decoder;
  std::vector<Message> messages_;
};

/// Decides whether a peer may send a batch.
class BatchRule {
 public:
  /// Why a batch of this many maps is refused; empty: it is accepted. `first_says`: the field `batch` of its
  /// first map; 0: none.
  virtual std::string refusal(std::size_t maps, std::int64_t first_says) const = 0;

 protected:
  ~BatchRule() = default;
};

/// Reads headers: one pass, no tree, no allocation for what the hot path carries. All limits are checked
/// while reading (docs/protocol/README.md, "Limits").
///
/// Not thread-safe: one decoder per thread. Views in a decoded message live until the next decode() and as
/// long as the frame.
class Decoder {
 public:
  /// `body_bytes_max` bounds bodies inside headers; the caller bounds body frames. `header_bytes_max`: may
  /// exceed the wire's bound for headers that the reader has written itself.
  explicit Decoder(std::size_t body_bytes_max = limits::body_bytes_max,
                   std::size_t header_bytes_max = limits::header_bytes_max);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// From now on a value that passes through holds no ext: not every library of msgpack reads each of them.
  /// For who passes on what strangers say; who reads what was passed on takes it as it is.
  void refuse_ext();

  /// Decodes a header frame that should be a `Message` (wire::ClientRequest, ClientReply, WorkerReport or
  /// WorkerCommand). On success returns null, with `message` set and the header's body in body(). Else
  /// returns the error, which is valid until the next decode().
  template <class Message>
  const DecodeError* decode(std::string_view header, Message& message);

  /// The same for a message that may be a batch. `body_frame`: the frame after the header, if any; it is
  /// read only for a batch. On success returns null, with `items` set, of which single ones may have an
  /// error. Else returns the error, and no item counts. `rule` is asked about a batch after its first map was
  /// read; null: every batch is accepted.
  template <class Message>
  const DecodeError* decode(std::string_view header, std::optional<std::string_view> body_frame,
                            Items<Message>& items, const BatchRule* rule = nullptr);

  /// The fourth element of the last header; empty: there was none.
  std::string_view body() const;

  /// The work of the last decode(): bytes read or copied, and keys compared. At most kWorkPerByte times the
  /// header, plus limits::batch_inherited_bytes_max.
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
  /// Makes room for `size` more bytes and returns its address.
  char* extend(std::size_t size) {
    if (size_ + size > bytes_.size()) grow(size);
    char* place = bytes_.data() + size_;
    size_ += size;
    return place;
  }
  /// Ends the content at `end`, to give back unused room. Requires: `end` points into the content.
  void end_at(const char* end) { size_ = static_cast<std::size_t>(end - bytes_.data()); }
  /// Drops all but the first `size` bytes. Requires: there are as many.
  void shrink(std::size_t size) { size_ = size; }
  std::string_view view() const { return {bytes_.data(), size_}; }
  std::size_t size() const { return size_; }

 private:
  void grow(std::size_t size) { bytes_.resize((size_ + size) * 2 + 256); }

  std::vector<char> bytes_;
  std::size_t size_ = 0;
};

/// Appends the header of `message` to `out`. Fields with their default are left out. `Message`: a structure
/// of messages.hpp.
template <class Message>
void encode(const Message& message, Buffer& out);
/// The same with the body as the header's fourth element. For bodies up to limits::inline_bytes_max.
template <class Message>
void encode(const Message& message, std::string_view body, Buffer& out);

/// Appends the fields of `message` as one msgpack map: an entry of a list in another message.
void encode_fields(const wire::StatusReply& message, Buffer& out);

/// Whether messages of this kind may go in batches: those about one job.
template <class Message>
bool can_be_batched();

/// A map at the end of a buffer that can be added to a batch, and where its fields are.
struct BatchItem {
  static constexpr std::size_t kFieldsMax = 32;

  const wire::OpSpec* op = nullptr;
  std::size_t begin = 0, bytes = 0;  ///< of the map, in the buffer
  std::uint32_t said = 0;            ///< the fields that the map names, a bit each
  std::uint32_t extras = 0;          ///< number of `x-` fields after these
  std::uint16_t ends[kFieldsMax + 1] =
      {};  ///< offsets from `begin`: the end of the map's head, then of each field
};

/// Appends the fields of `message` to `buffer`. Requires: can_be_batched<Message>(), and the caller adds the
/// item to a batch before it writes anything else there.
template <class Message>
BatchItem write_item(const Message& message, Buffer& buffer);
/// Appends the map of an item that was written earlier, to this buffer or another.
BatchItem copy_item(const BatchItem& item, std::string_view map, Buffer& buffer);

/// Messages of one operation to one peer, sent as one. A later map leaves out the fields it shares with the
/// first.
///
/// The items lie in a buffer that the caller passes to each call, always the same one. Other content may lie
/// between them, so that many batches share a buffer and none allocates. The batch is valid as long as the
/// buffer's content.
class Batch {
 public:
  /// Begins with an item that was just written to the buffer.
  Batch(const BatchItem& first, std::string_view body, Buffer& buffer);
  /// Adds another item that was just written to the buffer. False, with the item unchanged: it needs a batch
  /// of its own, since its operation differs, or the batch has `items_max` items or is too large. Requires:
  /// body.size() <= limits::inline_bytes_max.
  bool add(const BatchItem& item, std::string_view body, std::size_t items_max, Buffer& buffer);

  std::size_t items() const { return items_; }
  /// The offset of each item in the buffer, which shows which of several batches got an item first.
  std::vector<std::size_t> places(const Buffer& buffer) const;
  /// Appends the message, with its bodies, to `out`, which is another buffer. A single item becomes an
  /// ordinary message.
  void write(const Buffer& buffer, Buffer& out) const;

 private:
  void append(const BatchItem& item, std::string_view body, Buffer& buffer);

  BatchItem first_;
  std::size_t last_ = 0;  ///< offset of the last item's Link
  std::size_t items_ = 0, maps_bytes_ = 0, bodies_bytes_ = 0;
  bool has_bodies_ = false;
};

/// Writes a document (a msgpack map, array, ...) value by value: for `stats`, and values that pass through.
class DocumentWriter {
 public:
  explicit DocumentWriter(Buffer& out) : out_(out) {}
  DocumentWriter& map(std::size_t entries);
  DocumentWriter& array(std::size_t entries);
  DocumentWriter& text(std::string_view value);
  DocumentWriter& integer(std::int64_t value);
  DocumentWriter& number(double value);
  DocumentWriter& boolean(bool value);
  /// Appends msgpack from another writer.
  DocumentWriter& written(std::string_view msgpack);

 private:
  Buffer& out_;
};

/// msgpack as JSON text, for people and tools: binary becomes a string, other types without a JSON form
/// become null. Empty: the bytes are not one well-formed value within the header's limits.
std::string to_json(std::string_view msgpack);

/// The number in a ref; none: it is no integer, or negative.
std::optional<std::uint64_t> ref_number(wire::Raw ref);
/// A ref with that number, as msgpack in `storage`.
wire::Raw number_ref(std::uint64_t number, Buffer& storage);

}  // namespace lanemq
