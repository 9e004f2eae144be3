#include "common/bus/connect_attempts.h"

#include <algorithm>
#include <random>
#include <utility>

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kFirstBackoff{10};
constexpr std::chrono::milliseconds kLastBackoff{500};
/// So many handshakes in a row that ended in silence, over so long, are no accident.
constexpr std::size_t kSilentHandshakes = 4;
constexpr std::chrono::milliseconds kSilentTime{1000};

}  // namespace

ConnectAttempts::ConnectAttempts(std::string endpoint, bool has_keys, bool is_link)
    : endpoint_(std::move(endpoint)), has_keys_(has_keys), is_link_(is_link) {}

std::chrono::milliseconds ConnectAttempts::next_delay() {
  static thread_local std::minstd_rand random{std::random_device{}()};
  backoff_ = std::clamp(backoff_ * 2, kFirstBackoff, kLastBackoff);
  return std::chrono::milliseconds(
      std::uniform_int_distribution<std::int64_t>(backoff_.count() / 2, backoff_.count())(random));
}

std::optional<Error> ConnectAttempts::on_handshake_failed(BrokerSocket::Failure failure,
                                                          bool is_connecting, Time now) {
  const std::string broker = "the broker at " + endpoint_;
  if (failure == BrokerSocket::Failure::unauthorised)
    return Error(ErrorCode::unauthorised,
                 broker + " does not take the key " + key_path_ +
                     ": its public half is not in authorised/ROLE/ there, or not any more");
  if (failure == BrokerSocket::Failure::no_room) {
    trouble_ = broker + " has as many connections with the key " + key_path_ +
               " as one key may have: end some of the programs that use it, or set "
               "connections.per_key higher there";
    return std::nullopt;
  }
  if (failure == BrokerSocket::Failure::mechanism)
    return Error(
        ErrorCode::unauthorised,
        has_keys_
            ? broker + " speaks without encryption (--insecure?), and there are keys here (" +
                  key_path_ + "); to speak with it all the same: keys.directory=/dev/null"
            : broker +
                  " takes connections with keys only, and there are none here: meshbus keygen "
                  "makes one, keys.directory says where they are");
  if (!is_connecting || !endpoint_.starts_with("tcp:")) return std::nullopt;
  if (failure == BrokerSocket::Failure::no_greeting) {
    trouble_ = broker +
               " closes the connection before it says anything: it has no room for another one "
               "(its log says so), or what listens there is no broker";
    return std::nullopt;
  }
  // A broker stays silent to a peer without keys, and to one whose handshake it cannot read; so
  // does a broker that ends, or a relay in front of one that is not up. Hence several attempts, and
  // links, which have messages to lose, never give up.
  trouble_ = broker + " ends the handshake without a word; " +
             (has_keys_ ? "is the public key that is known here for that host its own?"
                        : "does it take connections with keys only? There are none here: meshbus "
                          "keygen makes one, keys.directory says where they are");
  if (silent_++ == 0) silent_since_ = now;
  if (is_link_ || was_ever_up_ || silent_ < kSilentHandshakes || now - silent_since_ < kSilentTime)
    return std::nullopt;
  return Error(has_keys_ ? ErrorCode::identity_mismatch : ErrorCode::unauthorised, trouble_);
}

std::string ConnectAttempts::take_trouble(const std::string& reason) {
  return trouble_.empty() ? reason : std::exchange(trouble_, {});
}

void ConnectAttempts::on_up() noexcept {
  backoff_ = {};
  silent_ = 0;
  was_ever_up_ = true;
}

}  // namespace meshbus
