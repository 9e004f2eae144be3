#include "agent/mpi/exchange.h"

#include <utility>

namespace meshbus::mpi {

void Exchange::begin(const std::string& key, std::vector<std::uint64_t> hosts, std::string part,
                     Done done) {
  auto& open = open_[key];
  open.hosts = std::move(hosts);
  open.done = std::move(done);
  const auto root = open.hosts.front();
  if (root != self_) {
    send_({root},
          {.kind = Letter::Kind::part, .key = key, .value = self_, .body = std::move(part)});
    return;
  }
  open.parts[self_] = std::move(part);
  finish_if_complete(key);
}

void Exchange::on_letter(std::uint64_t from, Letter letter) {
  if (letter.kind == Letter::Kind::part) {
    open_[letter.key].parts[from] = std::move(letter.body);
    finish_if_complete(letter.key);
    return;
  }
  const auto found = open_.find(letter.key);
  if (found == open_.end() || !found->second.done) return;
  const auto done = std::move(found->second.done);
  open_.erase(found);
  done(std::move(letter.body));
}

void Exchange::finish_if_complete(const std::string& key) {
  const auto found = open_.find(key);
  if (found->second.hosts.empty() || found->second.parts.size() < found->second.hosts.size())
    return;
  const Open open = std::move(found->second);
  open_.erase(found);
  std::string whole;
  for (const auto& [host, part] : open.parts) whole += part;
  std::vector<std::uint64_t> others(open.hosts.begin() + 1, open.hosts.end());
  if (!others.empty())
    send_(others, {.kind = Letter::Kind::whole, .key = key, .value = self_, .body = whole});
  open.done(std::move(whole));
}

}  // namespace meshbus::mpi
