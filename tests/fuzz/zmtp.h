#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/wire/frame.h"

namespace meshbus::fuzz {

using Message = std::vector<std::string>;

/// What is to be heard of a stream that ends.
struct Reading {
  bool opens = false;
  std::vector<Message> messages;
};

inline bool is_fitting(std::string_view properties) {
  while (!properties.empty()) {
    const auto name_size = static_cast<unsigned char>(properties[0]);
    if (properties.size() < name_size + std::size_t{5}) return false;
    const std::string_view name = properties.substr(1, name_size);
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i)
      size = size << 8 | static_cast<unsigned char>(properties[name_size + 1 + i]);
    properties.remove_prefix(name_size + std::size_t{5});
    if (properties.size() < size) return false;
    const std::string_view value = properties.substr(0, size);
    if (name == "Socket-Type") return value == "DEALER" || value == "ROUTER" || value == "REQ";
    properties.remove_prefix(size);
  }
  return true;
}

/// Reads a peer's bytes as ZMTP 3.0 specifies, in the plainest way.
inline Reading read_plainly(std::string_view bytes) {
  Reading reading;
  if (bytes.size() < 64 || bytes[0] != '\xff' || bytes[9] != '\x7f' ||
      static_cast<unsigned char>(bytes[10]) < 3)
    return reading;
  std::string mechanism = "NULL";
  mechanism.resize(20);
  if (bytes.substr(12, 20) != mechanism) return reading;
  bytes.remove_prefix(64);
  Message parts;
  for (bool is_first = true; bytes.size() >= 2; is_first = false) {
    const auto flags = static_cast<unsigned char>(bytes[0]);
    if (flags > 7) break;
    std::uint64_t size = static_cast<unsigned char>(bytes[1]);
    std::size_t header = 2;
    if ((flags & 2) != 0) {
      header = 9;
      if (bytes.size() < header) break;
      size = 0;
      for (std::size_t i = 1; i < header; ++i)
        size = size << 8 | static_cast<unsigned char>(bytes[i]);
    }
    if (size > kPartLimit || bytes.size() - header < size) break;
    const std::string_view body = bytes.substr(header, static_cast<std::size_t>(size));
    bytes.remove_prefix(header + body.size());
    const bool is_command = (flags & 4) != 0;
    if (is_first) {
      reading.opens = is_command && body.starts_with("\5READY") && is_fitting(body.substr(6));
      if (!reading.opens) break;
    } else if (!is_command) {
      if (parts.size() == kMostParts) break;
      parts.emplace_back(body);
      if ((flags & 1) == 0) reading.messages.push_back(std::exchange(parts, {}));
    }
  }
  return reading;
}

}  // namespace meshbus::fuzz
