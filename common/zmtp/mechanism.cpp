#include "common/zmtp/mechanism.h"

#include <utility>

namespace meshbus {

using namespace std::string_view_literals;

std::string Mechanism::fail(Failure failure, std::string why) {
  state_ = State::failed;
  failure_ = failure;
  why_failed_ = std::move(why);
  return {};
}

std::string socket_properties(std::string_view socket_type) {
  std::string properties("\13Socket-Type\0\0\0"sv);
  properties += static_cast<char>(socket_type.size());
  properties += socket_type;
  return properties;
}

bool is_fitting_peer(std::string_view properties) {
  constexpr std::size_t kLengthSize = 4;
  while (!properties.empty()) {
    const std::size_t name_size = static_cast<unsigned char>(properties[0]);
    properties.remove_prefix(1);
    if (properties.size() < name_size + kLengthSize) return false;
    const std::string_view name = properties.substr(0, name_size);
    std::size_t size = 0;
    for (const char c : properties.substr(name_size, kLengthSize))
      size = size << 8 | static_cast<unsigned char>(c);
    properties.remove_prefix(name_size + kLengthSize);
    if (properties.size() < size) return false;
    const std::string_view value = properties.substr(0, size);
    properties.remove_prefix(size);
    if (name == "Socket-Type") return value == "DEALER" || value == "ROUTER" || value == "REQ";
  }
  return true;
}

}  // namespace meshbus
