#include "client/src/context/ask_agent.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

Result<std::uint16_t> ask_free_port(Connection& connection, const HostAddr& host,
                                    std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  const auto answer =
      await_agent(connection, host, wire::GetFreePortT(),
                  connection.ask(Destination::to_agent(host), wire::GetFreePortT(), deadline), end);
  if (!answer)
    return fail(answer.error().within("host " + host.to_string() + ": asking for a free port"));
  const auto* const port = answer->body_as<wire::FreePort>();
  if (port == nullptr)
    return fail(ErrorCode::malformed_message, "host " + host.to_string() + " answered " +
                                                  answer->body_name() + " to GetFreePort");
  return port->port();
}

Result<std::uint16_t> HostMesh::free_port(std::uint64_t host,
                                          std::chrono::milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  if (host >= hosts().size())
    return fail(ErrorCode::out_of_range, "there is no host " + std::to_string(host) + " among " +
                                             std::to_string(hosts().size()));
  return ask_free_port(impl_->connection(), hosts()[host], deadline);
}

}  // namespace meshbus
