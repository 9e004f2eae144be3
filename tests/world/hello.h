#pragma once

#include <cstdint>
#include <string>

#include "common/security/launcher_name.h"
#include "meshbus/name.h"
#include "tests/world/broker.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"

namespace meshbus::test {

/// The Hello of a launcher with a name of its own.
inline wire::HelloT launcher_hello() {
  auto hello = hello_of(wire::PeerKind::launcher, "");
  LauncherName::draw().introduce(hello);
  return hello;
}

/// The Hello of that rank of the mesh `trainers-7`, with its token.
inline wire::HelloT proc_hello(const HostAddr& host, std::uint64_t rank,
                               std::uint64_t incarnation = random_u64()) {
  auto hello =
      hello_of(wire::PeerKind::proc,
               ProcId(host, proc_name(*Name::make("trainers", 7), rank)).to_string(), incarnation);
  hello.token = tokens().make(hello.peer, hello.incarnation);
  return hello;
}

}  // namespace meshbus::test
