#include "common/zmtp/curve_server.h"

#include <utility>

#include "common/zmtp/curve_box.h"

namespace meshbus {
namespace {

constexpr std::string_view kHelloName("\5HELLO\1\0", 8);  // with the version, 1.0
constexpr std::string_view kInitiateName = "\10INITIATE";
constexpr std::size_t kHelloPadding = 72;
constexpr std::size_t kHelloTextSize = 64;
constexpr std::size_t kHelloSize = kHelloName.size() + kHelloPadding + CurveKey::kSize +
                                   curve::kShortNonce + kHelloTextSize + curve::kMac;
constexpr std::size_t kCookieBox = 2 * CurveKey::kSize + curve::kMac;
constexpr std::size_t kCookieSize = curve::kLongNonce + kCookieBox;
constexpr std::size_t kVouchSize = curve::kLongNonce + 2 * CurveKey::kSize + curve::kMac;
constexpr std::size_t kLeastInitiate = kInitiateName.size() + kCookieSize + curve::kShortNonce +
                                       CurveKey::kSize + kVouchSize + curve::kMac;
constexpr std::uint64_t kReadyNumber = 1;

}  // namespace

CurveServer::CurveServer(CurveKeyPair own, std::string_view socket_type)
    : own_(std::move(own)), socket_type_(socket_type) {}

std::string CurveServer::on_command(std::string_view command) {
  if (state() != State::handshake)
    return fail(Failure::malformed, "sent a command of a handshake that is over");
  return cookie_key_ ? on_initiate(command) : on_hello(command);
}

std::string CurveServer::on_hello(std::string_view command) {
  if (command.size() != kHelloSize || !command.starts_with(kHelloName) ||
      command.substr(kHelloName.size(), kHelloPadding) != std::string(kHelloPadding, '\0'))
    return fail(Failure::malformed, "sent no HELLO of CURVE");
  command.remove_prefix(kHelloName.size() + kHelloPadding);
  const CurveKey transient(command.substr(0, CurveKey::kSize));
  command.remove_prefix(CurveKey::kSize);
  hello_number_ = curve::get_number(command);
  const auto shared = curve::shared_key(transient, own_.secret_key);
  const auto text =
      shared ? curve::open(command.substr(curve::kShortNonce),
                           curve::short_nonce("CurveZMQHELLO---", hello_number_), *shared)
             : std::nullopt;
  if (!text || *text != std::string(kHelloTextSize, '\0'))
    return fail(Failure::forged, "knows another key for this host");

  // The pair of this connection is in the cookie alone until INITIATE brings it back.
  const CurveKeyPair pair = CurveKeyPair::make();
  cookie_key_ = CurveKey::random();
  const std::string cookie_nonce = curve::random_bytes(curve::kLongNonce);
  std::string kept(transient.view());
  kept += pair.secret_key.view();
  std::string text_of_welcome(pair.public_key.view());
  text_of_welcome += cookie_nonce;
  text_of_welcome += curve::seal(kept, curve::long_nonce("COOKIE--", cookie_nonce), *cookie_key_);
  curve::wipe(kept);

  const std::string nonce = curve::random_bytes(curve::kLongNonce);
  std::string welcome("\7WELCOME");
  welcome += nonce;
  welcome += curve::seal(text_of_welcome, curve::long_nonce("WELCOME-", nonce), *shared);
  return welcome;
}

std::string CurveServer::on_initiate(std::string_view command) {
  if (command.size() < kLeastInitiate || !command.starts_with(kInitiateName))
    return fail(Failure::malformed, "sent no INITIATE of CURVE");
  command.remove_prefix(kInitiateName.size());
  auto kept = curve::open(command.substr(curve::kLongNonce, kCookieBox),
                          curve::long_nonce("COOKIE--", command), *cookie_key_);
  cookie_key_.reset();
  if (!kept) return fail(Failure::forged, "sent a cookie that is not its own");
  const CurveKey transient(std::string_view(*kept).substr(0, CurveKey::kSize));
  const CurveKey secret(std::string_view(*kept).substr(CurveKey::kSize));
  curve::wipe(*kept);
  command.remove_prefix(kCookieSize);

  last_number_ = curve::get_number(command);
  if (last_number_ <= hello_number_)
    return fail(Failure::malformed, "numbers its commands in the wrong order");
  shared_ = curve::shared_key(transient, secret);
  const auto proof =
      shared_ ? curve::open(command.substr(curve::kShortNonce),
                            curve::short_nonce("CurveZMQINITIATE", last_number_), *shared_)
              : std::nullopt;
  if (!proof) return fail(Failure::forged, "sent an INITIATE that was changed on its way");
  const std::string_view text(*proof);
  client_ = CurveKey(text.substr(0, CurveKey::kSize));
  if (!is_vouched_for(text.substr(CurveKey::kSize, kVouchSize), transient, secret))
    return fail(Failure::forged, "does not prove that it has its key");
  if (!is_fitting_peer(text.substr(CurveKey::kSize + kVouchSize)))
    return fail(Failure::unfitting, "is no DEALER, ROUTER or REQ");
  set_state(State::asking);
  return {};
}

bool CurveServer::is_vouched_for(std::string_view vouch, const CurveKey& transient,
                                 const CurveKey& secret) {
  const auto shared = curve::shared_key(client_, secret);
  if (!shared) return false;
  const auto vouched =
      curve::open(vouch.substr(curve::kLongNonce), curve::long_nonce("VOUCH---", vouch), *shared);
  return vouched && std::string_view(*vouched).substr(0, CurveKey::kSize) == transient.view() &&
         std::string_view(*vouched).substr(CurveKey::kSize) == own_.public_key.view();
}

std::string CurveServer::accept() {
  std::string ready("\5READY");
  ready += curve::put_number(kReadyNumber);
  ready += curve::seal(socket_properties(socket_type_),
                       curve::short_nonce("CurveZMQREADY---", kReadyNumber), *shared_);
  traffic_.emplace(/*is_server=*/true, *shared_, kReadyNumber + 1, last_number_);
  set_state(State::open);
  return ready;
}

std::string CurveServer::refuse() {
  fail(Failure::unauthorised, "has a key that is not authorised");
  return "\5ERROR\003400";
}

std::string CurveServer::turn_away() {
  fail(Failure::no_room, "has as many connections with its key as one key may have");
  return "\5ERROR\003300";
}

}  // namespace meshbus
