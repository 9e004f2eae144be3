// HostMesh::remote: hosts that this launcher starts on other machines.
#include <chrono>
#include <utility>

#include "client/src/home.h"
#include "client/src/host_mesh_impl.h"
#include "client/src/remote_start.h"
#include "client/src/time_left.h"
#include "common/keys.h"
#include "common/log.h"

namespace meshbus {

Result<HostMesh> HostMesh::remote(Context& context, std::vector<RemoteHost> hosts, HostOptions options) {
  const auto& core = context.core();
  if (auto fine = core->check_may_wait(); !fine) return fail(fine.error());
  if (hosts.empty()) return fail(ErrorCode::configuration_error, "there is no machine to start a host on");
  const auto end = std::chrono::steady_clock::now() + options.ready_limit;
  // For these hosts and this launcher alone, and gone with them.
  const auto host_keys = KeyPair::make();
  const auto own_keys = KeyPair::make();
  if (!host_keys || !own_keys) return fail(host_keys ? own_keys.error() : host_keys.error());
  RemoteOrder order{
      {}, options.containment, options.end_on_broker_loss, host_keys->public_key, host_keys->secret_key, own_keys->public_key};
  for (const auto& [key, value] : core->options().settings) order.settings.push_back(key + "=" + value);
  for (const auto& [key, value] : options.settings) order.settings.push_back(key + "=" + value);
  auto processes = start_remote(hosts, order, options.ready_limit);
  if (!processes)
    return fail(processes.error().within("starting " + std::to_string(hosts.size()) + (hosts.size() == 1 ? " host" : " hosts")));
  std::vector<HostAddr> addresses;
  for (const auto& process : *processes) {
    addresses.push_back(process->announcement().host);
    core->set_way(addresses.back(),
                  {{}, CurveKeys{own_keys->public_key, own_keys->secret_key, {host_keys->public_key}, "the key of this launch"}});
  }
  auto name = Name::make("hosts");
  if (!name) return fail(name.error());
  auto extent = Extent::make({{"host", addresses.size()}});
  if (!extent) return fail(extent.error());
  auto ref = HostMeshRef::make(std::move(*name), Region(*extent), addresses);
  if (!ref) return fail(ref.error());
  auto home = find_home(core, addresses, left_until(end));
  if (home.connection.get() == nullptr) {
    std::string problems;
    for (const auto& [host, problem] : home.problems)
      problems += (problems.empty() ? "" : "; ") + host.to_string() + ": " + problem.detail();
    return fail(ErrorCode::host_unreachable, "the hosts have started, but cannot be reached from here: " + problems);
  }
  core->run([&] {
    home.connection->add_hosts(addresses);
    for (const auto& process : *processes) {
      process->watch(core->reactor(), [core = core.get(), host = process->announcement().host](const std::string& how) {
        // The end of a connection is no end of a host. One that has lost its launcher ends, and is missed when it does not answer.
        if (how.find("ended: exit 255") != std::string::npos) return log::warn("host " + host.to_string() + ": " + how);
        core->reactor().after(std::chrono::milliseconds(50), [core, host, how] { core->on_host_dead(host, how); });
      });
    }
  });
  return HostMesh(std::make_unique<Impl>(std::move(home.connection), std::move(*ref), std::move(*processes), /*may_outlive_us=*/true));
}

}  // namespace meshbus
