#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/bus/session.h"
#include "common/security/token.h"
#include "meshbus/name.h"
#include "wire/bus_generated.h"

namespace meshbus::test {

/// The Hello of a peer of that kind, as this build says it.
inline wire::HelloT hello_of(wire::PeerKind kind, std::string peer,
                             std::uint64_t incarnation = random_u64()) {
  wire::HelloT hello;
  hello.version = 1;
  hello.peer = std::move(peer);
  hello.kind = kind;
  hello.incarnation = incarnation;
  return hello;
}

/// The options of a Bus or Session that says `hello` to the broker there.
inline Session::Options session_options(std::string endpoint, wire::HelloT hello) {
  Session::Options options;
  options.endpoint = std::move(endpoint);
  options.hello = std::move(hello);
  return options;
}

}  // namespace meshbus::test
