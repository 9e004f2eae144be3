#include "common/zmtp/curve_client.h"

#include <utility>

#include "common/zmtp/curve_box.h"

namespace meshbus {
namespace {

constexpr std::string_view kVersion("\1\0", 2);
constexpr std::string_view kWelcomeName = "\7WELCOME";
constexpr std::string_view kClientReadyName = "\5READY";
constexpr std::string_view kErrorName = "\5ERROR";
constexpr std::size_t kPadding = 72;
constexpr std::size_t kHelloText = 64;
constexpr std::size_t kCookie = 96;
constexpr std::size_t kWelcomeSize =
    8 + curve::kLongNonce + CurveKey::kSize + kCookie + curve::kMac;
/// What a ROUTER says when its ZAP does not authorise a key.
constexpr std::string_view kUnauthorised = "400";
/// A failure that may pass.
constexpr std::string_view kNoRoom = "300";

}  // namespace

CurveClient::CurveClient(CurveKeyPair own, const CurveKey& server, std::string_view socket_type)
    : own_(std::move(own)), server_(server), socket_type_(socket_type) {}

std::string CurveClient::begin() {
  const auto shared = curve::shared_key(server_, transient_.secret_key);
  if (!shared) return fail(Failure::forged, "has a key that is none");
  const std::uint64_t number = next_number_++;
  std::string hello("\5HELLO");
  hello += kVersion;
  hello.append(kPadding, '\0');
  hello += transient_.public_key.view();
  hello += curve::put_number(number);
  hello += curve::seal(std::string(kHelloText, '\0'),
                       curve::short_nonce("CurveZMQHELLO---", number), *shared);
  return hello;
}

std::string CurveClient::on_command(std::string_view command) {
  if (state() != State::handshake)
    return fail(Failure::malformed, "sent a command of a handshake that is over");
  if (command.starts_with(kErrorName)) return on_error(command.substr(kErrorName.size()));
  return shared_ ? on_ready(command) : on_welcome(command);
}

std::string CurveClient::on_error(std::string_view rest) {
  if (rest.empty() || rest.size() != std::size_t{1} + static_cast<unsigned char>(rest[0]))
    return fail(Failure::malformed, "sent a malformed ERROR");
  // Before WELCOME nothing says that this is the server; it has not seen our key then, either.
  if (shared_ && rest.substr(1) == kUnauthorised)
    return fail(Failure::unauthorised, "does not authorise this key");
  if (shared_ && rest.substr(1) == kNoRoom)
    return fail(Failure::no_room, "has no room for another connection with this key");
  return fail(Failure::refused, "refused the handshake");
}

std::string CurveClient::on_welcome(std::string_view command) {
  if (command.size() != kWelcomeSize || !command.starts_with(kWelcomeName))
    return fail(Failure::malformed, "sent no WELCOME of CURVE");
  command.remove_prefix(kWelcomeName.size());
  const auto with_server = curve::shared_key(server_, transient_.secret_key);
  const auto nonce = curve::long_nonce("WELCOME-", command.substr(0, curve::kLongNonce));
  const auto text = with_server
                        ? curve::open(command.substr(curve::kLongNonce), nonce, *with_server)
                        : std::nullopt;
  if (!text) return fail(Failure::forged, "has another key than the one known for it");
  const CurveKey theirs(std::string_view(*text).substr(0, CurveKey::kSize));
  shared_ = curve::shared_key(theirs, transient_.secret_key);
  const auto vouching = curve::shared_key(theirs, own_.secret_key);
  if (!shared_ || !vouching) return fail(Failure::forged, "has a key that is none");

  const std::string vouch_nonce = curve::random_bytes(curve::kLongNonce);
  std::string vouched(transient_.public_key.view());
  vouched += server_.view();
  std::string proof(own_.public_key.view());
  proof += vouch_nonce;
  proof += curve::seal(vouched, curve::long_nonce("VOUCH---", vouch_nonce), *vouching);
  proof += socket_properties(socket_type_);

  const std::uint64_t number = next_number_++;
  std::string initiate("\10INITIATE");
  initiate += std::string_view(*text).substr(CurveKey::kSize);
  initiate += curve::put_number(number);
  initiate += curve::seal(proof, curve::short_nonce("CurveZMQINITIATE", number), *shared_);
  return initiate;
}

std::string CurveClient::on_ready(std::string_view command) {
  if (!command.starts_with(kClientReadyName) ||
      command.size() < kClientReadyName.size() + curve::kShortNonce + curve::kMac)
    return fail(Failure::malformed, "sent no READY of CURVE");
  command.remove_prefix(kClientReadyName.size());
  const std::uint64_t number = curve::get_number(command);
  const auto properties = curve::open(command.substr(curve::kShortNonce),
                                      curve::short_nonce("CurveZMQREADY---", number), *shared_);
  if (!properties) return fail(Failure::forged, "sent a READY that was changed on its way");
  if (!is_fitting_peer(*properties)) return fail(Failure::unfitting, "is no DEALER, ROUTER or REQ");
  traffic_.emplace(/*is_server=*/false, *shared_, next_number_, number);
  set_state(State::open);
  return {};
}

}  // namespace meshbus
