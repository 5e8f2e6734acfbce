// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>

#include <msgpack.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/text.hpp>

namespace lanemq {
namespace {

/// A visitor that writes JSON. Stops at values beyond the limits of a header.
class JsonWriter : public msgpack::null_visitor {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  bool visit_nil() { return plain("null"); }
  bool visit_boolean(bool value) { return plain(value ? "true" : "false"); }
  bool visit_positive_integer(std::uint64_t value) { return number(value); }
  bool visit_negative_integer(std::int64_t value) { return number(value); }
  bool visit_float32(float value) { return std::isfinite(value) ? number(value) : plain("null"); }
  bool visit_float64(double value) { return std::isfinite(value) ? number(value) : plain("null"); }
  bool visit_str(const char* data, std::uint32_t size) { return text({data, size}); }
  bool visit_bin(const char* data, std::uint32_t size) { return text({data, size}); }
  bool visit_ext(const char*, std::uint32_t) { return plain("null"); }

  bool start_array(std::uint32_t) {
    out_ += '[';
    return enter();
  }
  bool start_array_item() {
    separate('[');
    return true;
  }
  bool end_array() {
    out_ += ']';
    --depth_;
    return true;
  }
  bool start_map(std::uint32_t count) {
    out_ += '{';
    return count <= limits::map_entries_max && enter();
  }
  bool start_map_key() {
    separate('{');
    key_ = true;
    return true;
  }
  bool end_map_key() {
    out_ += ':';
    key_ = false;
    return true;
  }
  bool end_map() {
    out_ += '}';
    --depth_;
    return true;
  }
  void parse_error(std::size_t, std::size_t) {}
  void insufficient_bytes(std::size_t, std::size_t) {}

 private:
  bool enter() { return ++depth_ <= limits::header_depth_max && !key_; }
  void separate(char open) {
    if (out_.back() != open) out_ += ',';
  }
  bool plain(std::string_view value) {
    if (key_) return false;  // JSON keys are strings
    out_ += value;
    return true;
  }
  template <class Number>
  bool number(Number value) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    return plain({digits, end});
  }
  bool text(std::string_view value) {
    static constexpr char kHex[] = "0123456789abcdef";
    out_ += '"';
    const bool utf8 = is_utf8(value);
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (byte < 0x20 || byte == 0x7F || (byte > 0x7F && !utf8)) {
        // A byte that is no text becomes the character with its number.
        out_ += "\\u00";
        out_ += kHex[byte >> 4];
        out_ += kHex[byte & 15];
      } else {
        out_ += c;
      }
    }
    out_ += '"';
    return true;
  }

  std::string& out_;
  int depth_ = 0;
  bool key_ = false;
};

/// Whether a msgpack value has an integer format; a ref may be a string instead.
bool starts_integer(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  return lead < 0x80 || (lead >= 0xCC && lead <= 0xD3);
}

}  // namespace

std::string to_json(std::string_view bytes) {
  if (bytes.empty() || bytes.size() > limits::header_bytes_max) return {};
  std::string out;
  JsonWriter writer(out);
  std::size_t length = 0;
  const bool whole = msgpack::parse(bytes.data(), bytes.size(), length, writer);
  if (!whole || length != bytes.size()) return {};
  return out;
}

std::optional<std::uint64_t> ref_number(wire::Raw ref) {
  struct Visitor : msgpack::null_visitor {
    std::optional<std::uint64_t> number;
    bool visit_positive_integer(std::uint64_t value) {
      number = value;
      return true;
    }
    bool visit_negative_integer(std::int64_t value) {
      if (value >= 0) number = static_cast<std::uint64_t>(value);
      return true;
    }
  } visitor;
  if (!ref.present() || !starts_integer(ref.bytes)) return std::nullopt;
  std::size_t length = 0;
  msgpack::parse(ref.bytes.data(), ref.bytes.size(), length, visitor);
  return visitor.number;
}

wire::Raw number_ref(std::uint64_t number, Buffer& storage) {
  storage.clear();
  msgpack::packer<Buffer>(storage).pack(number);
  return {storage.view()};
}

}  // namespace lanemq
