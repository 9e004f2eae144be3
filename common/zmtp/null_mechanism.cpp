#include "common/zmtp/null_mechanism.h"

namespace meshbus {
namespace {

constexpr std::string_view kReadyName = "\5READY";

}  // namespace

std::string NullMechanism::begin() {
  return std::string(kReadyName) + socket_properties(socket_type_);
}

std::string NullMechanism::on_command(std::string_view command) {
  if (!command.starts_with(kReadyName)) return fail(Failure::refused, "refused the handshake");
  if (!is_fitting_peer(command.substr(kReadyName.size())))
    return fail(Failure::unfitting, "is no DEALER, ROUTER or REQ");
  set_state(State::open);
  return {};
}

}  // namespace meshbus
