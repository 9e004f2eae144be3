#include "broker/casts/cast_assembly.h"

#include <sodium.h>

#include <utility>

namespace meshbus {

std::string digest_of(Bytes bytes) {
  std::string digest(crypto_hash_sha512_BYTES, '\0');
  crypto_hash_sha512(reinterpret_cast<unsigned char*>(digest.data()),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return digest;
}

bool CastAssembly::add(Message message, Time now) {
  const std::size_t size = size_of(message);
  if (count_ + 1 > limits_.count || bytes_ + size > limits_.bytes) return false;
  const Sender sender = sender_of(message.envelope);
  message.due = now + limits_.wait;
  if (message.number != 0) {
    awaited_.insert_or_assign(message.number, sender);
    changed_.push_back(sender);
  }
  bytes_ += size;
  ++count_;
  senders_[sender].push_back(std::move(message));
  return true;
}

void CastAssembly::add_body(std::uint64_t number, MessagePart body, Time now) {
  if (done_.contains(number)) return;
  const auto awaited = awaited_.find(number);
  if (const auto other = bodies_.find(number); other != bodies_.end()) drop_body(other);
  // There is always room for a body that is waited for now.
  const bool is_next =
      awaited != awaited_.end() && senders_.at(awaited->second).front().number == number;
  if (!is_next && early_bytes_ + body.size() > limits_.bytes) return;
  early_bytes_ += body.size();
  bodies_.insert_or_assign(number, Body{std::move(body), now + limits_.wait});
  if (awaited != awaited_.end()) changed_.push_back(awaited->second);
}

void CastAssembly::drop_body(std::unordered_map<std::uint64_t, Body>::iterator body) {
  early_bytes_ -= body->second.bytes.size();
  bodies_.erase(body);
}

CastAssembly::Message CastAssembly::pop(std::deque<Message>& queue) {
  Message message = std::move(queue.front());
  queue.pop_front();
  bytes_ -= size_of(message);
  --count_;
  if (message.number != 0) {
    awaited_.erase(message.number);
    done_.add(message.number, 0);
  }
  return message;
}

void CastAssembly::take_ready(std::deque<Message>& queue, std::vector<Message>& into) {
  while (!queue.empty()) {
    if (queue.front().number == 0) {
      into.push_back(pop(queue));
      continue;
    }
    const auto body = bodies_.find(queue.front().number);
    if (body == bodies_.end()) return;
    MessagePart bytes = std::move(body->second.bytes);
    early_bytes_ -= bytes.size();
    bodies_.erase(body);
    // This is not what the sender sent: the right body is still to come.
    if (digest_of(bytes_of(bytes.data(), bytes.size())) != queue.front().digest) return;
    into.push_back(pop(queue));
    into.back().body = std::move(bytes);
  }
}

std::vector<CastAssembly::Message> CastAssembly::take_ready() {
  std::vector<Message> ready;
  for (const Sender& sender : std::exchange(changed_, {})) {
    const auto found = senders_.find(sender);
    if (found == senders_.end()) continue;
    take_ready(found->second, ready);
    if (found->second.empty()) senders_.erase(found);
  }
  return ready;
}

std::vector<CastAssembly::Message> CastAssembly::expire(Time now) {
  std::vector<Message> out;
  for (auto at = senders_.begin(); at != senders_.end();) {
    auto& queue = at->second;
    while (!queue.empty() && queue.front().due <= now) {
      out.push_back(pop(queue));
      out.back().is_late = out.back().number != 0;
      take_ready(queue, out);
    }
    at = queue.empty() ? senders_.erase(at) : std::next(at);
  }
  for (auto at = bodies_.begin(); at != bodies_.end();) {
    const auto body = at++;
    if (body->second.due <= now) drop_body(body);
  }
  return out;
}

}  // namespace meshbus
