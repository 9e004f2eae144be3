#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/host/model/mesh_spec.h"
#include "common/wire/control.h"
#include "common/wire/wire_region.h"
#include "wire/lifecycle_generated.h"

/// A SpawnProcs as a launcher would send it, for tests that spoil one thing of it.
namespace meshbus::host::test {

inline const char* const own_host = "unix:/run/m/b";
inline const char* const mesh_name = "trainers-13Se1Maqzryj";

/// host=2, gpu=3 on two hosts, of which the second is ours.
inline wire::SpawnProcsT good_request() {
  wire::SpawnProcsT request;
  request.mesh = mesh_name;
  request.region = to_wire(*Region::make({"host", "gpu/n"}, 0, {2, 3}, {3, 1}));
  request.hosts = {"unix:/run/m/a", own_host};
  request.host_index = 1;
  request.create_ranks = {wire::RankInterval(3, 6)};
  request.command = std::make_unique<wire::CommandT>();
  request.command->program = "/bin/echo";
  request.command->arguments = {"echo", "hi"};
  request.owner = "unix:/run/m/a,client-13Se1Maqzryj";
  request.lease_ms = 60'000;
  request.ready_limit_ms = 30'000;
  request.grace_ms = 10'000;
  return request;
}

inline std::unique_ptr<wire::KeyValueT> key_value(std::string key, std::string value) {
  auto entry = std::make_unique<wire::KeyValueT>();
  entry->key = std::move(key);
  entry->value = std::move(value);
  return entry;
}

/// As it comes in by the bus.
inline Result<MeshSpec> parse(const wire::SpawnProcsT& request) {
  const auto message =
      ControlMessage::decode(encode_control({.id = 1}, wire::SpawnProcsT(request)));
  if (!message) return fail(message.error());
  return parse_spawn(*message->body_as<wire::SpawnProcs>(), *HostAddr::parse(own_host));
}

}  // namespace meshbus::host::test
