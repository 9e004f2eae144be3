#include "common/zmtp/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <system_error>
#include <thread>

namespace meshbus {
namespace {

constexpr std::size_t kMostThreads = 8;
constexpr std::size_t kMostLookups = 4096;

}  // namespace

/// What a lookup's thread may touch: it may outlive the resolver and the reactor.
struct Resolver::Shared {
  std::mutex mutex;
  Reactor* reactor;  // guarded by mutex; null when the resolver is gone
};

bool Resolver::is_literal(const HostAddr& address) {
  if (address.transport() != Transport::tcp) return true;
  const std::string host(address.host());
  in_addr v4{};
  return address.is_ipv6() || address.is_wildcard() || ::inet_pton(AF_INET, host.c_str(), &v4) == 1;
}

Result<std::vector<std::string>> resolve_now(const HostAddr& address) {
  if (Resolver::is_literal(address)) return std::vector<std::string>{address.zmq_endpoint()};
  const std::string host(address.host());
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0)
    return fail(ErrorCode::host_unreachable,
                "the name " + host + " cannot be resolved: " + ::gai_strerror(error));
  std::vector<std::string> endpoints;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
      continue;
    const auto literal = HostAddr::tcp(text.data(), address.port());
    if (!literal) continue;
    const std::string endpoint = literal->zmq_endpoint();
    if (std::find(endpoints.begin(), endpoints.end(), endpoint) == endpoints.end())
      endpoints.push_back(endpoint);
  }
  ::freeaddrinfo(found);
  if (endpoints.empty())
    return fail(ErrorCode::host_unreachable, "the name " + host + " has no address");
  return endpoints;
}

Resolver::Resolver(Reactor& reactor) : shared_(std::make_shared<Shared>()) {
  shared_->reactor = &reactor;
}

Resolver::~Resolver() {
  const std::lock_guard lock(shared_->mutex);
  shared_->reactor = nullptr;
}

void Resolver::resolve(const HostAddr& address, Answer answer) {
  if (waiting_.size() == kMostLookups) {
    refuse_later(std::move(answer), "too many names are being looked up at once");
    return;
  }
  waiting_.push_back({address, std::move(answer)});
  start_next();
}

void Resolver::start_next() {
  if (running_ == kMostThreads || waiting_.empty()) return;
  Waiting next = std::move(waiting_.front());
  waiting_.pop_front();
  ++running_;
  auto run = [this, shared = shared_, address = next.address, answer = next.answer]() mutable {
    auto result = resolve_now(address);
    const std::lock_guard lock(shared->mutex);
    if (shared->reactor == nullptr) return;
    // Runs on the thread that destroys this object too, so it is enough to look whether that has
    // happened.
    shared->reactor->post(
        [this, shared, answer = std::move(answer), result = std::move(result)]() mutable {
          {
            const std::lock_guard inner(shared->mutex);
            if (shared->reactor == nullptr) return;
          }
          --running_;
          start_next();
          answer(std::move(result));  // may end this object
        });
  };
  try {
    std::thread(std::move(run)).detach();
  } catch (const std::system_error& error) {
    --running_;
    refuse_later(std::move(next.answer),
                 std::string("no thread to look a name up: ") + error.what());
  }
}

void Resolver::refuse_later(Answer answer, std::string why) {
  shared_->reactor->post([shared = shared_, answer = std::move(answer), why = std::move(why)] {
    {
      const std::lock_guard lock(shared->mutex);
      if (shared->reactor == nullptr) return;
    }
    answer(fail(ErrorCode::host_unreachable, why));
  });
}

}  // namespace meshbus
