#include "agent/torch/torch_variables.h"

#include <algorithm>

#include "common/base/quantity.h"

namespace meshbus::torch {

std::vector<std::pair<std::string, std::string>> torch_variables(const ReadVariable& read,
                                                                 const TorchHost& host) {
  std::vector<std::pair<std::string, std::string>> variables;
  const auto number = [&read](const std::string& name, std::uint64_t otherwise) {
    return parse_whole(read(name).value_or("")).value_or(otherwise);
  };
  const auto set = [&variables](const std::string& name, std::string value) {
    variables.emplace_back(name, std::move(value));
  };
  const auto offer = [&](const std::string& name, const std::string& value) {
    if (!read(name) && !value.empty()) set(name, value);
  };
  const auto world = read("WORLD_SIZE").value_or("1");
  const auto attempt = number("MESHBUS_RESTARTS", 0) + number("MESHBUS_JOB_ATTEMPT", 0);
  set("GROUP_RANK", read("NODE_RANK").value_or("0"));
  set("GROUP_WORLD_SIZE", read("MESHBUS_TORCH_HOSTS").value_or("1"));
  set("ROLE_NAME", "default");
  set("ROLE_RANK", read("RANK").value_or("0"));
  set("ROLE_WORLD_SIZE", world);
  // Never TORCHELASTIC_USE_AGENT_STORE: rank 0 has the store, and there is no other.
  set("TORCHELASTIC_RUN_ID", read("MESHBUS_MESH").value_or("none"));
  set("TORCHELASTIC_RESTART_COUNT", std::to_string(attempt));
  set("TORCHELASTIC_MAX_RESTARTS", read("MESHBUS_TORCH_MAX_RESTARTS").value_or("0"));
  if (const auto port = number("MASTER_PORT", 0); port != 0 && read("MESHBUS_TORCH_GANG"))
    set("MASTER_PORT", std::to_string(port + attempt % kMasterPorts));
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"})
    offer(name, host.interface);
  // As torchrun's `python3 -u`: what a rank wrote before it was stopped is not lost.
  offer("PYTHONUNBUFFERED", "1");
  const auto ranks_here = std::max<std::uint64_t>(1, number("LOCAL_WORLD_SIZE", 1));
  // A rank that is bound to CPUs (--bind) knows its share of them.
  const auto threads = number("MESHBUS_CPUS", std::max<std::uint64_t>(1, host.cpus / ranks_here));
  offer("OMP_NUM_THREADS", std::to_string(threads));
  return variables;
}

}  // namespace meshbus::torch
