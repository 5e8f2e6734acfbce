// SPDX-License-Identifier: Apache-2.0
#include "common/sqlite/file_header.hpp"

#include <array>
#include <fstream>
#include <string_view>

namespace lanemq::sqlite {
namespace {

// https://www.sqlite.org/fileformat.html, "The Database Header".
constexpr std::size_t kHeaderBytes = 100, kUserVersionAt = 60, kApplicationIdAt = 68;
constexpr std::string_view kMagic{"SQLite format 3\0", 16};

using Bytes = std::array<char, kHeaderBytes>;

std::int64_t number_at(const Bytes& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
  return static_cast<std::int32_t>(number);
}

}  // namespace

std::optional<FileHeader> read_header(const std::string& path) {
  Bytes bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  if (file.gcount() == 0) return std::nullopt;
  if (static_cast<std::size_t>(file.gcount()) < bytes.size() ||
      std::string_view(bytes.data(), kMagic.size()) != kMagic)
    return FileHeader{};
  return FileHeader{.is_database = true,
                    .user_version = number_at(bytes, kUserVersionAt),
                    .application_id = number_at(bytes, kApplicationIdAt)};
}

}  // namespace lanemq::sqlite
