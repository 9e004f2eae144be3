#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshbus::mpi {

/// What one helper sends to another. May be larger than a message of the bus. A plain value.
struct Letter {
  enum class Kind : std::uint8_t {
    part,    ///< To the root of an exchange: what the ranks of one host give.
    whole,   ///< From the root of an exchange: what all have given.
    ask,     ///< For what one rank has put.
    answer,  ///< To `ask`.
  };
  Kind kind = Kind::part;
  std::string key;          ///< Names the exchange, or the question.
  std::uint64_t value = 0;  ///< Depends on the kind: a rank, a status.
  std::string body;         ///< Any bytes.

  friend bool operator==(const Letter&, const Letter&) = default;
};

/// The messages that make up a letter, each of at most `size` bytes of body.
std::vector<std::string> to_messages(const Letter& letter, std::size_t size = 512 * 1024);

/// Puts the messages of letters together again. Pure.
class LetterAssembly {
 public:
  /// The letter that this message completes. Messages of one sender come in order; what is
  /// malformed is ignored.
  std::optional<Letter> add(std::uint64_t sender, std::string_view message);

 private:
  struct Open {
    std::string body;
    std::uint32_t next = 0;
  };
  using Key = std::pair<std::uint64_t, std::pair<Letter::Kind, std::string>>;
  std::map<Key, Open> open_;
};

}  // namespace meshbus::mpi
