#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace meshbus::os {

/// What the host agent writes to the stdin of a meshbus-hands that has a terminal: records of a
/// type, a length and that many bytes, in native layout, because both are of one build on one
/// machine.
enum class TerminalRecord : std::uint8_t {
  input = 1,        ///< What is typed.
  size = 2,         ///< A TerminalSize.
  end_of_file = 3,  ///< Nothing more is typed. Without bytes.
};

struct TerminalRecordHead {
  TerminalRecord type = TerminalRecord::input;
  std::uint8_t reserved = 0;
  std::uint16_t length = 0;
};

struct TerminalSize {
  std::uint16_t rows = 0;
  std::uint16_t columns = 0;

  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

/// Bytes of one record at most.
inline constexpr std::size_t kMostTerminalBytes = 32 * 1024;

/// Appends a record to `out`.
inline void add_terminal_record(std::string& out, TerminalRecord type, std::string_view bytes) {
  const TerminalRecordHead head{.type = type, .length = static_cast<std::uint16_t>(bytes.size())};
  out.append(reinterpret_cast<const char*>(&head), sizeof head);
  out.append(bytes);
}

/// The same for input of any length.
inline void add_terminal_input(std::string& out, std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMostTerminalBytes)))
    add_terminal_record(out, TerminalRecord::input, bytes.substr(0, kMostTerminalBytes));
}

inline void add_terminal_size(std::string& out, const TerminalSize& size) {
  add_terminal_record(out, TerminalRecord::size,
                      {reinterpret_cast<const char*>(&size), sizeof size});
}

/// Takes records off the front of what was read. Pure.
class TerminalRecords {
 public:
  void add(std::string_view bytes) { bytes_.append(bytes); }
  /// The next whole record; false: there is none yet. `bytes` is valid until the next add().
  bool next(TerminalRecord& type, std::string_view& bytes) {
    TerminalRecordHead head;
    if (bytes_.size() - at_ < sizeof head) return give_up();
    std::memcpy(&head, bytes_.data() + at_, sizeof head);
    if (bytes_.size() - at_ < sizeof head + head.length) return give_up();
    type = head.type;
    bytes = std::string_view(bytes_).substr(at_ + sizeof head, head.length);
    at_ += sizeof head + head.length;
    return true;
  }

 private:
  bool give_up() {
    bytes_.erase(0, at_);
    at_ = 0;
    return false;
  }
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace meshbus::os
