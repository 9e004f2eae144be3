#include "agent/mpi/letter.h"

#include <algorithm>
#include <cstring>

namespace meshbus::mpi {
namespace {

/// In front of each message: the bytes are those of the machine, as all hosts of an MPI job have
/// the same kind of CPU.
struct Head {
  std::uint64_t value;
  std::uint32_t index;
  std::uint32_t count;
  std::uint32_t key_size;
  std::uint32_t kind;
};

}  // namespace

std::vector<std::string> to_messages(const Letter& letter, std::size_t size) {
  const auto count = std::max<std::size_t>(1, (letter.body.size() + size - 1) / size);
  std::vector<std::string> messages;
  for (std::size_t index = 0; index < count; ++index) {
    const Head head{
        letter.value, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(count),
        static_cast<std::uint32_t>(letter.key.size()), static_cast<std::uint32_t>(letter.kind)};
    std::string message(sizeof head, '\0');
    std::memcpy(message.data(), &head, sizeof head);
    message += letter.key;
    message +=
        std::string_view(letter.body).substr(std::min(index * size, letter.body.size()), size);
    messages.push_back(std::move(message));
  }
  return messages;
}

std::optional<Letter> LetterAssembly::add(std::uint64_t sender, std::string_view message) {
  Head head{};
  if (message.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, message.data(), sizeof head);
  message.remove_prefix(sizeof head);
  if (head.key_size > message.size() ||
      head.kind > static_cast<std::uint32_t>(Letter::Kind::answer) || head.index >= head.count)
    return std::nullopt;
  Letter letter{.kind = static_cast<Letter::Kind>(head.kind),
                .key = std::string(message.substr(0, head.key_size)),
                .value = head.value,
                .body = {}};
  message.remove_prefix(head.key_size);
  const Key key{sender, {letter.kind, letter.key}};
  auto& open = open_[key];
  const bool is_next = open.next == head.index;
  if (is_next) {
    open.body += message;
    ++open.next;
  }
  if (is_next && open.next < head.count) return std::nullopt;
  letter.body = std::move(open.body);
  open_.erase(key);
  return is_next ? std::optional(std::move(letter)) : std::nullopt;
}

}  // namespace meshbus::mpi
